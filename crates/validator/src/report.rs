//! What the validator saw in a kernel that it accepted.

use std::fmt;

use opbuild_artifact::KernelMeta;

/// A kernel that keeps every rule, field by field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The `.json`.
    pub meta: KernelMeta,
    /// The object.
    pub object: ElfFacts,
}

/// What an ELF object says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ElfFacts {
    /// `e_machine`.
    pub machine: Machine,
    /// `e_type`.
    pub elf_type: ElfType,
    /// `e_flags`, whose meaning is the machine's own. Never judged.
    pub flags: u32,
    /// The number of section headers, with the null one.
    pub sections: usize,
    /// The names of the kernels, each once, in the order of the symbol tables. Bytes that are not UTF-8 are replaced.
    pub kernels: Vec<String>,
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
