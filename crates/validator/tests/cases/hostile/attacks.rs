//! Attacks by objects, each of variable size.

use object::elf;
use opkeep_testkit::ascend::{Chip, Kernel, Metadata, metadata_section};
use opkeep_testkit::image::{Content, Image, Section, Symbol};
use opkeep_testkit::patch;
use opkeep_validator::Code;

use crate::hostile::Files;

/// An attack of a size that is about the number of bytes.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) make: fn(usize) -> Files,
    /// The codes that are found at [`SIZE`].
    pub(crate) codes: &'static [Code],
}

/// A size that makes each of them an attack.
pub(crate) const SIZE: usize = 70 << 10;

pub(crate) const ATTACKS: [Attack; 15] = [
    Attack { name: "symbols", make: symbols, codes: &[Code::UNLISTED] },
    Attack { name: "symbols of one name", make: symbols_of_one_name, codes: &[Code::SAME_NAME] },
    Attack { name: "undefined symbols", make: undefined_symbols, codes: &[Code::UNDEFINED] },
    Attack { name: "weak symbols", make: weak_symbols, codes: &[] },
    Attack { name: "sections", make: sections, codes: &[] },
    Attack { name: "symbol tables", make: symbol_tables, codes: &[Code::KERNEL] },
    Attack { name: "kernels with metadata", make: kernels_with_metadata, codes: &[] },
    Attack { name: "metadata of nothing", make: metadata_of_nothing, codes: &[Code::STRAY_METADATA] },
    Attack { name: "metadata of one kernel", make: metadata_of_one_kernel, codes: &[Code::METADATA] },
    Attack { name: "empty records", make: empty_records, codes: &[Code::METADATA] },
    Attack { name: "empty arguments", make: empty_arguments, codes: &[] },
    Attack { name: "stack records", make: stack_records, codes: &[Code::ARGUMENT_RECORD] },
    Attack { name: "comments", make: comments, codes: &[] },
    Attack {
        name: "a name without end",
        make: name_without_end,
        codes: &[Code::MALFORMED, Code::TEXT_PLACE],
    },
    Attack { name: "zeroes", make: zeroes, codes: &[Code::MALFORMED] },
];

/// An image for the device with code for `kernels`, and those as its symbols.
pub(crate) fn image_with(kernels: impl Iterator<Item = String>) -> (Image, Vec<Symbol>) {
    let mut image = Image { elf_type: elf::ET_EXEC.0, machine: 0x1029, ..Image::default() };
    let symbols: Vec<Symbol> = (0..)
        .step_by(4)
        .zip(kernels)
        .map(|(at, name)| Symbol::global(name, elf::STT_FUNC, 1, at, 4))
        .collect();
    let flags = elf::SectionFlags(elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0);
    let text = Section::new(".text", elf::SHT_PROGBITS, vec![0x5a; 4 * symbols.len()]);
    image.add(text.flags(flags).align(4));
    (image, symbols)
}

/// Adds the tables of symbols and names.
pub(crate) fn finish(mut image: Image, symbols: Vec<Symbol>) -> Vec<u8> {
    let strings = image.add(Section::strings(".strtab"));
    image.names = strings;
    image.add(Section::symbols(".symtab", elf::SHT_SYMTAB, symbols, strings));
    image.write()
}

/// One kernel `k`, and the additions of `add`.
fn with_one_kernel(add: impl FnOnce(&mut Image, &mut Vec<Symbol>)) -> Files {
    let (mut image, mut symbols) = image_with(std::iter::once("k".to_owned()));
    add(&mut image, &mut symbols);
    Files::of(finish(image, symbols), "k")
}

fn symbols(bytes: usize) -> Files {
    let (image, symbols) = image_with((0..bytes / 36).map(|at| format!("k{at}")));
    Files::of(finish(image, symbols), "k0")
}

fn more_symbols(bytes: usize, symbol: impl Fn(usize) -> Symbol) -> Files {
    with_one_kernel(|_, symbols| symbols.extend((0..bytes / 32).map(symbol)))
}

fn symbols_of_one_name(bytes: usize) -> Files {
    more_symbols(bytes, |at| Symbol::global("k", elf::STT_FUNC, 1, 4 + 4 * at as u64, 4))
}

fn undefined_symbols(bytes: usize) -> Files {
    more_symbols(bytes, |at| Symbol::global(format!("u{at}"), elf::STT_FUNC, 0, 0, 0))
}

