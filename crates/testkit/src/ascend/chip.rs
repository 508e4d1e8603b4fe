//! Chips, and the cores that a kernel runs on.

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
    pub(super) const fn flags(self, cores: Cores) -> u32 {
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
    pub(super) const fn has_cube(self) -> bool {
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
    pub(super) fn ratio(self) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_ascend910b_is_of_the_first_generation() {
        let of = |soc| Chip::of_soc(soc);
        assert_eq!(of("Ascend910B"), Some(Chip::Ascend910));
        assert_eq!(of("Ascend910B4-1"), Some(Chip::Ascend910B));
        assert_eq!([of("Ascend310"), of("910B1"), of("Ascend610")], [None; 3]);
        for chip in Chip::ALL {
            assert_eq!(of(chip.soc()), Some(chip));
        }
    }
}
