//! Shared objects: AI CPU kernels, and kernels for a host.

use object::elf;
use opkeep_cann_meta::Magic;
use opkeep_digest::Digest;
use serde_json::json;

use super::describe::Fields;
use super::object::noise;
use super::pair::Pair;
use crate::image::{HEADER, Image, PROGRAM_HEADER, Section, Segment, Symbol};

/// Whom a shared object is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// The AI CPUs of an Ascend chip, which are AArch64.
    AiCpu,
    /// A host with this `e_machine`.
    Host(u16),
}

const PAGE: u64 = 0x1000;
const FUNCTION_BYTES: u64 = 16;

/// The shared object `lib<name>.so` with these functions, stripped of all but its dynamic symbols, and its `.json`.
pub fn library(library: Library, name: &str, functions: &[&str]) -> Pair {
    let (machine, magic) = match library {
        Library::AiCpu => (elf::EM_AARCH64.0, Magic::ElfAicpu),
        Library::Host(machine) => (machine, Magic::Elf),
    };
    let object = write(machine, name, functions);
    let json = Fields(vec![
        ("binFileName", json!(name)),
        ("binFileSuffix", json!(".so")),
        ("blockDim", json!(1)),
        ("kernelName", json!(functions.first())),
        ("magic", json!(magic.name())),
        ("sha256", json!(Digest::of(&object).to_string())),
    ]);
    Pair { stem: name.to_owned(), suffix: ".so", json: json.packed(), object }
}

/// A library for x86-64 hosts that holds a kernel for vector cores, as fused operators come: CANN asks its function
/// `GetKernelBin` for the kernel. The names in the `.json` are those of the kernel.
pub fn container(name: &str) -> Pair {
    let pair = library(Library::Host(elf::EM_X86_64.0), name, &["GetKernelBin"]);
    pair.with_fields(|fields| {
        fields.insert("kernelName".into(), json!(format!("te_{name}")));
        fields.insert("magic".into(), json!(Magic::ElfAivec.name()));
        fields.insert("coreType".into(), json!("VectorCore"));
        fields.insert("blockDim".into(), json!(-1));
    })
}

/// Four loaded sections, then the code on a page of its own, then where they all are.
fn write(machine: u16, name: &str, functions: &[&str]) -> Vec<u8> {
    let function = |(at, name): (u64, &&str)| {
        Symbol::global(*name, elf::STT_FUNC, 4, PAGE + at * FUNCTION_BYTES, FUNCTION_BYTES)
    };
    let symbols: Vec<Symbol> = (0..).zip(functions).map(function).collect();
    let names: Vec<u8> = std::iter::once(String::new())
        .chain(functions.iter().map(|name| (*name).to_owned()))
        .chain([format!("lib{name}.so")])
        .flat_map(|name| [name.as_bytes(), b"\0"].concat())
        .collect();
    let own_name = (names.len() - name.len() - "lib.so\0".len()) as u64;
    let (hash, table) = (hash_table(symbols.len()), 24 * (symbols.len() as u64 + 1));
    let first = HEADER + 4 * PROGRAM_HEADER;
    let symbols_at = (first + hash.len() as u64).next_multiple_of(8);
    let names_at = symbols_at + table;
    let head = names_at + names.len() as u64;
    // The addresses of these are in the table that loaders read, so they have to be where the table says.
    let page = PAGE.max(head.next_multiple_of(PAGE));
    let symbols =
        symbols.into_iter().map(|symbol| Symbol { value: symbol.value - PAGE + page, ..symbol }).collect();
    let code = noise(name, functions.len() * FUNCTION_BYTES as usize);
    let dynamic_at = (page + code.len() as u64).next_multiple_of(PAGE);
    let dynamic: Vec<u8> = [
        (elf::DT_SONAME.0, own_name),
        (elf::DT_HASH.0, first),
        (elf::DT_STRTAB.0, names_at),
        (elf::DT_SYMTAB.0, symbols_at),
        (elf::DT_STRSZ.0, names.len() as u64),
        (elf::DT_SYMENT.0, 24),
        (elf::DT_NULL.0, 0),
    ]
    .into_iter()
    .flat_map(|(tag, value)| [(tag as u64).to_le_bytes(), value.to_le_bytes()].concat())
    .collect();
    let dynamic_bytes = dynamic.len() as u64;

    let mut image = Image { elf_type: elf::ET_DYN.0, machine, ..Image::default() };
    let hashes = Section::new(".hash", elf::SHT_HASH, hash).flags(elf::SHF_ALLOC).align(8).at(first, first);
    image.add(Section { link: 2, entry_size: 4, ..hashes });
    let table = Section::symbols(".dynsym", elf::SHT_DYNSYM, symbols, 3);
    image.add(table.flags(elf::SHF_ALLOC).at(symbols_at, symbols_at));
    let strings = Section::strings(".dynstr").flags(elf::SHF_ALLOC);
    image.add(Section { content: crate::image::Content::Bytes(names), ..strings.at(names_at, names_at) });
    let flags = elf::SectionFlags(elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0);
    image.add(Section::new(".text", elf::SHT_PROGBITS, code.clone()).flags(flags).align(16).at(page, page));
    let flags = elf::SectionFlags(elf::SHF_ALLOC.0 | elf::SHF_WRITE.0);
    let section = Section::new(".dynamic", elf::SHT_DYNAMIC, dynamic).flags(flags).align(8);
    image.add(Section { link: 3, entry_size: 16, ..section.at(dynamic_at, dynamic_at) });
    image.names = image.add(Section::strings(".shstrtab"));

    let read = elf::PF_R.0;
    let of = |kind, flags, at, size, align| Segment {
        kind,
        flags: elf::ProgramFlags(flags),
        offset: at,
        address: at,
        size,
        align,
    };
    image.segments = vec![
        of(elf::PT_LOAD, read, 0, head, PAGE),
        of(elf::PT_LOAD, read | elf::PF_X.0, page, code.len() as u64, PAGE),
        of(elf::PT_LOAD, read | elf::PF_W.0, dynamic_at, dynamic_bytes, PAGE),
        of(elf::PT_DYNAMIC, read | elf::PF_W.0, dynamic_at, dynamic_bytes, 8),
    ];
    image.write()
}

/// A hash table with one bucket: every symbol is in one chain.
fn hash_table(symbols: usize) -> Vec<u8> {
    let count = u32::try_from(symbols).unwrap_or(u32::MAX);
    let chain = (0..=count).map(|at| if at == 0 || at == count { 0 } else { at + 1 });
    let words = [1, count + 1, count.min(1)].into_iter().chain(chain);
    words.flat_map(u32::to_le_bytes).collect()
}
