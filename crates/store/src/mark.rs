//! The names of the marks of entries that are to be sent to a remote cache.
//!
//! A mark is an empty file, so it cannot be read half written, and all marks are known by one listing of their directory. Its name is
//! `<key>.add.<destination>` or `<key>.replace.<destination>`. Earlier versions wrote `<key>` and `<key>.replace`, which name no
//! destination; they ignore the names of today.

use std::fmt;

use opkeep_digest::Digest;

/// The remote cache that an entry is to be sent to, as a mark names it: 1 to 128 letters, digits, `_`, `-` and `.`. The store does not
/// interpret it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination(String);

impl Destination {
    /// The maximum number of bytes. With it, the name of a mark is shorter than file systems allow.
    pub const MAX_BYTES: usize = 128;

    /// Creates a destination. A name that cannot be part of a mark's is replaced by its digest.
    pub fn new(name: &str) -> Self {
        Self::of_plain(name).unwrap_or_else(|| Self(Digest::of(name.as_bytes()).to_string()))
    }

    fn of_plain(name: &str) -> Option<Self> {
        let is_char = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_plain = (1..=Self::MAX_BYTES).contains(&name.len()) && name.bytes().all(is_char);
        is_plain.then(|| Self(name.to_owned()))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A marked entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnsentEntry {
    /// Its key.
    pub key: Digest,
    /// Where it is to be sent. `None`: an earlier version wrote the mark, which does not say it.
    pub destination: Option<Destination>,
    /// Whether it replaces the entry in the remote cache, which is wrong.
    pub replaces: bool,
}

/// Returns the name of a mark.
pub(crate) fn name(key: &Digest, destination: Option<&Destination>, replaces: bool) -> String {
    match (destination, replaces) {
        (None, false) => key.to_string(),
        (None, true) => format!("{key}.replace"),
        (Some(destination), false) => format!("{key}.add.{destination}"),
        (Some(destination), true) => format!("{key}.replace.{destination}"),
    }
}

/// Returns what the name of a mark says.
pub(crate) fn parse(name: &str) -> Option<UnsentEntry> {
    let (key, rest) = name.split_once('.').map_or((name, None), |(key, rest)| (key, Some(rest)));
    let (replaces, destination) = match rest {
        None => (false, None),
        Some("replace") => (true, None),
        Some(rest) => {
            let (kind, destination) = rest.split_once('.')?;
            let replaces = match kind {
                "add" => false,
                "replace" => true,
                _ => return None,
            };
            (replaces, Some(Destination::of_plain(destination)?))
        }
    };
    Some(UnsentEntry { key: key.parse().ok()?, destination, replaces })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_marks_read_back() {
        let key = Digest::of(b"key");
        for destination in [None, Some("0123.team"), Some("0123.replace"), Some("a"), Some("add.replace.x")] {
            let destination = destination.map(Destination::new);
            for replaces in [false, true] {
                let name = name(&key, destination.as_ref(), replaces);
                let expected = UnsentEntry { key, destination: destination.clone(), replaces };
                assert_eq!(parse(&name), Some(expected), "{name}");
            }
        }
        let key = key.to_string();
        for rest in [".", ".add", ".add.", ".replace.", ".add.a b", ".new.a", ".replaced"] {
            assert_eq!(parse(&format!("{key}{rest}")), None, "{rest}");
        }
        for other in ["", "x", ".add.a", &key[1..]] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_destination_is_part_of_a_file_name() {
        for name in ["a", "A.b_c-9", &"n".repeat(Destination::MAX_BYTES)] {
            assert_eq!(Destination::new(name).as_str(), name);
        }
        for other in ["", "a/b", "a b", "ä", "\0", &"n".repeat(Destination::MAX_BYTES + 1)] {
            let destination = Destination::new(other);
            assert_eq!(destination.as_str(), Digest::of(other.as_bytes()).to_string());
        }
    }
}
