//! Errors of keys and their files.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::key_text::KeyTextError;

/// An error of a key or of a file with keys. Never has a part of a key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrustError {
    /// A text or file has something else than a key.
    #[error("{}line {line}: {problem}", path.as_ref().map(|path| format!("`{}`, ", path.display())).unwrap_or_default())]
    Key {
        /// The file, if the text is from one.
        path: Option<PathBuf>,
        /// The line, from 1.
        line: usize,
        /// The problem.
        problem: KeyTextError,
    },
    /// A file is no text.
    #[error("`{}` is no text: byte {at} is not UTF-8; expected keys as NAME:BASE64", path.display())]
    NoText {
        /// The file.
        path: PathBuf,
        /// The position of the byte.
        at: usize,
    },
    /// The file of a secret is accessible to others.
    #[error(
        "`{}` belongs to user {owner} and has mode {mode:04o}, expected user {user} and mode 0600, or user 0 and at most mode 0640, \
         since it has a secret; correct owner and mode (of a secret that is mounted into a container, its mode), and replace \
         the secret if another user may have read it",
        path.display()
    )]
    NotPrivate {
        /// The file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Its permissions.
        mode: u32,
        /// This user.
        user: u32,
    },
    /// Another user can change a list of trusted keys.
    #[error(
        "`{}` belongs to user {owner} and has mode {mode:04o}, expected user {user} or 0 and a mode in which only the owner \
         writes, such as 0644, since it decides which keys are trusted; check its keys, and correct owner and mode",
        path.display()
    )]
    Writable {
        /// The file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Its permissions.
        mode: u32,
        /// This user.
        user: u32,
    },
    /// A new key's file exists.
    #[error("`{}` exists and is kept; choose another file for the new key", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system gives no random bytes.
    #[error("cannot get random bytes from the system: {reason}")]
    Random {
        /// The system's error.
        reason: String,
    },
}

impl TrustError {
    /// Whether the problem is a secret key in place of a public key.
    pub fn is_secret_key(&self) -> bool {
        matches!(self, Self::Key { problem: KeyTextError::SecretKey, .. })
    }
}
