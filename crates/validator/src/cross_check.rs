//! The cross check with a second ELF parser.

use std::collections::BTreeSet;
use std::fmt;

use goblin::container::{Container, Ctx};
use goblin::elf::header::{EI_CLASS, ELFCLASS64};
use goblin::elf::section_header::{SHF_EXECINSTR, SHN_UNDEF, SHN_XINDEX, SHT_DYNSYM, SHT_NOBITS, SHT_SYMTAB};
use goblin::elf::sym::{STB_GLOBAL, STT_FUNC, STV_DEFAULT, STV_PROTECTED, Sym, Symtab};
use goblin::elf::{Elf as Goblin, SectionHeader};
use goblin::error::{Error, Result as GoblinResult};
use goblin::strtab::Strtab;

use crate::display::shown;
use crate::elf::Elf;
use crate::elf::facts::Machine;
use crate::findings::Findings;
use crate::problem::Problem;

/// The visibility bits of `st_other`. goblin's accessor includes a third bit, which is machine-specific.
const VISIBILITY: u8 = 0b11;

/// The facts in which two independent ELF parsers, `object` and `goblin`, agree. For a fat binary: machine and type of
/// the first object, and the numbers of sections and kernels of all objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrossCheck {
    /// `e_machine`.
    pub machine: Machine,
    /// `e_type`.
    pub elf_type: u16,
    /// The number of section headers.
    pub sections: usize,
    /// The number of kernels, whose names were all compared.
    pub kernels: usize,
}

impl fmt::Display for CrossCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, elf_type, sections, kernels } = self;
        write!(f, "two parsers agree: {machine}, type {elf_type}, sections: {sections}, kernels: {kernels}")
    }
}

/// Reads `objects` with both parsers, and compares class, machine, type, sections and kernels. The second parser gets
/// only objects that the first has read completely, so that nothing depends on goblin's bounds checks, and no object
/// without sections, where there is nothing to compare. All objects of a fat binary are compared, and the first
/// disagreement is reported.
pub(crate) fn of(objects: &[&[u8]]) -> Result<Option<CrossCheck>, Problem> {
    let mut cross_check: Option<CrossCheck> = None;
    for object in objects {
        let worth = |ours: &Elf<'_>| !ours.is_incomplete && !ours.sections.is_empty();
        let Some(ours) = Elf::read(object, &mut Findings::new()).filter(worth) else { return Ok(None) };
        let outcome = match Theirs::read(object) {
            Ok(theirs) => compare(&ours, &theirs),
            Err(error) => Err(Problem::SecondParser { problem: shown(error.to_string().as_bytes()) }),
        };
        match (outcome, &mut cross_check) {
            (Ok(one), Some(all)) => {
                all.sections += one.sections;
                all.kernels += one.kernels;
            }
            (Ok(one), None) => cross_check = Some(one),
            (Err(problem), _) => return Err(problem),
        }
    }
    Ok(cross_check)
}

fn compare(ours: &Elf<'_>, theirs: &Theirs<'_>) -> Result<CrossCheck, Problem> {
    let disagree = |fact, object: &dyn fmt::Display, goblin: &dyn fmt::Display| {
        Err(Problem::Disagree { fact, object: object.to_string(), goblin: goblin.to_string() })
    };
    // `object` reads only ELF64 here.
    if theirs.class != ELFCLASS64 {
        return disagree("EI_CLASS", &ELFCLASS64, &theirs.class);
    }
    if theirs.machine != ours.machine {
        return disagree("e_machine", &ours.machine, &theirs.machine);
    }
    if theirs.e_type != ours.e_type {
        return disagree("e_type", &ours.e_type, &theirs.e_type);
    }
    if theirs.sections != ours.sections.len() {
        return disagree("the number of sections", &ours.sections.len(), &theirs.sections);
    }
    let names: BTreeSet<&[u8]> = opkeep_order::set(ours.symbols.kernels.iter().map(|kernel| kernel.name));
    if let Some(name) = names.symmetric_difference(&theirs.kernels).next() {
        let sees = |names: &BTreeSet<&[u8]>| match names.contains(name) {
            true => shown(name),
            false => format!("no such name among {}", names.len()),
        };
        return disagree("the names of the kernels", &sees(&names), &sees(&theirs.kernels));
    }
    let (machine, elf_type) = (ours.machine, ours.e_type);
    Ok(CrossCheck { machine, elf_type, sections: theirs.sections, kernels: names.len() })
}

/// goblin's view of an object.
struct Theirs<'a> {
    class: u8,
    machine: Machine,
    e_type: u16,
    sections: usize,
    kernels: BTreeSet<&'a [u8]>,
}

impl<'a> Theirs<'a> {
    /// Reads only the compared tables: the others (relocations, notes, versions) do not identify a kernel, and reading
    /// them can only add errors.
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
        // Other reserved indices exceed the number of sections, but index 0 (undefined) has a header.
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

    /// A file header alone.
    fn bare() -> Vec<u8> {
        let mut object = vec![0; 64];
        object[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
        object[16] = 3;
        object[18] = 62;
        object
    }

    fn ours(object: &[u8]) -> Elf<'_> {
        Elf::read(object, &mut Findings::new()).unwrap()
    }

    #[test]
    fn each_fact_is_compared() {
        let object = bare();
        let ours = ours(&object);
        let theirs = || Theirs::read(&object).unwrap();
        let cross_check = CrossCheck { machine: Machine(62), elf_type: 3, sections: 0, kernels: 0 };
        assert_eq!(compare(&ours, &theirs()), Ok(cross_check));

        for (theirs, fact) in [
            (Theirs { class: 1, ..theirs() }, "EI_CLASS"),
            (Theirs { machine: Machine(183), ..theirs() }, "e_machine"),
            (Theirs { e_type: 2, ..theirs() }, "e_type"),
            (Theirs { sections: 1, ..theirs() }, "the number of sections"),
            (Theirs { kernels: BTreeSet::from([&b"add"[..]]), ..theirs() }, "the names of the kernels"),
        ] {
            let verdict = compare(&ours, &theirs);
            assert!(
                matches!(verdict, Err(Problem::Disagree { fact: found, .. }) if found == fact),
                "{fact}: {verdict:?}"
            );
        }
    }

    #[test]
    fn a_disagreement_shows_both_sides() {
        let object = bare();
        let kernels = BTreeSet::from([&b"add"[..]]);
        let theirs = Theirs { kernels, ..Theirs::read(&object).unwrap() };
        assert_eq!(
            compare(&ours(&object), &theirs).unwrap_err().to_string(),
            "two parsers disagree on the names of the kernels: `object` sees no such name among 0, `goblin` sees add"
        );
    }
}
