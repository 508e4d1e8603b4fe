//! Objects like those of GPU compilers: the sections and symbols that loaders and validators read, with code of zeros.

use object::elf;

use crate::image::{Content, HEADER, Image, PROGRAM_HEADER, Section, Segment, Symbol};
use crate::patch::{header, put, symbol, symbol_named};

/// The registers, stack and static shared memory in bytes that [`cubin`] states.
pub const CUBIN_USES: (u32, u32, u64) = (42, 56, 2048);
/// The vector registers, private memory and static shared memory in bytes that [`hsaco`] states.
pub const HSACO_USES: (u32, u32, u64) = (24, 48, 512);

const CODE: elf::SectionFlags = elf::SectionFlags(elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0);
const DATA: elf::SectionFlags = elf::SectionFlags(elf::SHF_ALLOC.0 | elf::SHF_WRITE.0);
/// The type of sections with attributes of CUDA functions.
const CUDA_INFO: elf::SectionType = elf::SectionType(0x7000_0000);
/// The offset of `EI_OSABI`.
const OS_ABI: usize = 7;

/// A cubin for an SM with `kernel`, which calls a function of its own.
pub fn cubin(kernel: &str, sm: u8) -> Vec<u8> {
    let flags = 0x0600_0004 | u32::from(sm) << 8;
    let mut image =
        Image { elf_type: elf::ET_EXEC.0, machine: elf::EM_CUDA.0, flags, names: 1, ..Image::default() };
    image.add(Section::strings(".shstrtab"));
    let strings = image.add(Section::strings(".strtab"));
    let (symbols, code) = (3, 5);
    let helper = format!("${kernel}$helper");
    let names = [
        Symbol::of_section(code, 0),
        Symbol::global(&helper, elf::STT_FUNC, code, 0x80, 0x80).bound(elf::STB_LOCAL),
        Symbol::global("vprintf", elf::STT_FUNC, 0, 0, 0),
        Symbol::global(kernel, elf::STT_FUNC, code, 0, 0x100),
    ];
    image.add(Section::symbols(".symtab", elf::SHT_SYMTAB, names.into(), strings));
    let (registers, stack, shared_bytes) = CUBIN_USES;
    let attribute = |kind: u8, symbol: u32, number: u32| {
        [&[4, kind, 8, 0][..], &symbol.to_le_bytes(), &number.to_le_bytes()].concat()
    };
    // An attribute without a number, and those of the kernel, symbol 4, and of its function, symbol 2.
    let attributes = [
        vec![1, 0x36, 0, 0],
        attribute(0x2f, 2, 7),
        attribute(0x2f, 4, registers),
        attribute(0x12, 4, stack),
    ];
    let attributes = Section::new(".nv.info", CUDA_INFO, attributes.concat());
    image.add(Section { link: symbols, ..attributes.align(4) });
    let text = Section::new(format!(".text.{kernel}"), elf::SHT_PROGBITS, vec![0; 0x100]);
    image.add(Section { link: symbols, info: 4, ..text.flags(CODE).align(128) });
    let memory = Section::new(format!(".nv.shared.{kernel}"), elf::SHT_NOBITS, []).flags(DATA);
    image.add(Section { info: code.into(), content: Content::Reserved(shared_bytes), ..memory.align(16) });
    let mut object = image.write();
    object[OS_ABI] = 65;
    // The program headers are at the end.
    let (end, mut load) = (object.len() as u64, vec![0; PROGRAM_HEADER as usize]);
    put(&mut load, 0, [1]);
    object.extend(load);
    put(&mut object, header::PHOFF, end.to_le_bytes());
    put(&mut object, header::PHENTSIZE, (PROGRAM_HEADER as u16).to_le_bytes());
    put(&mut object, header::PHNUM, [1]);
    let entry = symbol_named(&object, kernel);
    object[entry + symbol::OTHER] |= 0x10;
    object
}

/// An hsaco for a processor (`EF_AMDGPU_MACH_...`) with `kernel`.
pub fn hsaco(kernel: &str, processor: u8) -> Vec<u8> {
    let flags = 0x500 | u32::from(processor);
    let mut image =
        Image { elf_type: elf::ET_DYN.0, machine: elf::EM_AMDGPU.0, flags, names: 7, ..Image::default() };
    let (registers, private, shared) = HSACO_USES;
    let (descriptor_at, code_at) = (0x400_u64, 0x1500_u64);
    let mut descriptor = vec![0; 64];
    put(&mut descriptor, 0, (shared as u32).to_le_bytes());
    put(&mut descriptor, 4, private.to_le_bytes());
    put(&mut descriptor, 16, (code_at - descriptor_at).to_le_bytes());
    put(&mut descriptor, 48, (registers / 8 - 1).to_le_bytes());
    let names = || {
        vec![
            Symbol::global(kernel, elf::STT_FUNC, 4, code_at, 0x80),
            Symbol::global(format!("{kernel}.kd"), elf::STT_OBJECT, 3, descriptor_at, 64),
        ]
    };
    let dynamic = Section::symbols(".dynsym", elf::SHT_DYNSYM, names(), 2);
    image.add(dynamic.flags(elf::SHF_ALLOC));
    image.add(Section::strings(".dynstr").flags(elf::SHF_ALLOC).at(0x300, 0x300));
    let data = Section::new(".rodata", elf::SHT_PROGBITS, descriptor).flags(elf::SHF_ALLOC);
    image.add(data.at(descriptor_at, descriptor_at));
    let text = Section::new(".text", elf::SHT_PROGBITS, vec![0; 0x80]);
    image.add(text.flags(CODE).at(code_at, 0x500));
    let helper = Symbol::global("helper", elf::STT_FUNC, 4, code_at + 0x40, 0x40).bound(elf::STB_LOCAL);
    let all = std::iter::once(helper).chain(names()).collect();
    image.add(Section::symbols(".symtab", elf::SHT_SYMTAB, all, 6));
    image.add(Section::strings(".strtab"));
    image.add(Section::strings(".shstrtab"));
    let segment =
        |kind, flags, offset, address, size| Segment { kind, flags, offset, address, size, align: 0x1000 };
    image.segments = vec![
        segment(elf::PT_PHDR, elf::PF_R, HEADER, HEADER, 3 * PROGRAM_HEADER),
        segment(elf::PT_LOAD, elf::PF_R, 0, 0, 0x440),
        segment(elf::PT_LOAD, elf::ProgramFlags(elf::PF_R.0 | elf::PF_X.0), 0x500, code_at, 0x80),
    ];
    let mut object = image.write();
    object[OS_ABI] = 64;
    object
}
