//! The changed parts of a toolchain in few lines: texts with what changed in them, and the names of all others.

use std::collections::BTreeMap;

use opkeep_digest::{Digest, Part, PartChange};

use crate::ui::text::shortened;

/// The longest text of which all is shown; of a longer one, the words that changed are.
const MAX_TEXT: usize = 80;
/// The longest shown list of changed words.
const MAX_WORDS: usize = 60;
/// The maximum number of names in a line.
const MAX_NAMES: usize = 4;

/// Returns one line for each part whose content is a text or that has a description, and one for the names of the parts that changed, are gone, or are new.
/// With `all`, every name and every changed word is there; whole long texts are in JSON only.
pub(super) fn part_lines<'a>(
    changes: impl IntoIterator<Item = &'a PartChange>,
    descriptions: &BTreeMap<String, String>,
    all: bool,
) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut changed, mut gone, mut new) = (Vec::new(), Vec::new(), Vec::new());
    for PartChange { name, old, new: now } in changes {
        let name = name.as_str();
        if let Some(description) = descriptions.get(name) {
            lines.push(description.clone());
            continue;
        }
        match (old, now) {
            (Some(old), Some(now)) if is_text(old) && is_text(now) => {
                match text_change(&old.note, &now.note, all) {
                    Some(change) => lines.push(format!("{name}: {change}")),
                    None => changed.push(name),
                }
            }
            (Some(_), Some(_)) => changed.push(name),
            (None, Some(now)) if is_text(now) => {
                lines.push(format!("{name}: (none) -> {}", cut(&now.note, all)))
            }
            (Some(old), None) if is_text(old) => {
                lines.push(format!("{name}: {} -> (none)", cut(&old.note, all)))
            }
            (Some(_), None) => gone.push(name),
            (None, Some(_)) => new.push(name),
            (None, None) => {}
        }
    }
    opkeep_order::by_key(&mut lines, |line| !line.starts_with("version: "));
    for (what, names) in [("changed", changed), ("gone", gone), ("new", new)] {
        let limit = if all { usize::MAX } else { MAX_NAMES };
        let shown = names.iter().take(limit).copied().collect::<Vec<_>>().join(", ");
        match names.len().saturating_sub(limit) {
            _ if names.is_empty() => {}
            0 => lines.push(format!("{what}: {shown}")),
            more => lines.push(format!("{what}: {shown} and {more} more")),
        }
    }
    lines
}

/// Whether the content of a part is its text, and not only described by it.
fn is_text(part: &Part) -> bool {
    Digest::of(part.note.as_bytes()) == part.digest
}

fn cut(text: &str, all: bool) -> String {
    if all { text.to_owned() } else { shortened(text, MAX_TEXT) }
}

/// Returns what changed in a text: of a long one, the words. `None` if they have only another order, or without `all` are too many.
fn text_change(old: &str, new: &str, all: bool) -> Option<String> {
    if old.chars().count().max(new.chars().count()) <= MAX_TEXT {
        return Some(format!("{old} -> {new}"));
    }
    let changed = [words_beyond(old, new).join(" "), words_beyond(new, old).join(" ")];
    let is_short = |words: &String| all || words.chars().count() <= MAX_WORDS;
    let is_shown = changed.iter().any(|words| !words.is_empty()) && changed.iter().all(is_short);
    let [gone, added] = changed.map(|words| if words.is_empty() { "(none)".to_owned() } else { words });
    is_shown.then(|| format!("{gone} -> {added}"))
}

/// Returns the words of `text` that `other` lacks, each as often as it has more of it.
fn words_beyond<'a>(text: &'a str, other: &str) -> Vec<&'a str> {
    let mut others: Vec<&str> = other.split_whitespace().collect();
    let is_beyond = |word: &&str| match others.iter().position(|other| other == word) {
        Some(at) => {
            others.swap_remove(at);
            false
        }
        None => true,
    };
    text.split_whitespace().filter(is_beyond).collect()
}

#[cfg(test)]
mod tests {
    use opkeep_testkit::fingerprint;

    use super::*;

    #[test]
    fn an_upgrade_takes_few_lines() {
        let flags = |flag: &str| format!("-std=c11 -O3 {flag} -fPIC {}", "-Wall ".repeat(20));
        let old = fingerprint(
            &[("flags", &flags("-fno-tree-vectorize")), ("version", "gcc 12"), ("triple", "x86_64")],
            &[("driver", "1"), ("cc1", "1"), ("as", "1"), ("ld", "1"), ("a", "1"), ("b", "1"), ("c", "1")],
        );
        let new = fingerprint(
            &[("flags", &flags("-fno-builtin -fno-builtin")), ("version", "clang 14"), ("arguments", "-O1")],
            &[("driver", "2"), ("clang", "1"), ("ld", "1")],
        );
        assert_eq!(
            part_lines(&old.diff(&new), &BTreeMap::new(), false),
            [
                "version: gcc 12 -> clang 14",
                "flags: -fno-tree-vectorize -> -fno-builtin -fno-builtin",
                "triple: x86_64 -> (none)",
                "arguments: (none) -> -O1",
                "changed: driver",
                "gone: cc1, as, a, b and 1 more",
                "new: clang",
            ]
        );
        let described = BTreeMap::from([("driver".to_owned(), "compiler clang: other content".to_owned())]);
        let all = part_lines(&old.diff(&new), &described, true);
        assert!(all.contains(&"gone: cc1, as, a, b, c".to_owned()), "{all:?}");
        assert!(all.contains(&"compiler clang: other content".to_owned()), "{all:?}");
        assert!(!all.iter().any(|line| line.contains("driver")), "{all:?}");
        assert!(
            all.contains(&"flags: -fno-tree-vectorize -> -fno-builtin -fno-builtin".to_owned()),
            "{all:?}"
        );
    }

    /// The names of such parts are listed, and all changed words are shown on request.
    #[test]
    fn what_is_too_long_or_only_in_another_order_is_left_out() {
        let options = "-option ".repeat(20);
        for (old, new, all) in
            [("-a -b ", "-b -a ", None), ("-a ", &*options, Some(&*format!("-a -> {}", options.trim_end())))]
        {
            let [old, new] = [old, new].map(|words| format!("{words}{}", "x".repeat(80)));
            assert_eq!(text_change(&old, &new, false), None);
            assert_eq!(text_change(&old, &new, true).as_deref(), all);
        }
    }
}
