//! What a check of a store finds: problems, and files that are no entries.

use std::fmt;
use std::path::PathBuf;

use opkeep_digest::Digest;

use crate::StoreError;
use crate::corruption::Corruption;

/// Something that is not in order.
#[derive(Debug)]
#[non_exhaustive]
pub struct StoreProblem {
    /// Where.
    pub path: PathBuf,
    /// The key, if it is called as an entry.
    pub key: Option<Digest>,
    /// What is wrong.
    pub kind: ProblemKind,
}

/// What is wrong with a file or directory.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProblemKind {
    /// An entry whose bytes are not what was written.
    Damaged(Corruption),
    /// An entry whose bytes are right, and whose content is not, as [`VerifyOptions::check`](crate::VerifyOptions::check) has it.
    InvalidContent(String),
    /// A whole entry in a directory where no look-up finds it.
    Misplaced,
    /// It changed each time it was looked at: another process writes to it, so it is none of ours.
    Changing,
    /// An untrusted user could have written it.
    Untrusted(StoreError),
    /// It could not be read. The next attempt may succeed.
    Io(StoreError),
    /// Something else stands where the store needs a file or a directory.
    WrongFileType {
        /// What is needed there.
        needed: &'static str,
        /// What there is.
        found: &'static str,
    },
    /// Numbers that the store keeps, and that do not check.
    CorruptCounters,
}

impl ProblemKind {
    /// A word for it, for programs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Damaged(_) => "damaged",
            Self::InvalidContent(_) => "refused",
            Self::Misplaced => "misplaced",
            Self::Changing => "changing",
            Self::Untrusted(_) => "untrusted",
            Self::Io(_) => "trouble",
            Self::WrongFileType { .. } => "in-the-way",
            Self::CorruptCounters => "torn",
        }
    }

    /// Whether it is an entry that [`TargetStore::repair`](crate::TargetStore::repair) takes away.
    pub const fn calls_for_quarantine(&self) -> bool {
        matches!(self, Self::Damaged(_) | Self::InvalidContent(_) | Self::Misplaced)
    }

    /// What an error says of the file or directory that it is about.
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

/// Something that is no entry, and in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OtherFile {
    /// Where.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: u64,
    /// What it is.
    pub kind: OtherFileKind,
}

/// What something is that is no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OtherFileKind {
    /// Being written.
    Temporary,
    /// Stale: its writer died.
    StaleTemporary,
    /// A lock.
    Lock,
    /// A lock that no process seems to hold: it is old.
    StaleLock,
    /// A damaged entry that was quarantined, or the reason.
    Quarantined,
    /// A file that is not ours.
    ForeignFile,
    /// A directory that is not ours.
    ForeignDirectory,
    /// A symbolic link. Nothing follows it.
    Link,
    /// Neither file, directory nor link.
    Special,
}

impl OtherFileKind {
    /// What it is, in a few words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Temporary => "being written",
            Self::StaleTemporary => "left by the dead",
            Self::Lock => "lock",
            Self::StaleLock => "old lock",
            Self::Quarantined => "set aside",
            Self::ForeignFile => "foreign file",
            Self::ForeignDirectory => "foreign folder",
            Self::Link => "link",
            Self::Special => "special file",
        }
    }

    /// Whether the store did not make it. It is left alone.
    pub const fn is_foreign(self) -> bool {
        matches!(self, Self::ForeignFile | Self::ForeignDirectory | Self::Link | Self::Special)
    }
}
