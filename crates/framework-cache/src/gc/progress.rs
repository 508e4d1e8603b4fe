//! What the collection reports while it works, and what it leaves to those who use it.

use std::path::Path;
use std::time::Duration;

/// What was used since is never deleted.
pub const IDLE_FOR: Duration = Duration::from_secs(1800);

/// Something that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GcProgress<'a> {
    /// So many files are listed so far.
    Listed {
        /// How many.
        files: u64,
    },
    /// So much of what may go was dealt with.
    Done {
        /// How much.
        done: u64,
        /// Of how much.
        of: u64,
    },
    /// A file was deleted.
    Removed {
        /// Its folder.
        folder: &'a Path,
        /// Its name.
        file: &'a str,
    },
}

/// What was left to those who use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InUseCounts {
    /// What a process has open.
    pub open: u64,
    /// What a process holds the lock of.
    pub locked: u64,
    /// What was used, written or deleted since it was listed.
    pub changed: u64,
}
