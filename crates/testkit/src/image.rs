//! A writer of ELF files that gives control over the order and the fields of sections.
//!
//! [`elf::host_object`](crate::elf::host_object) suffices for most tests. Kernels for devices need more than common
//! writers of objects offer: executables for an uncommon machine, string tables that share a section, code at address 0
//! after the headers, and deliberate errors.
//! address 0 behind the headers, and the mistakes that a test wants made.

use std::collections::HashMap;

use object::elf;
use object::write::elf::{Encoder, FileHeader, FileHeaderLayout, ProgramHeader, SectionHeader, Sym};
use object::{Endian, Endianness};

/// The size of the file's header.
pub const HEADER: u64 = 64;
/// The size of a program header.
pub const PROGRAM_HEADER: u64 = 56;

/// An ELF64 little-endian file.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// `e_type`.
    pub elf_type: u16,
    /// `e_machine`.
    pub machine: u16,
    /// `e_flags`.
    pub flags: u32,
    /// The sections, without the null section: the first is number 1.
    pub sections: Vec<Section>,
    /// The program headers; the caller ensures that their fields fit.
    pub segments: Vec<Segment>,
    /// The number of the section that holds the names of sections.
    pub names: u32,
}

/// A section of an [`Image`].
#[derive(Clone, Debug)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// `sh_type`.
    pub kind: elf::SectionType,
    /// `sh_flags`.
    pub flags: u64,
    /// `sh_addr`.
    pub address: u64,
    /// Its offset in the file. `None`: the next free one, aligned.
    pub offset: Option<u64>,
    /// `sh_addralign`.
    pub align: u64,
    /// `sh_entsize`.
    pub entry_size: u64,
    /// `sh_link`.
    pub link: u32,
    /// `sh_info`. For a symbol table, it is computed.
    pub info: u32,
    /// Its content.
    pub content: Content,
}

/// The content of a [`Section`].
#[derive(Clone, Debug)]
pub enum Content {
    /// These bytes.
    Bytes(Vec<u8>),
    /// No bytes in the file, and this number of bytes in memory.
    Reserved(u64),
    /// A null symbol and these. The section's `link` is the number of the section that holds their names.
    Symbols(Vec<Symbol>),
    /// The names that refer to this section.
    Strings,
}

/// A symbol of an [`Image`]; local symbols come first.
#[derive(Clone, Debug)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// `STB_...`.
    pub binding: elf::SymbolBind,
    /// `STT_...`.
    pub kind: elf::SymbolType,
    /// `STV_...`.
    pub visibility: elf::SymbolVisibility,
    /// The number of its section; 0 is undefined, `SHN_ABS` and the like keep their meaning.
    pub section: u16,
    /// `st_value`.
    pub value: u64,
    /// `st_size`.
    pub size: u64,
}

/// A program header of an [`Image`].
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// `p_type`.
    pub kind: elf::ProgramType,
    /// `p_flags`.
    pub flags: elf::ProgramFlags,
    /// `p_offset`.
    pub offset: u64,
    /// `p_vaddr` and `p_paddr`.
    pub address: u64,
    /// `p_filesz` and `p_memsz`.
    pub size: u64,
    /// `p_align`.
    pub align: u64,
}

