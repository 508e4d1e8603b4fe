//! Reads an object with the `object` crate: borrowed, bounds-checked, in one pass over each table.

pub(crate) mod facts;
pub(crate) mod layout;
pub(crate) mod outline;
pub(crate) mod sections;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, SectionTable, Sym as _};
use object::{LittleEndian as LE, SectionIndex};

use crate::code::Code;
use crate::elf::facts::{ElfType, Machine};
use crate::findings::Findings;
use crate::problem::ObjectProblem;

type Header = FileHeader64<LE>;
type Sections<'a> = SectionTable<'a, Header>;
type Section = elf::SectionHeader64<LE>;
type Symbol = elf::Sym64<LE>;

/// The size of a section header of ELF64.
const HEADER_BYTES: u16 = 64;
/// The size of a symbol of ELF64.
const SYMBOL_BYTES: u64 = 24;

/// An object, read far enough for validation.
pub(crate) struct Elf<'a> {
    pub(crate) bytes: &'a [u8],
    header: &'a Header,
    pub(crate) machine: Machine,
    pub(crate) e_type: u16,
    pub(crate) flags: u32,
    /// `e_shnum` as stored. It is 0 if the null section holds the number, as for very many sections.
    pub(crate) e_shnum: u16,
    pub(crate) sections: Sections<'a>,
    pub(crate) symbols: Symbols<'a>,
    /// Whether some table was not read completely, so that a missing symbol may still exist.
    pub(crate) is_incomplete: bool,
}

impl<'a> Elf<'a> {
    /// Reads an object as far as possible; `None` without a valid header.
    pub(crate) fn read(bytes: &'a [u8], findings: &mut Findings) -> Option<Self> {
        let mut elf = Self::read_header(bytes, findings)?;
        if elf.read_sections(findings).is_some() {
            elf.is_incomplete = !elf.check_bounds(findings);
            elf.is_incomplete |= !elf.read_symbols(findings);
        }
        Some(elf)
    }

    /// Reads only the header.
    pub(crate) fn read_header(bytes: &'a [u8], findings: &mut Findings) -> Option<Self> {
        check_ident(bytes, findings)?;
        let header = match Header::parse(bytes) {
            Ok(header) => header,
            Err(error) => {
                malformed(bytes, findings, "file header", error);
                return None;
            }
        };
        Some(Self {
            bytes,
            header,
            machine: Machine(header.e_machine(LE).0),
            e_type: header.e_type(LE).0,
            flags: header.e_flags(LE).0,
            e_shnum: header.e_shnum(LE),
            sections: Sections::default(),
            symbols: Symbols::default(),
            is_incomplete: true,
        })
    }

    fn read_sections(&mut self, findings: &mut Findings) -> Option<()> {
        let found = self.header.e_shentsize(LE);
        if self.header.e_shoff(LE) != 0 && found != HEADER_BYTES {
            findings.add(Code::ENTRY_SIZE, || ObjectProblem::EntrySize { found });
            return None;
        }
        match self.named_sections() {
            Ok(sections) => self.sections = sections,
            Err(problem) => {
                malformed(self.bytes, findings, "section headers", problem);
                return None;
            }
        }
        Some(())
    }

