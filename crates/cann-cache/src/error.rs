//! The errors of a collection.

use std::io;

use thiserror::Error;

/// Why a cache was not collected. The caller knows its path.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GcError {
    /// The directory is in the quarantine of a repair.
    #[error("what a repair quarantined stays until it is restored, or deleted by hand")]
    Quarantine,
    /// CANN's lock for its eviction cannot be taken.
    #[error("cannot lock `{lock}`: {source}")]
    Lock {
        /// The name of the lock file.
        lock: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The directory cannot be opened or listed.
    #[error(transparent)]
    Read(#[from] io::Error),
}
