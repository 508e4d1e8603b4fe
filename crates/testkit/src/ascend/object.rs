//! The `.o` of a kernel, section by section.

use object::Endianness;
use object::elf;
use object::write::elf::{Encoder, Rel};

use super::chip::{Chip, Cores, Era};
use super::kernel::Kernel;
use super::metadata::{Metadata, metadata_section};
use crate::image::{Content, HEADER, Image, PROGRAM_HEADER, Section, Segment, Symbol};

/// The machine that no toolchain but the vendor's knows.
const MACHINE: u16 = 0x1029;
const PAGE: u64 = 0x1000;

/// The type of a relocation to reserved memory, and to data.
const TO_RESERVED: u32 = 0x123;
const TO_DATA: u32 = 0x15c;

/// The bytes of stack for a core.
const STACK: u64 = 0x8000;

/// LLVM's table of symbols whose addresses matter.
const SHT_LLVM_ADDRSIG: elf::SectionType = elf::SectionType(0x6fff_4c03);

const CODE: elf::SectionFlags = elf::SectionFlags(elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0);
const DATA: elf::SectionFlags = elf::SectionFlags(elf::SHF_ALLOC.0 | elf::SHF_WRITE.0);

/// Bytes that look like nothing, and differ from name to name.
pub(super) fn noise(name: &str, bytes: usize) -> Vec<u8> {
    let seed = name.bytes().fold(0x9e37_79b9_7f4a_7c15_u64, |seed, byte| {
        (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(7)
    });
    let mut state = seed | 1;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(bytes).collect()
}

/// The object of `kernel`.
pub(super) fn write(kernel: &Kernel) -> Vec<u8> {
    let made = Making::new(kernel);
    match (kernel.chip, kernel.relocatable) {
        (Chip::Ascend910, _) => made.compiled(),
        (_, true) => made.partly_linked(),
        (Chip::Ascend310B, false) => made.linked_in_pages(),
        (_, false) => made.linked(),
    }
}

/// A number as a section or a symbol has it.
fn small(number: u32) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

struct Making<'a> {
    kernel: &'a Kernel,
    image: Image,
    /// Each kernel's symbol, tiling key, and where its code starts.
    kernels: Vec<(String, Option<u64>, u64)>,
    /// The symbols of sections, then those that other files see.
    locals: Vec<Symbol>,
    globals: Vec<Symbol>,
}

impl<'a> Making<'a> {
    fn new(kernel: &'a Kernel) -> Self {
        let starts = (0..).step_by(kernel.code_bytes);
        let kernels =
            kernel.symbols().into_iter().zip(starts).map(|((name, key), at)| (name, key, at)).collect();
        let elf_type = if kernel.relocatable { elf::ET_REL } else { elf::ET_EXEC };
        let flags = kernel.chip.flags(kernel.cores);
        let image = Image { elf_type: elf_type.0, machine: MACHINE, flags, ..Image::default() };
        Self { kernel, image, kernels, locals: Vec::new(), globals: Vec::new() }
    }

    /// By the compiler alone, without a linker: 910A.
    fn compiled(mut self) -> Vec<u8> {
        let strings = self.image.add(Section::strings(".strtab"));
        let text = self.text(4, None);
        self.comment(&[&self.kernel.stamp]);
        self.image.add(Section::new(".note.GNU-stack", elf::SHT_PROGBITS, []));
        let address_table = Section::new(".llvm_addrsig", SHT_LLVM_ADDRSIG, []);
        self.image.add(address_table.flags(elf::SHF_EXCLUDE));
        let file = Symbol::global("-", elf::STT_FILE, elf::SHN_ABS.0, 0, 0);
        self.locals.push(file.bound(elf::STB_LOCAL));
        self.functions(text);
        self.symbol_table(strings);
        self.image.names = strings;
        self.image.write()
    }

