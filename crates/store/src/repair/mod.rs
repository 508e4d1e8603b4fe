//! The repair of a target's directory: quarantines damaged entries, prunes stale files, corrects counters.

mod directories;
pub(crate) mod quarantine;

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

/// Options of [`TargetStore::repair`].
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct RepairOptions<'a> {
    /// The options of the check.
    pub verify: VerifyOptions<'a>,
    /// Whether only to report the actions, and to write nothing.
    pub dry_run: bool,
}

impl<'a> RepairOptions<'a> {
    /// A repair after this check.
    pub fn new(verify: VerifyOptions<'a>) -> Self {
        Self { verify, dry_run: false }
    }

    /// These options, and whether only to report.
    #[must_use]
    pub fn with_dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }
}

/// The result of [`TargetStore::repair`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// The entries that were checked.
    pub checked: FileTotals,
    /// The valid entries among the checked ones.
    pub valid: FileTotals,
    /// The repairs, by path.
    pub actions: Vec<RepairAction>,
    /// The remaining problems, by path.
    pub unrepaired: Vec<UnrepairedItem>,
    /// Files that are not entries, by path. Of these, only stale ones were removed.
    pub other_files: Vec<OtherFile>,
    /// The estimated size before the repair, if it was known, and the counted size. None if the files could not be
    /// counted.
    pub counted: Option<(Option<SizeEstimate>, SizeEstimate)>,
    /// Whether another process evicts, so that this one neither pruned nor counted.
    pub busy: bool,
    /// Whether the repair was cancelled before the last check.
    pub cancelled: bool,
}

impl RepairReport {
    /// Whether everything was checked and no problem remains.
    pub fn is_valid(&self) -> bool {
        self.unrepaired.is_empty() && !self.cancelled
    }
}

/// A repair.
#[derive(Debug)]
#[non_exhaustive]
pub struct RepairAction {
    /// The file or directory.
    pub path: PathBuf,
    /// The kind of repair.
    pub kind: RepairActionKind,
}

/// The kind of a repair.
#[derive(Debug)]
#[non_exhaustive]
pub enum RepairActionKind {
    /// An invalid entry was quarantined. The next build compiles it again.
    Quarantined {
        /// The key in the file's name.
        key: Digest,
        /// The problem.
        problem: ProblemKind,
        /// The path in the quarantine, with the reason beside it. None in a dry run.
        moved_to: Option<PathBuf>,
    },
    /// A stale file was deleted.
    Pruned(OtherFileKind),
    /// A missing directory was created.
    Created,
    /// A corrupt counters file was reset.
    CountersReset,
}

/// A problem that remains.
#[derive(Debug)]
#[non_exhaustive]
pub struct UnrepairedItem {
    /// The problem.
    pub problem: StoreProblem,
    /// The reason why it remains.
    pub reason: UnrepairedReason,
}

/// The reason why a problem remains.
#[derive(Debug)]
#[non_exhaustive]
pub enum UnrepairedReason {
    /// The user has to decide, or the file could not be read.
    NotOurs,
    /// Another process holds the key's lock, or replaced the entry at each attempt.
    InProgress,
    /// The file could not be changed.
    Failed(StoreError),
}

/// The maximum number of checks of an entry that is replaced after each check.
const ATTEMPTS: usize = 3;

/// The outcome for one file.
enum Outcome {
    Valid(u64),
    Foreign(Box<OtherFile>),
    Done(u64, Box<RepairAction>),
    Unrepaired(u64, Box<UnrepairedItem>),
}

/// An entry to quarantine.
struct BadEntry<'a> {
    key: Digest,
    path: &'a Path,
    bytes: u64,
    kind: ProblemKind,
    file: File,
}

