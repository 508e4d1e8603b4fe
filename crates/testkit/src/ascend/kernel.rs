//! The kernel that is made: its name, its arguments and the habits of its compiler.

use opkeep_cann_meta::Magic;

use super::chip::{Chip, Cores, Era};

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// Where cores synchronise; kernels for several kinds of cores have it first.
    Ffts,
    /// A tensor that is read.
    Input,
    /// Tensors that are read, by a list of so many dimensions.
    InputList(u64),
    /// A tensor that is written.
    Output,
    /// Scratch memory.
    Workspace,
    /// So many bytes that the tiling function fills.
    Tiling(u64),
}

impl Argument {
    pub(super) const fn is_tensor(self) -> bool {
        matches!(self, Self::Input | Self::InputList(_) | Self::Output)
    }
}

/// A kernel to be made. See the [module](super).
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(super) chip: Chip,
    pub(super) name: String,
    pub(super) file_name: String,
    pub(super) cores: Cores,
    pub(super) keys: Vec<u64>,
    pub(super) arguments: Vec<Argument>,
    pub(super) code_bytes: usize,
    pub(super) era: Era,
    pub(super) relocatable: bool,
    pub(super) metadata: bool,
    pub(super) ratio_in_list: bool,
    pub(super) function_entries: bool,
    pub(super) magic: Option<Magic>,
    pub(super) stamp: String,
}

impl Kernel {
    /// A kernel of one input and one output, for AI cores; on chips with separate cores, for vector cores.
    ///
    /// Without [`keys`](Self::keys) it is static on the first generation, and has the one key 0 elsewhere.
    pub fn new(chip: Chip, name: &str) -> Self {
        Self {
            chip,
            name: name.to_owned(),
            file_name: name.to_owned(),
            cores: if chip.is_split() { Cores::Vector } else { Cores::AiCore },
            keys: if chip == Chip::Ascend910 { Vec::new() } else { vec![0] },
            arguments: vec![Argument::Input, Argument::Output, Argument::Workspace, Argument::Tiling(64)],
            code_bytes: 0x228,
            era: if chip.is_split() { Era::Cann9 } else { Era::Cann8Late },
            relocatable: chip == Chip::Ascend910,
            metadata: chip != Chip::Ascend910,
            ratio_in_list: true,
            function_entries: false,
            magic: None,
            stamp: "2026-07-30T20:53:21+08:00 clang version 15.0.5".to_owned(),
        }
    }

    /// For other cores.
    pub fn cores(self, cores: Cores) -> Self {
        Self { cores, ..self }
    }

    /// A kernel for each of these tiling keys. Without any, the kernel is static.
    pub fn keys(self, keys: impl Into<Vec<u64>>) -> Self {
        Self { keys: keys.into(), ..self }
    }

    /// With these arguments.
    pub fn arguments(self, arguments: impl Into<Vec<Argument>>) -> Self {
        Self { arguments: arguments.into(), ..self }
    }

    /// The number of bytes of code for each symbol, rounded up to a whole instruction.
    pub fn code_bytes(self, code_bytes: usize) -> Self {
        Self { code_bytes: code_bytes.next_multiple_of(4).max(4), ..self }
    }

    /// Made by a compiler of this era.
    pub fn era(self, era: Era) -> Self {
        Self { era, ..self }
    }

    /// A part that is yet to be linked into a super kernel: names end in `_relocatable`, and there is no metadata.
    pub fn relocatable(self) -> Self {
        let name = format!("{}_relocatable", self.name);
        Self { file_name: name.clone(), name, relocatable: true, metadata: false, ..self }
    }

    /// With another file name than the kernel's own, as deterministic twins have.
    pub fn file_name(self, stem: &str) -> Self {
        Self { file_name: stem.to_owned(), ..self }
    }

    /// Without `.ascend.meta` sections.
    pub fn without_metadata(self) -> Self {
        Self { metadata: false, ..self }
    }

    /// With the ratio of cores once for all kernels, instead of in each item of `kernelList`.
    pub fn one_ratio(self) -> Self {
        Self { ratio_in_list: false, ..self }
    }

    /// With the tiling key in each kernel's metadata too.
    pub fn function_entries(self) -> Self {
        Self { function_entries: true, ..self }
    }

    /// With another `magic` than compilers of today write.
    pub fn magic(self, magic: Magic) -> Self {
        Self { magic: Some(magic), ..self }
    }

    /// With another version of the compiler in `.comment`.
    pub fn stamp(self, stamp: &str) -> Self {
        Self { stamp: stamp.to_owned(), ..self }
    }

    /// The names of the kernels, as the `.json` has them.
    pub fn kernel_names(&self) -> Vec<String> {
        if self.keys.is_empty() {
            return vec![format!("{}__kernel0", self.name)];
        }
        self.keys.iter().map(|key| format!("{}_{key}", self.name)).collect()
    }

    /// The symbols of the kernels, each with its tiling key.
    pub(super) fn symbols(&self) -> Vec<(String, Option<u64>)> {
        let keys = self.keys.iter().copied().map(Some).chain(self.keys.is_empty().then_some(None));
        let of_kernel = |(name, key): (&String, Option<u64>)| {
            self.cores.symbols(name).into_iter().map(move |symbol| (symbol, key)).collect::<Vec<_>>()
        };
        self.kernel_names().iter().zip(keys).flat_map(of_kernel).collect()
    }
}