    /// By the linker, to be linked again: parts of super kernels.
    fn partly_linked(mut self) -> Vec<u8> {
        let text = self.text(512, None);
        let relocations = self.image.add(Section::new(".rela.text", elf::SHT_RELA, []));
        let stack = self.stack_record();
        let mut reserved = Vec::new();
        for name in self.reserved_names() {
            let group = self.image.add(Section::new(".group", elf::SHT_GROUP, []).align(4));
            let section = Section::new(format!(".bl.uninit.{name}"), elf::SHT_PROGBITS, [0; 8]).align(8);
            let flags = elf::SectionFlags(DATA.0 | elf::SHF_GROUP.0);
            reserved.push((name, group, self.image.add(section.flags(flags))));
        }
        let comment = self.comment(&[&self.kernel.stamp]);
        let address_table = Section::new(".llvm_addrsig", SHT_LLVM_ADDRSIG, []).flags(elf::SHF_EXCLUDE);
        let address_table = self.image.add(address_table);
        self.image.add(Section::new(".note.GNU-stack", elf::SHT_PROGBITS, []));

        let groups = reserved.iter().flat_map(|(_, group, section)| [*group, *section]);
        let numbers = [text, stack].into_iter().chain(groups).chain([address_table, comment]);
        self.locals.extend(numbers.map(|number| Symbol::of_section(small(number), 0)));
        self.functions(text);
        let first = 1 + self.locals.len() + self.globals.len();
        for (at, (name, group, section)) in reserved.into_iter().enumerate() {
            let object = Symbol::global(name, elf::STT_OBJECT, small(section), 0, 8);
            self.globals.push(object.bound(elf::STB_WEAK));
            let members = [elf::GRP_COMDAT.0, section].map(u32::to_le_bytes).concat();
            self.fill(group, members, 4, u32::try_from(first + at).unwrap_or(u32::MAX));
        }
        let symbols = self.finish();
        self.image.sections[index(relocations)].link = symbols;
        self.relocate(text, relocations, symbols);
        for section in &mut self.image.sections {
            if section.kind == elf::SHT_GROUP {
                section.link = symbols;
            }
        }
        self.image.write()
    }

    /// By the linker with pages of their own for headers and code: 310B. Both segments start at address 0.
    fn linked_in_pages(mut self) -> Vec<u8> {
        let headers = HEADER + 4 * PROGRAM_HEADER;
        let text = self.text(4, Some(PAGE));
        let pages = self.text_bytes().next_multiple_of(PAGE);
        self.metadata(Some(PAGE + pages));
        self.comment(&["Linker: LLD 15.0.5", &self.kernel.stamp]);
        self.image.add(Section::new(".debug_frame", elf::SHT_PROGBITS, noise("frame", 0x40)).align(8));
        let reserved = self.reserved();
        self.functions(text);
        self.globals_after_first_function(vec![reserved]);
        self.finish();
        let code = elf::ProgramFlags(elf::PF_R.0 | elf::PF_X.0);
        self.image.segments = vec![
            segment(elf::PT_PHDR, elf::PF_R, HEADER, HEADER, 4 * PROGRAM_HEADER, 8),
            segment(elf::PT_LOAD, elf::PF_R, 0, 0, headers, PAGE),
            segment(elf::PT_LOAD, code, PAGE, 0, pages, PAGE),
            stack_segment(),
        ];
        self.image.write()
    }

    /// By the linker: 310P, 910B and their kin.
    fn linked(mut self) -> Vec<u8> {
        let start = HEADER + 3 * PROGRAM_HEADER;
        let text = self.text(4, Some(start));
        let bytes = self.text_bytes();
        let address = bytes.next_multiple_of(PAGE);
        let data = Section::new(".data", elf::SHT_PROGBITS, [0; 8]).flags(DATA).align(256);
        let data = self.image.add(data.at(address, start + address));
        let split = self.kernel.chip.is_split();
        let nine = self.kernel.era == Era::Cann9;
        let relocations =
            (split && nine).then(|| self.image.add(Section::new(".rela.text", elf::SHT_RELA, [])));
        let stack = split.then(|| self.stack_record());
        let (metadata, sizes, comment) = self.notes();
        let reserved = self.reserved();
        if let (Some(stack), Some(sizes), true) = (stack, sizes, nine) {
            let first = metadata.first().copied();
            let rest = metadata.iter().copied().skip(1);
            let numbers = first.into_iter().chain([sizes]).chain(rest).chain([comment]);
            self.locals.push(Symbol::of_section(small(text), 0));
            self.locals.push(Symbol::of_section(small(stack), 0));
            self.locals.push(Symbol::of_section(small(data), address));
            self.locals.extend(numbers.map(|number| Symbol::of_section(small(number), 0)));
        }
        self.functions(text);
        if let Some(sizes) = sizes {
            self.sizes_of_arguments(sizes);
        }
        // Its value is larger than its section, since the loader provides it.
        let configuration = Symbol::global("g_opSystemRunCfg", elf::STT_OBJECT, small(data), address, 256);
        self.globals_after_first_function(vec![reserved, vec![configuration]]);
        let symbols = self.finish();
        if let Some(relocations) = relocations {
            self.relocate(text, relocations, symbols);
        }
        let code = elf::ProgramFlags(elf::PF_R.0 | elf::PF_X.0);
        let written = elf::ProgramFlags(elf::PF_R.0 | elf::PF_W.0);
        self.image.segments = vec![
            segment(elf::PT_LOAD, code, start, 0, bytes, PAGE),
            segment(elf::PT_LOAD, written, start + address, address, 8, PAGE),
            stack_segment(),
        ];
        self.image.write()
    }

