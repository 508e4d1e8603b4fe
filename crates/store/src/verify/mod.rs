//! Verification: every entry of a target is read in full, everything else is looked at, nothing is written.

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

/// How [`TargetStore::verify`] and [`TargetStore::repair`] go about it.
#[derive(Clone, Copy)]
pub struct VerifyOptions<'a> {
    /// How many entries are read at once.
    pub threads: NonZeroUsize,
    /// Says of an entry whose bytes are right what is wrong with its content. The store knows nothing of that.
    pub check: &'a (dyn Fn(&Entry) -> Result<(), String> + Sync),
    /// Told after each entry how far it is, by any of the threads.
    pub progress: &'a (dyn Fn(Progress) + Sync),
    /// Whether to cancel.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Entries that were checked.
    pub checked: u64,
    /// Entries that there are to check.
    pub total: u64,
}

impl Default for VerifyOptions<'_> {
    /// One thread, any content is right, no progress is reported, and it is not cancelled.
    fn default() -> Self {
        Self { threads: NonZeroUsize::MIN, check: &|_| Ok(()), progress: &|_| (), cancelled: &|| false }
    }
}

impl fmt::Debug for VerifyOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifyOptions").field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// What [`TargetStore::verify`] found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Entries that were read in full, or as far as they could be.
    pub checked: FileTotals,
    /// Those of them that are in order.
    pub valid: FileTotals,
    /// What is not in order, by path.
    pub problems: Vec<StoreProblem>,
    /// What is there besides, by path. None of it is a flaw.
    pub other_files: Vec<OtherFile>,
    /// Directories that are missing. A process that needs one makes it.
    pub missing: Vec<PathBuf>,
    /// It was cancelled before everything was checked.
    pub cancelled: bool,
}

impl VerifyReport {
    /// Whether everything was checked and is in order.
    pub fn is_valid(&self) -> bool {
        self.problems.is_empty() && !self.cancelled
    }
}

impl TargetStore {
    /// Checks everything: every file that is called an entry is read in full, with the SHA-256 of each of its members,
    /// and judged. Takes no lock and writes nothing at all, not even that an entry was used; safe beside
    /// builds. What changes while it is read is looked at again, and never called damaged for that; what is deleted
    /// meanwhile counts as missing.
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
            // Of what is whole little is kept: there may be very many.
            Some(match self.check(candidate, options.check)? {
                Checked::Valid { bytes } => Ok(bytes),
                // Nor is the file, which is open: there may be very many of these, too.
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

    /// Does `check` to each candidate, and tells how far it is. What came of it, in order, and whether it was cancelled.
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
        self.problems.sort_by(|one, other| one.path.cmp(&other.path));
        self.other_files.sort_by(|one, other| one.path.cmp(&other.path));
    }
}
