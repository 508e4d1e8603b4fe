//! The sections and symbols of an object with their digests, for comparisons.

use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{SectionHeader as _, Sym as _};
use opkeep_digest::Digest;

use super::{Elf, NamedSymbol, Section};
use crate::elf::facts::ElfType;
use crate::findings::Findings;

/// The sections and the symbols of an ELF object, in the order of its tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectOutline {
    /// The sections, without the null section.
    pub sections: Vec<SectionOutline>,
    /// The named symbols: those of the symbol table, and of the dynamic one that the first lacks.
    pub symbols: Vec<SymbolOutline>,
}

/// A section.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SectionOutline {
    /// The name, lossily decoded.
    pub name: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The digest of the content; `None` if the file has none of it, or if it cannot be read.
    pub digest: Option<Digest>,
}

/// A symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SymbolOutline {
    /// The name, lossily decoded.
    pub name: String,
    /// `function`, `object` or `symbol`.
    pub kind: &'static str,
    /// Whether other objects see it.
    pub is_global: bool,
    /// Its section, as an index into [`ObjectOutline::sections`]: many symbols may be in one section, whose name may be as long as the
    /// file. `None` if it has none, such as an undefined symbol.
    pub section: Option<usize>,
    /// The size in bytes.
    pub bytes: u64,
    /// The digest of the content; `None` if it has none, or if it cannot be read.
    pub digest: Option<Digest>,
}

/// The number of bytes that may still be digested: sections and symbols of a hostile object share bytes.
struct Budget(usize);

impl Budget {
    fn digest(&mut self, content: &[u8]) -> Option<Digest> {
        self.0 = self.0.checked_sub(content.len())?;
        Some(Digest::of(content))
    }
}

impl ObjectOutline {
    /// Reads the outline of a 64-bit little-endian ELF object, as far as it can be read; `None` of any other file. Takes time and memory
    /// that are linear in the size of the file.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let elf = Elf::read(bytes, &mut Findings::new())?;
        // Each section, and each symbol in it, once.
        let mut budget = Budget(bytes.len().saturating_mul(2));
        let mut sections = Vec::new();
        // The place of each of the file's sections in the outline.
        let mut places = Vec::new();
        for (name, section) in elf.sections_with_names() {
            let is_null = section.sh_type(LE) == elf::SHT_NULL;
            places.push((!is_null).then_some(sections.len()));
            if !is_null {
                let content = section.data(LE, bytes).ok().filter(|content| !content.is_empty());
                sections.push(SectionOutline {
                    name: text(name),
                    bytes: section.sh_size(LE),
                    digest: content.and_then(|content| budget.digest(content)),
                });
            }
        }
        let is_named = |symbol: &super::Symbol| !matches!(symbol.st_type(), elf::STT_FILE | elf::STT_SECTION);
        let named = elf.named_symbols(is_named, |name| !name.is_empty()).unwrap_or_default();
        let (mut first, dynamic): (Vec<_>, Vec<_>) =
            named.into_iter().partition(|symbol| symbol.table == elf::SHT_SYMTAB);
        let known: std::collections::HashSet<&[u8]> = first.iter().map(|symbol| symbol.name).collect();
        let more: Vec<_> = dynamic.into_iter().filter(|symbol| !known.contains(symbol.name)).collect();
        first.extend(more);
        let symbols = first.iter().map(|symbol| of_symbol(&elf, symbol, &places, &mut budget)).collect();
        Some(Self { sections, symbols })
    }

    /// Checks that everything in the outline of `bytes` is linear in their size, by its text. A symbol of 24 bytes, which may be in both
    /// tables, has at most 330 bytes of text without its name, and a section of 64 bytes has 250. A byte of a name, which a section and a
    /// symbol may share, has at most 6 in each.
    ///
    /// # Panics
    /// If it is not, which is a bug in this crate.
    pub(crate) fn assert_linear(&self, bytes: &[u8]) {
        let (size, most) = (format!("{self:?}").len(), 1000 + 48 * bytes.len());
        assert!(size <= most, "the size of the outline is {size}, expected at most {most}");
    }
}

