//! Names that programs make up for each run, as for temporary files: what stays the same in them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use opkeep_process::Observation;
use serde::{Deserialize, Serialize};

/// The form of a name of which a part is another for each run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pattern {
    directory: PathBuf,
    prefix: String,
    suffix: String,
    /// How many letters and digits are between them; none if these are digits, such as a process's number.
    length: Option<usize>,
}

impl Pattern {
    /// The forms of the names that are `made_up`, of which two runs have one each. A name without any part that stays has
    /// none.
    pub(crate) fn of(made_up: &BTreeSet<PathBuf>, one: &Observation, two: &Observation) -> Vec<Self> {
        let of = |seen: &Observation| -> Vec<&PathBuf> {
            made_up.iter().filter(|path| seen.looked_at.contains_key(*path)).collect()
        };
        let (firsts, seconds) = (of(one), of(two));
        let patterns = firsts.iter().filter_map(|first| {
            let both = seconds.iter().filter_map(|second| Self::between(first, second));
            both.max_by_key(|pattern| pattern.prefix.len() + pattern.suffix.len())
        });
        patterns.collect()
    }

    fn between(one: &Path, two: &Path) -> Option<Self> {
        let directory = one.parent().filter(|directory| two.parent() == Some(directory))?.to_owned();
        let (one, two) = (one.file_name()?.to_str()?, two.file_name()?.to_str()?);
        let same = one.chars().zip(two.chars()).take_while(|(one, two)| one == two);
        let mut prefix: String = same.map(|(one, _)| one).collect();
        let (one, two) = (&one[prefix.len()..], &two[prefix.len()..]);
        let same = one.chars().rev().zip(two.chars().rev()).take_while(|(one, two)| one == two);
        let length: usize = same.map(|(one, _)| one.len_utf8()).sum();
        let mut suffix = &one[one.len() - length..];
        let (one, two) = (&one[..one.len() - length], &two[..two.len() - length]);
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let length = if is_number(one) && is_number(two) {
            // Numbers may begin or end with the same digits.
            prefix.truncate(prefix.trim_end_matches(|digit: char| digit.is_ascii_digit()).len());
            suffix = suffix.trim_start_matches(|digit: char| digit.is_ascii_digit());
            None
        } else {
            Some(one.len()).filter(|length| *length == two.len()).or(Some(0))
        };
        let has_form = !(prefix.is_empty() && suffix.is_empty()) && length != Some(0);
        has_form.then(|| Self { directory, prefix, suffix: suffix.to_owned(), length })
    }

    /// Whether a path has this form.
    pub(crate) fn matches(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let middle = name.strip_prefix(&self.prefix).and_then(|rest| rest.strip_suffix(&self.suffix));
        let fits = |middle: &str| match self.length {
            None => !middle.is_empty() && middle.bytes().all(|byte| byte.is_ascii_digit()),
            Some(length) => middle.len() == length && middle.bytes().all(is_made_up),
        };
        path.parent() == Some(&self.directory) && middle.is_some_and(fits)
    }
}

/// Whether `mktemp`, or Python's `tempfile`, makes names of this byte.
fn is_made_up(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn pattern(one: &str, two: &str) -> Option<Pattern> {
        Pattern::between(&Path::new("/t").join(one), &Path::new("/t").join(two))
    }

    #[test]
    fn names_of_the_same_form_match_and_no_others() {
        for (one, two, fits, others) in [
            ("lock.12345", "lock.12399", "lock.7", ["lock.", "lock.x", "marked", "lock.1.2"]),
            ("cc12a.o", "cc19a.o", "cc7a.o", ["cc7.o", "ccxa.o", "cca.o", "cc7a.s"]),
            ("tmp.AbCd12", "tmp.XyZw34", "tmp.Qq_q99", ["tmp.AbCd1", "tmp.marked1", "marked", "tmp.a/b.cd"]),
        ] {
            let pattern = pattern(one, two).unwrap();
            for name in [one, two, fits] {
                assert!(pattern.matches(&Path::new("/t").join(name)), "{name}: {pattern:?}");
                assert!(!pattern.matches(&Path::new("/u").join(name)), "{name}");
            }
            for name in others {
                assert!(!pattern.matches(&Path::new("/t").join(name)), "{name}: {pattern:?}");
            }
        }
        for (one, two) in [("AbCd", "XyZw"), ("one", "two"), ("12", "345")] {
            assert_eq!(pattern(one, two), None, "{one} {two}");
        }
        assert_eq!(Pattern::between(Path::new("/t/a.1"), Path::new("/u/a.2")), None);
    }
}