    fn text_bytes(&self) -> u64 {
        (self.kernels.len() * self.kernel.code_bytes) as u64
    }

    fn text(&mut self, align: u64, offset: Option<u64>) -> u32 {
        let bytes = self.kernels.iter().flat_map(|(name, ..)| noise(name, self.kernel.code_bytes));
        let section = Section::new(".text", elf::SHT_PROGBITS, bytes.collect::<Vec<_>>());
        self.image.add(Section { offset, ..section.flags(CODE).align(align) })
    }

    fn comment(&mut self, lines: &[&str]) -> u32 {
        let text = lines.iter().flat_map(|line| [line.as_bytes(), b"\0"].concat()).collect::<Vec<_>>();
        let flags = elf::SectionFlags(elf::SHF_MERGE.0 | elf::SHF_STRINGS.0);
        let section = Section::new(".comment", elf::SHT_PROGBITS, text).flags(flags);
        self.image.add(Section { entry_size: 1, ..section })
    }

    /// The bytes of stack, for each time that the compiler was run.
    fn stack_record(&mut self) -> u32 {
        let bytes = STACK.to_le_bytes().repeat(self.kernels.len());
        self.image.add(Section::new(".ascend.stack.size.record", self.kernel.record_kind(), bytes))
    }

    /// The numbers of the sections with metadata, of the one with the sizes of arguments, and of `.comment`. A newer
    /// linker has the first kernel's metadata before the others and the rest behind.
    fn notes(&mut self) -> (Vec<u32>, Option<u32>, u32) {
        let mut sections = self.metadata_sections();
        let late = if self.kernel.era == Era::Cann9 && self.kernel.chip.is_split() {
            sections.split_off(sections.len().min(1))
        } else {
            Vec::new()
        };
        let mut numbers: Vec<u32> = sections.into_iter().map(|section| self.image.add(section)).collect();
        let sizes = self.kernel.chip.is_split().then(|| {
            let bytes = 8 * u32::try_from(self.kernel.all_arguments().len()).unwrap_or_default();
            let bytes = bytes.to_le_bytes().repeat(self.kernels.len());
            self.image.add(Section::new("__CCE_KernelArgSize", self.kernel.record_kind(), bytes).align(4))
        });
        let comment = match self.kernel.era {
            Era::Cann8 | Era::Cann8Late => self.comment(&["Linker: LLD 15.0.5", &self.kernel.stamp]),
            Era::Cann9 => self.comment(&[&self.kernel.stamp, "Linker: LLD 15.0.5"]),
        };
        numbers.extend(late.into_iter().map(|section| self.image.add(section)));
        (numbers, sizes, comment)
    }

    fn metadata_sections(&self) -> Vec<Section> {
        if !self.kernel.metadata {
            return Vec::new();
        }
        let section = |(symbol, key, _): &(String, Option<u64>, u64)| {
            metadata_section(symbol, self.kernel.metadata_kind(), Metadata::of(self.kernel, *key))
        };
        self.kernels.iter().map(section).collect()
    }

    /// Adds the metadata, the first at `offset`.
    fn metadata(&mut self, mut offset: Option<u64>) {
        for section in self.metadata_sections() {
            self.image.add(Section { offset: offset.take(), ..section });
        }
    }

    const fn reserved_names(&self) -> [&'static str; 2] {
        let pipe = match self.kernel.cores {
            _ if !self.kernel.chip.is_split() => "g_tPipePtr",
            cores if cores.has_cube() => "g_cubeTPipePtr",
            Cores::AiCore | Cores::Vector | Cores::Mix { .. } => "g_vecTPipePtr",
        };
        ["g_sysWorkspaceReserved", pipe]
    }

