//! The verification of a target: reads every entry completely, classifies all other files, and writes nothing.

pub(crate) mod entry;

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use opkeep_digest::Digest;

use crate::inventory::FileTotals;
use crate::inventory::scan::{DirectoryScan, EntryFile};
use crate::problem::{OtherFile, OtherFileKind, StoreProblem};
use crate::{Entry, TargetStore};
use entry::Checked;

/// Options of [`TargetStore::verify`] and of the check in [`TargetStore::repair`].
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct VerifyOptions<'a> {
    /// The number of threads that read entries.
    pub threads: NonZeroUsize,
    /// A check of the content of an entry whose bytes are valid; the error is the problem. The store does not interpret
    /// content.
    pub check: &'a (dyn Fn(&Entry) -> Result<(), String> + Sync),
    /// A function that is called after each entry, in any of the threads.
    pub progress: &'a (dyn Fn(Progress) + Sync),
    /// Returns whether to cancel.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
}

/// The progress of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The number of entries that were checked so far.
    pub checked: u64,
    /// The number of all entries to check.
    pub total: u64,
}

impl Default for VerifyOptions<'_> {
    /// Returns options with one thread, for which any content is valid, without reports of progress and without
    /// cancellation.
    fn default() -> Self {
        Self { threads: NonZeroUsize::MIN, check: &|_| Ok(()), progress: &|_| (), cancelled: &|| false }
    }
}

impl<'a> VerifyOptions<'a> {
    /// These options with this number of threads.
    #[must_use]
    pub fn with_threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = threads;
        self
    }

    /// These options with this check of content.
    #[must_use]
    pub fn with_check(mut self, check: &'a (dyn Fn(&Entry) -> Result<(), String> + Sync)) -> Self {
        self.check = check;
        self
    }

    /// These options; `progress` is called after each entry.
    #[must_use]
    pub fn with_progress(mut self, progress: &'a (dyn Fn(Progress) + Sync)) -> Self {
        self.progress = progress;
        self
    }

    /// These options; `cancelled` returns whether to cancel.
    #[must_use]
    pub fn with_cancelled(mut self, cancelled: &'a (dyn Fn() -> bool + Sync)) -> Self {
        self.cancelled = cancelled;
        self
    }
}

impl fmt::Debug for VerifyOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifyOptions").field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// The result of [`TargetStore::verify`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The entries that were checked.
    pub checked: FileTotals,
    /// The valid entries among the checked ones.
    pub valid: FileTotals,
    /// The problems, by path.
    pub problems: Vec<StoreProblem>,
    /// Files that are not entries, by path. None of them is a problem.
    pub other_files: Vec<OtherFile>,
    /// Missing directories. The next put that needs one creates it.
    pub missing: Vec<PathBuf>,
    /// Whether the verification was cancelled before the last check.
    pub cancelled: bool,
}

impl VerifyReport {
    /// Whether everything was checked and is valid.
    pub fn is_valid(&self) -> bool {
        self.problems.is_empty() && !self.cancelled
    }
}

impl TargetStore {
    /// Checks every file with the name of an entry: reads it completely, and checks the SHA-256 of each member and the content.
    /// Takes no lock and writes nothing, not even the time of the last use; safe beside builds. A file that changes during
    /// the read is read again, and is not reported as damaged for that; one that is deleted meanwhile counts as missing.
    ///
    /// A missing store is valid. A file that cannot be read is a problem, and the rest is checked.
    pub fn verify(&self, options: &VerifyOptions<'_>) -> VerifyReport {
        let scan = DirectoryScan::of(self);
        let mut report = VerifyReport {
            problems: scan.problems,
            other_files: scan.other_files,
            missing: scan.missing,
            ..VerifyReport::default()
        };
        let (all, cancelled) = self.check_each(&scan.entry_files, options, |candidate| {
            // Only the size of a valid entry is kept, since there may be very many entries.
            Some(match self.check(candidate, options.check)? {
                Checked::Valid { bytes } => Ok(bytes),
                // The open file is not kept, since there may be many problems, too.
                Checked::Problem { bytes, kind, file: _ } => {
                    Err(Box::new((candidate, Checked::Problem { bytes, kind, file: None })))
                }
                other => Err(Box::new((candidate, other))),
            })
        });
        report.cancelled = cancelled;
        for result in all {
            match result {
                Ok(bytes) => report.add_valid(bytes),
                Err(other) => report.add(other.0.path(self), other.0.key, other.1),
            }
        }
        report.sort();
        report
    }

    /// Calls `check` for each file, and reports progress. Returns the results in order, and whether the check was
    /// cancelled.
    pub(crate) fn check_each<'c, T: Send>(
        &self,
        entry_files: &'c [EntryFile],
        options: &VerifyOptions<'_>,
        check: impl Fn(&'c EntryFile) -> Option<T> + Sync,
    ) -> (Vec<T>, bool) {
        let (done, total) = (AtomicU64::new(0), entry_files.len() as u64);
        let mapped = opkeep_fs::map(entry_files.len(), options.threads, options.cancelled, |at| {
            let result = check(&entry_files[at]);
            let checked = done.fetch_add(1, Ordering::Relaxed) + 1;
            (options.progress)(Progress { checked, total });
            result
        });
        (mapped.results.into_iter().flatten().collect(), mapped.is_cancelled)
    }
}

impl VerifyReport {
    fn add_valid(&mut self, bytes: u64) {
        self.checked.add(bytes);
        self.valid.add(bytes);
    }

    fn add(&mut self, path: PathBuf, key: Digest, checked: Checked) {
        match checked {
            Checked::Foreign { bytes } => {
                self.other_files.push(OtherFile { path, bytes, kind: OtherFileKind::ForeignFile });
            }
            Checked::Valid { bytes } => self.add_valid(bytes),
            Checked::Problem { bytes, kind, file: _ } => {
                self.checked.add(bytes);
                self.problems.push(StoreProblem { path, key: Some(key), kind });
            }
        }
    }

    fn sort(&mut self) {
        opkeep_order::by(&mut self.problems, |one, other| one.path.cmp(&other.path));
        opkeep_order::by(&mut self.other_files, |one, other| one.path.cmp(&other.path));
    }
}