fn weak_symbols(bytes: usize) -> Files {
    more_symbols(bytes, |at| Symbol::global(format!("w{at}"), elf::STT_FUNC, 1, 0, 4).bound(elf::STB_WEAK))
}

fn sections(bytes: usize) -> Files {
    with_one_kernel(|image, _| {
        for at in 0..bytes / 70 {
            image.add(Section::new(format!("s{at}"), elf::SHT_PROGBITS, []));
        }
    })
}

/// Each with one kernel more.
fn symbol_tables(bytes: usize) -> Files {
    with_one_kernel(|image, _| {
        for at in 0..bytes / 128 {
            let symbol = Symbol::global(format!("t{at}"), elf::STT_FUNC, 1, 0, 4);
            image.add(Section::symbols(".symtab", elf::SHT_SYMTAB, vec![symbol], 2));
        }
        let strings = image.sections.len() as u32 + 1;
        for section in &mut image.sections {
            if matches!(section.content, Content::Symbols(_)) {
                section.link = strings;
            }
        }
    })
}

fn kernels_with_metadata(bytes: usize) -> Files {
    let kernel = Kernel::new(Chip::Ascend910B, "k").code_bytes(4);
    kernel.keys((0..bytes as u64 / 600).rev().collect::<Vec<_>>()).build().into()
}

fn metadata_of_nothing(bytes: usize) -> Files {
    with_one_kernel(|image, _| {
        for at in 0..bytes / 100 {
            let metadata = Metadata::default().kernel_type(3);
            image.add(metadata_section(&format!("n{at}"), elf::SHT_NOTE, metadata));
        }
    })
}

fn metadata_of_one_kernel(bytes: usize) -> Files {
    with_one_kernel(|image, _| {
        for at in 0..bytes / 72 {
            let metadata = Metadata::default().kernel_type(at as u32);
            image.add(metadata_section("k", elf::SHT_NOTE, metadata));
        }
    })
}

fn empty_records(bytes: usize) -> Files {
    let record = |metadata: Metadata, at: usize| metadata.record((at % 40) as u16, 0, &[]);
    let metadata = (0..bytes / 4).fold(Metadata::default(), record);
    with_one_kernel(|image, _| {
        image.add(metadata_section("k", elf::SHT_NOTE, metadata));
    })
}

/// As many arguments as records can hold, in as many records as fit.
fn empty_arguments(bytes: usize) -> Files {
    let value = [0, 5, 0, 0].repeat(16_000);
    let record = |metadata: Metadata, _| metadata.record(4, value.len() as u16, &value);
    let metadata = (0..bytes.div_ceil(value.len())).fold(Metadata::default(), record);
    with_one_kernel(|image, _| {
        image.add(metadata_section("k", elf::SHT_NOTE, metadata));
    })
}

fn stack_records(bytes: usize) -> Files {
    with_one_kernel(|image, _| {
        let record = 0x8000_u64.to_le_bytes().repeat(bytes / 8);
        image.add(Section::new(".ascend.stack.size.record", elf::SHT_NOTE, record));
        image.add(Section::new("__CCE_KernelArgSize", elf::SHT_NOTE, vec![8; bytes / 8]));
    })
}

fn comments(bytes: usize) -> Files {
    with_one_kernel(|image, _| {
        image.add(Section::new(".comment", elf::SHT_PROGBITS, b"a\0".repeat(bytes / 2)));
    })
}

/// It contains no NUL, and ends the file.
fn name_without_end(bytes: usize) -> Files {
    let mut files = with_one_kernel(|_, _| {});
    let object = &mut files.object;
    let header = patch::section_named(object, ".strtab");
    let at = object.len();
    object.extend(vec![b'k'; bytes]);
    patch::put(object, header + patch::section::OFFSET, (at as u64).to_le_bytes());
    patch::put(object, header + patch::section::SIZE, (bytes as u64).to_le_bytes());
    Files::of(std::mem::take(object), "k")
}

fn zeroes(bytes: usize) -> Files {
    let mut object = vec![0; bytes];
    patch::put(&mut object, 0, b"\x7fELF\x02\x01\x01");
    patch::put(&mut object, patch::header::TYPE, [2, 0, 0x29, 0x10, 1]);
    patch::put(&mut object, patch::header::SHOFF, [64]);
    patch::put(&mut object, patch::header::SHENTSIZE, [64, 0, 0xff, 0xfe]);
    Files::of(object, "k")
}