impl Section {
    /// A section of bytes that is not loaded.
    pub fn new(name: impl Into<String>, kind: elf::SectionType, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            name: name.into(),
            kind,
            flags: 0,
            address: 0,
            offset: None,
            align: 1,
            entry_size: 0,
            link: 0,
            info: 0,
            content: Content::Bytes(bytes.into()),
        }
    }

    /// A symbol table; its names are in section `strings`.
    pub fn symbols(name: &str, kind: elf::SectionType, symbols: Vec<Symbol>, strings: u32) -> Self {
        let locals = symbols.iter().take_while(|symbol| symbol.binding == elf::STB_LOCAL).count();
        Self {
            align: 8,
            entry_size: 24,
            link: strings,
            info: u32::try_from(locals + 1).unwrap_or(u32::MAX),
            content: Content::Symbols(symbols),
            ..Self::new(name, kind, [])
        }
    }

    /// A string table.
    pub fn strings(name: &str) -> Self {
        Self { content: Content::Strings, ..Self::new(name, elf::SHT_STRTAB, []) }
    }

    /// The same, with other flags.
    pub fn flags(self, flags: elf::SectionFlags) -> Self {
        Self { flags: flags.0, ..self }
    }

    /// The same, with another alignment.
    pub fn align(self, align: u64) -> Self {
        Self { align, ..self }
    }

    /// The same at an address, with an offset in the file.
    pub fn at(self, address: u64, offset: u64) -> Self {
        Self { address, offset: Some(offset), ..self }
    }

    fn is_loaded(&self) -> bool {
        self.flags & elf::SHF_ALLOC.0 != 0
    }
}

impl Symbol {
    /// A global, visible symbol.
    pub fn global(
        name: impl Into<String>,
        kind: elf::SymbolType,
        section: u16,
        value: u64,
        size: u64,
    ) -> Self {
        let (binding, visibility) = (elf::STB_GLOBAL, elf::STV_DEFAULT);
        Self { name: name.into(), binding, kind, visibility, section, value, size }
    }

    /// The symbol of a section.
    pub fn of_section(section: u16, address: u64) -> Self {
        Self { binding: elf::STB_LOCAL, ..Self::global("", elf::STT_SECTION, section, address, 0) }
    }

    /// The same, with another binding.
    pub fn bound(self, binding: elf::SymbolBind) -> Self {
        Self { binding, ..self }
    }
}

impl Image {
    /// Adds a section and returns its number.
    pub fn add(&mut self, section: Section) -> u32 {
        self.sections.push(section);
        u32::try_from(self.sections.len()).unwrap_or(u32::MAX)
    }

    /// The file.
    ///
    /// Loaded sections come first in it, string tables last, as compilers write them; the others are between, in their
    /// order.
    pub fn write(&self) -> Vec<u8> {
        let encoder = Encoder::new(Endianness::Little, true, elf::Machine(self.machine));
        let bodies = self.bodies(encoder);
        let (offsets, end) = self.place(&bodies.of);
        let layout = FileHeaderLayout {
            e_phoff: if self.segments.is_empty() { 0 } else { HEADER },
            segment_num: self.segments.len() as u32,
            e_shoff: end.next_multiple_of(8),
            section_num: self.sections.len() as u32 + 1,
            shstrtab_index: self.names,
        };
        let mut file = Vec::new();
        self.write_headers(encoder, &layout, &mut file);
        file.resize(layout.e_shoff as usize, 0);
        for (body, offset) in bodies.of.iter().zip(&offsets) {
            file[*offset as usize..][..body.len()].copy_from_slice(body);
        }
        encoder.null_section_header(&mut file, &layout);
        for (at, section) in self.sections.iter().enumerate() {
            let size = match section.content {
                Content::Reserved(size) => size,
                _ => bodies.of[at].len() as u64,
            };
            let header = SectionHeader {
                sh_name: bodies.section_names[at],
                sh_type: section.kind,
                sh_flags: elf::SectionFlags(section.flags),
                sh_addr: section.address,
                sh_offset: offsets[at],
                sh_size: size,
                sh_link: section.link,
                sh_info: section.info,
                sh_addralign: section.align,
                sh_entsize: section.entry_size,
            };
            encoder.section_header(&mut file, &header);
        }
        file
    }