impl<'a> BadEntry<'a> {
    /// Returns the entry, if it is to be quarantined; the error is the outcome in all other cases.
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
                Err(Outcome::Unrepaired(
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

    fn unrepaired(self, reason: UnrepairedReason) -> Outcome {
        let problem = StoreProblem { path: self.path.to_owned(), key: Some(self.key), kind: self.kind };
        Outcome::Unrepaired(self.bytes, Box::new(UnrepairedItem { problem, reason }))
    }
}

impl TargetStore {
    /// Repairs what [`verify`](Self::verify) finds.
    ///
    /// Entries that are damaged, invalid or misplaced go into `quarantine/`, each under its key's lock, and only if the path
    /// still names the file that was checked under that lock. Entries that are published in the meantime stay. Stale files are pruned
    /// as in [`gc`](Self::gc), missing directories are created, corrupt counters are reset, and the size is counted. Unreadable,
    /// untrusted and foreign files are reported and not changed. Safe beside builds.
    ///
    /// # Errors
    /// The store is read-only or its root is missing, and the repair is no dry run. All other errors are in the report.
    pub fn repair(&self, options: &RepairOptions<'_>) -> Result<RepairReport, StoreError> {
        let mut report = RepairReport::default();
        if !options.dry_run {
            self.must_be_writable()?;
            self.create_target(&mut report)?;
        }
        let scan = DirectoryScan::of(self);
        report.other_files = scan.other_files;
        let (outcomes, cancelled) = self.check_each(&scan.entry_files, &options.verify, |candidate| {
            self.repair_entry(candidate, &candidate.path(self), options)
        });
        report.cancelled = cancelled;
        outcomes.into_iter().for_each(|outcome| report.add(outcome));
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

    /// Checks a file, and quarantines it if it is invalid. Returns none if the file is missing.
    fn repair_entry(
        &self,
        candidate: &EntryFile,
        path: &Path,
        options: &RepairOptions<'_>,
    ) -> Option<Outcome> {
        let check = || Some(BadEntry::of(self.check(candidate, options.verify.check)?, candidate.key, path));
        let mut bad = match check()? {
            Ok(bad) => bad,
            Err(outcome) => return Some(outcome),
        };
        if options.dry_run {
            return Some(bad.done(None));
        }
        let _held = match self.lock_if_free(&candidate.key) {
            Ok(LockOutcome::Acquired(lock)) => Some(lock),
            // Without locks only the checks of the file protect the entry.
            Ok(LockOutcome::Unsupported) => None,
            Ok(_) => return Some(bad.unrepaired(UnrepairedReason::InProgress)),
            Err(error) => return Some(bad.unrepaired(UnrepairedReason::Failed(error))),
        };
        for _ in 0..ATTEMPTS {
            // The last holder may have replaced the entry, and a put needs no lock.
            bad = match check()? {
                Ok(bad) => bad,
                Err(outcome) => return Some(outcome),
            };
            match self.quarantine_file(&bad.key, path, &bad.file, &bad.kind.to_string()) {
                Ok(Some(place)) => return Some(bad.done(Some(place))),
                Ok(None) => {}
                Err(error) => return Some(bad.unrepaired(UnrepairedReason::Failed(error))),
            }
        }
        Some(bad.unrepaired(UnrepairedReason::InProgress))
    }
}

impl RepairReport {
    fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Valid(bytes) => {
                self.checked.add(bytes);
                self.valid.add(bytes);
            }
            Outcome::Foreign(file) => self.other_files.push(*file),
            Outcome::Done(bytes, action) => {
                self.checked.add(bytes);
                self.actions.push(*action);
            }
            Outcome::Unrepaired(bytes, item) => {
                self.checked.add(bytes);
                self.unrepaired.push(*item);
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
        opkeep_order::by(&mut self.actions, |one, other| one.path.cmp(&other.path));
        opkeep_order::by(&mut self.unrepaired, |one, other| one.problem.path.cmp(&other.problem.path));
        opkeep_order::by(&mut self.other_files, |one, other| one.path.cmp(&other.path));
    }
}
