//! The errors of a garbage collection.

use std::io;

use thiserror::Error;

/// The reason why [`gc`](crate::gc()) deleted nothing. The messages do not name the cache, whose path the caller knows.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GcError {
    /// The cache is in the quarantine of a repair.
    #[error("files that a repair quarantined stay until they are restored, or deleted by hand")]
    Quarantine,
    /// CANN's eviction lock cannot be taken.
    #[error("cannot lock `{lock}`: {source}")]
    Lock {
        /// The name of the lock file in the cache.
        lock: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The directory cannot be opened or listed.
    #[error(transparent)]
    Read(#[from] io::Error),
}
