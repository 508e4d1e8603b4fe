//! The metadata of a kernel: records of a type, a length and a value.

use object::elf::{self, SectionType};

use super::chip::{Chip, Cores, Era};
use super::kernel::{Argument, Kernel};
use crate::image::Section;

/// Types of records.
pub(super) const KERNEL_TYPE: u16 = 1;
const MIX_TASK_RATION: u16 = 3;
const DFX: u16 = 4;
const FUNCTION_ENTRY: u16 = 14;

/// The type of a record about an argument, within one of type 4.
const DFX_ARGUMENT: u16 = 5;

impl Argument {
    /// The words of its record. Unlike the rest of the file, they are big-endian.
    fn words(self) -> Vec<u64> {
        const DYNAMIC: u64 = u64::MAX;
        match self {
            Self::Ffts => vec![0x1_000b],
            Self::Input => vec![0x1_0002, DYNAMIC],
            Self::InputList(dims) => vec![0x3_0002, DYNAMIC, dims],
            Self::Output => vec![0x1_0003, DYNAMIC],
            Self::Workspace => vec![0x1_0004],
            Self::Tiling(bytes) => vec![0x1_0007, bytes],
        }
    }
}

/// Records one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata(pub Vec<u8>);

impl Metadata {
    /// With one more record, of a length that may be a lie.
    pub fn record(mut self, kind: u16, length: u16, value: &[u8]) -> Self {
        self.0.extend(kind.to_le_bytes());
        self.0.extend(length.to_le_bytes());
        self.0.extend(value);
        self
    }

    fn honest(self, kind: u16, value: &[u8]) -> Self {
        self.record(kind, u16::try_from(value.len()).unwrap_or(u16::MAX), value)
    }

    /// With the type of the kernel: 1 AI core, 2 cube, 3 vector, 4 mixed led by cube cores, 5 by vector cores.
    pub fn kernel_type(self, kind: u32) -> Self {
        self.honest(KERNEL_TYPE, &kind.to_le_bytes())
    }

    /// With the ratio of cube to vector cores.
    pub fn ratio(self, cube: u16, vector: u16) -> Self {
        self.honest(MIX_TASK_RATION, &[cube.to_le_bytes(), vector.to_le_bytes()].concat())
    }

    /// With the kind of each argument.
    pub fn arguments(self, arguments: &[Argument]) -> Self {
        let mut value = Vec::new();
        for argument in arguments {
            let words = argument.words();
            value.extend(DFX_ARGUMENT.to_be_bytes());
            value.extend(u16::try_from(words.len()).unwrap_or(u16::MAX).to_be_bytes());
            value.extend(words.into_iter().flat_map(u64::to_be_bytes));
        }
        self.honest(DFX, &value)
    }

    /// With the tiling key.
    pub fn tiling_key(self, key: u64) -> Self {
        let mut value = vec![0x80, 0, 0, 0, 0, 0, 0, 0];
        value.extend(key.to_le_bytes());
        self.honest(FUNCTION_ENTRY, &value)
    }

    /// The compiler's metadata of `kernel` with this tiling key.
    pub(super) fn of(kernel: &Kernel, key: Option<u64>) -> Self {
        let split = kernel.chip.is_split();
        let kernel_type = match kernel.cores {
            Cores::AiCore if split => 2,
            Cores::AiCore => 1,
            Cores::Vector if split => 3,
            Cores::Vector => 1,
            Cores::Mix { cube: 0, .. } => 5,
            Cores::Mix { .. } => 4,
        };
        let mut metadata = Self::default().kernel_type(kernel_type);
        if let Cores::Mix { cube, vector } = kernel.cores {
            metadata = metadata.ratio(cube, vector);
        }
        if kernel.function_entries {
            metadata = metadata.tiling_key(key.unwrap_or_default());
        }
        // Those for the 310B were made before there were records of arguments.
        if kernel.chip == Chip::Ascend310B {
            return metadata;
        }
        metadata.arguments(&kernel.all_arguments())
    }
}

/// The section with the metadata of the kernel `symbol`.
pub fn metadata_section(symbol: &str, kind: SectionType, metadata: Metadata) -> Section {
    Section::new(format!(".ascend.meta.{symbol}"), kind, metadata.0).align(4)
}

impl Kernel {
    /// Its arguments, with the one that mixed kernels have first.
    pub(super) fn all_arguments(&self) -> Vec<Argument> {
        let is_mix = matches!(self.cores, Cores::Mix { .. });
        is_mix.then_some(Argument::Ffts).into_iter().chain(self.arguments.iter().copied()).collect()
    }

    /// The type of the sections with metadata.
    pub(super) const fn metadata_kind(&self) -> SectionType {
        match self.era {
            Era::Cann8 => elf::SHT_PROGBITS,
            Era::Cann8Late | Era::Cann9 => elf::SHT_NOTE,
        }
    }

    /// The type of the sections with sizes of stacks and arguments.
    pub(super) const fn record_kind(&self) -> SectionType {
        match self.era {
            Era::Cann8 | Era::Cann8Late => elf::SHT_PROGBITS,
            Era::Cann9 => elf::SHT_NOTE,
        }
    }
}
