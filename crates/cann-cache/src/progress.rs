//! The progress of a collection, and the counts of files in use.

use std::path::Path;
use std::time::Duration;

/// The time after the last use within which nothing is deleted.
pub const IDLE_FOR: Duration = Duration::from_secs(1800);

/// A step of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GcProgress<'a> {
    /// Files were listed.
    Listed {
        /// The number of files so far.
        files: u64,
    },
    /// A group of files that may be deleted was processed.
    Done {
        /// The number of groups so far.
        done: u64,
        /// The number of all groups.
        of: u64,
    },
    /// A file was deleted.
    Removed {
        /// Its directory.
        dir: &'a Path,
        /// Its name.
        file: &'a str,
    },
}

/// The numbers of file groups that stay because they are in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InUseCounts {
    /// Groups with a file that a process has open.
    pub open: u64,
    /// Groups whose lock a process holds.
    pub locked: u64,
    /// Groups that were used, written or deleted after the listing.
    pub changed: u64,
}
