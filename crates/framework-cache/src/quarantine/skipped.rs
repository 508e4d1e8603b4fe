//! The items that stay in a cache, with the causes.

use std::fmt;
use std::path::PathBuf;

use opkeep_kernel_meta::InUse;

use crate::scan::{Item, ItemKind, OtherChip};

/// An item of which at least one file stays.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedItem {
    /// The kind of the item.
    pub kind: ItemKind,
    /// The stem of the kernel, or the name of the file.
    pub name: String,
    /// The subdirectory of the cache with the item, if any.
    pub below: Option<&'static str>,
    /// The cause for which the item stays.
    pub cause: SkipCause,
}

/// The cause for which an item was not moved.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipCause {
    /// A build may be writing the item.
    InProgress(InUse),
    /// The lock of the item is held, or cannot be read; with the message.
    Lock(String),
    /// The item changed since it was judged.
    Changed {
        /// The file that changed, appeared or disappeared.
        file: String,
    },
    /// The item changed each time that it was read.
    Changing,
    /// The item could not be read, so its state is unknown.
    Unreadable {
        /// The name of the file.
        file: String,
        /// The error of the system.
        problem: String,
    },
    /// A link, a directory or a pipe has the name of a file, so the framework's reaction is unknown.
    NotAFile {
        /// The name of the file.
        file: String,
    },
    /// The item is a valid kernel for another chip, so the user has to decide.
    OtherChip(OtherChip),
    /// The item is part of an installed package, and no framework compiles it again.
    Installed,
    /// A file could not be moved.
    Failed {
        /// The name of the file.
        file: String,
        /// The error of the system.
        problem: String,
    },
    /// A file was replaced while it was moved, and its name was taken again, so the new file stays in quarantine.
    Displaced {
        /// The name of the file.
        file: String,
        /// The current path of the file.
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
                    "`{file}` changed since the scan: another program is writing there; run it again later"
                )
            }
            Self::Changing => f.write_str("it changed whenever it was read: run it again later"),
            Self::Unreadable { file, problem } => write!(
                f,
                "`{file}` cannot be read, so it is unknown whether it is damaged: {problem}; run it as the user who \
                 owns the file"
            ),
            Self::NotAFile { file } => write!(
                f,
                "`{file}` is a link, or not a file, and links are not followed: a framework may find an intact kernel \
                 there; replace it by the file itself, or move all files of this kernel away by hand"
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
                "`{file}` was replaced twice while it was moved: the first new file is `{}` now",
                path.display()
            ),
        }
    }
}
