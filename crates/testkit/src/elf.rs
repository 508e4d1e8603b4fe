//! Writing kernel objects.

use object::write::{Object, StandardSection, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope};

/// The ELF machine of this host's objects, as [`host_object`] writes them.
pub const HOST_MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

/// A relocatable object for this host with the functions `kernels`, each of which returns at once.
///
/// The text of `note` is in a comment section, so that objects differ.
pub fn host_object(kernels: &[&str], note: &str) -> Vec<u8> {
    object_with(None, kernels, note)
}

/// A relocatable object for this host with the functions `kernels` in the section `section`.
pub fn host_object_in(section: &str, kernels: &[&str]) -> Vec<u8> {
    object_with(Some(section), kernels, "")
}

fn object_with(section: Option<&str>, kernels: &[&str], note: &str) -> Vec<u8> {
    let (architecture, code): (_, &[u8]) = if cfg!(target_arch = "aarch64") {
        (Architecture::Aarch64, &[0xc0, 0x03, 0x5f, 0xd6]) // ret
    } else {
        (Architecture::X86_64, &[0xc3]) // ret
    };
    let mut object = Object::new(BinaryFormat::Elf, architecture, Endianness::Little);
    let text = match section {
        Some(name) => object.add_section(Vec::new(), name.as_bytes().to_vec(), SectionKind::Text),
        None => object.section_id(StandardSection::Text),
    };
    for kernel in kernels {
        let offset = object.append_section_data(text, code, 16);
        object.add_symbol(Symbol {
            name: kernel.as_bytes().to_vec(),
            value: offset,
            size: code.len() as u64,
            kind: SymbolKind::Text,
            scope: SymbolScope::Dynamic,
            weak: false,
            section: SymbolSection::Section(text),
            flags: SymbolFlags::None,
        });
    }
    let comment = object.section_id(StandardSection::ReadOnlyData);
    object.append_section_data(comment, note.as_bytes(), 1);
    object.write().unwrap_or_default()
}
