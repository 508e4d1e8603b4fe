//! What an object says of itself.

use std::fmt;

use crate::device::DeviceMeta;

/// What an ELF object says of itself. Names are shown as text: bytes that are not UTF-8 are replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ElfFacts {
    /// The object's length.
    pub bytes: usize,
    /// `e_machine`.
    pub machine: Machine,
    /// `e_type`; none, if it is one that holds no kernels.
    pub elf_type: Option<ElfType>,
    /// `e_flags`, whose meaning is the machine's own.
    pub flags: u32,
    /// The chip that `e_flags` name, where that is known.
    pub architecture: Option<Architecture>,
    /// The number of section headers, with the null one.
    pub sections: usize,
    /// Whether the object is to be linked before it can be loaded.
    pub linkage: Linkage,
    /// The compilers and linkers that left their names (`.comment`).
    pub compilers: Vec<String>,
    /// The stack a kernel needs, in bytes, where all records of an Ascend object agree.
    pub stack_bytes: Option<u64>,
    /// What an Ascend object says of itself as a whole (`.ascend.meta`).
    pub binary: Option<DeviceMeta>,
    /// The kernels, each name once, in the order of the symbol tables.
    pub kernels: Vec<KernelFacts>,
}

/// What an object says of one of its kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelFacts {
    /// The symbol.
    pub name: String,
    /// Where it begins in its section.
    pub offset: u64,
    /// Its length in bytes; some tools write 0.
    pub size: u64,
    /// How many bytes of arguments it takes (`__CCE_KernelArgSize`).
    pub argument_bytes: Option<u32>,
    /// What an Ascend object says of it (`.ascend.meta.<kernel>`).
    pub meta: Option<DeviceMeta>,
}

/// Whether an object can be loaded as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Linkage {
    /// It can.
    Final,
    /// It has to be linked first: it is relocatable, and has relocations, groups or undefined symbols.
    Part,
}

/// An ELF `e_machine`. Shown with its name if it is one that kernels are built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Machine(pub u16);

impl Machine {
    /// The machine's name, if it is one that kernels are built for.
    pub const fn name(self) -> Option<&'static str> {
        match self.0 {
            62 => Some("x86-64"),
            183 => Some("AArch64"),
            // Not in any public list of machines; the name is the one that Ascend's runtime uses.
            0x1029 => Some("Ascend (EM_HIIPU)"),
            _ => None,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number) = self;
        match self.name() {
            Some(name) => write!(f, "{number:#x} {name}"),
            None => write!(f, "{number:#x}"),
        }
    }
}

/// The kinds of ELF file that hold kernels. Compilers for one chip write different ones from version to version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElfType {
    /// `ET_REL`.
    Relocatable,
    /// `ET_EXEC`.
    Executable,
    /// `ET_DYN`.
    Shared,
}

impl ElfType {
    /// The kind that an `e_type` stands for.
    pub const fn from_e_type(e_type: u16) -> Option<Self> {
        match e_type {
            1 => Some(Self::Relocatable),
            2 => Some(Self::Executable),
            3 => Some(Self::Shared),
            _ => None,
        }
    }
}

impl fmt::Display for ElfType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Relocatable => "relocatable",
            Self::Executable => "executable",
            Self::Shared => "shared object",
        })
    }
}

/// The cores that an Ascend object is compiled for, by bits 16 to 23 of its `e_flags`.
///
/// Only numbers that were seen in genuine objects have names. Objects of the first generation have 0, which says
/// nothing, and what another number stands for is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Architecture {
    /// 0x8a: Ascend 310P.
    M200,
    /// 0x93: the vector cores of Ascend 910B and 910_93.
    C220Vector,
    /// 0x94: the cube cores of Ascend 910B and 910_93; also kernels of both kinds of core.
    C220Cube,
    /// 0x95: Ascend 310B.
    M300,
}

/// The chips of the first generation, whose names are the beginnings of others.
const FIRST_GENERATION: [&str; 5] =
    ["Ascend910A", "Ascend910B", "Ascend910ProA", "Ascend910ProB", "Ascend910PremiumA"];

impl Architecture {
    pub(crate) const fn from_flags(machine: Machine, flags: u32) -> Option<Self> {
        match (machine.0, flags >> 16) {
            (0x1029, 0x8a) => Some(Self::M200),
            (0x1029, 0x93) => Some(Self::C220Vector),
            (0x1029, 0x94) => Some(Self::C220Cube),
            (0x1029, 0x95) => Some(Self::M300),
            _ => None,
        }
    }

    /// The name that the compiler gives it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::M200 => "dav-m200",
            Self::C220Vector => "dav-c220-vec",
            Self::C220Cube => "dav-c220-cube",
            Self::M300 => "dav-m300",
        }
    }

    /// Whether the chip with the full name `soc` has such cores; none, if that is not known.
    ///
    /// `Ascend910B` alone is a chip of the first generation; its later namesakes all have a digit behind.
    pub(crate) fn is_of(self, soc: &str) -> Option<bool> {
        let begins = |name: &str| soc.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name));
        let own = |names: &[&str]| names.iter().any(|name| begins(name));
        let c220 = own(&["Ascend910B1", "Ascend910B2", "Ascend910B3", "Ascend910B4", "Ascend910_93"]);
        let (m200, m300) = (own(&["Ascend310P"]), own(&["Ascend310B", "AS31XM1X"]));
        // Their objects have no flags at all.
        let first = FIRST_GENERATION.iter().any(|name| soc.eq_ignore_ascii_case(name));
        if !(c220 || m200 || m300 || first) {
            return None;
        }
        Some(match self {
            Self::M200 => m200,
            Self::C220Vector | Self::C220Cube => c220,
            Self::M300 => m300,
        })
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_flags_have_a_name() {
        let name = |flags| Architecture::from_flags(Machine(0x1029), flags).map(Architecture::name);
        assert_eq!(name(0x93_0000), Some("dav-c220-vec"));
        assert_eq!(name(0x94_0001), Some("dav-c220-cube"));
        assert_eq!(name(0), None);
        assert_eq!(name(0x193_0000), None);
        assert_eq!(Architecture::from_flags(Machine(62), 0x93_0000), None);
    }

    #[test]
    fn a_chip_is_judged_only_where_its_cores_are_known() {
        let vector = Architecture::C220Vector;
        for (soc, verdict) in [
            ("Ascend910B1", Some(true)),
            ("Ascend910_9362", Some(true)),
            ("Ascend310P3", Some(false)),
            ("ascend910b4-1", Some(true)),
            ("Ascend910B", Some(false)),
            ("ASCEND910A", Some(false)),
            ("Ascend910PremiumA", Some(false)),
            ("Ascend910", None),
            ("Ascend910_95", None),
            ("Ascend", None),
        ] {
            assert_eq!(vector.is_of(soc), verdict, "{soc}");
        }
        assert_eq!(Architecture::M300.is_of("Ascend310B4"), Some(true));
        assert_eq!(Architecture::M300.is_of("AS31XM1X"), Some(true));
        assert_eq!(Architecture::M200.is_of("Ascend310B4"), Some(false));
    }
}
