//! The second opinion.

use std::collections::BTreeSet;
use std::fmt;

use goblin::container::{Container, Ctx};
use goblin::elf::header::{EI_CLASS, ELFCLASS64};
use goblin::elf::section_header::{SHF_EXECINSTR, SHN_UNDEF, SHN_XINDEX, SHT_DYNSYM, SHT_NOBITS, SHT_SYMTAB};
use goblin::elf::sym::{STB_GLOBAL, STT_FUNC, STV_DEFAULT, STV_PROTECTED, Sym, Symtab};
use goblin::elf::{Elf as Goblin, SectionHeader};
use goblin::error::{Error, Result as GoblinResult};
use goblin::strtab::Strtab;

use crate::elf::Elf;
use crate::{ElfType, Machine, Refusal};

/// The bits of `st_other` that are the visibility. goblin's own accessor takes a third one, which belongs to the machine.
const VISIBILITY: u8 = 0b11;

/// What two independent ELF parsers, `object` and `goblin`, make of the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CrossCheck {
    /// They see the same file.
    Agree {
        /// `e_machine`.
        machine: Machine,
        /// `e_type`.
        elf_type: ElfType,
        /// The number of section headers.
        sections: usize,
        /// The number of kernels, whose names were compared one by one.
        kernels: usize,
    },
    /// They do not: one of them is wrong, or the file is ambiguous. Worth a look by a person.
    Disagree {
        /// The first fact in which they differ.
        what: &'static str,
        /// The fact according to `object`.
        object: String,
        /// The fact according to `goblin`.
        goblin: String,
    },
    /// `object` cannot read the file, so `goblin` was not asked.
    Unreadable(Refusal),
    /// `object` reads the file, `goblin` does not.
    GoblinRefuses {
        /// What `goblin` says.
        problem: String,
    },
}

impl fmt::Display for CrossCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agree { machine, elf_type, sections, kernels } => {
                write!(
                    f,
                    "two parsers agree: {elf_type} for {machine}, sections: {sections}, kernels: {kernels}"
                )
            }
            Self::Disagree { what, object, goblin } => {
                write!(f, "two parsers disagree on {what}: `object` sees {object}, `goblin` sees {goblin}")
            }
            Self::Unreadable(refusal) => write!(f, "no second opinion: {refusal}"),
            Self::GoblinRefuses { problem } => {
                write!(f, "no second opinion: `goblin` cannot read it: {problem}")
            }
        }
    }
}

/// Reads `object` with both parsers and compares class, machine, type, sections and kernels.
///
/// For `inspect` and `verify`: it allocates more than [`validate`](crate::validate), and a build has no use for it.
pub fn cross_check(object: &[u8]) -> CrossCheck {
    // goblin gets only what `object` found to be inside the file: nothing here depends on its own checks of bounds.
    let ours = match Elf::read(object) {
        Ok(ours) => ours,
        Err(refusal) => return CrossCheck::Unreadable(refusal),
    };
    match Theirs::read(object) {
        Ok(theirs) => compare(&ours, &theirs),
        Err(error) => CrossCheck::GoblinRefuses { problem: error.to_string() },
    }
}

fn compare(ours: &Elf<'_>, theirs: &Theirs<'_>) -> CrossCheck {
    let disagree = |what, object: &dyn fmt::Display, goblin: &dyn fmt::Display| CrossCheck::Disagree {
        what,
        object: object.to_string(),
        goblin: goblin.to_string(),
    };
    // `object` was told to read ELF64 and nothing else.
    if theirs.class != ELFCLASS64 {
        return disagree("EI_CLASS", &ELFCLASS64, &theirs.class);
    }
    if theirs.machine != ours.machine {
        return disagree("e_machine", &ours.machine, &theirs.machine);
    }
    let Some(elf_type) = ElfType::from_e_type(theirs.e_type).filter(|elf_type| *elf_type == ours.elf_type)
    else {
        return disagree("e_type", &ours.elf_type, &theirs.e_type);
    };
    if theirs.sections != ours.sections {
        return disagree("the number of sections", &ours.sections, &theirs.sections);
    }
    let names: BTreeSet<&[u8]> = ours.kernels.in_order().iter().copied().collect();
    if let Some(name) = names.symmetric_difference(&theirs.kernels).next() {
        let sees = |names: &BTreeSet<&[u8]>| match names.contains(name) {
            true => crate::refusal::shown(name),
            false => format!("no such name among {}", names.len()),
        };
        return disagree("the names of the kernels", &sees(&names), &sees(&theirs.kernels));
    }
    CrossCheck::Agree { machine: ours.machine, elf_type, sections: ours.sections, kernels: names.len() }
}

/// What goblin makes of an object.
struct Theirs<'a> {
    class: u8,
    machine: Machine,
    e_type: u16,
    sections: usize,
    kernels: BTreeSet<&'a [u8]>,
}