fn of_symbol(
    elf: &Elf<'_>,
    named: &NamedSymbol<'_>,
    places: &[Option<usize>],
    budget: &mut Budget,
) -> SymbolOutline {
    let NamedSymbol { symbol, name, section, .. } = named;
    let place = section.and_then(|at| places.get(at.0).copied().flatten());
    let section = section.and_then(|at| elf.sections.section(at).ok());
    let content = section.and_then(|section| content(elf, section, symbol.st_value(LE), symbol.st_size(LE)));
    SymbolOutline {
        name: text(name),
        kind: match symbol.st_type() {
            elf::STT_FUNC => "function",
            elf::STT_OBJECT => "object",
            _ => "symbol",
        },
        is_global: symbol.st_bind() != elf::STB_LOCAL,
        section: place,
        bytes: symbol.st_size(LE),
        digest: content.and_then(|content| budget.digest(content)),
    }
}

/// Returns the content of a symbol, if it has some. `value` is an offset in relocatable objects, an address in others.
fn content<'a>(elf: &Elf<'a>, section: &'a Section, value: u64, bytes: u64) -> Option<&'a [u8]> {
    let offset = match elf.elf_type() {
        Some(ElfType::Relocatable) => value,
        _ => value.checked_sub(section.sh_addr(LE))?,
    };
    let (offset, bytes) = (usize::try_from(offset).ok()?, usize::try_from(bytes).ok()?);
    let content = section.data(LE, elf.bytes).ok()?.get(offset..offset.checked_add(bytes)?)?;
    (!content.is_empty()).then_some(content)
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

#[cfg(test)]
mod tests {
    use opkeep_testkit::elf::{host_object, host_object_in};

    use super::*;

    #[test]
    fn an_outline_has_sections_and_symbols_with_their_digests() {
        let one = ObjectOutline::of(&host_object(&["add", "mul"], "note")).unwrap();
        let names: Vec<&str> = one.sections.iter().map(|section| section.name.as_str()).collect();
        assert!(names.contains(&".text") && !names.contains(&""), "{names:?}");
        let symbol = |outline: &ObjectOutline, name: &str| {
            outline.symbols.iter().find(|symbol| symbol.name == name).cloned().unwrap()
        };
        let add = symbol(&one, "add");
        let section = add.section.map(|at| one.sections[at].name.as_str());
        assert_eq!((add.kind, add.is_global, section), ("function", true, Some(".text")));
        assert!(add.digest.is_some() && add.bytes > 0, "{add:?}");
        // Another note changes a section, and no symbol.
        let other = ObjectOutline::of(&host_object(&["add", "mul"], "another")).unwrap();
        assert_eq!(one.symbols, other.symbols);
        assert_ne!(one.sections, other.sections);
        let text = |outline: &ObjectOutline| {
            outline.sections.iter().find(|section| section.name == ".text").cloned()
        };
        assert_eq!(text(&one), text(&other));
        assert_eq!(ObjectOutline::of(b"no object"), None);
    }

    /// An outline takes no more memory than its file allows, whatever symbols and sections share: here, thousands of symbols are in a
    /// section with a name of thousands of bytes.
    #[test]
    fn an_outline_is_linear_in_the_size_of_its_file() {
        let names: Vec<String> = (0..3000).map(|at| format!("s{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let bytes = host_object_in(&"x".repeat(50_000), &names);
        let outline = ObjectOutline::of(&bytes).unwrap();
        let place = outline.symbols[0].section.unwrap();
        assert_eq!((outline.symbols.len(), outline.sections[place].name.len()), (3000, 50_000));
        outline.assert_linear(&bytes);
    }

    /// Whatever a header says, no more is digested than twice the file.
    #[test]
    fn damaged_objects_have_an_outline_too() {
        let bytes = host_object(&["add"], "note");
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x81;
            if let Some(outline) = ObjectOutline::of(&damaged) {
                outline.assert_linear(&damaged);
            }
            ObjectOutline::of(&bytes[..at]);
        }
        let mut budget = Budget(5);
        assert_eq!([budget.digest(b"abc").is_some(), budget.digest(b"abc").is_some()], [true, false]);
    }
}
