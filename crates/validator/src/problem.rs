//! What can be wrong with a kernel, or noteworthy.

mod code;

use opkeep_artifact::{CheckId, Severity};
use opkeep_cann_meta::{Architecture, Deterministic, Family, Lint, Magic, MetaError, unjudged};
use opkeep_digest::Digest;
use thiserror::Error;

use crate::device::{KernelType, TaskRatio};
use crate::facts::{ElfType, Flags, Machine};
use crate::shown::{Bytes, Count, Names, list};

/// What was found, with what was expected. Text from files is cut short, and holds nothing that a terminal obeys.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The `.json` is torn, or one of its fields has a wrong type.
    #[error(transparent)]
    Json(#[from] MetaError),
    /// A field of the `.json` holds another value than every producer writes.
    #[error("field `{field}`: expected {expected}, found `{found}`")]
    Field {
        /// The field.
        field: &'static str,
        /// What may stand there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// The `.json` lacks a field.
    #[error("field `{field}` is missing")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// A field occurs more than once.
    #[error("field `{place}` occurs more than once; the last was taken")]
    Repeated {
        /// The field, such as `kernelList[0].tilingKey`.
        place: String,
    },
    /// A field holds what says nothing.
    #[error("field `{field}`: expected {expected}, found {found}; it was passed over")]
    OddValue {
        /// The field.
        field: &'static str,
        /// What may stand there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// Two items of `kernelList` have one name.
    #[error("field `kernelList`: expected each kernel once, found `{kernel}` again")]
    ListedTwice {
        /// The kernel.
        kernel: String,
    },
    /// A name in the `.json` would leave its folder, or hide in it.
    #[error(
        "field `{field}`: expected a file name out of letters, digits, `_`, `.` and `-`, with its suffix of at most 255 \
         characters, found `{found}`"
    )]
    UnsafeName {
        /// The field.
        field: &'static str,
        /// What stands there.
        found: String,
    },
    /// The object is not the one that the `.json` describes.
    #[error("field `{field}`: the `.json` says {expected}, the object has {found}")]
    Sha256 {
        /// The field: `sha256`, or `objSha256` for the relocatable object of AKG.
        field: &'static str,
        /// The digest in the `.json`.
        expected: Digest,
        /// The object's digest.
        found: Digest,
    },
    /// The target's loader does not take this kind of binary.
    #[error("field `magic`: {target} expects {}, found {found}", list(.expected))]
    Magic {
        /// The target.
        target: String,
        /// What it takes.
        expected: Vec<Magic>,
        /// What stands there.
        found: Magic,
    },
    /// A CPU kernel of AKG has no magic.
    #[error("field `magic` is missing, as in all that AKG writes for CPUs")]
    NoMagic,
    /// The magic is not the one that CANN gives to kernels for such cores.
    #[error("field `magic`: {magic} does not go with {with}")]
    MagicMisfit {
        /// The magic.
        magic: Magic,
        /// What it does not go with: `coreType VectorCore`, `kernel type AIV of a`.
        with: String,
    },
    /// Both spellings of the core type are there and differ.
    #[error("field `coreType` is `{core_type}`, but `core_type` is `{other}`")]
    CoreTypes {
        /// `coreType`.
        core_type: String,
        /// `core_type`.
        other: String,
    },
    /// The common name is not the beginning of the listed ones.
    #[error("field `kernelName`: expected the beginning of `{kernel}` in `kernelList`, found {found}")]
    BaseName {
        /// What stands there.
        found: String,
        /// The first listed name that begins otherwise.
        kernel: String,
    },
    /// The kind of core is none that a compiler writes.
    #[error("field `{field}`: expected a kind of core such as VectorCore, found `{found}`")]
    UnknownCore {
        /// `coreType` or `core_type`.
        field: &'static str,
        /// What stands there.
        found: String,
    },
    /// A field is missing that the compilers for the object's chip write.
    #[error("field `{field}` is missing: {reader}")]
    Unsaid {
        /// The field.
        field: &'static str,
        /// What its readers do without it.
        reader: &'static str,
        /// Whether all kernels like this one have it.
        always: bool,
    },
    /// Kernels are not called after the file.
    #[error("field `binFileName` is `{bin_file_name}`, but the kernel is called `{kernel}`")]
    BinName {
        /// `binFileName`.
        bin_file_name: String,
        /// `kernelName`, or the first name of the list.
        kernel: String,
    },
    /// The file is not called as the `.json` says.
    #[error("the file is called `{found}`, but the `.json` says `{expected}`")]
    FileName {
        /// What the `.json` says.
        expected: String,
        /// The file's name.
        found: String,
    },
    /// A `.json` without an object.
    #[error("expected the object beside the `.json` as {expected}, found none")]
    NoObject {
        /// The names that were looked for.
        expected: String,
    },
    /// An object without a `.json`.
    #[error("no `.json` stands beside the object")]
    Alone,
    /// A further kernel is absent, unreadable or wrong: a part of a master, or a twin.
    #[error("the part `{part}` cannot be taken: {problem}")]
    Part {
        /// The part's file.
        part: String,
        /// Why not.
        problem: String,
    },
    /// The object is no ELF file: text, an archive, nothing at all.
    #[error("the object is not ELF: expected 7f 45 4c 46 at its beginning, found {}", Bytes(.found))]
    NotElf {
        /// The object's first bytes, at most four.
        found: Vec<u8>,
    },
    /// The object is an ELF file, but not of 64 bits.
    #[error("`EI_CLASS` of the object: expected 2 (ELF64), found {found}")]
    Class {
        /// What stands there; 1 is ELF32.
        found: u8,
    },
    /// The object is an ELF file, but not little-endian.
    #[error("`EI_DATA` of the object: expected 1 (little-endian), found {found}")]
    Endianness {
        /// What stands there; 2 is big-endian.
        found: u8,
    },
    /// The object is for another machine.
    #[error("`e_machine` of the object: {target} expects {}, found {found}", list(.expected))]
    Machine {
        /// The target.
        target: String,
        /// The machines that it loads.
        expected: Vec<Machine>,
        /// What stands there.
        found: Machine,
    },
    /// The object is for other chips.
    #[error("`e_flags` of the object, {flags:#x}: expected those of {target}, found those of {found}")]
    Chip {
        /// The target.
        target: String,
        /// What stands there.
        flags: u32,
        /// The chips that it stands for.
        found: Family,
    },
    /// For which chips the object is cannot be compared with what it should be for.
    #[error("{}; its `e_flags` are {flags:#x}", unjudged(.chip))]
    UnknownChip {
        /// What is named.
        chip: String,
        /// What stands in the object.
        flags: u32,
    },
    /// The object is a kind of ELF file that the target cannot load.
    #[error("`e_type` of the object: expected {expected}, found {found}")]
    Type {
        /// What may stand there.
        expected: &'static str,
        /// What stands there.
        found: u16,
    },
    /// The object is a kind of ELF file that this target's compilers do not write.
    #[error("`e_type` of the object: expected {expected}, found {found}")]
    UnusualType {
        /// What usually stands there.
        expected: &'static str,
        /// What stands there.
        found: ElfType,
    },
    /// The object is an ELF file that was cut off, or that no correct tool wrote.
    #[error("the object is truncated or malformed: {structure}: {problem}, in {bytes} bytes")]
    Malformed {
        /// The ELF structure that cannot be read, such as `section 3`.
        structure: String,
        /// What is wrong with it.
        problem: String,
        /// The object's length.
        bytes: usize,
    },
    /// There are no section headers.
    #[error("`e_shnum` of the object: expected at least 1, found 0")]
    NoSections,
    /// There is no function symbol.
    #[error("expected at least one function among the object's {symbols} symbols, found none")]
    NoFunction {
        /// The number of symbols.
        symbols: usize,
    },
    /// A section refers to one that does not exist.
    #[error("`sh_link` of section {section}: expected less than {sections}, found {found}")]
    Link {
        /// The section.
        section: usize,
        /// What stands there.
        found: u32,
        /// The number of sections.
        sections: usize,
    },
    /// The section headers have another size.
    #[error("`e_shentsize` of the object: expected 64, found {found}")]
    EntrySize {
        /// What stands there.
        found: u16,
    },
    /// The first loaded section is another, or elsewhere.
    #[error("expected `.text` at address 0 as the first loaded section, found `{section}` at {address:#x}")]
    TextPlace {
        /// The section.
        section: String,
        /// Its address.
        address: u64,
    },
    /// A loaded section stands elsewhere in the file than its address says.
    #[error(
        "section `{section}`: expected at offset {expected:#x} of the file by its address, found at {found:#x}"
    )]
    Gap {
        /// The section.
        section: String,
        /// Where it should stand, as the first loaded section does.
        expected: u64,
        /// Where it stands.
        found: u64,
    },
    /// A loaded section has no bytes.
    #[error("section `{section}`: expected bytes in the file, since it is loaded, found NOBITS")]
    LoadedNobits {
        /// The section.
        section: String,
    },
    /// A symbol is not defined.
    #[error("expected every symbol to be defined, found `{symbol}` undefined, one of {count}")]
    Undefined {
        /// The first such symbol.
        symbol: String,
        /// How many there are.
        count: usize,
    },
    /// There is a dynamic section.
    #[error("section `{section}`: expected nothing for a dynamic loader")]
    Dynamic {
        /// The section.
        section: String,
    },
    /// A kernel reaches out of its section.
    #[error(
        "kernel `{kernel}`: expected within the {section_bytes} bytes of its section, found {size} bytes at {offset:#x}"
    )]
    KernelRange {
        /// The kernel.
        kernel: String,
        /// Where it begins, from the section's beginning.
        offset: u64,
        /// Its length.
        size: u64,
        /// The section's length.
        section_bytes: u64,
    },
    /// A function that nobody names reaches out of its section.
    #[error(
        "function `{kernel}`: expected within the {section_bytes} bytes of its section, found {size} bytes at {offset:#x}"
    )]
    OtherRange {
        /// The function.
        kernel: String,
        /// Where it begins, from the section's beginning.
        offset: u64,
        /// Its length.
        size: u64,
        /// The section's length.
        section_bytes: u64,
    },
    /// A kernel begins at an odd place.
    #[error("kernel `{kernel}`: expected at a multiple of 4, found at {offset:#x}")]
    KernelAlign {
        /// The kernel.
        kernel: String,
        /// Where it begins.
        offset: u64,
    },
    /// A kernel is in another section.
    #[error("kernel `{kernel}`: expected in `.text`, found in `{section}`")]
    KernelSection {
        /// The kernel.
        kernel: String,
        /// The section.
        section: String,
    },
    /// Two kernels have one name.
    #[error("kernel `{kernel}`: expected one function of this name, found several at different places")]
    Contested {
        /// The first such name.
        kernel: String,
    },
    /// The object does not define a kernel that the `.json` names.
    #[error(
        "field `{field}`: the object does not define the kernel `{expected}`, nor that with `_mix_aic` or `_mix_aiv`; \
         it defines {}",
        Names(*.kernels, .found)
    )]
    Kernel {
        /// The field: `kernelName`, or `kernelList` if there is one.
        field: &'static str,
        /// The name that stands there.
        expected: String,
        /// How many kernels the object defines.
        kernels: usize,
        /// Their names, at most five.
        found: Vec<String>,
    },
    /// The object defines no kernel at all.
    #[error("expected a function that is global and visible, found {functions} that are not")]
    NoKernel {
        /// The number of functions.
        functions: usize,
    },
    /// The object has kernels besides those that are named.
    #[error("the `.json` names {}; besides, the object defines {}", Count(*.named), Names(*.others, .found))]
    Unlisted {
        /// How many the `.json` names.
        named: usize,
        /// How many others the object defines.
        others: usize,
        /// Their names, at most five.
        found: Vec<String>,
    },
    /// There are kernels by tiling key, and no list of them.
    #[error("field `kernelList`: expected a list of `{kernel}` by tiling key; the object defines {}", Names(*.kernels, .found))]
    ByKey {
        /// `kernelName`.
        kernel: String,
        /// How many kernels there are.
        kernels: usize,
        /// Their names, at most five.
        found: Vec<String>,
    },
    /// The object is a library for the host.
    #[error("the object is a library with `GetKernelBin`; what that function gives was not checked")]
    Container,
    /// The name of a kernel is the name of something else.
    #[error(
        "field `{field}`: expected `{kernel}` as a function that is global or weak, and visible; it is another symbol"
    )]
    NotVisible {
        /// The field: `kernelName`, or `kernelList` if there is one.
        field: &'static str,
        /// The name that stands there.
        kernel: String,
    },
    /// Metadata that cannot be read.
    #[error("section `{section}`: {problem}")]
    Metadata {
        /// The section.
        section: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Metadata of something that is no kernel.
    #[error("section `{section}`: expected to be named after a kernel of the object")]
    StrayMetadata {
        /// The section.
        section: String,
    },
    /// A kernel without metadata beside others that have it.
    #[error("expected metadata for all {kernels} kernels, found none for {without}, the first `{kernel}`")]
    NoMetadata {
        /// The first kernel that has none.
        kernel: String,
        /// How many have none.
        without: usize,
        /// How many kernels there are.
        kernels: usize,
    },
    /// The record of stack sizes is odd.
    #[error("section `.ascend.stack.size.record`: expected 16384 or 32768, once or more, found {found}")]
    StackRecord {
        /// What stands there.
        found: String,
    },
    /// The record of argument sizes is odd.
    #[error("section `__CCE_KernelArgSize`: expected {expected} bytes, 4 a kernel, found {found}")]
    ArgumentRecord {
        /// Four times the number of kernels.
        expected: usize,
        /// The section's length.
        found: usize,
    },
    /// Metadata and `.json` name different cores.
    #[error("kernel `{kernel}`: `{field}` is `{expected}`, but the metadata says {found}")]
    KernelType {
        /// The kernel.
        kernel: String,
        /// The field of the `.json`.
        field: &'static str,
        /// What stands there.
        expected: String,
        /// What the metadata says.
        found: KernelType,
    },
    /// Metadata and `.json` name different ratios.
    #[error("kernel `{kernel}`: `taskRation` is {expected}, but the metadata says {found}")]
    TaskRatio {
        /// The kernel.
        kernel: String,
        /// What the `.json` says.
        expected: TaskRatio,
        /// What the metadata says.
        found: TaskRatio,
    },
    /// Tiling keys differ.
    #[error("kernel `{kernel}`: `tilingKey` is {expected}, but {place} says {found}")]
    TilingKey {
        /// The kernel.
        kernel: String,
        /// What the `.json` says.
        expected: u64,
        /// `its name` or `the metadata`.
        place: &'static str,
        /// What is said there.
        found: u64,
    },
    /// Metadata and `.json` differ on synchronisation between cores.
    #[error("kernel `{kernel}`: `crossCoreSync` is {expected}, but the metadata says {found}")]
    CrossCoreSync {
        /// The kernel.
        kernel: String,
        /// What the `.json` says.
        expected: bool,
        /// What the metadata says.
        found: u32,
    },
    /// Metadata and `.json` differ on deterministic computing.
    #[error("kernel `{kernel}`: `deterministic` is `{expected}`, but the metadata says {found}")]
    Deterministic {
        /// The kernel.
        kernel: String,
        /// What the `.json` says.
        expected: Deterministic,
        /// What the metadata says.
        found: u32,
    },
    /// The object is compiled for other cores.
    #[error("`e_flags` of the object name {found}, but {expected}")]
    Architecture {
        /// What speaks against it.
        expected: String,
        /// What `e_flags` name.
        found: Architecture,
    },
    /// Two parsers differ.
    #[error("two parsers disagree on {what}: `object` sees {object}, `goblin` sees {goblin}")]
    Disagree {
        /// The first fact in which they differ.
        what: &'static str,
        /// The fact according to `object`.
        object: String,
        /// The fact according to `goblin`.
        goblin: String,
    },
    /// The second parser gives up.
    #[error("`goblin` cannot read the object: {problem}")]
    SecondParser {
        /// What it says.
        problem: String,
    },
    /// The object begins with other bytes.
    #[error("the object for {target} should begin with {}, found {}", Bytes(expected), Bytes(found))]
    OpaqueStart {
        /// The target.
        target: String,
        /// How its objects begin.
        expected: Vec<u8>,
        /// How this one begins.
        found: Vec<u8>,
    },
    /// The object is too long.
    #[error("the object has {found} bytes, one for {target} at most {expected}")]
    TooLong {
        /// The target.
        target: String,
        /// How many bytes it may have.
        expected: u64,
        /// How many it has.
        found: u64,
    },
    /// The target loads objects with other flags.
    #[error(
        "`e_flags` of the object are {found:#x}, expected bits {mask:#x} to be {} for {target}",
        list(expected)
    )]
    Flags {
        /// The target.
        target: String,
        /// The bits that count.
        mask: u32,
        /// What they may be.
        expected: Vec<Flags>,
        /// What they are.
        found: u32,
    },
    /// A check of a backend's own found something.
    #[error("{check}: {message}")]
    Check {
        /// The check.
        check: CheckId,
        /// How much it weighs.
        severity: Severity,
        /// What it says.
        message: String,
    },
    /// A check of a backend's own is not known here.
    #[error("not checked by {check}, which is not known here")]
    Unverified {
        /// The check.
        check: CheckId,
    },
    /// CANN's graph engine would refuse the `.json`.
    #[error("{0}")]
    FeRefuses(Lint),
    /// CANN's graph engine would take the `.json`, but not as it is meant.
    #[error("{0}")]
    FeLint(Lint),
    /// MindSpore would refuse or ignore something.
    #[error("{0}")]
    MindsporeLint(Lint),
}

#[cfg(test)]
mod tests;