    /// The sections, if their names can be read: several rules find sections by name.
    fn named_sections(&self) -> Result<Sections<'a>, String> {
        let message = |error: object::read::Error| error.to_string();
        let sections = self.header.sections(LE, self.bytes).map_err(message)?;
        if sections.is_empty() {
            return Ok(sections);
        }
        let names = self.header.shstrndx(LE, self.bytes).map_err(message)?;
        let at = SectionIndex(usize::try_from(names).unwrap_or(usize::MAX));
        let holds_names = sections.section(at).is_ok_and(|section| section.sh_type(LE) == elf::SHT_STRTAB);
        if holds_names {
            Ok(sections)
        } else {
            Err(format!("e_shstrndx is {names}, which is no string table"))
        }
    }

    pub(crate) fn elf_type(&self) -> Option<ElfType> {
        ElfType::from_e_type(self.e_type)
    }

    /// Checks that the table of program headers and the loaded segments lie inside the file.
    pub(crate) fn check_segments(&self, findings: &mut Findings) {
        let segments = match self.header.program_headers(LE, self.bytes) {
            Ok(segments) => segments,
            Err(error) => return malformed(self.bytes, findings, "program headers", error),
        };
        for (index, segment) in segments.iter().enumerate() {
            if segment.p_type(LE) == elf::PT_LOAD && segment.data(LE, self.bytes).is_err() {
                let problem = "the loaded segment is not inside the file";
                malformed(self.bytes, findings, format_args!("program header {index}"), problem);
            }
        }
    }

    /// The names of all defined symbols, as far as they can be read.
    pub(crate) fn defined_names(&self) -> Vec<&'a [u8]> {
        let mut names = Vec::new();
        let mut left = self.bytes.len();
        let Ok(symbols) = self.sections.symbols(LE, self.bytes, elf::SHT_SYMTAB) else { return names };
        for symbol in symbols.iter() {
            let named = !matches!(symbol.st_type(), elf::STT_FILE | elf::STT_SECTION);
            if !named || symbol.st_shndx(LE) == elf::SHN_UNDEF {
                continue;
            }
            let name = symbols.symbol_name(LE, symbol).unwrap_or_default();
            let Some(rest) = left.checked_sub(name.len()) else { break };
            left = rest;
            names.push(name);
        }
        names
    }

    /// The symbols of both tables for which `is_wanted` holds, and for whose names `has_name`.
    ///
    /// # Errors
    /// If a table is damaged, or the names together are longer than the file, since they share bytes.
    pub(crate) fn named_symbols(
        &self,
        is_wanted: impl Fn(&Symbol) -> bool,
        has_name: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<NamedSymbol<'a>>, String> {
        let message = |error: object::read::Error| error.to_string();
        let (mut found, mut left) = (Vec::new(), self.bytes.len());
        for table in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
            let symbols = self.sections.symbols(LE, self.bytes, table).map_err(message)?;
            for (index, symbol) in symbols.enumerate().filter(|(_, symbol)| is_wanted(symbol)) {
                let name = symbols.symbol_name(LE, symbol).map_err(message)?;
                left = left.checked_sub(name.len()).ok_or("the names exceed the length of the file")?;
                if !has_name(name) {
                    continue;
                }
                let section = symbols.symbol_section(LE, symbol, index).map_err(message)?;
                found.push(NamedSymbol { table, index: index.0, symbol, name, section });
            }
        }
        Ok(found)
    }

    /// The sections with their names, until the names together are longer than the file, since they share bytes.
    pub(crate) fn sections_with_names(&self) -> impl Iterator<Item = (&'a [u8], &'a Section)> {
        let mut left = self.bytes.len();
        self.sections.iter().map_while(move |section| {
            let name = self.sections.section_name(LE, section).unwrap_or_default();
            left = left.checked_sub(name.len())?;
            Some((name, section))
        })
    }

    /// Checks that the contents of every section lie inside the file, since the loader reads sections that are not read
    /// here.
    fn check_bounds(&self, findings: &mut Findings) -> bool {
        let mut is_complete = true;
        for (index, section) in self.sections.enumerate() {
            // The null section has no contents: its size may be the number of sections.
            if section.sh_type(LE) == elf::SHT_NULL {
                continue;
            }
            if let Err(error) = section.data(LE, self.bytes) {
                malformed(self.bytes, findings, format_args!("section {index}"), error);
                is_complete = false;
            }
            let entry = section.sh_entsize(LE);
            if matches!(section.sh_type(LE), elf::SHT_SYMTAB | elf::SHT_DYNSYM) && entry != SYMBOL_BYTES {
                let problem = format_args!("sh_entsize is {entry}, expected {SYMBOL_BYTES}");
                malformed(self.bytes, findings, format_args!("section {index}"), problem);
            }
            let found = section.sh_link(LE);
            let sections = self.sections.len();
            if usize::try_from(found).is_ok_and(|found| found >= sections) {
                let section = index.0;
                findings.add(Code::LINK, || ObjectProblem::Link { section, found, sections });
            }
        }
        is_complete
    }

    fn read_symbols(&mut self, findings: &mut Findings) -> bool {
        let mut is_complete = true;
        // Names may share bytes. To keep time and memory linear in a hostile file, the total length of all names is
        // limited to the length of the file.
        let mut left = self.bytes.len();
        for (table, title) in [(elf::SHT_SYMTAB, "symbol table"), (elf::SHT_DYNSYM, "dynamic symbol table")] {
            if let Err(problem) = self.symbols.read(self.bytes, &self.sections, table, &mut left) {
                malformed(self.bytes, findings, title, problem);
                is_complete = false;
            }
        }
        is_complete
    }
}

/// A symbol, its name, and its section if it has one.
pub(crate) struct NamedSymbol<'a> {
    /// The kind of its table,
    pub(crate) table: elf::SectionType,
    /// and its index there.
    pub(crate) index: usize,
    pub(crate) symbol: &'a Symbol,
    pub(crate) name: &'a [u8],
    pub(crate) section: Option<SectionIndex>,
}

impl NamedSymbol<'_> {
    /// Whether both are the same apart from their tables.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let properties = |Self { symbol, section, .. }: &Self| {
            (*section, symbol.st_value(LE), symbol.st_size(LE), symbol.st_info(), symbol.st_other())
        };
        properties(self) == properties(other)
    }
}

/// The contents of the symbol tables.
#[derive(Default)]
pub(crate) struct Symbols<'a> {
    /// The kernels, one for each name, in the order of the tables.
    pub(crate) kernels: Vec<Kernel<'a>>,
    by_name: HashMap<&'a [u8], usize>,
    /// Weak functions that otherwise are kernels.
    weak: Vec<Kernel<'a>>,
    /// The first name of two different functions.
    pub(crate) same_name: Option<&'a [u8]>,
    /// The number of symbols of any kind.
    pub(crate) total: usize,
    /// The number of functions of any kind.
    pub(crate) functions: usize,
    /// The number of undefined symbols,
    pub(crate) undefined: usize,
    /// and the name of the first.
    pub(crate) first_undefined: &'a [u8],
}

