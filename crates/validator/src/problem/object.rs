//! Problems of an object as an ELF file: its header, its machine, its sections.

use opkeep_cann_meta::{Family, unjudged};
use thiserror::Error;

use crate::code::Code;
use crate::display::{Bytes, list};
use crate::elf::facts::{ElfType, Flags, Machine};

/// What is wrong with an object as a file, or noteworthy.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ObjectProblem {
    /// The object is no ELF file: text, an archive, nothing at all.
    #[error("the object is not ELF: expected 7f 45 4c 46 at its beginning, found {}", Bytes(.found))]
    NotElf {
        /// The object's first bytes, at most four.
        found: Vec<u8>,
    },
    /// The object is an ELF file, but not of 64 bits.
    #[error("`EI_CLASS` of the object: expected 2 (ELF64), found {found}")]
    Class {
        /// What stands there; 1 is ELF32.
        found: u8,
    },
    /// The object is an ELF file, but not little-endian.
    #[error("`EI_DATA` of the object: expected 1 (little-endian), found {found}")]
    Endianness {
        /// What stands there; 2 is big-endian.
        found: u8,
    },
    /// The object is for another machine.
    #[error("`e_machine` of the object: {target} expects {}, found {found}", list(.expected))]
    Machine {
        /// The target.
        target: String,
        /// The machines that it loads.
        expected: Vec<Machine>,
        /// What stands there.
        found: Machine,
    },
    /// The object is for other chips.
    #[error("`e_flags` of the object, {flags:#x}: expected those of {target}, found those of {found}")]
    Chip {
        /// The target.
        target: String,
        /// What stands there.
        flags: u32,
        /// The chips that it stands for.
        found: Family,
    },
    /// For which chips the object is cannot be compared with what it should be for.
    #[error("{}; its `e_flags` are {flags:#x}", unjudged(.chip))]
    UnknownChip {
        /// What is named.
        chip: String,
        /// What stands in the object.
        flags: u32,
    },
    /// The object is a kind of ELF file that the target cannot load.
    #[error("`e_type` of the object: expected {expected}, found {found}")]
    Type {
        /// What may stand there.
        expected: &'static str,
        /// What stands there.
        found: u16,
    },
    /// The object is a kind of ELF file that this target's compilers do not write.
    #[error("`e_type` of the object: expected {expected}, found {found}")]
    UnusualType {
        /// What usually stands there.
        expected: &'static str,
        /// What stands there.
        found: ElfType,
    },
    /// The object is an ELF file that was cut off, or that no correct tool wrote.
    #[error("the object is truncated or malformed: {structure}: {problem}, in {bytes} bytes")]
    Malformed {
        /// The ELF structure that cannot be read, such as `section 3`.
        structure: String,
        /// What is wrong with it.
        problem: String,
        /// The object's length.
        bytes: usize,
    },
    /// There are no section headers.
    #[error("`e_shnum` of the object: expected at least 1, found 0")]
    NoSections,
    /// There is no function symbol.
    #[error("expected at least one function among the object's {symbols} symbols, found none")]
    NoFunction {
        /// The number of symbols.
        symbols: usize,
    },
    /// A section refers to one that does not exist.
    #[error("`sh_link` of section {section}: expected less than {sections}, found {found}")]
    Link {
        /// The section.
        section: usize,
        /// What stands there.
        found: u32,
        /// The number of sections.
        sections: usize,
    },
    /// The section headers have another size.
    #[error("`e_shentsize` of the object: expected 64, found {found}")]
    EntrySize {
        /// What stands there.
        found: u16,
    },
    /// The target loads objects with other flags.
    #[error(
        "`e_flags` of the object are {found:#x}, expected bits {mask:#x} to be {} for {target}",
        list(expected)
    )]
    Flags {
        /// The target.
        target: String,
        /// The bits that count.
        mask: u32,
        /// What they may be.
        expected: Vec<Flags>,
        /// What they are.
        found: u32,
    },
    /// The first loaded section is another, or elsewhere.
    #[error("expected `.text` at address 0 as the first loaded section, found `{section}` at {address:#x}")]
    TextPlace {
        /// The section.
        section: String,
        /// Its address.
        address: u64,
    },
    /// A loaded section stands elsewhere in the file than its address says.
    #[error(
        "section `{section}`: expected at offset {expected:#x} of the file by its address, found at {found:#x}"
    )]
    Gap {
        /// The section.
        section: String,
        /// Where it should stand, as the first loaded section does.
        expected: u64,
        /// Where it stands.
        found: u64,
    },
    /// A loaded section has no bytes.
    #[error("section `{section}`: expected bytes in the file, since it is loaded, found NOBITS")]
    LoadedNobits {
        /// The section.
        section: String,
    },
    /// A symbol is not defined.
    #[error("expected every symbol to be defined, found `{symbol}` undefined, one of {count}")]
    Undefined {
        /// The first such symbol.
        symbol: String,
        /// How many there are.
        count: usize,
    },
    /// There is a dynamic section.
    #[error("section `{section}`: expected nothing for a dynamic loader")]
    Dynamic {
        /// The section.
        section: String,
    },
}

impl ObjectProblem {
    /// The code.
    pub const fn code(&self) -> Code {
        match self {
            Self::NotElf { .. } => Code::NOT_ELF,
            Self::Class { .. } => Code::CLASS,
            Self::Endianness { .. } => Code::ENDIANNESS,
            Self::Machine { .. } => Code::MACHINE,
            Self::Chip { .. } => Code::CHIP,
            Self::UnknownChip { .. } => Code::UNKNOWN_CHIP,
            Self::Type { .. } => Code::TYPE,
            Self::UnusualType { .. } => Code::UNUSUAL_TYPE,
            Self::Malformed { .. } => Code::MALFORMED,
            Self::NoSections => Code::NO_SECTIONS,
            Self::NoFunction { .. } => Code::NO_FUNCTION,
            Self::Link { .. } => Code::LINK,
            Self::EntrySize { .. } => Code::ENTRY_SIZE,
            Self::Flags { .. } => Code::FLAGS,
            Self::TextPlace { .. } => Code::TEXT_PLACE,
            Self::Gap { .. } => Code::GAP,
            Self::LoadedNobits { .. } => Code::LOADED_NOBITS,
            Self::Undefined { .. } => Code::UNDEFINED,
            Self::Dynamic { .. } => Code::DYNAMIC,
        }
    }
}
