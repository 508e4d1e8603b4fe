//! The errors of a directory.

use std::io;
use std::path::{Path, PathBuf};

use opkeep_text::counted;
use thiserror::Error;

/// The reason why a directory, or a file in it, cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The name of a file or a directory could leave the directory.
    #[error("{name:?} cannot be a name in a directory")]
    Name {
        /// The name.
        name: String,
    },
    /// Another user may have written it.
    #[error("`{}` is not trusted: {problem}. {help}", .path.display())]
    Untrusted {
        /// The directory or file.
        path: PathBuf,
        /// The reason.
        problem: String,
        /// What to do about it.
        help: String,
    },
    /// It is not a regular file.
    #[error("`{}` is not a regular file", .path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// It is larger than an entry may be.
    #[error(
        "`{}` has {found}, more than an entry may have",
        .path.display(),
        found = counted(*.found, "byte")
    )]
    TooLarge {
        /// The path.
        path: PathBuf,
        /// Its size.
        found: u64,
    },
    /// The system refused a call.
    #[error("`{}` cannot be {action}: {source}", .path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// `read` or `written`.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// The error of a call that the system refused.
pub(super) fn failed(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> DirectoryError {
    let path = path.to_owned();
    move |source| DirectoryError::Io { path, action, source }
}
