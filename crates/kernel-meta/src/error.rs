//! The errors of a view.

use std::io;
use std::path::PathBuf;

use opkeep_digest::Digest;
use opkeep_text::counted;
use thiserror::Error;

use crate::KernelFileKind;

/// The reason why a view could not be opened or written.
///
/// After any error, each kernel of the view is unchanged, completely written, or without its `.json`. Frameworks treat
/// a kernel without a `.json` as missing. An outdated kernel of ours is found under none of the call's names, unless the
/// error is [`Outdated`](Self::Outdated), or the directory could not be opened and locked: then nothing was changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The rank cannot be a part of a directory's name.
    #[error(
        "RANK_ID `{rank}` cannot name a directory: expected 1 to 200 characters of `A-Z a-z 0-9 _ . -`, neither `.` \
         nor `..`; set RANK_ID to the number of this rank, or unset it"
    )]
    Rank {
        /// The first 80 characters of the rank.
        rank: String,
    },
    /// A kernel's stem cannot be the name of its files.
    #[error(
        "kernel `{stem}` cannot name files: expected 1 to 200 characters of `A-Z a-z 0-9 _ . -`, neither `.` nor \
         `..`, not beginning with `.opkeep`; build the kernel under another name"
    )]
    Stem {
        /// The first 80 characters of the stem.
        stem: String,
    },
    /// The caller gave one stem twice, with different files.
    #[error(
        "kernel `{stem}`: its {kind} was given twice, with digest {first} and {second}; two kernels need two names"
    )]
    Conflict {
        /// The stem.
        stem: String,
        /// The file of the kernel.
        kind: KernelFileKind,
        /// The digest given first.
        first: Digest,
        /// The digest given later.
        second: Digest,
    },
    /// The caller could not load the bytes of a file.
    #[error("kernel `{stem}`: its {kind} could not be loaded: {source}; build the kernel again")]
    Load {
        /// The stem.
        stem: String,
        /// The file of the kernel.
        kind: KernelFileKind,
        /// The error of the caller's function.
        source: io::Error,
    },
    /// The bytes from the caller do not have the announced digest or length.
    #[error(
        "kernel `{stem}`: its {kind} is not what was announced: expected {expected_len} with digest \
         {expected}, found {found_len} with digest {found}; build the kernel again",
        expected_len = counted(*.expected_len, "byte"),
        found_len = counted(*.found_len, "byte")
    )]
    Content {
        /// The stem.
        stem: String,
        /// The file of the kernel.
        kind: KernelFileKind,
        /// The announced digest.
        expected: Digest,
        /// The announced length, in bytes.
        expected_len: u64,
        /// The digest of the bytes.
        found: Digest,
        /// The number of bytes.
        found_len: u64,
    },
    /// A file is in the place of a directory.
    #[error(
        "`{path}` is in the way: expected a directory, found {found}; move it away, or choose another base"
    )]
    NotADirectory {
        /// The path of the file.
        path: PathBuf,
        /// The type of the file.
        found: &'static str,
    },
    /// This user may not write to the directory.
    #[error("cannot {action} `{path}`: {source}; make it writable for this user, or choose another base")]
    NotWritable {
        /// The operation, such as `create`.
        action: &'static str,
        /// The path of the operation.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The disk or the quota is full.
    #[error(
        "cannot {action} `{path}`: {source}; free some space and build again, only what is missing will be written"
    )]
    NoSpace {
        /// The operation, such as `write`.
        action: &'static str,
        /// The path of the operation.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Another process held the lock of the directory for the whole waiting time.
    #[error(
        "`{path}` was locked by another process for {seconds:.1} s; wait for that build, or end it (`fuser {path}` \
         names it): the lock ends with its process"
    )]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The time waited, in seconds.
        seconds: f64,
    },
    /// An outdated kernel of ours could not be taken from its name, so a framework may load it.
    #[error(
        "`{path}` is of an outdated kernel and could not be removed: {problem}; remove it before a framework reads the \
         directory"
    )]
    Outdated {
        /// The file.
        path: PathBuf,
        /// The error of the removal.
        problem: Box<ViewError>,
        /// The error because of which the kernel was not replaced, if there is one.
        #[source]
        cause: Option<Box<ViewError>>,
    },
    /// Another operation on a file failed.
    #[error(
        "cannot {action} `{path}`: {source}; choose another base directory, unless this can be mended there"
    )]
    Io {
        /// The operation, such as `replace`.
        action: &'static str,
        /// The path of the operation.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// The cause of a failed operation, as far as it decides the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoCause {
    /// The disk or the quota is full.
    NoSpace,
    /// This user may not write.
    NotWritable,
    /// Another cause.
    Other,
}

impl IoCause {
    /// Returns the cause of `error`.
    pub fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::NotWritable,
            _ => Self::Other,
        }
    }
}

impl ViewError {
    /// Returns the error for a failed operation, with the help for its cause.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        let (path, source) = (path.into(), source.into());
        match IoCause::of(&source) {
            IoCause::NoSpace => Self::NoSpace { action, path, source },
            IoCause::NotWritable => Self::NotWritable { action, path, source },
            IoCause::Other => Self::Io { action, path, source },
        }
    }
}