impl<'a> Theirs<'a> {
    /// Reads the pieces that are compared, and not all that goblin can read: the rest (relocations, notes, versions)
    /// is no concern of a kernel's identity, and only more that may go wrong.
    fn read(object: &'a [u8]) -> GoblinResult<Self> {
        let header = Goblin::parse_header(object)?;
        let ctx = Ctx::new(header.container()?, header.endianness()?);
        let sections = match header.e_shoff {
            0 => Vec::new(),
            offset => SectionHeader::parse(object, number(offset)?, usize::from(header.e_shnum), ctx)?,
        };
        let mut kernels = BTreeSet::new();
        for kind in [SHT_SYMTAB, SHT_DYNSYM] {
            if let Some(table) = sections.iter().find(|section| section.sh_type == kind) {
                add_kernels(object, &sections, table, ctx, &mut kernels)?;
            }
        }
        Ok(Self {
            class: header.e_ident[EI_CLASS],
            machine: Machine(header.e_machine),
            e_type: header.e_type,
            sections: sections.len(),
            kernels,
        })
    }
}

fn add_kernels<'a>(
    object: &'a [u8],
    sections: &[SectionHeader],
    table: &SectionHeader,
    ctx: Ctx,
    kernels: &mut BTreeSet<&'a [u8]>,
) -> GoblinResult<()> {
    if table.sh_size == 0 {
        return Ok(());
    }
    let count = number(table.sh_size)? / Sym::size(Container::Big);
    let symbols = Symtab::parse(object, number(table.sh_offset)?, count, ctx)?;
    let strings = match sections.get(number(table.sh_link)?) {
        Some(strings) => Strtab::parse(object, number(strings.sh_offset)?, number(strings.sh_size)?, 0)?,
        None => Strtab::default(),
    };
    for symbol in symbols.iter() {
        if symbol.st_type() != STT_FUNC
            || symbol.st_bind() != STB_GLOBAL
            || !matches!(symbol.st_other & VISIBILITY, STV_DEFAULT | STV_PROTECTED)
        {
            continue;
        }
        if symbol.st_shndx == number(SHN_XINDEX)? {
            return Err(Error::Malformed("it does not read extended section indexes".to_owned()));
        }
        // The other numbers that are no section's are too large to be one, but the null section has a header.
        if symbol.st_shndx == number(SHN_UNDEF)? {
            continue;
        }
        let holds_code = |section: &SectionHeader| {
            section.sh_flags & u64::from(SHF_EXECINSTR) != 0 && section.sh_type != SHT_NOBITS
        };
        if sections.get(symbol.st_shndx).is_some_and(holds_code)
            && let Some(name) = strings.get_at(symbol.st_name)
            && !name.is_empty()
        {
            kernels.insert(name.as_bytes());
        }
    }
    Ok(())
}

fn number<T: TryInto<usize> + Copy + fmt::Display>(value: T) -> GoblinResult<usize> {
    value.try_into().map_err(|_| Error::Malformed(format!("{value} is out of range")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header, and nothing else.
    fn bare() -> Vec<u8> {
        let mut object = vec![0; 64];
        object[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
        object[16] = 3;
        object[18] = 62;
        object
    }

    #[test]
    fn each_fact_is_compared() {
        let object = bare();
        let ours = Elf::read(&object).unwrap();
        let theirs = || Theirs::read(&object).unwrap();
        assert_eq!(compare(&ours, &theirs()), cross_check(&object));
        assert!(matches!(cross_check(&object), CrossCheck::Agree { machine: Machine(62), kernels: 0, .. }));

        for (theirs, fact) in [
            (Theirs { class: 1, ..theirs() }, "EI_CLASS"),
            (Theirs { machine: Machine(183), ..theirs() }, "e_machine"),
            (Theirs { e_type: 2, ..theirs() }, "e_type"),
            (Theirs { e_type: 77, ..theirs() }, "e_type"),
            (Theirs { sections: 1, ..theirs() }, "the number of sections"),
            (Theirs { kernels: BTreeSet::from([&b"add"[..]]), ..theirs() }, "the names of the kernels"),
        ] {
            let verdict = compare(&ours, &theirs);
            assert!(
                matches!(verdict, CrossCheck::Disagree { what, .. } if what == fact),
                "{fact}: {verdict}"
            );
        }
    }

    #[test]
    fn a_disagreement_shows_both_sides() {
        let object = bare();
        let kernels = BTreeSet::from([&b"add"[..]]);
        let theirs = Theirs { kernels, ..Theirs::read(&object).unwrap() };
        assert_eq!(
            compare(&Elf::read(&object).unwrap(), &theirs).to_string(),
            "two parsers disagree on the names of the kernels: `object` sees no such name among 0, `goblin` sees add"
        );
    }
}
