//! Flaws of ELF files for any target.

use opkeep_testkit::patch::{
    bytes_of, get, header, put, section, section_named, section_number, symbol, symbol_named,
};
use opkeep_validator::Code;

use crate::mutations::table::{Change, Mutation, object};

const VECTOR: &str = "910B vector";
const VECTOR_KERNEL: &str = "ReshapeAndCache_69cf_0";
/// An object of two kernels.
const CUBE: &str = "910B cube";
const CUBE_KERNEL: &str = "MoeGroupedMatmul_3461_11";

const PART: &str = "910B part, vector";
const PART_KERNEL: &str = "ReshapeAndCache_69cf_relocatable_0";

/// The codes if one of two kernels no longer is one.
const LOST: &[Code] = &[Code::KERNEL, Code::STRAY_METADATA, Code::ARGUMENT_RECORD];

/// Overwrites a field of a section's header.
fn set(object: &mut [u8], name: &str, field: usize, bytes: impl AsRef<[u8]>) {
    let at = section_named(object, name) + field;
    put(object, at, bytes);
}

/// Overwrites a field of the second of two kernels' symbol.
fn kernel(object: &mut [u8], field: usize, bytes: impl AsRef<[u8]>) {
    let at = symbol_named(object, CUBE_KERNEL) + field;
    put(object, at, bytes);
}

/// The file and its header.
pub(crate) const FILE: &[Mutation] = &[
    object(VECTOR, "nothing at all", &[Code::NOT_ELF], Vec::clear),
    object(VECTOR, "a placeholder", &[Code::NOT_ELF], |object| *object = b"placeholder\n".to_vec()),
    object(VECTOR, "an archive", &[Code::NOT_ELF], |object| object.splice(..0, *b"!<arch>\n").for_each(drop)),
    object(VECTOR, "another first byte", &[Code::NOT_ELF], |object| put(object, 0, [0x7e])),
    object(VECTOR, "another fourth byte", &[Code::NOT_ELF], |object| put(object, 3, b"G")),
    object(VECTOR, "four bytes", &[Code::MALFORMED], |object| object.truncate(4)),
    object(VECTOR, "half a header", &[Code::MALFORMED], |object| object.truncate(32)),
    object(VECTOR, "one byte less", &[Code::MALFORMED], |object| object.truncate(object.len() - 1)),
    object(VECTOR, "32 bits", &[Code::CLASS], |object| put(object, header::CLASS, [1])),
    object(VECTOR, "no class", &[Code::CLASS], |object| put(object, header::CLASS, [0])),
    object(VECTOR, "big-endian", &[Code::ENDIANNESS], |object| put(object, header::DATA, [2])),
    object(VECTOR, "no endianness", &[Code::ENDIANNESS], |object| put(object, header::DATA, [0])),
    object(VECTOR, "a later ELF", &[Code::MALFORMED], |object| put(object, header::IDENT_VERSION, [2])),
    object(VECTOR, "for x86-64", &[Code::MACHINE], |object| put(object, header::MACHINE, [62, 0])),
    // The layout for another machine is unknown.
    object(VECTOR, "for x86-64, with an odd layout", &[Code::MACHINE], |object| {
        put(object, header::MACHINE, [62, 0]);
        set(object, ".data", section::ADDRESS, [0xff; 8]);
        set(object, ".comment", section::TYPE, [6]);
    }),
    object(VECTOR, "for AI CPUs", &[Code::MACHINE], |object| put(object, header::MACHINE, [183, 0])),
    object(VECTOR, "for a machine without a name", &[Code::MACHINE], |object| {
        put(object, header::MACHINE, [0x29, 0x11])
    }),
    object("AI CPU", "for AI cores", &[Code::MACHINE], |object| put(object, header::MACHINE, [0x29, 0x10])),
    object("cpu", "for AArch64", &[Code::MACHINE], |object| put(object, header::MACHINE, [183])),
    object(VECTOR, "no type", &[Code::TYPE], |object| put(object, header::TYPE, [0])),
    object(VECTOR, "a core dump", &[Code::TYPE], |object| put(object, header::TYPE, [4])),
    object(VECTOR, "a shared object", &[Code::UNUSUAL_TYPE], |object| put(object, header::TYPE, [3])),
    object("AI CPU", "an executable", &[Code::TYPE], |object| put(object, header::TYPE, [2])),
    object("AI CPU", "not yet linked", &[Code::UNUSUAL_TYPE], |object| put(object, header::TYPE, [1])),
    object("cpu", "an executable", &[Code::TYPE], |object| put(object, header::TYPE, [2])),
    object(VECTOR, "no section headers", &[Code::NO_SECTIONS, Code::KERNEL], |object| {
        put(object, header::SHOFF, [0; 8])
    }),
    object(VECTOR, "section headers behind the end", &[Code::MALFORMED], |object| {
        let end = object.len() as u64;
        put(object, header::SHOFF, (end + 8).to_le_bytes());
    }),
    object(VECTOR, "section headers beyond all files", &[Code::MALFORMED], |object| {
        put(object, header::SHOFF, [0xff; 8]);
    }),
    object(VECTOR, "section headers without size", &[Code::ENTRY_SIZE], |object| {
        put(object, header::SHENTSIZE, [0])
    }),
    object(VECTOR, "section headers of ELF32", &[Code::ENTRY_SIZE], |object| {
        put(object, header::SHENTSIZE, [40])
    }),
    object(VECTOR, "section headers that are longer", &[Code::ENTRY_SIZE], |object| {
        put(object, header::SHENTSIZE, [65]);
    }),
    object(VECTOR, "no sections", &[Code::NO_SECTIONS, Code::KERNEL], |object| {
        put(object, header::SHNUM, [0])
    }),
    object(VECTOR, "one section too many", &[Code::MALFORMED], |object| object[header::SHNUM] += 1),
    object(VECTOR, "too many sections", &[Code::MALFORMED], |object| {
        put(object, header::SHNUM, [0xff, 0xfe])
    }),
    object(VECTOR, "names in no section", &[Code::MALFORMED], |object| put(object, header::SHSTRNDX, [200])),
    object(VECTOR, "names in the code", &[Code::MALFORMED], |object| put(object, header::SHSTRNDX, [1])),
];

