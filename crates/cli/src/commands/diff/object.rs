//! The sections and symbols of an object as fields that are compared.

use std::collections::{BTreeMap, HashMap};

use opkeep_digest::Digest;
use opkeep_validator::{ObjectOutline, SectionOutline, SymbolOutline};

use crate::ui::text::counted;

/// Adds a field for each section and each symbol of `bytes`, if it is an object: with its size and its digest. The second one with a
/// name and the following ones have numbers.
pub(super) fn add_outline(fields: &mut BTreeMap<String, String>, bytes: &[u8]) {
    let Some(ObjectOutline { sections, symbols, .. }) = ObjectOutline::of(bytes) else { return };
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
        let place = section.map_or_else(|| "undefined".to_owned(), |section| format!("in {section}"));
        add(format!("symbol {name}"), format!("{scope} {kind} {place}, {}", sized(bytes, digest)));
    }
}

fn sized(bytes: u64, digest: Option<Digest>) -> String {
    let bytes = counted(bytes, "byte");
    digest.map_or_else(|| bytes.clone(), |digest| format!("{bytes}, sha256 {digest}"))
}
