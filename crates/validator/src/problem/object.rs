//! Problems of an object as an ELF file: its header, its machine, its sections.

use opkeep_cann_meta::{Family, unjudged};
use opkeep_text::counted;
use thiserror::Error;

use crate::code::Code;
use crate::display::{Bytes, list};
use crate::elf::facts::{ElfType, Flags, Machine};

/// A problem of an object as a file.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ObjectProblem {
    /// The object is no ELF file: text, an archive, or empty.
    #[error("the object is not ELF: expected 7f 45 4c 46 at its beginning, found {}", Bytes(.found))]
    NotElf {
        /// The object's first bytes, at most four.
        found: Vec<u8>,
    },
    /// The object is an ELF file, but not of 64 bits.
    #[error("`EI_CLASS` of the object: expected 2 (ELF64), found {found}")]
    Class {
        /// The value found; 1 is ELF32.
        found: u8,
    },
    /// The object is an ELF file, but not little-endian.
    #[error("`EI_DATA` of the object: expected 1 (little-endian), found {found}")]
    Endianness {
        /// The value found; 2 is big-endian.
        found: u8,
    },
    /// The object is for another machine.
    #[error("`e_machine` of the object: {target} expects {}, found {found}", list(.expected))]
    Machine {
        /// The target.
        target: String,
        /// The machines whose objects the target loads.
        expected: Vec<Machine>,
        /// The value found.
        found: Machine,
    },
    /// The object is for other chips.
    #[error("`e_flags` of the object, {flags:#x}: expected those of {target}, found those of {found}")]
    Chip {
        /// The target.
        target: String,
        /// The value found.
        flags: u32,
        /// The chips of that value.
        found: Family,
    },
    /// The chips of the object cannot be compared with the target.
    #[error("{}; the object's `e_flags` are {flags:#x}", unjudged(.chip))]
    UnknownChip {
        /// The target's chip.
        chip: String,
        /// The object's `e_flags`.
        flags: u32,
    },
    /// The object is a kind of ELF file that the target cannot load.
    #[error("`e_type` of the object: expected {expected}, found {found}")]
    Type {
        /// The expected types.
        expected: &'static str,
        /// The value found.
        found: u16,
    },
    /// The object is a kind of ELF file that this target's compilers do not write.
    #[error("`e_type` of the object: expected {expected}, found {found}")]
    UnusualType {
        /// The usual types.
        expected: &'static str,
        /// The value found.
        found: ElfType,
    },
    /// The object is a truncated or malformed ELF file.
    #[error(
        "the object is truncated or malformed: {structure}: {problem}, in {bytes}",
        bytes = counted(*.bytes, "byte")
    )]
    Malformed {
        /// The ELF structure that cannot be read, such as `section 3`.
        structure: String,
        /// The problem.
        problem: String,
        /// The object's size in bytes.
        bytes: usize,
    },
    /// The object has no section headers.
    #[error("`e_shnum` of the object: expected at least 1, found 0")]
    NoSections,
    /// The object has no function symbol.
    #[error(
        "expected at least one function among the object's {symbols}, found none",
        symbols = counted(*.symbols, "symbol")
    )]
    NoFunction {
        /// The number of symbols.
        symbols: usize,
    },
    /// A section refers to one that does not exist.
    #[error("`sh_link` of section {section}: expected less than {sections}, found {found}")]
    Link {
        /// The section.
        section: usize,
        /// The value found.
        found: u32,
        /// The number of sections.
        sections: usize,
    },
    /// The section headers have an unexpected size.
    #[error("`e_shentsize` of the object: expected 64, found {found}")]
    EntrySize {
        /// The value found.
        found: u16,
    },
    /// The target does not load objects with these flags.
    #[error(
        "`e_flags` of the object are {found:#x}, expected bits {mask:#x} to be {} for {target}",
        list(expected)
    )]
    Flags {
        /// The target.
        target: String,
        /// The bits that are compared.
        mask: u32,
        /// The accepted values of these bits.
        expected: Vec<Flags>,
        /// The object's `e_flags`.
        found: u32,
    },
    /// The first loaded section is not `.text`, or has an unexpected address.
    #[error("expected `.text` at address 0 as the first loaded section, found `{section}` at {address:#x}")]
    TextPlace {
        /// The section.
        section: String,
        /// Its address.
        address: u64,
    },
    /// The file offset of a loaded section does not match its address.
    #[error(
        "section `{section}`: its address requires file offset {expected:#x}, found file offset {found:#x}"
    )]
    SectionOffset {
        /// The section.
        section: String,
        /// The expected offset, relative to the first loaded section.
        expected: u64,
        /// The offset found.
        found: u64,
    },
    /// A loaded section has no bytes in the file.
    #[error("section `{section}`: expected bytes in the file, since it is loaded, found NOBITS")]
    LoadedNobits {
        /// The section.
        section: String,
    },
    /// A symbol is not defined.
    #[error("expected every symbol to be defined, found {count} undefined, the first is `{symbol}`")]
    Undefined {
        /// The first such symbol.
        symbol: String,
        /// The number of undefined symbols.
        count: usize,
    },
    /// The object has a section for dynamic loading.
    #[error("section `{section}`: expected no section for dynamic loading")]
    Dynamic {
        /// The section.
        section: String,
    },
}

impl ObjectProblem {
    /// The code.
    pub const fn code(&self) -> Code {
        match self {
            Self::NotElf { .. } => Code::NOT_ELF,
            Self::Class { .. } => Code::CLASS,
            Self::Endianness { .. } => Code::ENDIANNESS,
            Self::Machine { .. } => Code::MACHINE,
            Self::Chip { .. } => Code::CHIP,
            Self::UnknownChip { .. } => Code::UNKNOWN_CHIP,
            Self::Type { .. } => Code::TYPE,
            Self::UnusualType { .. } => Code::UNUSUAL_TYPE,
            Self::Malformed { .. } => Code::MALFORMED,
            Self::NoSections => Code::NO_SECTIONS,
            Self::NoFunction { .. } => Code::NO_FUNCTION,
            Self::Link { .. } => Code::LINK,
            Self::EntrySize { .. } => Code::ENTRY_SIZE,
            Self::Flags { .. } => Code::FLAGS,
            Self::TextPlace { .. } => Code::TEXT_PLACE,
            Self::SectionOffset { .. } => Code::GAP,
            Self::LoadedNobits { .. } => Code::LOADED_NOBITS,
            Self::Undefined { .. } => Code::UNDEFINED,
            Self::Dynamic { .. } => Code::DYNAMIC,
        }
    }
}
