//! Why a cache is left as it was.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use opkeep_kernel_meta::IoCause;

/// Why nothing in a cache was set aside, put back or filled in.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RepairError {
    /// Somebody else holds the lock of the whole cache.
    #[error(
        "`{lock}` is held by another process, which is at work there; nothing was changed: run it again when that is \
         done (`fuser {lock}` names it)"
    )]
    Locked {
        /// The lock file, or the folder.
        lock: PathBuf,
    },
    /// A lock cannot be looked at.
    #[error(
        "cannot tell whether `{lock}` is held: {source}; nothing was changed: run it as the user who owns that file, \
         or remove it if no framework is running"
    )]
    UnreadableLock {
        /// The lock file.
        lock: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The folder is the top of a file system, so nothing beside it is on the same one.
    #[error(
        "`{path}` is a mount point: quarantined files must stay on its file system, and beside it is another one; \
         move away what `opkeep verify` names by hand, or mount the file system one folder higher"
    )]
    MountPoint {
        /// The cache.
        path: PathBuf,
    },
    /// The disk or the quota is full.
    #[error("cannot {action} `{path}`: {source}; nothing was changed: free some space and run it again")]
    NoSpace {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// This user may not write there.
    #[error(
        "cannot {action} `{path}`: {source}; nothing was changed: make the directory that it is in writable, or run it as \
         the user who owns that"
    )]
    NotWritable {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Something else failed.
    #[error(
        "cannot {action} `{path}`: {source}; nothing was changed: move away what is there, and run it again"
    )]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There is no folder of a cache.
    #[error(
        "there is no directory `{path}` that has one above it: expected a cache, such as rank_0/kernel_meta; if it was \
         deleted since, make it again and repeat the command"
    )]
    NoDirectory {
        /// What was named.
        path: PathBuf,
    },
}

impl RepairError {
    /// The error for a failed operation, with the way out that its cause has.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        let (path, source) = (path.into(), source.into());
        match IoCause::of(&source) {
            IoCause::NoSpace => Self::NoSpace { action, path, source },
            IoCause::NotWritable => Self::NotWritable { action, path, source },
            IoCause::Other => Self::Io { action, path, source },
        }
    }
}
