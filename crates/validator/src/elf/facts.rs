//! What an object says of itself.

use std::fmt;

use crate::cann::device::DeviceMeta;
use opkeep_cann_meta::{Architecture, Family, targets};

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
    /// The cores that `e_flags` name, where that is known.
    pub architecture: Option<Architecture>,
    /// The chips that load it, where that is known.
    pub family: Option<Family>,
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
        targets::machine_name(self.0)
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

/// A value of `e_flags`, shown as hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(pub u32);

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
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
