//! Kernels as the compilers for Ascend chips leave them: a `.o` and its `.json`, made without a compiler.
//!
//! ```
//! use opkeep_testkit::ascend::{Chip, Cores, Kernel};
//!
//! let chip = Chip::of_soc("Ascend910B1").ok_or("an unknown chip")?;
//! let pair = Kernel::new(chip, "Add_1").cores(Cores::Mix { cube: 1, vector: 2 }).keys([0, 7]).build();
//! assert_eq!(pair.file_names(), ["Add_1.json", "Add_1.o"]);
//! # Ok::<(), &str>(())
//! ```
//!
//! [`Kernel`] has a knob for each habit of a compiler that we know; [`zoo`] is one pair of each kind. What they are
//! like was read off genuine objects, section by section: which there are, in which order, where they stand, which
//! symbols are local. Only the code is no code, but noise.

mod describe;
mod metadata;
mod object;
mod pair;
mod shared;
mod zoo;

pub use metadata::{Argument, Metadata, metadata_section};
pub use pair::Pair;
pub use shared::{Library, container, library};
pub use zoo::{Split, fat_binary, fat_binary_of, split_mix, zoo};

use opkeep_cann_meta::Magic;

/// A family of chips whose compilers leave the same kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chip {
    /// The first generation, Ascend 910A: relocatable objects without metadata.
    Ascend910,
    /// Ascend 310B.
    Ascend310B,
    /// Ascend 310P.
    Ascend310P,
    /// Ascend 910B1 and its kin, with cube and vector cores of their own.
    Ascend910B,
    /// Ascend 910_93, compiled for like the 910B.
    Ascend910_93,
    /// Ascend 950.
    Ascend950,
}

impl Chip {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Ascend910,
        Self::Ascend310B,
        Self::Ascend310P,
        Self::Ascend910B,
        Self::Ascend910_93,
        Self::Ascend950,
    ];

    /// The family of a chip by its name. `Ascend910B` is one of the first generation, `Ascend910B1` is not.
    pub fn of_soc(soc: &str) -> Option<Self> {
        let version = soc.strip_prefix("Ascend")?;
        match version {
            "910A" | "910ProA" | "910ProB" | "910PremiumA" | "910B" => Some(Self::Ascend910),
            _ if version.starts_with("910_93") => Some(Self::Ascend910_93),
            _ if version.starts_with("910B") => Some(Self::Ascend910B),
            _ if version.starts_with("310P") => Some(Self::Ascend310P),
            _ if version.starts_with("310B") => Some(Self::Ascend310B),
            _ if version.starts_with("950") => Some(Self::Ascend950),
            _ => None,
        }
    }

    /// The name of one such chip.
    pub const fn soc(self) -> &'static str {
        match self {
            Self::Ascend910 => "Ascend910A",
            Self::Ascend310B => "Ascend310B1",
            Self::Ascend310P => "Ascend310P3",
            Self::Ascend910B => "Ascend910B1",
            Self::Ascend910_93 => "Ascend910_9391",
            Self::Ascend950 => "Ascend950PR_9599",
        }
    }

    /// Whether cube and vector cores are separate.
    pub const fn is_split(self) -> bool {
        matches!(self, Self::Ascend910B | Self::Ascend910_93 | Self::Ascend950)
    }

    /// `e_flags` of an object for these cores.
    const fn flags(self, cores: Cores) -> u32 {
        match self {
            Self::Ascend910 => 0,
            Self::Ascend310P => 0x8a_0000,
            Self::Ascend310B => 0x95_0000,
            Self::Ascend950 => 0x99_0000,
            Self::Ascend910B | Self::Ascend910_93 if cores.has_cube() => 0x94_0000,
            Self::Ascend910B | Self::Ascend910_93 => 0x93_0000,
        }
    }
}

/// The cores that a kernel runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cores {
    /// Whole AI cores, or the cube cores of chips where they are separate.
    AiCore,
    /// Vector cores.
    Vector,
    /// Both, so many of each; one number may be 0.
    Mix {
        /// Cube cores.
        cube: u16,
        /// Vector cores.
        vector: u16,
    },
}

impl Cores {
    const fn has_cube(self) -> bool {
        matches!(self, Self::AiCore | Self::Mix { cube: 1.., .. })
    }

    /// The symbols of the kernel `name`.
    pub fn symbols(self, name: &str) -> Vec<String> {
        match self {
            Self::AiCore | Self::Vector => vec![name.to_owned()],
            Self::Mix { cube, vector } => [(cube, "_mix_aic"), (vector, "_mix_aiv")]
                .into_iter()
                .filter(|(count, _)| *count > 0)
                .map(|(_, suffix)| format!("{name}{suffix}"))
                .collect(),
        }
    }

    /// The ratio as the `.json` has it.
    fn ratio(self) -> Option<String> {
        match self {
            Self::Mix { cube, vector } => Some(format!("{cube}:{vector}")),
            Self::AiCore | Self::Vector => None,
        }
    }
}

/// Whose habits a compiler has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// CANN 8.0: metadata in SHT_PROGBITS, no relocations after the link, no symbols of sections.
    Cann8,
    /// The compilers after it, of 2025: the same with metadata in SHT_NOTE.
    Cann8Late,
    /// CANN 9.1.
    Cann9,
}

/// A kernel to be made. See the [module](self).
#[derive(Clone, Debug)]
pub struct Kernel {
    chip: Chip,
    name: String,
    file_name: String,
    cores: Cores,
    keys: Vec<u64>,
    arguments: Vec<Argument>,
    code_bytes: usize,
    era: Era,
    relocatable: bool,
    metadata: bool,
    ratio_in_list: bool,
    function_entries: bool,
    magic: Option<Magic>,
    stamp: String,
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

    /// So many bytes of code a symbol, rounded up to a whole instruction.
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
    fn symbols(&self) -> Vec<(String, Option<u64>)> {
        let keys = self.keys.iter().copied().map(Some).chain(self.keys.is_empty().then_some(None));
        let of_kernel = |(name, key): (&String, Option<u64>)| {
            self.cores.symbols(name).into_iter().map(move |symbol| (symbol, key)).collect::<Vec<_>>()
        };
        self.kernel_names().iter().zip(keys).flat_map(of_kernel).collect()
    }

    /// The pair.
    pub fn build(&self) -> Pair {
        let object = object::write(self);
        let json = describe::json(self, &object);
        Pair { stem: self.file_name.clone(), suffix: ".o", json, object }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_is_a_trap() {
        let of = |soc| Chip::of_soc(soc);
        assert_eq!(of("Ascend910B"), Some(Chip::Ascend910));
        assert_eq!(of("Ascend910B4-1"), Some(Chip::Ascend910B));
        assert_eq!([of("Ascend310"), of("910B1"), of("Ascend610")], [None; 3]);
        for chip in Chip::ALL {
            assert_eq!(of(chip.soc()), Some(chip));
        }
    }
}
