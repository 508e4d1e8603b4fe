//! The content of a kernel's object, without its name, which follows from the key.

use object::{Object, ObjectSection};

/// Sections that hold code, data, or what is linked against, with strings that are not the kernel's name.
pub(super) fn content_of(bytes: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let file = object::File::parse(bytes).ok()?;
    let mut content = Vec::new();
    for section in file.sections() {
        let (Ok(name), Ok(data)) = (section.name(), section.data()) else { continue };
        match name {
            ".dynstr" => content.push((name.to_owned(), strings(data))),
            // Addresses, hashes and offsets, which depend on the length of the name.
            ".dynsym" | ".dynamic" | ".plt" | ".shstrtab" | ".symtab" | ".strtab" => {}
            _ if [".got", ".rel", ".hash", ".gnu", ".eh_frame"].iter().any(|p| name.starts_with(p)) => {}
            _ => content.push((format!("{name} aligned to {}", section.align()), data.to_owned())),
        }
    }
    content.sort();
    Some(content)
}

fn strings(table: &[u8]) -> Vec<u8> {
    let mut strings: Vec<&[u8]> = table.split(|byte| *byte == 0).collect();
    strings.retain(|string| !string.ends_with(b"__kernel0"));
    strings.sort();
    strings.join(&b'\n')
}
