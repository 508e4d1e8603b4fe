//! Problems of the kernels in an object, and of what it says of them.

use opkeep_cann_meta::{Architecture, Deterministic};
use thiserror::Error;

use crate::cann::device::{KernelType, TaskRatio};
use crate::code::Code;
use crate::display::{Count, Names};

/// What is wrong with a kernel in an object, or noteworthy.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum KernelProblem {
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
}

impl KernelProblem {
    /// The code.
    pub const fn code(&self) -> Code {
        match self {
            Self::KernelRange { .. } => Code::KERNEL_RANGE,
            Self::OtherRange { .. } => Code::OTHER_RANGE,
            Self::KernelAlign { .. } => Code::KERNEL_ALIGN,
            Self::KernelSection { .. } => Code::KERNEL_SECTION,
            Self::Contested { .. } => Code::CONTESTED,
            Self::Kernel { .. } => Code::KERNEL,
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
