//! The change of a toolchain in a few words.

use std::collections::BTreeMap;

use opkeep_digest::{Digest, Part, PartChange};

/// The longest text of a part that is shown in a line, in characters.
const MAX_CHARACTERS: usize = 60;
/// The maximum number of names in a line.
const MAX_NAMES: usize = 3;

/// Returns the changes of a toolchain in a few words: `compiler gcc 12.2.0 -> clang 14.0.6`. An upgrade changes most parts of a
/// toolchain, so the version stands for all; if it is unchanged, a text that the backend puts into words, the first one with a number, the
/// first one, or else the names of the parts. Inputs that
/// a user declares follow from nothing, and are named beside a text. `descriptions` has the words of the backend for parts whose names
/// do not say what they are. `None` if nothing changed.
pub(super) fn toolchain_text<'a>(
    changes: impl IntoIterator<Item = &'a PartChange>,
    descriptions: &BTreeMap<String, String>,
) -> Option<String> {
    let changes: Vec<&PartChange> = changes.into_iter().collect();
    let is_text = |change: &&&PartChange| change.old.iter().chain(&change.new).all(is_short_text);
    let version = changes.iter().find(|change| is_version(&change.name) && is_text(change));
    let numbered =
        |change: &&&PartChange| is_text(change) && [&change.old, &change.new].into_iter().all(has_digit);
    let described = |change: &&&PartChange| is_text(change) && descriptions.contains_key(&change.name);
    let text = version.or_else(|| changes.iter().find(described));
    let text = text.or_else(|| changes.iter().find(numbered)).or_else(|| changes.iter().find(is_text));
    let mut texts = Vec::new();
    if let Some(change) = text {
        texts.push(descriptions.get(&change.name).cloned().unwrap_or_else(|| text_change(change)));
    }
    let has_text = text.is_some();
    let others = changes.iter().copied().filter(|change| !has_text || is_declared(&change.name));
    texts.extend(content_changes(others, descriptions));
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// Returns the change of a part whose content is a text.
fn text_change(PartChange { name, old, new }: &PartChange) -> String {
    let name = if is_version(name) { "compiler" } else { name };
    match (old, new) {
        (Some(old), Some(new)) => {
            let (old, new) = versions(&old.note, &new.note);
            format!("{name} {old} -> {new}")
        }
        (old, new) => {
            let note = |part: &Option<Part>| part.as_ref().map_or("(none)", |part| &part.note).to_owned();
            format!("{name} {} -> {}", note(old), note(new))
        }
    }
}

/// Returns the changes of parts whose contents are no texts: the descriptions, and the names of the others, by what became of them.
fn content_changes<'a>(
    changes: impl IntoIterator<Item = &'a PartChange>,
    descriptions: &BTreeMap<String, String>,
) -> Vec<String> {
    let (mut described, mut changed, mut gone, mut new) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for PartChange { name, old, new: now } in changes {
        match (descriptions.get(name), old, now) {
            (Some(description), ..) => described.push(description.as_str()),
            (None, Some(_), Some(_)) => changed.push(name.as_str()),
            (None, Some(_), None) => gone.push(name.as_str()),
            (None, None, _) => new.push(name.as_str()),
        }
    }
    let mut texts = Vec::new();
    for (before, names) in [
        ("", described),
        ("toolchain: other content of ", changed),
        ("new in the toolchain: ", new),
        ("no longer in the toolchain: ", gone),
    ] {
        let shown = names.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(", ");
        match names.len().saturating_sub(MAX_NAMES) {
            _ if names.is_empty() => {}
            0 => texts.push(format!("{before}{shown}")),
            more => texts.push(format!("{before}{shown} and {more} more")),
        }
    }
    texts
}

/// Whether a part is an input that the user declares: backends name these so.
fn is_declared(name: &str) -> bool {
    name.starts_with("input ")
}

fn is_version(name: &str) -> bool {
    name == "version"
}

/// Whether the content of a part is a short text, and not one with a digest.
fn is_short_text(part: &Part) -> bool {
    part.note.chars().count() <= MAX_CHARACTERS && Digest::of(part.note.as_bytes()) == part.digest
}

fn has_digit(part: &Option<Part>) -> bool {
    part.as_ref().is_some_and(|part| part.note.contains(|letter: char| letter.is_ascii_digit()))
}

/// Returns two versions without what the vendor adds, unless they differ only in that.
fn versions(old: &str, new: &str) -> (String, String) {
    match (program_version(old), program_version(new)) {
        (Some(old), Some(new)) if old != new => (old, new),
        _ => (old.to_owned(), new.to_owned()),
    }
}

/// `clang 14.0.6` of `Debian clang version 14.0.6`, which is how C compilers state their version.
fn program_version(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "version")?;
    let (name, version) = (words.get(at.checked_sub(1)?)?, words.get(at + 1)?);
    Some(format!("{name} {version}"))
}

