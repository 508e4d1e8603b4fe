//! Repair of a target's directory: damaged entries are quarantined, stale files pruned, counters corrected.

mod directories;
mod quarantine;

use std::fs::File;
use std::path::{Path, PathBuf};

use opkeep_digest::Digest;

use crate::inventory::FileTotals;
use crate::inventory::scan::{DirectoryScan, EntryFile};
use crate::lock::LockOutcome;
use crate::problem::{OtherFile, OtherFileKind, ProblemKind, StoreProblem};
use crate::size::SizeEstimate;
use crate::verify::VerifyOptions;
use crate::verify::entry::Checked;
use crate::{StoreError, TargetStore};

/// What [`TargetStore::repair`] does.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepairOptions<'a> {
    /// How entries are checked.
    pub verify: VerifyOptions<'a>,
    /// Says what would be done, and writes nothing.
    pub dry_run: bool,
}

/// What [`TargetStore::repair`] did, or would do.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// Entries that were read in full, or as far as they could be.
    pub checked: FileTotals,
    /// Those of them that are in order.
    pub valid: FileTotals,
    /// What was done, by path.
    pub actions: Vec<RepairAction>,
    /// What is still not in order, by path.
    pub unrepaired: Vec<UnrepairedItem>,
    /// What is there besides, by path; of that, only stale files were touched.
    pub other_files: Vec<OtherFile>,
    /// What the size was taken for, if it was known, and what was counted. None if that could not be done.
    pub counted: Option<(Option<SizeEstimate>, SizeEstimate)>,
    /// Another process evicts: so it prunes and counts, and this one did not.
    pub busy: bool,
    /// It was cancelled before everything was checked.
    pub cancelled: bool,
}

impl RepairReport {
    /// Whether everything was checked and is in order now.
    pub fn is_valid(&self) -> bool {
        self.unrepaired.is_empty() && !self.cancelled
    }
}

/// Something that was done.
#[derive(Debug)]
#[non_exhaustive]
pub struct RepairAction {
    /// To what.
    pub path: PathBuf,
    /// What.
    pub kind: RepairActionKind,
}

/// What was done to a file or directory.
#[derive(Debug)]
#[non_exhaustive]
pub enum RepairActionKind {
    /// An entry that is not whole was taken away. The next build makes it anew.
    Quarantined {
        /// The key that it was called by.
        key: Digest,
        /// What was wrong.
        problem: ProblemKind,
        /// Where it is now, with the reason beside it. None in a dry run.
        moved_to: Option<PathBuf>,
    },
    /// Something that the dead left was deleted.
    Pruned(OtherFileKind),
    /// A directory that was missing was made.
    Created,
    /// A file of numbers that did not check was begun anew.
    CountersReset,
}

/// Something that is still not in order.
#[derive(Debug)]
#[non_exhaustive]
pub struct UnrepairedItem {
    /// What.
    pub problem: StoreProblem,
    /// Why it is still there.
    pub reason: UnrepairedReason,
}

/// Why something was left as it is.
#[derive(Debug)]
#[non_exhaustive]
pub enum UnrepairedReason {
    /// It is not for a program to decide, or could not be seen.
    NotOurs,
    /// Another process holds its lock, or put another in its place each time: it is being made.
    InProgress,
    /// It could not be changed.
    Failed(StoreError),
}

/// How often an entry is looked at in whose place another is each time.
const ATTEMPTS: usize = 3;

/// What became of one candidate.
enum Outcome {
    Valid(u64),
    Foreign(Box<OtherFile>),
    Done(u64, Box<RepairAction>),
    Left(u64, Box<UnrepairedItem>),
}

/// A file that must go.
struct BadEntry<'a> {
    key: Digest,
    path: &'a Path,
    bytes: u64,
    kind: ProblemKind,
    file: File,
}

impl<'a> BadEntry<'a> {
    /// What was checked, if it must go; else what becomes of it.
    fn of(checked: Checked, key: Digest, path: &'a Path) -> Result<Self, Outcome> {
        let owned = path.to_owned();
        match checked {
            Checked::Valid { bytes } => Err(Outcome::Valid(bytes)),
            Checked::Foreign { bytes } => {
                let kind = OtherFileKind::ForeignFile;
                Err(Outcome::Foreign(Box::new(OtherFile { path: owned, bytes, kind })))
            }
            Checked::Problem { bytes, kind, file: Some(file) } if kind.calls_for_quarantine() => {
                Ok(Self { key, path, bytes, kind, file })
            }
            Checked::Problem { bytes, kind, .. } => {
                let problem = StoreProblem { path: owned, key: Some(key), kind };
                Err(Outcome::Left(
                    bytes,
                    Box::new(UnrepairedItem { problem, reason: UnrepairedReason::NotOurs }),
                ))
            }
        }
    }

    fn done(self, moved_to: Option<PathBuf>) -> Outcome {
        let kind = RepairActionKind::Quarantined { key: self.key, problem: self.kind, moved_to };
        Outcome::Done(self.bytes, Box::new(RepairAction { path: self.path.to_owned(), kind }))
    }

