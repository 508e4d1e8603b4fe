//! The errors. A command that fails, and a result that cannot be kept, are outcomes, not errors.

use std::path::PathBuf;

use opkeep_embed::EmbedError;
use opkeep_process::ProcessError;
use thiserror::Error;

/// The reason why a command has no result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LauncherError {
    /// The name of a root is not valid.
    #[error(
        "`{name}` cannot be the name of a root: expected 1 to 64 lower-case letters, digits, `_` and `-`, and neither `home` nor `work`"
    )]
    RootName {
        /// The name.
        name: String,
    },
    /// The path of a root is not valid.
    #[error("`{path}` cannot be the root `{name}`: {problem}")]
    RootPath {
        /// The name.
        name: String,
        /// The path.
        path: PathBuf,
        /// Why it cannot be one.
        problem: &'static str,
    },
    /// The cache cannot be used as its mode requires.
    #[error(transparent)]
    Cache(#[from] EmbedError),
    /// A directory or the observer for the command cannot be prepared.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// The action that failed, such as `create`.
        action: &'static str,
        /// The path that it concerned.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The name of a link is taken.
    #[error("`{path}` exists, and is not a link to this program: it stays as it is")]
    Occupied {
        /// The path.
        path: PathBuf,
    },
    /// The command could not be started, did not end in time, or was cancelled.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The caller cancelled the command while another process ran the same one.
    #[error("cancelled")]
    Cancelled,
}

impl LauncherError {
    /// Whether the caller cancelled the command.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled | Self::Process(ProcessError::Cancelled))
    }
}