#[cfg(test)]
mod tests {
    use opkeep_testkit::fingerprint;

    use super::*;

    const GCC: &str = "gcc version 12.2.0 (Debian 12.2.0-14+deb12u1)";

    #[test]
    fn an_upgrade_is_named_by_its_version() {
        let old = fingerprint(&[("triple", "x86_64"), ("version", GCC)], &[("cc1", "1"), ("as", "1")]);
        let long = "-O3 ".repeat(40);
        for (texts, files, expected) in [
            (
                &[("triple", "x86_64-pc"), ("version", "Debian clang version 14.0.6"), ("flags", "-O3")][..],
                &[("clang", "2")][..],
                "compiler gcc 12.2.0 -> clang 14.0.6",
            ),
            (
                &[("triple", "x86_64"), ("version", "gcc version 12.2.0 (Debian 12.2.0-14)")],
                &[("cc1", "2"), ("as", "1")],
                "compiler gcc version 12.2.0 (Debian 12.2.0-14+deb12u1) -> gcc version 12.2.0 (Debian 12.2.0-14)",
            ),
            (
                &[("triple", "x86_64"), ("version", GCC), ("arguments", "-O1"), ("flags", &long)],
                &[("cc1", "1"), ("as", "1")],
                "arguments (none) -> -O1",
            ),
            (
                &[("triple", "x86_64"), ("version", GCC)],
                &[("cc1", "2"), ("as", "2"), ("ld", "2"), ("collect2", "2")],
                "toolchain: other content of cc1, as; new in the toolchain: ld, collect2",
            ),
            (&[("triple", "x86_64")], &[("cc1", "1"), ("as", "1")], &format!("compiler {GCC} -> (none)")),
        ] {
            let changes = old.diff(&fingerprint(texts, files));
            assert_eq!(toolchain_text(&changes, &BTreeMap::new()).as_deref(), Some(expected));
        }
        assert_eq!(toolchain_text(&[], &BTreeMap::new()), None);
        // CANN's packages have numbers as versions.
        let cann = |version: &str| fingerprint(&[("compiler", version), ("opp", version)], &[]);
        let changes = cann("7.7.0.1.238").diff(&cann("7.8.0"));
        assert_eq!(toolchain_text(&changes, &BTreeMap::new()).unwrap(), "compiler 7.7.0.1.238 -> 7.8.0");
    }

    /// Only what both have may have another content. An input that a user declares is named beside an upgrade.
    #[test]
    fn new_and_gone_parts_are_named_so() {
        let old = fingerprint(&[("version", "1")], &[("input a.h", "1"), ("input b.h", "1"), ("cc1", "1")]);
        for (texts, files, expected) in [
            (
                "1",
                &[("input b.h", "1"), ("input c.h", "1"), ("cc1", "1")][..],
                "new in the toolchain: input c.h; no longer in the toolchain: input a.h",
            ),
            (
                "1",
                &[("input a.h", "1"), ("input b.h", "2"), ("cc1", "1"), ("as", "1")],
                "toolchain: other content of input b.h; new in the toolchain: as",
            ),
            (
                "2",
                &[("input a.h", "1"), ("cc1", "2")],
                "compiler 1 -> 2; no longer in the toolchain: input b.h",
            ),
        ] {
            let changes = old.diff(&fingerprint(&[("version", texts)], files));
            assert_eq!(toolchain_text(&changes, &BTreeMap::new()).as_deref(), Some(expected));
        }
    }

    /// A backend's words stand in the place of a part's name.
    #[test]
    fn descriptions_are_used() {
        let old = fingerprint(&[], &[("file read 2", "1"), ("cc1", "1")]);
        let words = |name: &str, words: &str| BTreeMap::from([(name.to_owned(), words.to_owned())]);
        let changes = old.diff(&fingerprint(&[], &[("file read 2", "2"), ("cc1", "1")]));
        let text = toolchain_text(&changes, &words("file read 2", "file pre.h: other content"));
        assert_eq!(text.unwrap(), "file pre.h: other content");
        let changes = old.diff(&fingerprint(&[("called as", "my-cc")], &[("cc1", "2")]));
        let text = toolchain_text(&changes, &words("called as", "compiler is called through my-cc"));
        assert_eq!(text.unwrap(), "compiler is called through my-cc");
    }

    #[test]
    fn programs_state_their_version() {
        for (text, expected) in [
            (GCC, Some("gcc 12.2.0")),
            ("Apple clang version 15.0.0 (clang-1500.3.9.4)", Some("clang 15.0.0")),
            ("clang version 14.0.0-1ubuntu1", Some("clang 14.0.0-1ubuntu1")),
            ("version 3", None),
            ("a version", None),
            ("7.8.0", None),
        ] {
            assert_eq!(program_version(text).as_deref(), expected, "{text}");
        }
    }
}
