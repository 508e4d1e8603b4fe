//! A generated kernel: an x86-64 object with one kernel, and one symbol of each other kind.

use object::write::{Object, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope};
use opkeep_artifact::Expectations;
use opkeep_cann_meta::{KernelMeta, Magic, targets};
use opkeep_digest::Digest;

/// The kernel's name.
pub(crate) const KERNEL: &str = "add_1__kernel0";

/// The symbols of the object that are not kernels.
pub(crate) const NOT_KERNELS: [&str; 5] = ["hidden", "local", "undefined", "data", "function_in_data"];

/// The object, with the kernel called `kernel`.
pub(crate) fn object_with(kernels: &[&str]) -> Vec<u8> {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let text = object.add_section(vec![], b".text".to_vec(), SectionKind::Text);
    let data = object.add_section(vec![], b".data".to_vec(), SectionKind::Data);
    object.append_section_data(text, &[0xc3; 16], 16);
    object.append_section_data(data, &[1; 8], 8);

    let symbol = |name: &str, section, kind, scope| Symbol {
        name: name.as_bytes().to_vec(),
        value: 0,
        size: 1,
        kind,
        scope,
        weak: false,
        section,
        flags: SymbolFlags::None,
    };
    let code = SymbolSection::Section(text);
    let dynamic = SymbolScope::Dynamic;
    object.add_symbol(symbol("hidden", code, SymbolKind::Text, SymbolScope::Linkage));
    object.add_symbol(symbol("local", code, SymbolKind::Text, SymbolScope::Compilation));
    // By default an undefined symbol has no type; this one is a function in all but its section.
    let undefined = symbol("undefined", SymbolSection::Undefined, SymbolKind::Text, dynamic);
    object.add_symbol(Symbol {
        flags: SymbolFlags::Elf { st_info: global_function(), st_other: default() },
        ..undefined
    });
    object.add_symbol(symbol("data", SymbolSection::Section(data), SymbolKind::Data, dynamic));
    object.add_symbol(symbol("function_in_data", SymbolSection::Section(data), SymbolKind::Text, dynamic));
    for kernel in kernels {
        object.add_symbol(symbol(kernel, code, SymbolKind::Text, dynamic));
    }
    object.write().unwrap()
}

fn global_function() -> object::elf::SymbolInfo {
    object::elf::SymbolInfo::new(object::elf::STB_GLOBAL, object::elf::STT_FUNC)
}

fn default() -> object::elf::SymbolOther {
    object::elf::STV_DEFAULT.into()
}

/// The object.
pub(crate) fn object() -> Vec<u8> {
    object_with(&[KERNEL])
}

/// The description of `object`, with its own digest.
pub(crate) fn meta(object: &[u8]) -> KernelMeta {
    KernelMeta {
        bin_file_name: Some("add_1".into()),
        bin_file_suffix: Some(".o".into()),
        kernel_name: Some(KERNEL.into()),
        magic: Some(Magic::Elf.into()),
        sha256: Some(Digest::of(object).to_string()),
        ..KernelMeta::default()
    }
}

/// The expectations of the generated kernel's target.
pub(crate) fn expect() -> Expectations {
    targets::host("cpu-x86_64", 62)
}

/// The eight bytes at `at`, as a number.
pub(crate) fn word(object: &[u8], at: usize) -> usize {
    u64::from_le_bytes(object[at..at + 8].try_into().unwrap()) as usize
}

/// The offset of the header of the first section of type `sh_type`.
pub(crate) fn section_header(object: &[u8], sh_type: u8) -> usize {
    let headers = word(object, 0x28);
    (headers..object.len()).step_by(64).find(|at| object[at + 4] == sh_type).unwrap()
}
