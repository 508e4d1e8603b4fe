//! The items that stay in a cache, and why.

use std::fmt;
use std::path::PathBuf;

use opkeep_kernel_meta::InUse;

use crate::scan::{Item, ItemKind, OtherChip};

/// An item, or some of its files, that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedItem {
    /// Its kind.
    pub kind: ItemKind,
    /// The kernel's stem, or the file's name.
    pub name: String,
    /// The subdirectory of the cache that it is in, if any.
    pub below: Option<&'static str>,
    /// Why it stays.
    pub cause: SkipCause,
}

/// Why an item was not moved.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipCause {
    /// A build may be writing it.
    InProgress(InUse),
    /// Its lock is held, or cannot be read.
    Lock(String),
    /// It changed since it was judged.
    Changed {
        /// The file that changed, appeared or disappeared.
        file: String,
    },
    /// It changed each time it was read.
    Changing,
    /// It could not be read, so its state is unknown.
    Unreadable {
        /// The file.
        file: String,
        /// The error of the system.
        problem: String,
    },
    /// A link, directory or pipe has the name of a file, so the framework's reaction is unknown.
    NotAFile {
        /// Its name.
        file: String,
    },
    /// It is a valid kernel for another chip. The user decides about it.
    OtherChip(OtherChip),
    /// It is part of an installed package: no framework compiles it again.
    Installed,
    /// A file could not be moved.
    Failed {
        /// The file.
        file: String,
        /// The error of the system.
        problem: String,
    },
    /// A file was replaced while it was moved, and the new file is in quarantine, since its name was taken meanwhile.
    Displaced {
        /// The file.
        file: String,
        /// Its path now.
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
