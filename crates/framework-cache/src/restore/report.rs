//! The options and the result of a restore.

use crate::quarantine::QuarantineProgress;

/// The options of [`restore`](super::restore()).
#[non_exhaustive]
pub struct RestoreOptions<'a> {
    /// Whether to change nothing, and to report the files that would be restored.
    pub dry_run: bool,
    /// Called before and after each change.
    pub progress: &'a dyn Fn(QuarantineProgress),
}

impl<'a> RestoreOptions<'a> {
    /// A dry run, or a real one.
    pub fn new(dry_run: bool) -> Self {
        Self { dry_run, progress: &|_| {} }
    }

    /// The same with `progress` called before and after each change.
    #[must_use]
    pub fn with_progress(self, progress: &'a dyn Fn(QuarantineProgress)) -> Self {
        Self { progress, ..self }
    }
}

/// The result of [`restore`](super::restore()).
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The restored files, by their paths in the cache.
    pub restored: Vec<String>,
    /// The removed files, which the run, or its build, had written.
    pub deleted: Vec<String>,
    /// The files that stay in quarantine, or could not get their names back.
    pub unrestored: Vec<UnrestoredFile>,
    /// Whether the run has no more files, and its directory was removed.
    pub removed: bool,
}

/// A file that stays in quarantine, stays displaced, or is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnrestoredFile {
    /// Its path in the cache.
    pub file: String,
    /// The reason why it was not restored.
    pub reason: String,
}
