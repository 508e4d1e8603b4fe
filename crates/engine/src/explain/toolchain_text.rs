//! The change of a toolchain in a few words.

use opkeep_digest::{Digest, Part, PartChange};

/// The longest text of a part that is shown in a line, in characters.
const MAX_CHARACTERS: usize = 60;
/// The maximum number of names in a line.
const MAX_NAMES: usize = 3;

/// Returns the changes of a toolchain in a few words: `compiler gcc 12.2.0 -> clang 14.0.6`. An upgrade changes most parts of a
/// toolchain, so the version stands for all; if it is unchanged, the first part with a text, or else the names of the parts. `None` if
/// nothing changed.
pub(super) fn toolchain_text<'a>(changes: impl IntoIterator<Item = &'a PartChange>) -> Option<String> {
    let changes: Vec<&PartChange> = changes.into_iter().collect();
    let is_text = |change: &&&PartChange| change.old.iter().chain(&change.new).all(is_short_text);
    let version = changes.iter().find(|change| is_version(&change.name) && is_text(change));
    let numbered =
        |change: &&&PartChange| is_text(change) && [&change.old, &change.new].into_iter().all(has_digit);
    let text = version.or_else(|| changes.iter().find(numbered)).or_else(|| changes.iter().find(is_text));
    if let Some(PartChange { name, old, new }) = text {
        let name = if is_version(name) { "compiler" } else { name };
        return Some(match (old, new) {
            (Some(old), Some(new)) => {
                let (old, new) = versions(&old.note, &new.note);
                format!("{name} {old} -> {new}")
            }
            (old, new) => {
                let note = |part: &Option<Part>| part.as_ref().map_or("(none)", |part| &part.note).to_owned();
                format!("{name} {} -> {}", note(old), note(new))
            }
        });
    }
    let names: Vec<&str> = changes.iter().take(MAX_NAMES).map(|change| change.name.as_str()).collect();
    let more = changes.len() - names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!names.is_empty()).then(|| format!("toolchain: other content of {}{more}", names.join(", ")))
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
                "toolchain: other content of cc1, as, ld and 1 more",
            ),
            (&[("triple", "x86_64")], &[("cc1", "1"), ("as", "1")], &format!("compiler {GCC} -> (none)")),
        ] {
            let changes = old.diff(&fingerprint(texts, files));
            assert_eq!(toolchain_text(&changes).as_deref(), Some(expected));
        }
        assert_eq!(toolchain_text(&[]), None);
        // CANN's packages have numbers as versions.
        let cann = |version: &str| fingerprint(&[("compiler", version), ("opp", version)], &[]);
        let changes = cann("7.7.0.1.238").diff(&cann("7.8.0"));
        assert_eq!(toolchain_text(&changes).unwrap(), "compiler 7.7.0.1.238 -> 7.8.0");
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
