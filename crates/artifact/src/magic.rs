//! The `magic` of a kernel: what the runtime is told about the kind of binary.

use std::fmt;

/// The kind of device binary, as the `magic` field of a kernel's `.json` names it.
///
/// The names are the ones that CANN's FE and MindSpore accept; the numbers are arguments of the runtime's
/// registration calls (CANN runtime, `rt_ffts` and `kernel.h`) and do not occur in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// Every known kind.
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

    /// The number that the runtime's registration call takes.
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

    /// Whether the binary is an ELF file.
    pub const fn is_elf(self) -> bool {
        !matches!(self, Self::Plain | Self::PlainAicpu | Self::PlainAivec)
    }

    /// The kind that `name` names.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|magic| magic.name() == name)
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
    fn names_are_distinct_and_come_back() {
        for magic in Magic::ALL {
            assert_eq!(Magic::from_name(magic.name()), Some(magic));
        }
        assert_eq!(Magic::from_name("RT_DEV_BINARY_MAGIC"), None);
        // The runtime reads this number as the text "CUBE".
        assert_eq!(&Magic::Elf.value().to_be_bytes(), b"CUBE");
    }
}