    fn left(self, reason: UnrepairedReason) -> Outcome {
        let problem = StoreProblem { path: self.path.to_owned(), key: Some(self.key), kind: self.kind };
        Outcome::Left(self.bytes, Box::new(UnrepairedItem { problem, reason }))
    }
}

impl TargetStore {
    /// Repairs what [`verify`](Self::verify) finds.
    ///
    /// Entries that are damaged, invalid or misplaced go into `quarantine/`, each under its key's lock, and only if it is
    /// still the file that was judged under that lock; valid ones that come between stay. Stale files are pruned,
    /// as [`gc`](Self::gc) does it, directories that are missing are made, corrupt counters are reset, and the size
    /// is counted. What cannot be read, is not trusted, or is not ours is left alone, and reported. Safe beside
    /// builds.
    ///
    /// # Errors
    /// A store that is only read, or whose root is gone, unless it is a dry run. All other trouble is in the report.
    pub fn repair(&self, options: &RepairOptions<'_>) -> Result<RepairReport, StoreError> {
        let mut report = RepairReport::default();
        if !options.dry_run {
            self.must_be_writable()?;
            self.create_target(&mut report)?;
        }
        let scan = DirectoryScan::of(self);
        report.other_files = scan.other_files;
        let (mended, cancelled) = self.check_each(&scan.entry_files, &options.verify, |candidate| {
            self.repair_entry(candidate, &candidate.path(self), options)
        });
        report.cancelled = cancelled;
        mended.into_iter().for_each(|mended| report.add(mended));
        let (corrupt, problems): (Vec<_>, Vec<_>) = scan
            .problems
            .into_iter()
            .partition(|problem| matches!(problem.kind, ProblemKind::CorruptCounters));
        report.leave(problems, || UnrepairedReason::NotOurs);
        if cancelled {
            report.leave(corrupt, || UnrepairedReason::NotOurs);
        } else if options.dry_run {
            report.plan_others(corrupt, scan.missing);
        } else {
            self.repair_others(&mut report, corrupt, &scan.others);
            self.create_missing(&mut report, scan.missing);
        }
        report.sort();
        Ok(report)
    }

    /// Checks a candidate, and sets it aside if it is not whole. None if it is gone.
    fn repair_entry(
        &self,
        candidate: &EntryFile,
        path: &Path,
        options: &RepairOptions<'_>,
    ) -> Option<Outcome> {
        let check = || Some(BadEntry::of(self.check(candidate, options.verify.check)?, candidate.key, path));
        let mut bad = match check()? {
            Ok(bad) => bad,
            Err(mended) => return Some(mended),
        };
        if options.dry_run {
            return Some(bad.done(None));
        }
        let _held = match self.lock_if_free(&candidate.key) {
            Ok(LockOutcome::Acquired(lock)) => Some(lock),
            // Then no process locks here, and the looks at the file are all there is.
            Ok(LockOutcome::Unsupported) => None,
            Ok(_) => return Some(bad.left(UnrepairedReason::InProgress)),
            Err(error) => return Some(bad.left(UnrepairedReason::Failed(error))),
        };
        for _ in 0..ATTEMPTS {
            // A process that held the lock a moment ago may have made it anew, and a put needs no lock.
            bad = match check()? {
                Ok(bad) => bad,
                Err(mended) => return Some(mended),
            };
            match self.quarantine_file(&bad.key, path, &bad.file, &bad.kind.to_string()) {
                Ok(Some(place)) => return Some(bad.done(Some(place))),
                Ok(None) => {}
                Err(error) => return Some(bad.left(UnrepairedReason::Failed(error))),
            }
        }
        Some(bad.left(UnrepairedReason::InProgress))
    }
}

impl RepairReport {
    fn add(&mut self, mended: Outcome) {
        match mended {
            Outcome::Valid(bytes) => {
                self.checked.add(bytes);
                self.valid.add(bytes);
            }
            Outcome::Foreign(beside) => self.other_files.push(*beside),
            Outcome::Done(bytes, deed) => {
                self.checked.add(bytes);
                self.actions.push(*deed);
            }
            Outcome::Left(bytes, left) => {
                self.checked.add(bytes);
                self.unrepaired.push(*left);
            }
        }
    }

    pub(crate) fn leave(&mut self, problems: Vec<StoreProblem>, reason: impl Fn() -> UnrepairedReason) {
        problems.into_iter().for_each(|problem| self.leave_one(problem, reason()));
    }

    pub(crate) fn leave_one(&mut self, problem: StoreProblem, reason: UnrepairedReason) {
        self.unrepaired.push(UnrepairedItem { problem, reason });
    }

    fn sort(&mut self) {
        self.actions.sort_by(|one, other| one.path.cmp(&other.path));
        self.unrepaired.sort_by(|one, other| one.problem.path.cmp(&other.problem.path));
        self.other_files.sort_by(|one, other| one.path.cmp(&other.path));
    }
}
