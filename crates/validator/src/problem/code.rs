//! Which code a problem has.

use opbuild_artifact::MetaError;

use super::Problem;
use crate::code::Code;

impl Problem {
    /// The problem's code.
    pub const fn code(&self) -> Code {
        match self {
            Self::Json(MetaError::Json { .. } | MetaError::TooLarge { .. }) => Code::JSON,
            Self::Json(_) | Self::Field { .. } => Code::FIELD,
            Self::Missing { .. } => Code::MISSING,
            Self::Repeated { .. } => Code::REPEATED,
            Self::OddValue { .. } => Code::ODD_VALUE,
            Self::ListedTwice { .. } => Code::LISTED_TWICE,
            Self::UnsafeName { .. } => Code::UNSAFE_NAME,
            Self::Sha256 { .. } => Code::SHA256,
            Self::Magic { .. } => Code::MAGIC,
            Self::NoMagic => Code::NO_MAGIC,
            Self::MagicMisfit { .. } => Code::MAGIC_MISFIT,
            Self::CoreTypes { .. } => Code::CORE_TYPES,
            Self::BinName { .. } => Code::BIN_NAME,
            Self::FileName { .. } => Code::FILE_NAME,
            Self::NoObject { .. } => Code::NO_OBJECT,
            Self::Alone => Code::ALONE,
            Self::Part { .. } => Code::PART,
            Self::NotElf { .. } => Code::NOT_ELF,
            Self::Class { .. } => Code::CLASS,
            Self::Endianness { .. } => Code::ENDIANNESS,
            Self::Machine { .. } => Code::MACHINE,
            Self::Type { .. } => Code::TYPE,
            Self::UnusualType { .. } => Code::UNUSUAL_TYPE,
            Self::Malformed { .. } => Code::MALFORMED,
            Self::NoSections => Code::NO_SECTIONS,
            Self::NoFunction { .. } => Code::NO_FUNCTION,
            Self::Link { .. } => Code::LINK,
            Self::EntrySize { .. } => Code::ENTRY_SIZE,
            Self::TextPlace { .. } => Code::TEXT_PLACE,
            Self::Gap { .. } => Code::GAP,
            Self::LoadedNobits { .. } => Code::LOADED_NOBITS,
            Self::Undefined { .. } => Code::UNDEFINED,
            Self::Dynamic { .. } => Code::DYNAMIC,
            Self::KernelRange { .. } => Code::KERNEL_RANGE,
            Self::KernelAlign { .. } => Code::KERNEL_ALIGN,
            Self::KernelSection { .. } => Code::KERNEL_SECTION,
            Self::Contested { .. } => Code::CONTESTED,
            Self::OtherRange { .. } => Code::OTHER_RANGE,
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
            Self::Disagree { .. } => Code::DISAGREE,
            Self::SecondParser { .. } => Code::SECOND_PARSER,
            Self::FeRefuses(_) => Code::FE_REFUSES,
            Self::FeLint(_) => Code::FE_LINT,
            Self::MindsporeLint(_) => Code::MINDSPORE_LINT,
        }
    }
}
