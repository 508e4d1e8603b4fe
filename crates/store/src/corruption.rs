//! What can be wrong with the bytes of an entry.

use opkeep_digest::Digest;
use thiserror::Error;

/// What is wrong with the bytes of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Corruption {
    /// Not an entry at all.
    #[error("not a store entry: it begins with {}", found.escape_ascii())]
    Magic {
        /// The first bytes.
        found: [u8; 8],
    },
    /// An entry of another format.
    #[error("entry format {found}, expected {expected}")]
    Format {
        /// The format that this version writes.
        expected: u32,
        /// The format found.
        found: u32,
    },
    /// Fewer or more bytes than there should be.
    #[error("{what}: expected {expected} bytes, found {found}")]
    Truncated {
        /// What ends in the wrong place.
        what: &'static str,
        /// How many bytes belong there.
        expected: u64,
        /// How many there are.
        found: u64,
    },
    /// The prefix is not what was written.
    #[error("the prefix is damaged: its SHA-256 is {found}")]
    PrefixDigest {
        /// The prefix's digest now.
        found: Digest,
    },
    /// A whole entry under another entry's name.
    #[error("the entry belongs to key {found}, expected {expected}")]
    WrongKey {
        /// The key asked for.
        expected: Digest,
        /// The key in the prefix.
        found: Digest,
    },
    /// The member table contradicts itself.
    #[error("the member table is wrong: {problem}")]
    Table {
        /// What is wrong.
        problem: &'static str,
    },
    /// A member is not what was written.
    #[error("member `{name}` is damaged: expected SHA-256 {expected}, found {found}")]
    MemberDigest {
        /// The member.
        name: String,
        /// The digest that was stored.
        expected: Digest,
        /// The digest now.
        found: Digest,
    },
    /// Bytes behind the eager members are not what was written.
    #[error("the entry is damaged somewhere behind byte {from}: its checksum is wrong")]
    Checksum {
        /// Where the checksummed bytes begin.
        from: u64,
    },
    /// More bytes than any entry has.
    #[error("the entry has {bytes} bytes, more than the {limit} that are read")]
    TooLarge {
        /// Bytes of the file.
        bytes: u64,
        /// [`MAX_ENTRY_BYTES`](crate::MAX_ENTRY_BYTES).
        limit: u64,
    },
}
