//! The sections and symbols of an object: a part of what `inspect` shows, and all that `diff` compares.

use opkeep_digest::Digest;
use opkeep_validator::{ObjectOutline, SectionOutline, SymbolOutline};
use serde::Serialize;

use crate::ui::text::{Text, columns, counted, shortened};

/// The maximum number of sections, and of symbols, in text.
const MAX_LISTED: usize = 20;
/// The maximum number of characters of a name in text.
const MAX_NAME: usize = 100;
/// The maximum number of characters of a section's name beside a symbol.
const MAX_SECTION: usize = 80;

/// What a field is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldKind {
    /// The file, or something in it that has a name of its own choice.
    Other,
    /// A section of an object.
    Section,
    /// A symbol of an object.
    Symbol,
}

/// Returns the kind, a name and a value for each section and each symbol, with its size and its digest.
pub(super) fn fields(outline: &ObjectOutline) -> impl Iterator<Item = (FieldKind, String, String)> {
    let places: Vec<String> = outline.sections.iter().map(|section| place(&section.name)).collect();
    let sections = outline.sections.iter().map(|SectionOutline { name, bytes, digest, .. }| {
        (FieldKind::Section, format!("section {name}"), with_digest(counted(*bytes, "byte"), *digest))
    });
    let symbols = outline.symbols.iter().map(move |symbol| {
        let place = symbol.section.and_then(|at| places.get(at)).map_or("undefined", String::as_str);
        let value = with_digest(symbol_text(symbol, place), symbol.digest);
        (FieldKind::Symbol, format!("symbol {}", symbol.name), value)
    });
    sections.chain(symbols)
}

/// Returns the first sections and symbols with their sizes: first those of kernels, which are global functions.
pub(super) fn text(outline: &ObjectOutline) -> Text {
    let is_kernel = |symbol: &&SymbolOutline| symbol.is_global && symbol.kind == "function";
    let (kernels, others): (Vec<_>, Vec<_>) = outline.symbols.iter().partition(is_kernel);
    let sections = outline.sections.iter().map(|section| {
        vec![format!("section {}", shortened(&section.name, MAX_NAME)), counted(section.bytes, "byte")]
    });
    let symbols = kernels.into_iter().chain(others).map(|symbol| {
        let section = symbol.section.and_then(|at| outline.sections.get(at));
        let place = section.map_or_else(|| "undefined".to_owned(), |section| place(&section.name));
        vec![format!("symbol {}", shortened(&symbol.name, MAX_NAME)), symbol_text(symbol, &place)]
    });
    let rows: Vec<_> = sections.take(MAX_LISTED).chain(symbols.take(MAX_LISTED)).collect();
    let mut text = columns("  ", &rows);
    for (count, what) in [(outline.sections.len(), "section"), (outline.symbols.len(), "symbol")] {
        if let Some(more @ 1..) = count.checked_sub(MAX_LISTED) {
            let more = counted(more, &format!("more {what}"));
            text.line(format_args!("  and {more}: --format json lists all"));
        }
    }
    text
}

/// `global function in .text, 273 bytes`.
fn symbol_text(symbol: &SymbolOutline, place: &str) -> String {
    let scope = if symbol.is_global { "global" } else { "local" };
    format!("{scope} {} {place}, {}", symbol.kind, counted(symbol.bytes, "byte"))
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

fn with_digest(text: String, digest: Option<Digest>) -> String {
    match digest {
        Some(digest) => format!("{text}, sha256 {digest}"),
        None => text,
    }
}

/// The outline as JSON.
#[derive(Serialize)]
pub(super) struct OutlineOutput<'a> {
    sections: Vec<SectionOutput<'a>>,
    symbols: Vec<SymbolOutput<'a>>,
}

#[derive(Serialize)]
struct SectionOutput<'a> {
    name: &'a str,
    bytes: u64,
    sha256: Option<String>,
}

#[derive(Serialize)]
struct SymbolOutput<'a> {
    name: &'a str,
    kind: &'static str,
    is_global: bool,
    /// An index into the sections, whose names may be long.
    section: Option<usize>,
    bytes: u64,
    sha256: Option<String>,
}

impl<'a> From<&'a ObjectOutline> for OutlineOutput<'a> {
    fn from(outline: &'a ObjectOutline) -> Self {
        let sha256 = |digest: &Option<Digest>| digest.as_ref().map(Digest::to_string);
        let section = |section: &'a SectionOutline| SectionOutput {
            name: &section.name,
            bytes: section.bytes,
            sha256: sha256(&section.digest),
        };
        let symbol = |symbol: &'a SymbolOutline| SymbolOutput {
            name: &symbol.name,
            kind: symbol.kind,
            is_global: symbol.is_global,
            section: symbol.section,
            bytes: symbol.bytes,
            sha256: sha256(&symbol.digest),
        };
        Self {
            sections: outline.sections.iter().map(section).collect(),
            symbols: outline.symbols.iter().map(symbol).collect(),
        }
    }
}
