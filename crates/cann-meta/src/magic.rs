//! The `magic` of a kernel: the kind of binary that the runtime registers.

use std::fmt;

use crate::{CoreType, Vocabulary};

/// The kind of device binary: the `magic` field of a kernel's `.json`.
///
/// The numbers are arguments of the runtime's registration calls and occur in no file.
///
/// | magic | written for | loaded as | FE | MindSpore 2.0 |
/// |---|---|---|---|---|
/// | `Elf` | 310, 910A, 310P; every mixed kernel; by Ascend C for any core of a 310B | AI Core; mixed on 910B and later | yes | yes |
/// | `ElfAivec` | vector kernels of 310P, 310B, 910B and later | vector core | yes | yes |
/// | `ElfAicube` | cube kernels of 310B, 910B and later | cube core | yes | yes |
/// | `ElfAicpu` | AI CPU kernels | AI CPU | yes | yes |
/// | `FftsMixAic`, `FftsMixAiv` | the two sides of older mixed kernels, an object each | vector core | yes | no |
/// | `Plain`, `PlainAicpu`, `PlainAivec` | binaries that are no ELF | AI Core, AI CPU, vector core | no | yes |
///
/// FE's task builder also knows `RT_DEV_BINARY_MAGIC_OM`, an offline model. It is not a kernel and has no variant: FE
/// reads no `.json` of a model and refuses the name in a `.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Magic {
    /// An AI Core kernel, or a mixed one on chips with separate cube and vector cores.
    Elf,
    /// An AI CPU kernel.
    ElfAicpu,
    /// A kernel for vector cores.
    ElfAivec,
    /// A kernel for cube cores.
    ElfAicube,
    /// The cube side of an older split kernel.
    FftsMixAic,
    /// The vector side of an older split kernel.
    FftsMixAiv,
    /// A raw AI Core binary without ELF.
    Plain,
    /// A raw AI CPU binary without ELF.
    PlainAicpu,
    /// A raw vector core binary without ELF.
    PlainAivec,
}

impl Magic {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Elf,
        Self::ElfAicpu,
        Self::ElfAivec,
        Self::ElfAicube,
        Self::FftsMixAic,
        Self::FftsMixAiv,
        Self::Plain,
        Self::PlainAicpu,
        Self::PlainAivec,
    ];

    /// The name in the `.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Elf => "RT_DEV_BINARY_MAGIC_ELF",
            Self::ElfAicpu => "RT_DEV_BINARY_MAGIC_ELF_AICPU",
            Self::ElfAivec => "RT_DEV_BINARY_MAGIC_ELF_AIVEC",
            Self::ElfAicube => "RT_DEV_BINARY_MAGIC_ELF_AICUBE",
            Self::FftsMixAic => "FFTS_BINARY_MAGIC_ELF_MIX_AIC",
            Self::FftsMixAiv => "FFTS_BINARY_MAGIC_ELF_MIX_AIV",
            Self::Plain => "RT_DEV_BINARY_MAGIC_PLAIN",
            Self::PlainAicpu => "RT_DEV_BINARY_MAGIC_PLAIN_AICPU",
            Self::PlainAivec => "RT_DEV_BINARY_MAGIC_PLAIN_AIVEC",
        }
    }

    /// The number that the runtime's registration call takes. The two `FftsMix` kinds are registered as vector kernels.
    pub const fn value(self) -> u32 {
        match self {
            Self::Elf => 0x4355_4245,
            Self::ElfAicpu => 0x4141_5243,
            Self::ElfAivec | Self::FftsMixAic | Self::FftsMixAiv => 0x4141_5246,
            Self::ElfAicube => 0x4149_4343,
            Self::Plain => 0xabce_ed50,
            Self::PlainAicpu => 0xabce_ed51,
            Self::PlainAivec => 0xabce_ed52,
        }
    }

    /// Whether CANN's FE accepts a kernel of this kind.
    pub const fn accepted_by_fe(self) -> bool {
        self.is_elf()
    }

    /// Whether MindSpore 2.0 accepts a kernel of this kind.
    pub const fn accepted_by_mindspore(self) -> bool {
        !matches!(self, Self::FftsMixAic | Self::FftsMixAiv)
    }

    /// Whether a compiler gives this magic to kernels of that core type.
    ///
    /// `false` is no proof of damage: the table covers only the chips and compilers that were available.
    pub const fn fits(self, core: CoreType) -> bool {
        match self {
            Self::Elf | Self::Plain => true,
            Self::ElfAivec | Self::PlainAivec => matches!(core, CoreType::VectorCore | CoreType::Aiv),
            Self::ElfAicube => matches!(core, CoreType::AiCore | CoreType::CubeCore | CoreType::Aic),
            Self::FftsMixAic => {
                core.is_mix() || matches!(core, CoreType::AiCore | CoreType::CubeCore | CoreType::Aic)
            }
            Self::FftsMixAiv => core.is_mix() || matches!(core, CoreType::VectorCore | CoreType::Aiv),
            Self::ElfAicpu | Self::PlainAicpu => false,
        }
    }

    /// Whether the binary is an ELF file.
    pub const fn is_elf(self) -> bool {
        !matches!(self, Self::Plain | Self::PlainAicpu | Self::PlainAivec)
    }

    /// The kind with the name `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|magic| magic.name() == name)
    }
}

