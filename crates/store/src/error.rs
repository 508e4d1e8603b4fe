//! What can go wrong in the store.

use std::path::PathBuf;

use thiserror::Error;

impl StoreError {
    /// Whether the next write would meet the same: no space, no permission, a disk that cannot be written. Anything
    /// else concerns one entry.
    pub fn stops_every_write(&self) -> bool {
        use std::io::ErrorKind;
        match self {
            Self::Io { source, .. } => matches!(
                source.kind(),
                ErrorKind::StorageFull
                    | ErrorKind::QuotaExceeded
                    | ErrorKind::ReadOnlyFilesystem
                    | ErrorKind::PermissionDenied
                    | ErrorKind::NotFound
            ),
            Self::ReadOnly { .. } | Self::NoStore { .. } => true,
            Self::NotADirectory { .. }
            | Self::Foreign { .. }
            | Self::Untrusted { .. }
            | Self::ClosedLock { .. }
            | Self::TargetName { .. }
            | Self::InKernelCache { .. }
            | Self::TooLarge { .. } => false,
        }
    }

    /// Whether a symbolic link was met.
    pub(crate) fn is_link(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_link(source))
    }
}

/// Whether an access met a symbolic link.
pub(crate) fn is_link(error: &std::io::Error) -> bool {
    rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::LOOP)
}

/// Why the store could not do what it was asked. No entry is harmed by any of these.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A file operation failed.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// What was tried, such as `create`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Something other than a folder stands where the store should be, or below its root a link is on the way.
    #[error(
        "the cache directory `{path}` is not a directory, or a link leads there; move away what is there, or choose another \
         directory"
    )]
    NotADirectory {
        /// Where.
        path: PathBuf,
    },
    /// A directory where a store or a target belongs, that a store did not make.
    #[error(
        "`{path}` is not a store's: opkeep did not make it, it has no STORE.TAG, and it is not empty. It is left as it is; \
         choose another directory, or move it away"
    )]
    Foreign {
        /// Where.
        path: PathBuf,
    },
    /// A store that is not there, and is not to be made.
    #[error("there is no store at `{path}`; a store is made by a build in the modes enable or force")]
    NoStore {
        /// Where.
        path: PathBuf,
    },
    /// A folder or file that somebody else could have written.
    #[error(
        "`{path}` is not trusted: {problem}. A cached kernel is code that will run. {help}, or choose another \
         directory"
    )]
    Untrusted {
        /// What was found.
        path: PathBuf,
        /// Its owner, if that is why.
        owner: Option<u32>,
        /// Why it is not trusted.
        problem: String,
        /// What to do.
        help: String,
    },
    /// A lock that another user made, for that user alone. It concerns one kernel.
    #[error(
        "the lock `{path}` is another user's and closed to this one; delete it if no build of that user runs, or have the \
         users share the store: a common group, and chmod g+ws on its root"
    )]
    ClosedLock {
        /// The lock's file.
        path: PathBuf,
    },
    /// A target whose name cannot be a folder's.
    #[error(
        "`{target}` cannot be a target's name: expected letters, digits, `_`, `-` and `.`, at most 100 bytes"
    )]
    TargetName {
        /// The name.
        target: String,
    },
    /// An entry beyond the format's bounds.
    #[error("an entry of {members} members and {bytes} bytes is too large: at most 64 members and 1 GiB")]
    TooLarge {
        /// Its members.
        members: usize,
        /// Their bytes.
        bytes: u64,
    },
    /// A store of ours stands in CANN's own cache, where CANN reads its `op_cache.ini`.
    #[error(
        "the store `{path}` is in CANN's kernel_cache: CANN takes an op_cache.ini there for its own, and then never checks \
         the versions of its kernels. It may be read and is not written any more: move it with `mkdir -p {own} && mv \
         {path}/v1 {own}/`, and delete {path}/op_cache.ini if opkeep made it; or choose another directory",
        path = path.display(), own = own.display()
    )]
    InKernelCache {
        /// Where it is.
        path: PathBuf,
        /// Where a store in CANN's cache belongs.
        own: PathBuf,
    },
    /// A write to a store that was opened for reading.
    #[error("the store at `{path}` was opened for reading only")]
    ReadOnly {
        /// Where.
        path: PathBuf,
    },
}
