//! The findings of a check of a store: problems, and files that are not entries.

use std::fmt;
use std::path::PathBuf;

use opkeep_digest::Digest;

use crate::StoreError;
use crate::corruption::Corruption;

/// A problem with a file or directory.
#[derive(Debug)]
#[non_exhaustive]
pub struct StoreProblem {
    /// The file or directory.
    pub path: PathBuf,
    /// The key, if the file has the name of an entry.
    pub key: Option<Digest>,
    /// The kind of problem.
    pub kind: ProblemKind,
}

/// The kind of a problem with a file or directory.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The bytes of an entry are damaged.
    Damaged(Corruption),
    /// The bytes of an entry are intact, but [`VerifyOptions::check`](crate::VerifyOptions::check) rejects its content.
    InvalidContent(String),
    /// An intact entry is in a directory where no look-up finds it.
    Misplaced,
    /// The file changed between each two reads: another program writes to it, since the store never does.
    Changing,
    /// An untrusted user could have written the file.
    Untrusted(StoreError),
    /// The file could not be read. The next attempt may succeed.
    Io(StoreError),
    /// The path has another file type than the store needs.
    WrongFileType {
        /// The type that is needed.
        needed: &'static str,
        /// The type that was found.
        found: &'static str,
    },
    /// A counters file is corrupt.
    CorruptCounters,
}

impl ProblemKind {
    /// Returns the name of the kind for machine-readable output.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Damaged(_) => "damaged",
            Self::InvalidContent(_) => "refused",
            Self::Misplaced => "misplaced",
            Self::Changing => "changing",
            Self::Untrusted(_) => "untrusted",
            Self::Io(_) => "unreadable",
            Self::WrongFileType { .. } => "wrong-file-type",
            Self::CorruptCounters => "corrupt-counters",
        }
    }

    /// Whether [`TargetStore::repair`](crate::TargetStore::repair) quarantines the entry.
    pub const fn calls_for_quarantine(&self) -> bool {
        matches!(self, Self::Damaged(_) | Self::InvalidContent(_) | Self::Misplaced)
    }

    /// Returns the kind of problem that an error shows for its file or directory.
    pub(crate) fn of(error: StoreError) -> Self {
        match error {
            StoreError::Untrusted { .. } => Self::Untrusted(error),
            StoreError::NotADirectory { .. } => {
                Self::WrongFileType { needed: "a directory", found: "something else" }
            }
            _ => Self::Io(error),
        }
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(damage) => damage.fmt(f),
            Self::InvalidContent(reason) => f.write_str(reason),
            Self::Misplaced => f.write_str("the entry is in a directory where no look-up finds it"),
            Self::Changing => {
                f.write_str("it changes while it is read; verify it again when no process writes to it")
            }
            Self::Untrusted(error) | Self::Io(error) => error.fmt(f),
            Self::WrongFileType { needed, found } => {
                write!(f, "{found} is where {needed} of the store belongs; move it away")
            }
            Self::CorruptCounters => f.write_str("the counters file is corrupt; the next write resets it"),
        }
    }
}

/// A file or directory that is neither an entry nor a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OtherFile {
    /// The path.
    pub path: PathBuf,
    /// The length in bytes.
    pub bytes: u64,
    /// The kind of the file or directory.
    pub kind: OtherFileKind,
}

/// The kind of a file or directory that is not an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OtherFileKind {
    /// A temporary file that a process is writing.
    Temporary,
    /// A temporary file whose process has exited.
    StaleTemporary,
    /// A lock.
    Lock,
    /// An old lock file that no running process seems to hold.
    StaleLock,
    /// A quarantined entry, or the file with the reason.
    Quarantined,
    /// The mark of an entry that is to be sent to a remote cache.
    Unsent,
    /// A file of another program.
    ForeignFile,
    /// A directory of another program.
    ForeignDirectory,
    /// A symbolic link. Nothing follows it.
    Link,
    /// Neither file, directory nor link.
    Special,
}

impl OtherFileKind {
    /// Returns the name of the kind, as reports print it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Temporary => "being written",
            Self::StaleTemporary => "stale temporary file",
            Self::Lock => "lock",
            Self::StaleLock => "stale lock",
            Self::Quarantined => "quarantined",
            Self::Unsent => "to be sent",
            Self::ForeignFile => "foreign file",
            Self::ForeignDirectory => "foreign directory",
            Self::Link => "link",
            Self::Special => "special file",
        }
    }

    /// Whether another program created the file or directory. The store never changes it.
    pub const fn is_foreign(self) -> bool {
        matches!(self, Self::ForeignFile | Self::ForeignDirectory | Self::Link | Self::Special)
    }
}
