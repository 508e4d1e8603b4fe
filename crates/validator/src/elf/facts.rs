//! The facts that an object states.

use std::fmt;

use crate::cann::device::DeviceMeta;
use opkeep_cann_meta::{Architecture, Family, targets};

/// The facts of an ELF object. Names are text: bytes that are not UTF-8 are replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ElfFacts {
    /// The object's size in bytes.
    pub bytes: usize,
    /// `e_machine`.
    pub machine: Machine,
    /// `e_type`; `None` for a type that holds no kernels.
    pub elf_type: Option<ElfType>,
    /// `e_flags`, whose meaning depends on the machine.
    pub flags: u32,
    /// The cores in `e_flags`, if known.
    pub architecture: Option<Architecture>,
    /// The chips that load it, if known.
    pub family: Option<Family>,
    /// The number of section headers, including the null section's.
    pub sections: usize,
    /// Whether the object must be linked before it can be loaded.
    pub linkage: Linkage,
    /// The names of compilers and linkers in `.comment`.
    pub compilers: Vec<String>,
    /// The stack size of a kernel in bytes, if all records of an Ascend object agree.
    pub stack_bytes: Option<u64>,
    /// The metadata of an Ascend object as a whole (`.ascend.meta`).
    pub binary: Option<DeviceMeta>,
    /// The kernels, one for each name, in the order of the symbol tables.
    pub kernels: Vec<KernelFacts>,
}

/// The facts of one kernel in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelFacts {
    /// The symbol.
    pub name: String,
    /// Its offset in its section.
    pub offset: u64,
    /// Its size in bytes; some tools write 0.
    pub size: u64,
    /// The size of its arguments in bytes (`__CCE_KernelArgSize`).
    pub argument_bytes: Option<u32>,
    /// Its metadata in an Ascend object (`.ascend.meta.<kernel>`).
    pub meta: Option<DeviceMeta>,
}

/// Whether an object can be loaded without linking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Linkage {
    /// It can.
    Final,
    /// It must be linked first: it is relocatable, and has relocations, groups or undefined symbols.
    Part,
}

/// An ELF `e_machine`. Displays its name if kernels are built for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Machine(pub u16);

impl Machine {
    /// The machine's name, if kernels are built for it.
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

/// A value of `e_flags`, displayed in hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(pub u32);

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The types of ELF files that hold kernels. Different versions of a chip's compiler write different types.
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
    /// The type of an `e_type` value.
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
