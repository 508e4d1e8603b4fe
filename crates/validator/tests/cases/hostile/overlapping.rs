//! Objects in which many structures share the same bytes: reading each would take time quadratic in the file's size.

use object::elf;
use opkeep_testkit::ascend::{Metadata, metadata_section};
use opkeep_testkit::image::{Section, Symbol};
use opkeep_testkit::patch::{self, section, symbol};
use opkeep_validator::Code;

use crate::hostile::Files;
use crate::hostile::attacks::{Attack, finish, image_with};

pub(crate) const OVERLAPPING: [Attack; 9] = [
    Attack {
        name: "names of symbols that are the tails of one",
        make: symbol_names,
        codes: &[Code::BIN_NAME, Code::MALFORMED],
    },
    Attack {
        name: "names of sections that are the tails of one",
        make: section_names,
        codes: &[Code::MALFORMED, Code::STRAY_METADATA],
    },
    Attack {
        name: "metadata of each kernel in the same bytes",
        make: metadata,
        codes: &[Code::MALFORMED, Code::UNLISTED, Code::NO_METADATA],
    },
    Attack {
        name: "empty records of each kernel in the same bytes",
        make: records,
        codes: &[Code::MALFORMED, Code::UNLISTED, Code::NO_METADATA],
    },
    Attack {
        name: "arguments of each kernel in the same bytes",
        make: arguments,
        codes: &[Code::MALFORMED, Code::UNLISTED, Code::NO_METADATA],
    },
    Attack { name: "symbol tables in the same bytes", make: symbol_tables, codes: &[Code::UNLISTED] },
    Attack { name: "comments in the same bytes", make: comments, codes: &[Code::MALFORMED] },
    Attack { name: "stack records in the same bytes", make: stack_records, codes: &[Code::MALFORMED] },
    Attack { name: "relocations and groups in the same bytes", make: relocations, codes: &[] },
];

/// Makes every section after the first `skip` whose name starts with `prefix` share the bytes of the largest of them.
fn overlap(object: &mut [u8], prefix: &str) {
    let named: Vec<usize> = (1..patch::section_count(object))
        .map(|number| patch::section_header(object, number))
        .filter(|header| {
            let names = patch::section_header(object, patch::get(object, patch::header::SHSTRNDX, 2));
            let at = patch::bytes_of(object, names).start + patch::get(object, header + section::NAME, 4);
            object[at..].starts_with(prefix.as_bytes())
        })
        .collect();
    let largest =
        named.iter().map(|header| patch::bytes_of(object, *header)).max_by_key(|range| range.len()).unwrap();
    for header in named {
        patch::put(object, header + section::OFFSET, (largest.start as u64).to_le_bytes());
        patch::put(object, header + section::SIZE, (largest.len() as u64).to_le_bytes());
    }
}

/// Half the bytes are names, half are sections, so that the product is large.
fn sections_of_one_name(bytes: usize, name: &str, kind: elf::SectionType, content: Vec<u8>) -> Files {
    let (mut image, symbols) = image_with(std::iter::once("k".to_owned()));
    image.add(Section::new(name, kind, content));
    for _ in 0..(bytes / 128).min(60_000) {
        image.add(Section::new(name, kind, []));
    }
    let mut object = finish(image, symbols);
    overlap(&mut object, name);
    Files::of(object, "k")
}

fn symbol_names(bytes: usize) -> Files {
    let long = "x".repeat(bytes / 2);
    let count = bytes / 72;
    let (image, mut symbols) = image_with((0..count).map(|at| format!("k{at}")));
    symbols.push(Symbol::global(&long, elf::STT_FUNC, 1, 0, 4));
    let mut object = finish(image, symbols);
    let last = patch::symbol_named(&object, &long);
    let name = patch::get(&object, last + symbol::NAME, 4);
    for at in 1..=count {
        patch::put(&mut object, last - 24 * at + symbol::NAME, ((name + at) as u32).to_le_bytes());
    }
    Files::of(object, "x")
}

fn section_names(bytes: usize) -> Files {
    let long = format!(".ascend.meta.{}", "x".repeat(bytes / 2));
    let (mut image, symbols) = image_with(std::iter::once("k".to_owned()));
    let number = image.add(Section::new(&long, elf::SHT_NOTE, [])) as usize;
    let count = (bytes / 128).min(60_000);
    for _ in 0..count {
        image.add(Section::new("s", elf::SHT_NOTE, []));
    }
    let mut object = finish(image, symbols);
    let header = patch::section_header(&object, number);
    let name = patch::get(&object, header + section::NAME, 4);
    for at in 1..=count {
        patch::put(&mut object, header + 64 * at + section::NAME, ((name + at) as u32).to_le_bytes());
    }
    Files::of(object, "k")
}

/// Kernels that share the bytes of their metadata.
fn kernels_sharing(bytes: usize, shared: Metadata) -> Files {
    let count = (bytes / 400).min(60_000);
    let (mut image, symbols) = image_with((0..count).map(|at| format!("k{at}")));
    image.add(metadata_section("k0", elf::SHT_NOTE, shared));
    for at in 1..count {
        image.add(metadata_section(&format!("k{at}"), elf::SHT_NOTE, Metadata::default()));
    }
    let mut object = finish(image, symbols);
    overlap(&mut object, ".ascend.meta.");
    Files::of(object, "k0")
}

fn metadata(bytes: usize) -> Files {
    let record = |metadata: Metadata, _| metadata.record(3, 4, &[1, 0, 2, 0]);
    kernels_sharing(bytes, (0..bytes / 16).fold(Metadata::default(), record))
}

fn records(bytes: usize) -> Files {
    let record = |metadata: Metadata, _| metadata.record(99, 0, &[]);
    kernels_sharing(bytes, (0..bytes / 8).fold(Metadata::default(), record))
}

fn arguments(bytes: usize) -> Files {
    let value = [0, 5, 0, 1, 0, 0, 0, 0, 0, 1, 0, 2].repeat(2000);
    let record = |metadata: Metadata, _| metadata.record(4, value.len() as u16, &value);
    kernels_sharing(bytes, (0..bytes / 2 / value.len()).fold(Metadata::default(), record))
}

fn symbol_tables(bytes: usize) -> Files {
    let (mut image, symbols) = image_with((0..bytes / 80).map(|at| format!("k{at}")));
    let count = (bytes / 128).min(60_000);
    for _ in 0..count {
        image.add(Section::symbols(".symtab", elf::SHT_SYMTAB, Vec::new(), count as u32 + 2));
    }
    let mut object = finish(image, symbols);
    overlap(&mut object, ".symtab");
    Files::of(object, "k0")
}

fn comments(bytes: usize) -> Files {
    sections_of_one_name(bytes, ".comment", elf::SHT_PROGBITS, b"clang\0".repeat(bytes / 12))
}

fn stack_records(bytes: usize) -> Files {
    let content = 0x8000_u64.to_le_bytes().repeat(bytes / 16);
    sections_of_one_name(bytes, ".ascend.stack.size.record", elf::SHT_NOTE, content)
}

fn relocations(bytes: usize) -> Files {
    sections_of_one_name(bytes, ".rela.text", elf::SHT_RELA, vec![1; bytes / 48 * 24])
}