impl Vocabulary for Magic {
    const ALL: &'static [Self] = &Self::ALL;

    fn name(self) -> &'static str {
        Self::name(self)
    }
}

impl fmt::Display for Magic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_round_trip() {
        for magic in Magic::ALL {
            assert_eq!(Magic::from_name(magic.name()), Some(magic));
        }
        assert_eq!(Magic::from_name("RT_DEV_BINARY_MAGIC"), None);
        assert_eq!(Magic::from_name("RT_DEV_BINARY_MAGIC_OM"), None);
    }

    #[test]
    fn numbers_are_the_letters_that_the_runtime_reads() {
        let letters = |magic: Magic| magic.value().to_be_bytes();
        assert_eq!(&letters(Magic::Elf), b"CUBE");
        assert_eq!(&letters(Magic::ElfAivec), b"AARF");
        assert_eq!(&letters(Magic::ElfAicube), b"AICC");
        assert_eq!(&letters(Magic::ElfAicpu), b"AARC");
        assert_eq!(Magic::FftsMixAic.value(), Magic::ElfAivec.value());
        assert_eq!(Magic::FftsMixAiv.value(), Magic::ElfAivec.value());
        let plain = [Magic::Plain, Magic::PlainAicpu, Magic::PlainAivec].map(Magic::value);
        assert_eq!(plain, [0xabce_ed50, 0xabce_ed51, 0xabce_ed52]);
    }

    #[test]
    fn each_vendor_accepts_its_own_magics() {
        let names = |taken: fn(Magic) -> bool| {
            Magic::ALL.into_iter().filter(|magic| taken(*magic)).map(Magic::name).collect::<Vec<_>>()
        };
        assert_eq!(names(Magic::accepted_by_fe).len(), 6);
        assert!(names(Magic::accepted_by_fe).iter().all(|name| name.contains("_ELF")));
        assert_eq!(names(Magic::accepted_by_mindspore).len(), 7);
        assert!(
            names(Magic::accepted_by_mindspore).iter().all(|name| name.starts_with("RT_DEV_BINARY_MAGIC_"))
        );
    }

    /// The combinations in genuine pairs and in CANN 8.1's compiler.
    #[test]
    fn real_pairs_fit() {
        for (magic, core) in [
            (Magic::ElfAivec, CoreType::VectorCore),
            (Magic::ElfAivec, CoreType::Aiv),
            (Magic::Elf, CoreType::Mix),
            (Magic::Elf, CoreType::MixAiCore),
            (Magic::Elf, CoreType::AiCore),
            (Magic::Elf, CoreType::VectorCore),
            (Magic::ElfAicube, CoreType::AiCore),
            (Magic::ElfAicube, CoreType::Aic),
            (Magic::FftsMixAic, CoreType::MixAic),
            (Magic::FftsMixAiv, CoreType::MixAiv),
        ] {
            assert!(magic.fits(core), "{magic} {core}");
        }
        for (magic, core) in [
            (Magic::ElfAivec, CoreType::AiCore),
            (Magic::ElfAivec, CoreType::Mix),
            (Magic::ElfAicube, CoreType::VectorCore),
            (Magic::ElfAicube, CoreType::Mix),
            (Magic::FftsMixAic, CoreType::VectorCore),
            (Magic::FftsMixAiv, CoreType::AiCore),
            (Magic::ElfAicpu, CoreType::AiCore),
        ] {
            assert!(!magic.fits(core), "{magic} {core}");
        }
    }
}
