//! Digests of files, remembered between calls.

use std::path::Path;

use crate::Digest;

/// Digests of files, remembered for as long as the files do not change.
pub trait FileDigests: Send + Sync {
    /// The SHA-256 of the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read.
    fn digest(&self, path: &Path) -> std::io::Result<Digest>;

    /// The bytes that an earlier process passed to [`remember`](Self::remember) for `question`. A backend checks whether
    /// they still hold. The default implementation remembers nothing.
    fn recall(&self, _question: &Digest) -> Option<Vec<u8>> {
        None
    }

    /// Stores `answer` for later processes. Best effort.
    fn remember(&self, _question: &Digest, _answer: &[u8]) {}
}
