//! The outcomes of look-ups and puts.

use std::fs::File;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::corruption::Corruption;
use crate::{Entry, StoreError};

/// The outcome of a look-up.
#[derive(Debug)]
pub enum Lookup {
    /// A valid entry.
    Hit(Box<Entry>),
    /// No usable entry, and the reason.
    Miss(Miss),
}

/// The reason why there is no usable entry. A miss is an outcome, not an error.
#[derive(Debug)]
pub enum Miss {
    /// There is no entry.
    Absent,
    /// The bytes of the entry are damaged. [`TargetStore::quarantine`](crate::TargetStore::quarantine) moves it away.
    Damaged(DamagedEntry),
    /// An untrusted user could have written the entry. It is not changed.
    Untrusted(StoreError),
    /// The entry could not be read. It is not changed: the next attempt may succeed.
    Io(StoreError),
}

impl std::fmt::Display for Miss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Absent => f.write_str("not in the store"),
            Self::Damaged(entry) => write!(f, "damaged: {}", entry.corruption.detail()),
            Self::Untrusted(error) | Self::Io(error) => error.fmt(f),
        }
    }
}

/// A damaged entry: the corruption and the file.
#[derive(Debug)]
pub struct DamagedEntry {
    /// The corruption of the entry.
    pub corruption: Corruption,
    /// The entry's file, kept open so that no other file gets its inode number.
    pub(crate) file: File,
}

/// A valid entry and its file.
pub(crate) struct Found {
    pub(crate) entry: Box<Entry>,
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) last_used: SystemTime,
}

/// The outcome of [`TargetStore::put`](crate::TargetStore::put).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// The entry was published.
    Published,
    /// A valid entry for this key exists and stays.
    Existing,
}

/// Whether a put replaces a valid entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// The valid entry stays.
    Never,
    /// The valid entry is replaced atomically.
    Always,
}
