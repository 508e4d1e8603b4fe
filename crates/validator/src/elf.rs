//! Reads an object with the `object` crate: borrowed, bounds-checked, in one pass over each table.

use std::collections::HashSet;

use object::LittleEndian as LE;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader as _, SectionHeader as _, SectionTable};

use crate::{ElfFacts, ElfType, Machine, Refusal};

type Header = FileHeader64<LE>;
type Sections<'a> = SectionTable<'a, Header>;

/// An object, read far enough to be judged.
pub(crate) struct Elf<'a> {
    pub(crate) machine: Machine,
    pub(crate) elf_type: ElfType,
    pub(crate) flags: u32,
    pub(crate) sections: usize,
    pub(crate) kernels: Kernels<'a>,
}

impl<'a> Elf<'a> {
    pub(crate) fn read(object: &'a [u8]) -> Result<Self, Refusal> {
        check_ident(object)?;
        let header = Header::parse(object).map_err(|error| malformed(object, "file header", error))?;
        let e_type = header.e_type(LE).0;
        let elf_type = ElfType::from_e_type(e_type).ok_or(Refusal::Type { found: e_type })?;
        let sections =
            header.sections(LE, object).map_err(|error| malformed(object, "section headers", error))?;
        check_bounds(object, &sections)?;
        Ok(Self {
            machine: Machine(header.e_machine(LE).0),
            elf_type,
            flags: header.e_flags(LE).0,
            sections: sections.len(),
            kernels: Kernels::read(object, &sections)?,
        })
    }

    pub(crate) fn facts(&self) -> ElfFacts {
        let Self { machine, elf_type, flags, sections, kernels } = self;
        let kernels =
            kernels.in_order.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        ElfFacts { machine: *machine, elf_type: *elf_type, flags: *flags, sections: *sections, kernels }
    }
}

/// The names of an object's kernels.
pub(crate) struct Kernels<'a> {
    /// Each name once, as the symbol tables order them.
    in_order: Vec<&'a [u8]>,
    names: HashSet<&'a [u8]>,
}

impl<'a> Kernels<'a> {
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.names.contains(name.as_bytes())
    }

    pub(crate) fn in_order(&self) -> &[&'a [u8]] {
        &self.in_order
    }

    fn read(object: &'a [u8], sections: &Sections<'a>) -> Result<Self, Refusal> {
        let mut kernels = Self { in_order: Vec::new(), names: HashSet::new() };
        // Names may share bytes. A file in which they do so without end could ask for time and memory that grow with
        // the square of its length, so all names together may not be longer than the file.
        let mut left = object.len();
        for (table, title) in [(elf::SHT_SYMTAB, "symbol table"), (elf::SHT_DYNSYM, "dynamic symbol table")] {
            let bad = |error: object::read::Error| malformed(object, title, error);
            let symbols = sections.symbols(LE, object, table).map_err(bad)?;
            for (index, symbol) in symbols.enumerate() {
                if symbol.st_type() != elf::STT_FUNC
                    || symbol.st_bind() != elf::STB_GLOBAL
                    || !matches!(symbol.st_visibility(), elf::STV_DEFAULT | elf::STV_PROTECTED)
                {
                    continue;
                }
                let Some(section) = symbols.symbol_section(LE, symbol, index).map_err(bad)? else { continue };
                if !holds_code(sections.section(section).map_err(bad)?) {
                    continue;
                }
                let name = symbols.symbol_name(LE, symbol).map_err(bad)?;
                left = left.checked_sub(name.len()).ok_or_else(|| {
                    malformed(object, title, "names of functions are together longer than the file")
                })?;
                if !name.is_empty() && kernels.names.insert(name) {
                    kernels.in_order.push(name);
                }
            }
        }
        Ok(kernels)
    }
}

fn holds_code(section: &elf::SectionHeader64<LE>) -> bool {
    section.sh_flags(LE).contains(elf::SHF_EXECINSTR) && section.sh_type(LE) != elf::SHT_NOBITS
}

/// The identification bytes, one by one: "not ELF" and "other class" help more than "unsupported".
fn check_ident(object: &[u8]) -> Result<(), Refusal> {
    let Some([class, data, version]) = object.strip_prefix(b"\x7fELF").and_then(|rest| rest.first_chunk())
    else {
        let found = &object[..object.len().min(4)];
        return Err(if found == b"\x7fELF" {
            malformed(object, "file header", "its identification bytes are cut off")
        } else {
            Refusal::NotElf { found: found.to_vec() }
        });
    };
    if *class != elf::ELFCLASS64.0 {
        return Err(Refusal::Class { found: *class });
    }
    if *data != elf::ELFDATA2LSB.0 {
        return Err(Refusal::Endianness { found: *data });
    }
    if *version != elf::EV_CURRENT.0 {
        return Err(malformed(object, "EI_VERSION", format_args!("expected 1, found {version}")));
    }
    Ok(())
}

/// Each section's content lies inside the file, whether or not it is read here: the loader will read it.
fn check_bounds(object: &[u8], sections: &Sections<'_>) -> Result<(), Refusal> {
    for (index, section) in sections.enumerate() {
        // The null section has no content: its size may be the number of sections.
        if section.sh_type(LE) == elf::SHT_NULL {
            continue;
        }
        if let Err(error) = section.data(LE, object) {
            return Err(malformed(object, format_args!("section {index}"), error));
        }
    }
    Ok(())
}

fn malformed(object: &[u8], structure: impl ToString, problem: impl ToString) -> Refusal {
    Refusal::Malformed { structure: structure.to_string(), problem: problem.to_string(), bytes: object.len() }
}
