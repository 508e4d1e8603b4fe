//! Damage in the bytes of an entry.

use opkeep_digest::Digest;
use opkeep_text::counted;
use thiserror::Error;

/// Damage in the bytes of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Corruption {
    /// The file is not an entry.
    #[error("not a store entry: it begins with {}", found.escape_ascii())]
    Magic {
        /// The first bytes.
        found: [u8; 8],
    },
    /// The entry has another format.
    #[error("entry format {found}, expected {expected}")]
    Format {
        /// The format that this version writes.
        expected: u32,
        /// The format found.
        found: u32,
    },
    /// The number of bytes is wrong.
    #[error("{}", wrong_length(what, *.expected, *.found))]
    WrongLength {
        /// The part with the wrong length.
        what: &'static str,
        /// The expected number of bytes.
        expected: u64,
        /// The number of bytes found.
        found: u64,
    },
    /// The prefix does not have its digest.
    #[error("the prefix is damaged: its SHA-256 is {found}")]
    PrefixDigest {
        /// The digest of the prefix as found.
        found: Digest,
    },
    /// The file is a valid entry of another key.
    #[error("the entry belongs to key {found}, expected {expected}")]
    WrongKey {
        /// The requested key.
        expected: Digest,
        /// The key in the prefix.
        found: Digest,
    },
    /// The member table contradicts itself.
    #[error("the member table is wrong: {problem}")]
    Table {
        /// The contradiction.
        problem: &'static str,
    },
    /// A member does not have its digest.
    #[error("member `{name}` is damaged: expected SHA-256 {expected}, found {found}")]
    MemberDigest {
        /// The member.
        name: String,
        /// The digest that was stored.
        expected: Digest,
        /// The digest of the member as found.
        found: Digest,
    },
    /// The bytes after the eager members do not have their checksum.
    #[error("the entry is damaged somewhere after byte {from}: its checksum is wrong")]
    Checksum {
        /// The offset of the first checksummed byte.
        from: u64,
    },
    /// The file is larger than the largest entry.
    #[error("the entry has {bytes}, more than the {limit} that are read", bytes = counted(*.bytes, "byte"))]
    TooLarge {
        /// The number of bytes of the file.
        bytes: u64,
        /// The maximum number of bytes: [`MAX_ENTRY_BYTES`](crate::MAX_ENTRY_BYTES).
        limit: u64,
    },
}

impl Corruption {
    /// Returns the text behind the word `damaged`, which it does not repeat.
    pub(crate) fn detail(&self) -> String {
        self.to_string().replacen(" is damaged", "", 1)
    }
}

/// The text of [`Corruption::WrongLength`]. Nothing is found only in a file that is empty.
fn wrong_length(what: &str, expected: u64, found: u64) -> String {
    match found {
        0 => "the file is empty".to_owned(),
        found => format!("{what}: expected {}, found {found}", counted(expected, "byte")),
    }
}
