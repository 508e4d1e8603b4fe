//! The reasons why a bundle is not read or written.

use std::io;

use opkeep_digest::Digest;
use opkeep_store::Corruption;
use opkeep_text::counted;
use opkeep_trust::{RepeatedMember, SignaturesTooLarge};
use thiserror::Error;

/// The reason why a bundle, or an entry of it, is not read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BundleError {
    /// The file cannot be read or written.
    #[error("cannot {action} the bundle: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The file does not begin as a bundle does.
    #[error("it is not a bundle: it begins with {found:02x?}")]
    NotABundle {
        /// The first bytes.
        found: Vec<u8>,
    },
    /// The bundle has the format of another version.
    #[error("the bundle has format {found}, expected {expected}; read it with the version that wrote it")]
    Format {
        /// The format that is read.
        expected: u32,
        /// The format of the bundle.
        found: u32,
    },
    /// The bundle does not end as one: the rest is missing, or something follows.
    #[error(
        "the bundle is incomplete: its {bytes} do not end as those of a bundle; copy it again",
        bytes = counted(*.bytes, "byte")
    )]
    Incomplete {
        /// The number of bytes.
        bytes: u64,
    },
    /// A length is not the one that others state.
    #[error(
        "the bundle is damaged: {what} has {found}, expected {expected}",
        found = counted(*.found, "byte")
    )]
    Length {
        /// The part with the length.
        what: &'static str,
        /// The expected length.
        expected: u64,
        /// The found length.
        found: u64,
    },
    /// Bytes do not have their digest.
    #[error("the bundle is damaged: {what} has the SHA-256 {found}, expected {expected}")]
    Digest {
        /// The part of the bundle.
        what: String,
        /// The stated digest.
        expected: Digest,
        /// The digest of the bytes.
        found: Digest,
    },
    /// A part does not begin as it does in every bundle.
    #[error("the bundle is damaged: {what} does not begin as such")]
    Begin {
        /// The part of the bundle.
        what: &'static str,
    },
    /// The index has its digest, and is none that this version writes.
    #[error("the index of the bundle is not valid before its byte {at}: {problem}")]
    Index {
        /// The problem.
        problem: &'static str,
        /// The place in the index.
        at: usize,
    },
    /// Something exceeds a bound.
    #[error("{what} has {found}, at most {limit} are allowed")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// The number that was found.
        found: u64,
        /// The bound.
        limit: u64,
    },
    /// A block cannot be compressed or decompressed.
    #[error("block {block} of the bundle cannot be {action}: {source}")]
    Compression {
        /// The number of the block, from 0.
        block: usize,
        /// What was tried.
        action: &'static str,
        /// The error of zstd.
        source: io::Error,
    },
    /// An entry has its digest, and is not valid.
    #[error("the entry {key} of {target} is not valid: {problem}")]
    Entry {
        /// The target.
        target: String,
        /// The key.
        key: Digest,
        /// The problem.
        problem: Box<EntryProblem>,
    },
    /// The signatures exceed a bound.
    #[error(transparent)]
    Signatures(#[from] SignaturesTooLarge),
    /// An entry was added behind one that it does not follow in the order of targets and keys.
    #[error(
        "the entry {key} of {target} does not follow the one before it: entries are added by target, then by key, each once"
    )]
    Order {
        /// The target.
        target: String,
        /// The key.
        key: Digest,
    },
    /// No target has that name.
    #[error("`{target}` cannot be the name of a target")]
    TargetName {
        /// The text.
        target: String,
    },
}

/// The problem of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EntryProblem {
    /// Its bytes do not have the digest in the index.
    #[error("its SHA-256 is {found}, the index states {expected}")]
    Digest {
        /// The digest in the index.
        expected: Digest,
        /// The digest of the bytes.
        found: Digest,
    },
    /// It is no entry of a store, or that of another key.
    #[error(transparent)]
    Corruption(#[from] Corruption),
    /// It has two members of one name.
    #[error(transparent)]
    RepeatedMember(#[from] RepeatedMember),
    /// With the signatures, it exceeds the bounds of an entry.
    #[error("it has no space for the signatures: an entry has at most 64 members and 1 GiB")]
    NoSpace,
    /// It states that a host validated it, which no other host may believe.
    #[error("it has the validation stamp {stamp}, expected 0")]
    Stamp {
        /// The stamp.
        stamp: u32,
    },
}

impl BundleError {
    /// The error of the entry of `target` under `key`.
    pub(crate) fn entry(target: &str, key: &Digest, problem: impl Into<EntryProblem>) -> Self {
        Self::Entry { target: target.to_owned(), key: *key, problem: Box::new(problem.into()) }
    }

    pub(crate) fn io(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, source }
    }

    /// Whether the file could not be read or written, so that nothing is known of its content.
    pub fn is_io(&self) -> bool {
        matches!(self, Self::Io { .. })
    }
}
