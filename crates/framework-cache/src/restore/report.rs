//! How to restore, and the outcome.

use crate::quarantine::QuarantineProgress;

/// How to restore.
pub struct RestoreOptions<'a> {
    /// Change nothing, and report what would be done.
    pub dry_run: bool,
    /// Called before and after each change.
    pub observe: &'a dyn Fn(QuarantineProgress),
}

/// What was restored, and what was not.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The restored files, by their paths in the cache.
    pub restored: Vec<String>,
    /// The files that the run, or its build, had written and that were removed.
    pub withdrawn: Vec<String>,
    /// What stays in quarantine, or could not get its name back.
    pub unrestored: Vec<UnrestoredFile>,
    /// Nothing is left of the run: its directory is removed.
    pub removed: bool,
}

/// A file that stays in quarantine, stays displaced, or is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnrestoredFile {
    /// Its path in the cache.
    pub file: String,
    /// Why it was not restored.
    pub why: String,
}
