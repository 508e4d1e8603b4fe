//! Fingerprints: a digest whose parts have names.

use std::fmt;
use std::sync::OnceLock;

use crate::{Digest, Hasher};

/// One named part of a [`Fingerprint`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The name of the part, such as `driver` or `impl/square.py`. Part of the digest.
    pub name: String,
    /// The digest of the content. Part of the fingerprint's digest.
    pub digest: Digest,
    /// The content for people, such as `gcc 12.2.0`. Not part of the digest.
    pub note: String,
}

/// An ordered list of named parts, with one digest over them.
///
/// ```
/// use opkeep_digest::{Digest, Fingerprint};
///
/// let mut old = Fingerprint::new();
/// old.text("version", "12.2.0");
/// old.add("cc1", Digest::of(b"the compiler proper"), "33 MB");
/// let mut new = Fingerprint::new();
/// new.text("version", "12.3.0");
/// new.add("cc1", Digest::of(b"the compiler proper"), "33 MB");
///
/// assert_ne!(old.digest(), new.digest());
/// assert_eq!(old.diff(&new)[0].to_string(), "`version` changed: 12.2.0 -> 12.3.0");
/// ```
#[derive(Clone, Default)]
pub struct Fingerprint {
    parts: Vec<Part>,
    /// Their digest, computed at first use: that of a toolchain is part of every key of a build.
    digest: OnceLock<Digest>,
}

impl Fingerprint {
    /// A fingerprint without parts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a part whose content has the digest `digest`.
    pub fn add(&mut self, name: impl Into<String>, digest: Digest, note: impl Into<String>) {
        self.parts.push(Part { name: name.into(), digest, note: note.into() });
        self.digest.take();
    }

    /// Adds a part whose content is a short text, which is its own note.
    pub fn text(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let value = value.into();
        self.add(name, Digest::of(value.as_bytes()), value);
    }

    /// The parts, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The digest over names and contents, in order. Notes do not count.
    pub fn digest(&self) -> Digest {
        *self.digest.get_or_init(|| {
            let mut hasher = Hasher::new("fingerprint");
            hasher.list(self.parts.len());
            for Part { name, digest, note: _ } in &self.parts {
                hasher.str(name);
                hasher.digest(digest);
            }
            hasher.finish()
        })
    }

    /// Returns the changes from `self` to `newer`, part by part. Parts of one name are compared in their order. Empty for two
    /// fingerprints of one digest.
    pub fn diff(&self, newer: &Self) -> Vec<PartChange> {
        let mut changes = Vec::new();
        for (at, old) in self.parts.iter().enumerate() {
            match newer.same_place(old, self.rank(at)) {
                Some(new) if new.digest == old.digest => {}
                new => {
                    let (name, old) = (old.name.clone(), Some(old.clone()));
                    changes.push(PartChange { name, old, new: new.cloned() });
                }
            }
        }
        for (at, new) in newer.parts.iter().enumerate() {
            if self.same_place(new, newer.rank(at)).is_none() {
                changes.push(PartChange { name: new.name.clone(), old: None, new: Some(new.clone()) });
            }
        }
        changes
    }

    /// How many parts before `at` have its name.
    fn rank(&self, at: usize) -> usize {
        self.parts[..at].iter().filter(|part| part.name == self.parts[at].name).count()
    }

    /// The part with the name of `part` that has `rank` such parts before it.
    fn same_place(&self, part: &Part, rank: usize) -> Option<&Part> {
        self.parts.iter().filter(|own| own.name == part.name).nth(rank)
    }
}

impl PartialEq for Fingerprint {
    /// Whether the parts are the same, notes included. The cached digest does not count.
    fn eq(&self, other: &Self) -> bool {
        self.parts == other.parts
    }
}

impl Eq for Fingerprint {}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fingerprint").field("parts", &self.parts).finish()
    }
}

/// A part that differs between two fingerprints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartChange {
    /// The part's name.
    pub name: String,
    /// The part in the older fingerprint, if it has one.
    pub old: Option<Part>,
    /// The part in the newer fingerprint, if it has one.
    pub new: Option<Part>,
}

impl fmt::Display for PartChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, old, new } = self;
        match (old, new) {
            (Some(old), Some(new)) if old.note != new.note => {
                write!(f, "`{name}` changed: {} -> {}", old.note, new.note)
            }
            (Some(old), Some(new)) => {
                write!(f, "`{name}` changed: content {:.12} -> {:.12}", old.digest, new.digest)
            }
            (Some(old), None) => write!(f, "`{name}` is gone, was {}", old.note),
            (None, Some(new)) => write!(f, "`{name}` is new: {}", new.note),
            (None, None) => write!(f, "`{name}` is the same"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_do_not_count_but_names_contents_and_order_do() {
        let make = |parts: &[(&str, &str, &str)]| {
            let mut fingerprint = Fingerprint::new();
            for (name, content, note) in parts {
                fingerprint.add(*name, Digest::of(content.as_bytes()), *note);
            }
            fingerprint.digest()
        };
        let base = make(&[("a", "1", "x"), ("b", "2", "y")]);
        assert_eq!(base, make(&[("a", "1", "other"), ("b", "2", "")]));
        for other in [
            make(&[("a", "1", "x")]),
            make(&[("a", "1", "x"), ("b", "3", "y")]),
            make(&[("a", "1", "x"), ("c", "2", "y")]),
            make(&[("b", "2", "y"), ("a", "1", "x")]),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn a_cached_digest_follows_each_added_part() {
        let (mut asked, mut fresh) = (Fingerprint::new(), Fingerprint::new());
        for name in ["a", "b", "c"] {
            asked.text(name, "1");
            fresh.text(name, "1");
            assert_eq!(asked.digest(), fresh.clone().digest(), "{name}");
            assert_eq!(asked, fresh);
        }
        // A copy is independent.
        let mut copy = asked.clone();
        copy.text("d", "1");
        assert_ne!(copy.digest(), asked.digest());
        assert_eq!(asked.digest(), fresh.digest());
    }

    #[test]
    fn diff_names_the_changed_parts() {
        let mut old = Fingerprint::new();
        old.text("opp", "7.7.0");
        old.text("gone", "1");
        old.add("cc1", Digest::of(b"1"), "33 MB");
        let mut new = Fingerprint::new();
        new.text("opp", "7.8.0");
        new.add("cc1", Digest::of(b"2"), "33 MB");
        new.text("fresh", "2");
        let text: Vec<String> = old.diff(&new).iter().map(PartChange::to_string).collect();
        assert_eq!(text[0], "`opp` changed: 7.7.0 -> 7.8.0");
        assert_eq!(text[1], "`gone` is gone, was 1");
        assert!(text[2].starts_with("`cc1` changed: content 6b86b273ff34 -> "), "{}", text[2]);
        assert_eq!(text[3], "`fresh` is new: 2");
        assert!(old.diff(&old).is_empty());
    }

    #[test]
    fn parts_of_one_name_are_distinguished() {
        let make = |contents: &[&str]| {
            let mut fingerprint = Fingerprint::new();
            contents.iter().for_each(|content| fingerprint.text("ld", *content));
            fingerprint
        };
        let two = make(&["1", "2"]);
        assert!(two.diff(&two).is_empty());
        assert_eq!(two.diff(&make(&["1", "3"]))[0].to_string(), "`ld` changed: 2 -> 3");
        assert_eq!(two.diff(&make(&["1"]))[0].to_string(), "`ld` is gone, was 2");
        assert_eq!(make(&["1"]).diff(&two)[0].to_string(), "`ld` is new: 2");
    }
}
