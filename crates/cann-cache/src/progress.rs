//! The progress of a garbage collection, and the numbers of file groups in use.

use std::path::Path;
use std::time::Duration;

/// The time after its last use during which a file is not deleted.
pub const IDLE_FOR: Duration = Duration::from_secs(1800);

/// A step of a garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GcProgress<'a> {
    /// Files were listed.
    Listed {
        /// The number of files listed so far.
        files: u64,
    },
    /// A group of files that may be deleted was processed.
    Done {
        /// The number of groups processed so far.
        done: u64,
        /// The number of groups that may be deleted.
        of: u64,
    },
    /// A file was deleted.
    Removed {
        /// The directory of the file.
        dir: &'a Path,
        /// The name of the file.
        file: &'a str,
    },
}

/// The numbers of file groups that stay because they are in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InUseCounts {
    /// The number of groups with a file that a process has open.
    pub open: u64,
    /// The number of groups of which a process holds a lock.
    pub locked: u64,
    /// The number of groups that were used, written or deleted after the listing.
    pub changed: u64,
}
