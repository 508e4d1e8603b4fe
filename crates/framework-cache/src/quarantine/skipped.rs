//! What stays in a cache, and why.

use std::fmt;
use std::path::PathBuf;

use opkeep_kernel_meta::InUse;

use crate::scan::{Item, ItemKind, OtherChip};

/// A thing, or some files of it, that are still there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedItem {
    /// What it is.
    pub kind: ItemKind,
    /// The kernel's stem, or the file's name.
    pub name: String,
    /// The folder of the cache that it is in, if not right there.
    pub below: Option<&'static str>,
    /// Why it is still there.
    pub cause: SkipCause,
}

/// Why something was not moved.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipCause {
    /// A build may be making it.
    InProgress(InUse),
    /// Somebody holds its lock, or it cannot be told.
    Lock(String),
    /// It is not what was judged any more.
    Changed {
        /// The file that changed, appeared or went away.
        file: String,
    },
    /// It changed whenever it was read.
    Changing,
    /// It could not be read, so nobody knows whether it is damaged.
    Unreadable {
        /// The file.
        file: String,
        /// What the system said.
        problem: String,
    },
    /// A link, folder or pipe stands where a file should be: nobody knows what a framework finds there.
    NotAFile {
        /// Its name.
        file: String,
    },
    /// It is a kernel in order, for another chip: that is no damage, and the user's to decide.
    OtherChip(OtherChip),
    /// It is part of what was installed: no framework makes it again.
    Installed,
    /// A file could not be moved.
    Failed {
        /// The file.
        file: String,
        /// What the system said.
        problem: String,
    },
    /// A file was replaced while it was moved, and the new one is in quarantine now: its name was taken meanwhile.
    Displaced {
        /// The file.
        file: String,
        /// Where it is.
        path: PathBuf,
    },
}

impl SkippedItem {
    pub(crate) fn of(item: &Item, cause: SkipCause) -> Self {
        Self { kind: item.kind, name: item.name.clone(), below: item.below, cause }
    }
}

impl fmt::Display for SkipCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InProgress(in_use) => write!(f, "in progress: {in_use}"),
            Self::Lock(problem) => f.write_str(problem),
            Self::Changed { file } => {
                write!(
                    f,
                    "`{file}` changed since the scan: another program is at work there; run it again later"
                )
            }
            Self::Changing => f.write_str("it changed whenever it was read: run it again later"),
            Self::Unreadable { file, problem } => write!(
                f,
                "`{file}` cannot be read, so it is unknown whether it is damaged: {problem}; run it as the user who owns \
                 the file"
            ),
            Self::NotAFile { file } => write!(
                f,
                "`{file}` is a link, or no file at all, and links are not followed: a framework may find an intact kernel \
                 there; put the file itself in its place, or move all files of this kernel away by hand"
            ),
            Self::OtherChip(other) => write!(
                f,
                "{other}: it is not damaged, so it stays; move its files away by hand, and the kernel is compiled again"
            ),
            Self::Installed => f.write_str("it is part of an operator package: install or build that again"),
            Self::Failed { file, problem } => {
                write!(f, "`{file}` could not be moved: {problem}; run it as the user who owns the directory")
            }
            Self::Displaced { file, path } => write!(
                f,
                "`{file}` was replaced twice while it was moved: the file between is `{}` now",
                path.display()
            ),
        }
    }
}
