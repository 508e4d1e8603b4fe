//! Problems of the kernels in an object, and of their metadata.

use opkeep_cann_meta::{Architecture, Deterministic};
use opkeep_text::counted;
use thiserror::Error;

use crate::cann::device::{KernelType, TaskRatio};
use crate::code::Code;
use crate::display::{Count, Names};

/// A problem of a kernel in an object.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum KernelProblem {
    /// A kernel exceeds its section.
    #[error(
        "kernel `{kernel}`: expected within the {section_bytes} of its section, found {size} at \
         {offset:#x}",
        section_bytes = counted(*.section_bytes, "byte"),
        size = counted(*.size, "byte")
    )]
    KernelRange {
        /// The kernel.
        kernel: String,
        /// Its offset in the section.
        offset: u64,
        /// Its size in bytes.
        size: u64,
        /// The section's length.
        section_bytes: u64,
    },
    /// A function that the `.json` does not name exceeds its section.
    #[error(
        "function `{kernel}`: expected within the {section_bytes} of its section, found {size} at \
         {offset:#x}",
        section_bytes = counted(*.section_bytes, "byte"),
        size = counted(*.size, "byte")
    )]
    OtherRange {
        /// The function.
        kernel: String,
        /// Its offset in the section.
        offset: u64,
        /// Its size in bytes.
        size: u64,
        /// The section's length.
        section_bytes: u64,
    },
    /// A kernel is misaligned.
    #[error("kernel `{kernel}`: expected at a multiple of 4, found at {offset:#x}")]
    KernelAlign {
        /// The kernel.
        kernel: String,
        /// Its offset in the section.
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
    #[error("kernel `{kernel}`: expected one function of this name, found several at different addresses")]
    SameName {
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
        /// The name in that field.
        expected: String,
        /// The number of kernels that the object defines.
        kernels: usize,
        /// Their names, at most five.
        found: Vec<String>,
    },
    /// A symbol table of the object does not define a symbol of the kernel that the metadata name.
    #[error(
        "field `{field}`: the object does not define the {kind} `{symbol}`, global or weak, in each of its symbol tables; it \
         defines {}",
        Names(*.kernels, .found)
    )]
    NoSymbol {
        /// The field with the kernel's name.
        field: String,
        /// The kind of symbol.
        kind: &'static str,
        /// The symbol.
        symbol: String,
        /// The number of kernels that the object defines.
        kernels: usize,
        /// Their names, at most five.
        found: Vec<String>,
    },
    /// A symbol of the kernel is not as the target's loader needs it.
    #[error("symbol `{symbol}`: expected {expected}, found {found}")]
    Symbol {
        /// The symbol.
        symbol: String,
        /// The expected property.
        expected: String,
        /// The property found.
        found: String,
    },
    /// The object defines no kernel at all.
    #[error("expected a function that is global and visible, found {functions} that are not")]
    NoKernel {
        /// The number of functions.
        functions: usize,
    },
    /// The object defines kernels that the `.json` does not name.
    #[error("the `.json` names {}; the object also defines {}", Count(*.named), Names(*.others, .found))]
    Unlisted {
        /// The number of kernels that the `.json` names.
        named: usize,
        /// The number of other kernels that the object defines.
        others: usize,
        /// Their names, at most five.
        found: Vec<String>,
    },
    /// The object has kernels by tiling key, but the `.json` does not list them.
    #[error("field `kernelList`: expected a list of `{kernel}` by tiling key; the object defines {}", Names(*.kernels, .found))]
    ByKey {
        /// `kernelName`.
        kernel: String,
        /// The number of kernels.
        kernels: usize,
        /// Their names, at most five.
        found: Vec<String>,
    },
    /// The object is a host library.
    #[error(
        "the object is a library with `GetKernelBin`; the kernel that this function returns was not checked"
    )]
    Container,
    /// A symbol has the kernel's name, but is no kernel.
    #[error(
        "field `{field}`: expected `{kernel}` as a function that is global or weak, and visible; it is another symbol"
    )]
    NotVisible {
        /// The field: `kernelName`, or `kernelList` if there is one.
        field: &'static str,
        /// The name in that field.
        kernel: String,
    },
    /// Metadata that cannot be read.
    #[error("section `{section}`: {problem}")]
    Metadata {
        /// The section.
        section: String,
        /// The problem.
        problem: String,
    },
    /// Metadata of an unknown kernel.
    #[error("section `{section}`: expected to be named after a kernel of the object")]
    StrayMetadata {
        /// The section.
        section: String,
    },
    /// Some kernels lack metadata that others have.
    #[error(
        "expected metadata for all {kernels}, found none for {without}, the first `{kernel}`",
        kernels = counted(*.kernels, "kernel")
    )]
    NoMetadata {
        /// The first kernel without metadata.
        kernel: String,
        /// The number of kernels without metadata.
        without: usize,
        /// The number of kernels.
        kernels: usize,
    },
    /// The record of stack sizes has an unexpected value.
    #[error("section `.ascend.stack.size.record`: expected 16384 or 32768, once or more, found {found}")]
    StackRecord {
        /// The value found.
        found: String,
    },
    /// The record of argument sizes has an unexpected length.
    #[error(
        "section `__CCE_KernelArgSize`: expected {expected}, 4 for each kernel, found {found}",
        expected = counted(*.expected, "byte")
    )]
    ArgumentRecord {
        /// Four times the number of kernels.
        expected: usize,
        /// The section's length.
        found: usize,
    },
    /// Metadata and `.json` name different cores.
    #[error("kernel `{kernel}`: `{field}` is `{expected}`, but the metadata states {found}")]
    KernelType {
        /// The kernel.
        kernel: String,
        /// The field of the `.json`.
        field: &'static str,
        /// The value found.
        expected: String,
        /// The value in the metadata.
        found: KernelType,
    },
    /// Metadata and `.json` name different ratios.
    #[error("kernel `{kernel}`: `taskRation` is {expected}, but the metadata states {found}")]
    TaskRatio {
        /// The kernel.
        kernel: String,
        /// The value in the `.json`.
        expected: TaskRatio,
        /// The value in the metadata.
        found: TaskRatio,
    },
    /// Tiling keys differ.
    #[error("kernel `{kernel}`: `tilingKey` is {expected}, but {place} states {found}")]
    TilingKey {
        /// The kernel.
        kernel: String,
        /// The value in the `.json`.
        expected: u64,
        /// `its name` or `the metadata`.
        place: &'static str,
        /// The value there.
        found: u64,
    },
    /// Metadata and `.json` differ on synchronisation between cores.
    #[error("kernel `{kernel}`: `crossCoreSync` is {expected}, but the metadata states {found}")]
    CrossCoreSync {
        /// The kernel.
        kernel: String,
        /// The value in the `.json`.
        expected: bool,
        /// The value in the metadata.
        found: u32,
    },
    /// Metadata and `.json` differ on deterministic computing.
    #[error("kernel `{kernel}`: `deterministic` is `{expected}`, but the metadata states {found}")]
    Deterministic {
        /// The kernel.
        kernel: String,
        /// The value in the `.json`.
        expected: Deterministic,
        /// The value in the metadata.
        found: u32,
    },
    /// The object is compiled for other cores.
    #[error("`e_flags` of the object name {found}, but {expected}")]
    Architecture {
        /// The contradicting statement.
        expected: String,
        /// The cores in `e_flags`.
        found: Architecture,
    },
}

