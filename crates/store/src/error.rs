//! The errors of the store.

use std::path::PathBuf;

use opkeep_text::counted;
use thiserror::Error;

impl StoreError {
    /// Whether the next write would fail for the same reason, such as no space or a read-only disk. Every other error concerns
    /// one entry or one directory; [`TargetStore::stops_every_write`](crate::TargetStore::stops_every_write) finds out which.
    pub fn stops_every_write(&self) -> bool {
        use std::io::ErrorKind;
        match self {
            Self::Io { source, .. } => matches!(
                source.kind(),
                ErrorKind::StorageFull
                    | ErrorKind::QuotaExceeded
                    | ErrorKind::ReadOnlyFilesystem
                    | ErrorKind::StaleNetworkFileHandle
            ),
            Self::ReadOnly { .. } | Self::NoStore { .. } => true,
            Self::NotADirectory { .. }
            | Self::Foreign { .. }
            | Self::Untrusted { .. }
            | Self::Unsigned { .. }
            | Self::ClosedLock { .. }
            | Self::TargetName { .. }
            | Self::InKernelCache { .. }
            | Self::TooLarge { .. } => false,
        }
    }

    /// Whether one path is missing or closed to this user. That may be so of one directory, or of the whole store.
    pub(crate) fn denies_a_path(&self) -> bool {
        use std::io::ErrorKind::{NotFound, PermissionDenied};
        matches!(self, Self::Io { source, .. } if matches!(source.kind(), NotFound | PermissionDenied))
    }

    /// Whether the cause is a missing file or directory.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }

    /// Whether the cause is a symbolic link.
    pub(crate) fn is_link(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_link(source))
    }
}

/// Whether an access failed at a symbolic link.
pub(crate) fn is_link(error: &std::io::Error) -> bool {
    rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::LOOP)
}

/// An error of the store. No error damages an entry.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A file operation failed.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// The operation, such as `create`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The caller uses only entries that are signed by keys that it trusts, and this one is not. The store reports it for no entry:
    /// it is the caller's judgement.
    #[error("the entry `{path}` is not used: {reason}")]
    Unsigned {
        /// The entry's file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The path of the store is not a directory, or a path below its root leads through a link.
    #[error(
        "the cache directory `{path}` is not a directory, or a link leads there; move away what is there, or choose another \
         directory"
    )]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// The directory of a store or a target belongs to another program.
    #[error(
        "`{path}` is not opkeep's: it has no STORE.TAG, and it is not empty. It is left as it is; choose another \
         directory, or move it away"
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// The store does not exist, and the access mode does not allow to create it.
    #[error(
        "there is no store at `{path}`, and this mode creates none; choose the directory of an existing store"
    )]
    NoStore {
        /// The root.
        path: PathBuf,
    },
    /// An untrusted user could have written the directory or file.
    #[error(
        "`{path}` is not trusted: {problem}. A cached kernel is code that will run. {help}, or choose another \
         directory"
    )]
    Untrusted {
        /// The directory or file.
        path: PathBuf,
        /// The owner of the directory or file, if the owner is the reason.
        owner: Option<u32>,
        /// The reason why the directory or file is not trusted.
        problem: String,
        /// A hint for the user.
        help: String,
    },
    /// A lock was created by another user, and this user may not open it. The error concerns one kernel.
    #[error(
        "the lock `{path}` belongs to another user and this user may not open it; delete it if no build of that user runs, or \
         let the users share the store: give its root a common group and chmod g+ws"
    )]
    ClosedLock {
        /// The lock's file.
        path: PathBuf,
    },
    /// The name of a target is not valid as the name of a directory.
    #[error(
        "`{target}` is not a valid name of a target: expected letters, digits, `_`, `-` and `.`, at most 100 bytes"
    )]
    TargetName {
        /// The name.
        target: String,
    },
    /// An entry exceeds the bounds of the format.
    #[error(
        "an entry of {members} and {bytes} is too large: at most 64 members and 1 GiB",
        members = counted(*.members, "member"),
        bytes = counted(*.bytes, "byte")
    )]
    TooLarge {
        /// The number of the entry's members.
        members: usize,
        /// The number of bytes of the members' names and contents.
        bytes: u64,
    },
    /// An existing store is in CANN's own cache, where CANN reads its `op_cache.ini`.
    #[error(
        "the store `{path}` is in CANN's kernel_cache: CANN takes an op_cache.ini there for its own, and then never checks \
         the versions of its kernels. It may be read and is not written any more: move it with `mkdir -p {own} && mv \
         {path}/v1 {own}/`, and delete {path}/op_cache.ini if opkeep created it; or choose another directory",
        path = path.display(), own = own.display()
    )]
    InKernelCache {
        /// The root of the store.
        path: PathBuf,
        /// The directory for a store in CANN's cache.
        own: PathBuf,
    },
    /// A write was attempted in a store that was opened for reading.
    #[error("the store at `{path}` was opened for reading only")]
    ReadOnly {
        /// The directory of the target.
        path: PathBuf,
    },
}
