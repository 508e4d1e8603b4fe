//! What look-ups and puts come to.

use std::fs::File;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::corruption::Corruption;
use crate::{Entry, StoreError};

/// What a look-up came to.
#[derive(Debug)]
pub enum Lookup {
    /// The entry, checked.
    Hit(Box<Entry>),
    /// None that can be used, and why.
    Miss(Miss),
}

/// Why there is no usable entry. A miss is an outcome, not an error.
#[derive(Debug)]
pub enum Miss {
    /// It is missing.
    Absent,
    /// It is there, and its bytes are wrong. [`TargetStore::quarantine`](crate::TargetStore::quarantine) takes it away.
    Damaged(DamagedEntry),
    /// It is there, and an untrusted user could have written it. It is left alone.
    Untrusted(StoreError),
    /// It could not be read. It is left alone: the next attempt may succeed.
    Io(StoreError),
}

impl std::fmt::Display for Miss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Absent => f.write_str("not in the store"),
            Self::Damaged(judged) => write!(f, "damaged: {}", judged.corruption),
            Self::Untrusted(error) | Self::Io(error) => error.fmt(f),
        }
    }
}

/// A damaged entry: which file it was, and what is wrong.
#[derive(Debug)]
pub struct DamagedEntry {
    /// What is wrong.
    pub corruption: Corruption,
    /// Kept open, so that no other file gets its inode number.
    pub(crate) file: File,
}

/// An entry that was found, and where.
pub(crate) struct Found {
    pub(crate) entry: Box<Entry>,
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) last_used: SystemTime,
}

/// What [`TargetStore::put`](crate::TargetStore::put) came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// The entry is in the store now.
    Published,
    /// A valid entry for this key was there already, and stays.
    Existing,
}

/// Whether a put replaces a valid entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// It stays.
    Never,
    /// It is replaced, atomically.
    Always,
}
