//! Finds the fields of an ELF file by hand, to overwrite one.
//!
//! Readers of objects return values, not offsets; and a test should not locate its damage with the reader under test.
#![expect(clippy::panic, reason = "a test that asks for the impossible has to be mended")]

use std::ops::Range;

/// Offsets of the file header's fields.
pub mod header {
    /// `EI_CLASS`.
    pub const CLASS: usize = 4;
    /// `EI_DATA`.
    pub const DATA: usize = 5;
    /// `EI_VERSION`.
    pub const IDENT_VERSION: usize = 6;
    /// `e_type`, 2 bytes.
    pub const TYPE: usize = 16;
    /// `e_machine`, 2 bytes.
    pub const MACHINE: usize = 18;
    /// `e_version`, 4 bytes.
    pub const VERSION: usize = 20;
    /// `e_phoff`, 8 bytes.
    pub const PHOFF: usize = 32;
    /// `e_shoff`, 8 bytes.
    pub const SHOFF: usize = 40;
    /// `e_flags`, 4 bytes.
    pub const FLAGS: usize = 48;
    /// `e_phentsize`, 2 bytes.
    pub const PHENTSIZE: usize = 54;
    /// `e_phnum`, 2 bytes.
    pub const PHNUM: usize = 56;
    /// `e_shentsize`, 2 bytes.
    pub const SHENTSIZE: usize = 58;
    /// `e_shnum`, 2 bytes.
    pub const SHNUM: usize = 60;
    /// `e_shstrndx`, 2 bytes.
    pub const SHSTRNDX: usize = 62;
}

/// Offsets of a section header's fields.
pub mod section {
    /// `sh_name`, 4 bytes.
    pub const NAME: usize = 0;
    /// `sh_type`, 4 bytes.
    pub const TYPE: usize = 4;
    /// `sh_flags`, 8 bytes.
    pub const FLAGS: usize = 8;
    /// `sh_addr`, 8 bytes.
    pub const ADDRESS: usize = 16;
    /// `sh_offset`, 8 bytes.
    pub const OFFSET: usize = 24;
    /// `sh_size`, 8 bytes.
    pub const SIZE: usize = 32;
    /// `sh_link`, 4 bytes.
    pub const LINK: usize = 40;
    /// `sh_info`, 4 bytes.
    pub const INFO: usize = 44;
    /// `sh_addralign`, 8 bytes.
    pub const ALIGN: usize = 48;
    /// `sh_entsize`, 8 bytes.
    pub const ENTRY_SIZE: usize = 56;
}

/// Offsets of a symbol's fields.
pub mod symbol {
    /// `st_name`, 4 bytes.
    pub const NAME: usize = 0;
    /// `st_info`: the type in the lower half of a byte, the binding in the upper.
    pub const INFO: usize = 4;
    /// `st_other`: the visibility in the lowest two bits.
    pub const OTHER: usize = 5;
    /// `st_shndx`, 2 bytes.
    pub const SECTION: usize = 6;
    /// `st_value`, 8 bytes.
    pub const VALUE: usize = 8;
    /// `st_size`, 8 bytes.
    pub const SIZE: usize = 16;
}

/// Overwrites `bytes.len()` bytes.
pub fn put(object: &mut [u8], at: usize, bytes: impl AsRef<[u8]>) {
    let bytes = bytes.as_ref();
    object[at..at + bytes.len()].copy_from_slice(bytes);
}

/// The `bytes` bytes at `at` as a number.
pub fn get(object: &[u8], at: usize, bytes: usize) -> usize {
    object[at..at + bytes].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// The offset of the header of section `number`.
pub fn section_header(object: &[u8], number: usize) -> usize {
    get(object, header::SHOFF, 8) + 64 * number
}

/// The number of sections, with the null section.
pub fn section_count(object: &[u8]) -> usize {
    get(object, header::SHNUM, 2)
}

/// The number of the first section called `name`.
pub fn section_number(object: &[u8], name: &str) -> usize {
    let names = bytes_of(object, section_header(object, get(object, header::SHSTRNDX, 2)));
    (1..section_count(object))
        .find(|number| {
            let at = names.start + get(object, section_header(object, *number) + section::NAME, 4);
            text(object, at) == name.as_bytes()
        })
        .unwrap_or_else(|| panic!("there is no section `{name}`"))
}

/// The offset of the header of the first section called `name`.
pub fn section_named(object: &[u8], name: &str) -> usize {
    section_header(object, section_number(object, name))
}

/// The range in the file of the section whose header is at `header`.
pub fn bytes_of(object: &[u8], header: usize) -> Range<usize> {
    let offset = get(object, header + section::OFFSET, 8);
    offset..offset + get(object, header + section::SIZE, 8)
}

/// The offset of the symbol called `name` in `.symtab`, or in `.dynsym` if there is no `.symtab`.
pub fn symbol_named(object: &[u8], name: &str) -> usize {
    let is_table =
        |number: &usize| matches!(get(object, section_header(object, *number) + section::TYPE, 4), 2 | 11);
    let table = (1..section_count(object)).find(is_table).unwrap_or_else(|| panic!("there are no symbols"));
    let table = section_header(object, table);
    let names = bytes_of(object, section_header(object, get(object, table + section::LINK, 4)));
    bytes_of(object, table)
        .step_by(24)
        .find(|at| text(object, names.start + get(object, at + symbol::NAME, 4)) == name.as_bytes())
        .unwrap_or_else(|| panic!("there is no symbol `{name}`"))
}

fn text(object: &[u8], at: usize) -> &[u8] {
    object[at..].split(|byte| *byte == 0).next().unwrap_or_default()
}