    /// Memory that is neither in the file nor loaded, and its symbols.
    fn reserved(&mut self) -> Vec<Symbol> {
        let align = if self.kernel.era == Era::Cann8 { 1 } else { 8 };
        let section = Section::new(".bl_uninit", elf::SHT_NOBITS, []).align(align);
        let section = self.image.add(Section { content: Content::Reserved(16), ..section });
        let symbol =
            |(name, at)| Symbol::global(name, elf::STT_OBJECT, small(section), at, 8).bound(elf::STB_WEAK);
        self.reserved_names().into_iter().zip([0, 8]).map(symbol).collect()
    }

    fn functions(&mut self, text: u32) {
        let size = self.kernel.code_bytes as u64;
        let function = |(name, _, at): &(String, Option<u64>, u64)| {
            Symbol::global(name, elf::STT_FUNC, small(text), *at, size)
        };
        self.globals.extend(self.kernels.iter().map(function));
    }

    /// The symbol of the size of each kernel's arguments, right behind the kernel's own.
    fn sizes_of_arguments(&mut self, section: u32) {
        let functions = std::mem::take(&mut self.globals);
        for (at, function) in (0..).step_by(4).zip(functions) {
            let name = format!("{}__", function.name);
            let size = Symbol::global(name, elf::STT_OBJECT, small(section), at, 4).bound(elf::STB_WEAK);
            self.globals.extend([function, size]);
        }
    }

    fn globals_after_first_function(&mut self, symbols: Vec<Vec<Symbol>>) {
        let after = self.globals.len().min(1);
        self.globals.splice(after..after, symbols.concat());
    }

    fn symbol_table(&mut self, strings: u32) -> u32 {
        let symbols = self.locals.drain(..).chain(self.globals.drain(..)).collect();
        self.image.add(Section::symbols(".symtab", elf::SHT_SYMTAB, symbols, strings))
    }

    /// Adds the tables of symbols and names; the number of the first.
    fn finish(&mut self) -> u32 {
        let symbols = u32::try_from(self.image.sections.len()).unwrap_or(u32::MAX) + 1;
        self.symbol_table(symbols + 2);
        self.image.names = self.image.add(Section::strings(".shstrtab"));
        self.image.add(Section::strings(".strtab"));
        symbols
    }

    fn fill(&mut self, number: u32, bytes: Vec<u8>, entry_size: u64, info: u32) {
        let section = &mut self.image.sections[index(number)];
        section.content = Content::Bytes(bytes);
        section.entry_size = entry_size;
        section.info = info;
    }

    /// Fills `.rela.text`: each kernel reads the reserved memory, the first the data too.
    fn relocate(&mut self, text: u32, relocations: u32, symbols: u32) {
        let Content::Symbols(known) = &self.image.sections[index(symbols)].content else { return };
        let objects = (1..).zip(known).filter(|(_, symbol)| symbol.kind == elf::STT_OBJECT);
        let targets: Vec<(u32, u32)> = objects
            .filter(|(_, symbol)| symbol.name.starts_with("g_"))
            .map(|(number, symbol)| {
                (number, if symbol.name == "g_opSystemRunCfg" { TO_DATA } else { TO_RESERVED })
            })
            .collect();
        let encoder = Encoder::new(Endianness::Little, true, elf::Machine(MACHINE));
        let mut bytes = Vec::new();
        for (_, _, start) in &self.kernels {
            for (at, (r_sym, kind)) in (start + 0x18..).step_by(0x24).zip(&targets) {
                let r_type = elf::RelocationType(*kind);
                encoder.relocation(
                    &mut bytes,
                    true,
                    &Rel { r_offset: at, r_sym: *r_sym, r_type, r_addend: 0 },
                );
            }
        }
        self.fill(relocations, bytes, 24, text);
        let section = &mut self.image.sections[index(relocations)];
        section.align = 8;
        section.link = symbols;
        section.flags = elf::SHF_INFO_LINK.0;
    }
}

/// Where section `number` is in the list, which does not have the null section.
const fn index(number: u32) -> usize {
    number as usize - 1
}

const fn segment(
    kind: elf::ProgramType,
    flags: elf::ProgramFlags,
    offset: u64,
    address: u64,
    size: u64,
    align: u64,
) -> Segment {
    Segment { kind, flags, offset, address, size, align }
}

const fn stack_segment() -> Segment {
    let flags = elf::ProgramFlags(elf::PF_R.0 | elf::PF_W.0);
    segment(elf::PT_GNU_STACK, flags, 0, 0, 0, 0)
}