/// Sections and symbols.
pub(crate) const TABLES: &[Mutation] = &[
    object(VECTOR, "a section behind the end", &[Code::MALFORMED], |object| {
        let end = object.len() as u64;
        set(object, ".comment", section::OFFSET, end.to_le_bytes());
    }),
    object(VECTOR, "a section that is too long", &[Code::MALFORMED], |object| {
        let end = object.len() as u64;
        set(object, ".comment", section::SIZE, end.to_le_bytes());
    }),
    object(VECTOR, "a section whose end overflows", &[Code::MALFORMED], |object| {
        set(object, ".comment", section::OFFSET, [0xff; 8]);
    }),
    object(VECTOR, "a section as long as all memory", &[Code::MALFORMED], |object| {
        set(object, ".comment", section::SIZE, [0xff; 8]);
    }),
    object(VECTOR, "a section without name", &[Code::MALFORMED], |object| {
        set(object, ".comment", section::NAME, [0xff; 4]);
    }),
    object(VECTOR, "a section with a strange friend", &[Code::LINK], |object| {
        set(object, ".comment", section::LINK, [200]);
    }),
    object(VECTOR, "symbols with names in no section", &[Code::LINK, Code::MALFORMED], |object| {
        set(object, ".symtab", section::LINK, [200]);
    }),
    object(VECTOR, "symbols with names in the code", &[Code::MALFORMED], |object| {
        set(object, ".symtab", section::LINK, [1]);
    }),
    object(VECTOR, "a symbol and a half", &[Code::MALFORMED], |object| {
        let at = section_named(object, ".symtab") + section::SIZE;
        let bytes = get(object, at, 8) as u64;
        put(object, at, (bytes - 12).to_le_bytes());
    }),
    object(VECTOR, "symbols of another size", &[Code::MALFORMED], |object| {
        set(object, ".symtab", section::ENTRY_SIZE, [16]);
    }),
    object(
        VECTOR,
        "no symbols",
        &[Code::NO_FUNCTION, Code::KERNEL, Code::STRAY_METADATA, Code::ARGUMENT_RECORD],
        |object| set(object, ".symtab", section::TYPE, [1]),
    ),
    object("cpu", "no symbols", &[Code::NO_KERNEL, Code::KERNEL], |object| {
        set(object, ".dynsym", section::TYPE, [1]);
    }),
    object(VECTOR, "a kernel whose name is beyond all names", &[Code::MALFORMED], |object| {
        let at = symbol_named(object, VECTOR_KERNEL);
        put(object, at + symbol::NAME, [0xff; 4]);
    }),
    object(VECTOR, "a kernel whose name has no end", &[Code::MALFORMED], |object| {
        let at = get(object, symbol_named(object, VECTOR_KERNEL) + symbol::NAME, 4) + VECTOR_KERNEL.len();
        set(object, ".strtab", section::SIZE, (at as u64).to_le_bytes());
    }),
    object(VECTOR, "a kernel of another name", &[Code::KERNEL, Code::STRAY_METADATA], |object| {
        let at = symbol_named(object, VECTOR_KERNEL) + symbol::NAME;
        let name = bytes_of(object, section_named(object, ".strtab")).start + get(object, at, 4);
        put(object, name, b"r");
    }),
    object(
        VECTOR,
        "a kernel without a name",
        &[Code::NO_KERNEL, Code::KERNEL, Code::STRAY_METADATA, Code::ARGUMENT_RECORD],
        |object| {
            let at = symbol_named(object, VECTOR_KERNEL);
            put(object, at + symbol::NAME, [0; 4]);
        },
    ),
    object(CUBE, "a weak kernel", LOST, |object| kernel(object, symbol::INFO, [0x22])),
    // Dynamic loaders and linkers accept a weak function.
    object("cpu", "a weak kernel", &[], |object| {
        let at = symbol_named(object, "kernel0");
        put(object, at + symbol::INFO, [0x22]);
    }),
    object("AI CPU", "a weak kernel", &[], |object| {
        let at = symbol_named(object, "RunCpuKernel");
        put(object, at + symbol::INFO, [0x22]);
    }),
    object(PART, "a weak kernel", &[], |object| {
        let at = symbol_named(object, PART_KERNEL);
        put(object, at + symbol::INFO, [0x22]);
    }),
    object(PART, "a hidden kernel", &[Code::NOT_VISIBLE, Code::NO_KERNEL], |object| {
        let at = symbol_named(object, PART_KERNEL);
        put(object, at + symbol::OTHER, [2]);
    }),
    object(PART, "a kernel of another name", &[Code::KERNEL], |object| {
        let at = symbol_named(object, PART_KERNEL) + symbol::NAME;
        let name = bytes_of(object, section_named(object, ".strtab")).start + get(object, at, 4);
        put(object, name, b"r");
    }),
    object(CUBE, "a local kernel", LOST, |object| kernel(object, symbol::INFO, [0x02])),
    object(CUBE, "a kernel that is data", LOST, |object| kernel(object, symbol::INFO, [0x11])),
    object(CUBE, "a kernel that is nothing", LOST, |object| kernel(object, symbol::INFO, [0x10])),
    object(CUBE, "a hidden kernel", LOST, |object| kernel(object, symbol::OTHER, [2])),
    object(CUBE, "an internal kernel", LOST, |object| kernel(object, symbol::OTHER, [1])),
    // One replaces the other, so the other's name is missing.
    object(
        CUBE,
        "two kernels of one name",
        &[Code::SAME_NAME, Code::KERNEL, Code::STRAY_METADATA, Code::ARGUMENT_RECORD],
        |object| {
            let other = symbol_named(object, "MoeGroupedMatmul_3461_10");
            let name = object[other..other + 4].to_vec();
            kernel(object, symbol::NAME, name);
        },
    ),
    object(CUBE, "a protected kernel", &[], |object| kernel(object, symbol::OTHER, [3])),
    object(
        CUBE,
        "a kernel that is somewhere else",
        &[Code::KERNEL, Code::STRAY_METADATA, Code::ARGUMENT_RECORD, Code::UNDEFINED],
        |object| kernel(object, symbol::SECTION, [0, 0]),
    ),
    object(CUBE, "a kernel at a fixed address", LOST, |object| kernel(object, symbol::SECTION, [0xf1, 0xff])),
    object(CUBE, "a kernel in data", LOST, |object| kernel(object, symbol::SECTION, [2])),
    object(CUBE, "a kernel in no section", &[Code::MALFORMED], |object| {
        kernel(object, symbol::SECTION, [200])
    }),
    object(CUBE, "a kernel whose section is counted elsewhere", &[Code::MALFORMED], |object| {
        kernel(object, symbol::SECTION, [0xff, 0xff]);
    }),
    object(CUBE, "a kernel behind the code", &[Code::KERNEL_RANGE], |object| {
        let bytes = bytes_of(object, section_named(object, ".text")).len() as u64;
        kernel(object, symbol::VALUE, bytes.to_le_bytes());
    }),
    object(CUBE, "a kernel that does not end in time", &[Code::KERNEL_RANGE], |object| {
        let at = symbol_named(object, CUBE_KERNEL) + symbol::SIZE;
        let bytes = get(object, at, 8) as u64;
        put(object, at, (bytes + 4).to_le_bytes());
    }),
    object(CUBE, "a kernel at the end of all memory", &[Code::KERNEL_RANGE], |object| {
        kernel(object, symbol::VALUE, (u64::MAX - 3).to_le_bytes());
    }),
    // A label at the end, as assemblers write it.
    object(CUBE, "a kernel of no length at the end", &[], |object| {
        let bytes = bytes_of(object, section_named(object, ".text")).len() as u64;
        kernel(object, symbol::VALUE, bytes.to_le_bytes());
        kernel(object, symbol::SIZE, [0; 8]);
    }),
    object(CUBE, "a kernel of no length behind the end", &[Code::KERNEL_RANGE], |object| {
        let bytes = bytes_of(object, section_named(object, ".text")).len() as u64 + 4;
        kernel(object, symbol::VALUE, bytes.to_le_bytes());
        kernel(object, symbol::SIZE, [0; 8]);
    }),
    Mutation {
        of: CUBE,
        name: "an unnamed function after the code",
        codes: &[Code::OTHER_RANGE, Code::UNLISTED],
        change: Change::Pair(|pair| {
            let pair = pair.with_object(|object| kernel(object, symbol::SIZE, [0xff; 8]));
            pair.with_fields(|fields| drop(fields["kernelList"].as_array_mut().unwrap().pop()))
        }),
    },
    object(CUBE, "a kernel as long as all memory", &[Code::KERNEL_RANGE], |object| {
        kernel(object, symbol::SIZE, [0xff; 8]);
    }),
    object("cpu", "a kernel behind the code", &[Code::KERNEL_RANGE], |object| {
        let at = symbol_named(object, "kernel0");
        put(object, at + symbol::VALUE, 0x9000_u64.to_le_bytes());
    }),
    object("cpu", "a kernel before the code", &[Code::KERNEL_RANGE], |object| {
        let at = symbol_named(object, "kernel0");
        put(object, at + symbol::VALUE, 0x10_u64.to_le_bytes());
    }),
    object(
        VECTOR,
        "no code in the file",
        &[
            Code::NO_KERNEL,
            Code::KERNEL,
            Code::STRAY_METADATA,
            Code::ARGUMENT_RECORD,
            Code::LOADED_NOBITS,
            Code::TEXT_PLACE,
        ],
        |object| set(object, ".text", section::TYPE, [8]),
    ),
    object(
        VECTOR,
        "code that is not to be run",
        &[Code::NO_KERNEL, Code::KERNEL, Code::STRAY_METADATA, Code::ARGUMENT_RECORD],
        |object| set(object, ".text", section::FLAGS, [2]),
    ),
    object("cpu", "program headers beyond all files", &[Code::MALFORMED], |object| {
        put(object, header::PHOFF, [0xff; 8]);
    }),
    object("cpu", "program headers behind the end", &[Code::MALFORMED], |object| {
        let end = object.len() as u64;
        put(object, header::PHOFF, end.to_le_bytes());
    }),
    object("cpu", "memory that is loaded from behind the end", &[Code::MALFORMED], |object| {
        // `p_filesz` of the first, which directly follows the file's header.
        let end = object.len() as u64 + 1;
        put(object, 64 + 32, end.to_le_bytes());
    }),
    object("AI CPU", "memory that is loaded from beyond all files", &[Code::MALFORMED], |object| {
        put(object, 64 + 8, [0xff; 8]);
    }),
    // Fields that nothing depends on.
    object(VECTOR, "another system", &[], |object| put(object, 7, [3, 9, 9])),
    object(VECTOR, "the stack in the version", &[], |object| {
        put(object, header::VERSION, [1, 1, 0x5a, 0x5a])
    }),
    object(VECTOR, "no program headers", &[], |object| put(object, header::PHNUM, [0])),
    object(VECTOR, "program headers beyond all files", &[], |object| put(object, header::PHOFF, [0xff; 8])),
    object(VECTOR, "an unknown architecture", &[], |object| put(object, header::FLAGS, [0, 0, 0x77])),
    object(VECTOR, "relocations of nothing", &[], |object| {
        let number = section_number(object, ".rela.text") as u8;
        assert!(number > 0);
        set(object, ".rela.text", section::INFO, [0]);
    }),
];