/// A function that can be launched by name.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Kernel<'a> {
    pub(crate) name: &'a [u8],
    /// The index of its section.
    pub(crate) section: usize,
    /// `st_value`: an offset in relocatable objects, an address in others.
    pub(crate) value: u64,
    pub(crate) size: u64,
}

impl<'a> Symbols<'a> {
    /// The index of a kernel.
    pub(crate) fn find(&self, name: &[u8]) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Adds each weak function whose name no other function has.
    pub(crate) fn add_weak(&mut self) {
        for kernel in std::mem::take(&mut self.weak) {
            if let Entry::Vacant(place) = self.by_name.entry(kernel.name) {
                place.insert(self.kernels.len());
                self.kernels.push(kernel);
            }
        }
    }

    fn read(
        &mut self,
        bytes: &'a [u8],
        sections: &Sections<'a>,
        table: elf::SectionType,
        left: &mut usize,
    ) -> Result<(), String> {
        let message = |error: object::read::Error| error.to_string();
        let symbols = sections.symbols(LE, bytes, table).map_err(message)?;
        self.total += symbols.len();
        for (index, symbol) in symbols.enumerate() {
            let is_function = symbol.st_type() == elf::STT_FUNC;
            self.functions += usize::from(is_function);
            if symbol.st_shndx(LE) == elf::SHN_UNDEF {
                self.count_undefined(index.0, symbol, || symbols.symbol_name(LE, symbol).unwrap_or_default());
                continue;
            }
            if !is_function || !is_visible(symbol) {
                continue;
            }
            let Some(section) = symbols.symbol_section(LE, symbol, index).map_err(message)? else { continue };
            if !holds_code(sections.section(section).map_err(message)?) {
                continue;
            }
            let name = symbols.symbol_name(LE, symbol).map_err(message)?;
            *left = left
                .checked_sub(name.len())
                .ok_or_else(|| "the names of functions exceed the length of the file".to_owned())?;
            if name.is_empty() {
                continue;
            }
            let kernel =
                Kernel { name, section: section.0, value: symbol.st_value(LE), size: symbol.st_size(LE) };
            if symbol.st_bind() == elf::STB_WEAK {
                self.weak.push(kernel);
                continue;
            }
            match self.by_name.entry(name) {
                Entry::Vacant(place) => {
                    place.insert(self.kernels.len());
                    self.kernels.push(kernel);
                }
                // A shared object has its symbols in both tables.
                Entry::Occupied(place) if self.kernels[*place.get()] != kernel => {
                    self.same_name.get_or_insert(name);
                }
                Entry::Occupied(_) => {}
            }
        }
        Ok(())
    }

    /// The null symbol is undefined and has no meaning.
    fn count_undefined(&mut self, index: usize, symbol: &Symbol, name: impl FnOnce() -> &'a [u8]) {
        if index == 0 || symbol.st_bind() == elf::STB_LOCAL {
            return;
        }
        if self.undefined == 0 {
            self.first_undefined = name();
        }
        self.undefined += 1;
    }
}

pub(crate) fn is_visible(symbol: &Symbol) -> bool {
    matches!(symbol.st_bind(), elf::STB_GLOBAL | elf::STB_WEAK)
        && matches!(symbol.st_visibility(), elf::STV_DEFAULT | elf::STV_PROTECTED)
}

fn holds_code(section: &Section) -> bool {
    section.sh_flags(LE).contains(elf::SHF_EXECINSTR) && section.sh_type(LE) != elf::SHT_NOBITS
}

/// The identification bytes are checked one by one: "not ELF" and "other class" are more helpful than "unsupported".
fn check_ident(bytes: &[u8], findings: &mut Findings) -> Option<()> {
    let Some([class, data, version]) = bytes.strip_prefix(b"\x7fELF").and_then(|rest| rest.first_chunk())
    else {
        let found = &bytes[..bytes.len().min(4)];
        if found == b"\x7fELF" {
            malformed(bytes, findings, "file header", "its identification bytes are cut off");
        } else {
            findings.add(Code::NOT_ELF, || ObjectProblem::NotElf { found: found.to_vec() });
        }
        return None;
    };
    if *class != elf::ELFCLASS64.0 {
        findings.add(Code::CLASS, || ObjectProblem::Class { found: *class });
        return None;
    }
    if *data != elf::ELFDATA2LSB.0 {
        findings.add(Code::ENDIANNESS, || ObjectProblem::Endianness { found: *data });
        return None;
    }
    if *version != elf::EV_CURRENT.0 {
        malformed(bytes, findings, "EI_VERSION", format_args!("expected 1, found {version}"));
        return None;
    }
    Some(())
}

pub(crate) fn malformed(
    bytes: &[u8],
    findings: &mut Findings,
    structure: impl ToString,
    problem: impl ToString,
) {
    findings.add(Code::MALFORMED, || ObjectProblem::Malformed {
        structure: structure.to_string(),
        problem: problem.to_string(),
        bytes: bytes.len(),
    });
}
