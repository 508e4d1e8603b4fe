//! The errors of a repair. After such an error, nothing is changed.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use opkeep_kernel_meta::IoCause;

/// The reason why nothing in a cache was quarantined, restored or filled.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RepairError {
    /// Another process holds a lock of the whole cache.
    #[error(
        "`{lock}` is held by another process; nothing was changed: run it again when that process has finished (`fuser \
         {lock}` names it)"
    )]
    Locked {
        /// The lock file, or the locked directory.
        lock: PathBuf,
    },
    /// The state of a lock cannot be read.
    #[error(
        "cannot find out whether `{lock}` is held: {source}; nothing was changed: run it as the user who owns that \
         file, or remove it if no framework is running"
    )]
    UnreadableLock {
        /// The lock file.
        lock: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The cache is a mount point, so its parent directory is on another file system.
    #[error(
        "`{path}` is a mount point: quarantined files must stay on its file system, but its parent directory is on \
         another one; move the damaged files away by hand, or mount the file system one directory higher"
    )]
    MountPoint {
        /// The directory of the cache.
        path: PathBuf,
    },
    /// The disk or the quota is full.
    #[error("cannot {action} `{path}`: {source}; nothing was changed: free some space and run it again")]
    NoSpace {
        /// The operation, such as `open`.
        action: &'static str,
        /// The path of the operation.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// This user may not write to the directory.
    #[error(
        "cannot {action} `{path}`: {source}; nothing was changed: make its directory writable, or run it as the user \
         who owns that directory"
    )]
    NotWritable {
        /// The operation, such as `open`.
        action: &'static str,
        /// The path of the operation.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Another operation failed.
    #[error("cannot {action} `{path}`: {source}; nothing was changed: correct the cause, and run it again")]
    Io {
        /// The operation, such as `open`.
        action: &'static str,
        /// The path of the operation.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The directory of the cache is missing.
    #[error(
        "`{path}` is no directory with a parent directory: expected a cache, such as rank_0/kernel_meta; if it was \
         deleted, create it again and repeat the command"
    )]
    NoDirectory {
        /// The path of the cache as given.
        path: PathBuf,
    },
}

impl RepairError {
    /// Returns the error of a failed operation, with the help for its cause.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        let (path, source) = (path.into(), source.into());
        match IoCause::of(&source) {
            IoCause::NoSpace => Self::NoSpace { action, path, source },
            IoCause::NotWritable => Self::NotWritable { action, path, source },
            IoCause::Other => Self::Io { action, path, source },
        }
    }
}