impl KernelProblem {
    /// The code.
    pub const fn code(&self) -> Code {
        match self {
            Self::KernelRange { .. } => Code::KERNEL_RANGE,
            Self::OtherRange { .. } => Code::OTHER_RANGE,
            Self::KernelAlign { .. } => Code::KERNEL_ALIGN,
            Self::KernelSection { .. } => Code::KERNEL_SECTION,
            Self::SameName { .. } => Code::SAME_NAME,
            Self::Kernel { .. } | Self::NoSymbol { .. } => Code::KERNEL,
            Self::Symbol { .. } => Code::SYMBOL,
            Self::NoKernel { .. } => Code::NO_KERNEL,
            Self::Unlisted { .. } => Code::UNLISTED,
            Self::ByKey { .. } => Code::BY_KEY,
            Self::Container => Code::CONTAINER,
            Self::NotVisible { .. } => Code::NOT_VISIBLE,
            Self::Metadata { .. } => Code::METADATA,
            Self::StrayMetadata { .. } => Code::STRAY_METADATA,
            Self::NoMetadata { .. } => Code::NO_METADATA,
            Self::StackRecord { .. } => Code::STACK_RECORD,
            Self::ArgumentRecord { .. } => Code::ARGUMENT_RECORD,
            Self::KernelType { .. } => Code::KERNEL_TYPE,
            Self::TaskRatio { .. } => Code::TASK_RATIO,
            Self::TilingKey { .. } => Code::TILING_KEY,
            Self::CrossCoreSync { .. } => Code::CROSS_CORE_SYNC,
            Self::Deterministic { .. } => Code::DETERMINISTIC,
            Self::Architecture { .. } => Code::ARCHITECTURE,
        }
    }
}
