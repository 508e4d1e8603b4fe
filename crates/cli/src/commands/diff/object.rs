//! The sections and symbols of an object as fields that are compared.

use std::collections::{BTreeMap, HashMap};

use opkeep_digest::Digest;
use opkeep_validator::{ObjectOutline, SectionOutline, SymbolOutline};

use crate::ui::text::counted;

/// The maximum number of characters of a section's name beside a symbol.
const MAX_SECTION: usize = 80;

/// Adds a field for each section and each symbol of `bytes`, if it is an object: with its size and its digest. The second one with a
/// name and the following ones have numbers.
pub(super) fn add_outline(fields: &mut BTreeMap<String, String>, bytes: &[u8]) {
    let Some(ObjectOutline { sections, symbols, .. }) = ObjectOutline::of(bytes) else { return };
    let places: Vec<String> = sections.iter().map(|section| place(&section.name)).collect();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut add = |name: String, value: String| {
        let number = numbers.entry(name.clone()).or_default();
        *number += 1;
        let name = if *number == 1 { name } else { format!("{name} ({number})") };
        fields.insert(name, value);
    };
    for SectionOutline { name, bytes, digest, .. } in sections {
        add(format!("section {name}"), sized(bytes, digest));
    }
    for SymbolOutline { name, kind, is_global, section, bytes, digest, .. } in symbols {
        let scope = if is_global { "global" } else { "local" };
        let place = section.and_then(|at| places.get(at)).map_or("undefined", String::as_str);
        add(format!("symbol {name}"), format!("{scope} {kind} {place}, {}", sized(bytes, digest)));
    }
}

/// Returns the section of a symbol in a few words: many symbols may be in a section whose name is as long as the file.
fn place(section: &str) -> String {
    match section.char_indices().nth(MAX_SECTION) {
        Some((end, _)) => {
            format!("in {}... (name of sha256 {})", &section[..end], Digest::of(section.as_bytes()))
        }
        None => format!("in {section}"),
    }
}

fn sized(bytes: u64, digest: Option<Digest>) -> String {
    let bytes = counted(bytes, "byte");
    digest.map_or_else(|| bytes.clone(), |digest| format!("{bytes}, sha256 {digest}"))
}