    fn write_headers(&self, encoder: Encoder<Endianness>, layout: &FileHeaderLayout, file: &mut Vec<u8>) {
        let header = FileHeader {
            e_type: elf::FileType(self.elf_type),
            e_machine: elf::Machine(self.machine),
            e_flags: elf::FileFlags(self.flags),
            ..FileHeader::default()
        };
        #[expect(clippy::panic, reason = "a test that asks for the impossible has to be mended")]
        if let Err(error) = encoder.file_header(file, &header, layout) {
            panic!("{error}");
        }
        for segment in &self.segments {
            let header = ProgramHeader {
                p_type: segment.kind,
                p_flags: segment.flags,
                p_offset: segment.offset,
                p_vaddr: segment.address,
                p_paddr: segment.address,
                p_filesz: segment.size,
                p_memsz: segment.size,
                p_align: segment.align,
            };
            encoder.program_header(file, &header);
        }
    }

    /// The bytes of each section in the file, and the offset of each section's name.
    fn bodies<'a>(&'a self, encoder: Encoder<Endianness>) -> Bodies {
        let mut tables: HashMap<u32, Strings<'a>> = HashMap::new();
        let names = tables.entry(self.names).or_default();
        let section_names = self.sections.iter().map(|section| names.add(&section.name)).collect();
        let mut of: Vec<Vec<u8>> = Vec::new();
        for section in &self.sections {
            of.push(match &section.content {
                Content::Bytes(bytes) => bytes.clone(),
                Content::Reserved(_) | Content::Strings => Vec::new(),
                Content::Symbols(symbols) => {
                    write_symbols(encoder, symbols, tables.entry(section.link).or_default())
                }
            });
        }
        for (at, section) in (1..).zip(&self.sections) {
            if matches!(section.content, Content::Strings) {
                of[at as usize - 1] = tables.remove(&at).unwrap_or_default().bytes;
            }
        }
        Bodies { of, section_names }
    }

    /// The offset of each section in the file, and the end of the last.
    fn place(&self, bodies: &[Vec<u8>]) -> (Vec<u64>, u64) {
        let rank = |section: &Section| match section.content {
            _ if section.is_loaded() => 0,
            Content::Strings => 2,
            _ => 1,
        };
        let mut order: Vec<usize> = (0..self.sections.len()).collect();
        order.sort_by_key(|at| rank(&self.sections[*at]));
        let mut end = HEADER + PROGRAM_HEADER * self.segments.len() as u64;
        let mut offsets = vec![0; order.len()];
        for at in order {
            let section = &self.sections[at];
            let offset = section.offset.unwrap_or_else(|| end.next_multiple_of(section.align.max(1)));
            offsets[at] = offset;
            end = end.max(offset + bodies[at].len() as u64);
        }
        (offsets, end)
    }
}

struct Bodies {
    of: Vec<Vec<u8>>,
    section_names: Vec<u32>,
}

/// A string table that contains each text once.
struct Strings<'a> {
    bytes: Vec<u8>,
    known: HashMap<&'a str, u32>,
}

impl Default for Strings<'_> {
    fn default() -> Self {
        Self { bytes: vec![0], known: HashMap::from([("", 0)]) }
    }
}

impl<'a> Strings<'a> {
    fn add(&mut self, text: &'a str) -> u32 {
        *self.known.entry(text).or_insert_with(|| {
            let at = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
            self.bytes.extend(text.as_bytes());
            self.bytes.push(0);
            at
        })
    }
}

fn write_symbols<'a>(
    encoder: Encoder<impl Endian>,
    symbols: &'a [Symbol],
    names: &mut Strings<'a>,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(24 * (symbols.len() + 1));
    encoder.null_symbol(&mut bytes);
    for symbol in symbols {
        let written = Sym {
            section: None,
            st_name: names.add(&symbol.name),
            st_info: elf::SymbolInfo::new(symbol.binding, symbol.kind),
            st_other: symbol.visibility.into(),
            st_shndx: elf::SymbolSection(symbol.section),
            st_value: symbol.value,
            st_size: symbol.size,
        };
        encoder.symbol(&mut bytes, &written);
    }
    bytes
}
