//! Putting a target's folder in order: what is not whole is set aside, what the dead left is swept, numbers are right.

mod directories;
mod quarantine;

use std::fs::File;
use std::path::{Path, PathBuf};

use opkeep_digest::Digest;

use crate::inventory::FileTotals;
use crate::inventory::scan::{Candidate, DirectoryScan};
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
    pub whole: FileTotals,
    /// What was done, by path.
    pub done: Vec<RepairAction>,
    /// What is still not in order, by path.
    pub left: Vec<UnrepairedItem>,
    /// What is there besides, by path; of that, only what the dead left was touched.
    pub besides: Vec<OtherFile>,
    /// What the size was taken for, if it was known, and what was counted. None if that could not be done.
    pub counted: Option<(Option<SizeEstimate>, SizeEstimate)>,
    /// Another process makes room: so it sweeps and counts, and this one did not.
    pub busy: bool,
    /// It was given up before everything was checked.
    pub cancelled: bool,
}

impl RepairReport {
    /// Whether everything was checked and is in order now.
    pub fn is_whole(&self) -> bool {
        self.left.is_empty() && !self.cancelled
    }
}

/// Something that was done.
#[derive(Debug)]
pub struct RepairAction {
    /// To what.
    pub path: PathBuf,
    /// What.
    pub what: RepairActionKind,
}

/// What was done to a file or folder.
#[derive(Debug)]
#[non_exhaustive]
pub enum RepairActionKind {
    /// An entry that is not whole was taken away. The next build makes it anew.
    Quarantined {
        /// The key that it was called by.
        key: Digest,
        /// What was wrong.
        flaw: ProblemKind,
        /// Where it is now, with the reason beside it. None in a dry run.
        place: Option<PathBuf>,
    },
    /// Something that the dead left was deleted.
    Pruned(OtherFileKind),
    /// A folder that was missing was made.
    Made,
    /// A file of numbers that did not check was begun anew.
    CountersReset,
}

/// Something that is still not in order.
#[derive(Debug)]
pub struct UnrepairedItem {
    /// What.
    pub flawed: StoreProblem,
    /// Why it is still there.
    pub why: UnrepairedReason,
}

/// Why something was left as it is.
#[derive(Debug)]
#[non_exhaustive]
pub enum UnrepairedReason {
    /// It is not for a program to decide, or could not be seen.
    NotOurs,
    /// Somebody holds its lock, or put another in its place each time: it is being made.
    InProgress,
    /// It could not be changed.
    Failed(StoreError),
}

/// How often an entry is looked at in whose place another is each time.
const ATTEMPTS: usize = 3;

/// What became of one candidate.
enum Mended {
    Whole(u64),
    Foreign(Box<OtherFile>),
    Done(u64, Box<RepairAction>),
    Left(u64, Box<UnrepairedItem>),
}

/// A file that must go.
struct Suspect<'a> {
    key: Digest,
    path: &'a Path,
    bytes: u64,
    flaw: ProblemKind,
    file: File,
}

impl<'a> Suspect<'a> {
    /// What was checked, if it must go; else what becomes of it.
    fn of(checked: Checked, key: Digest, path: &'a Path) -> Result<Self, Mended> {
        let owned = path.to_owned();
        match checked {
            Checked::Whole { bytes } => Err(Mended::Whole(bytes)),
            Checked::Foreign { bytes } => {
                let kind = OtherFileKind::ForeignFile;
                Err(Mended::Foreign(Box::new(OtherFile { path: owned, bytes, kind })))
            }
            Checked::StoreProblem { bytes, flaw, file: Some(file) } if flaw.calls_for_quarantine() => {
                Ok(Self { key, path, bytes, flaw, file })
            }
            Checked::StoreProblem { bytes, flaw, .. } => {
                let flawed = StoreProblem { path: owned, key: Some(key), flaw };
                Err(Mended::Left(bytes, Box::new(UnrepairedItem { flawed, why: UnrepairedReason::NotOurs })))
            }
        }
    }

    fn done(self, place: Option<PathBuf>) -> Mended {
        let what = RepairActionKind::Quarantined { key: self.key, flaw: self.flaw, place };
        Mended::Done(self.bytes, Box::new(RepairAction { path: self.path.to_owned(), what }))
    }

    fn left(self, why: UnrepairedReason) -> Mended {
        let flawed = StoreProblem { path: self.path.to_owned(), key: Some(self.key), flaw: self.flaw };
        Mended::Left(self.bytes, Box::new(UnrepairedItem { flawed, why }))
    }
}

impl TargetStore {
    /// Puts everything in order that can be: what [`verify`](Self::verify) finds.
    ///
    /// Entries that are damaged, refused or misplaced go into `quarantine/`, each under its key's lock, and only if it is
    /// still the file that was judged under that lock; healthy ones that come between stay. What the dead left is swept,
    /// as [`gc`](Self::gc) does it, folders that are missing are made, numbers that do not check begin anew, and the size
    /// is counted. What cannot be read, is not trusted, or is not ours is left alone, and told. Safe beside those who
    /// build.
    ///
    /// # Errors
    /// A store that is only read, or whose root is gone, unless it is a dry run. All other trouble is in the report.
    pub fn repair(&self, options: &RepairOptions<'_>) -> Result<RepairReport, StoreError> {
        let mut report = RepairReport::default();
        if !options.dry_run {
            self.must_be_writable()?;
            self.make_target(&mut report)?;
        }
        let survey = DirectoryScan::of(self);
        report.besides = survey.besides;
        let (mended, cancelled) = self.check_each(&survey.candidates, &options.verify, |candidate| {
            self.mend(candidate, &candidate.path(self), options)
        });
        report.cancelled = cancelled;
        mended.into_iter().for_each(|mended| report.add(mended));
        let (torn, flaws): (Vec<_>, Vec<_>) =
            survey.flaws.into_iter().partition(|flawed| matches!(flawed.flaw, ProblemKind::CorruptCounters));
        report.leave(flaws, || UnrepairedReason::NotOurs);
        if cancelled {
            report.leave(torn, || UnrepairedReason::NotOurs);
        } else if options.dry_run {
            report.would_tidy(torn, survey.missing);
        } else {
            self.tidy(&mut report, torn, &survey.others);
            self.make_folders(&mut report, survey.missing);
        }
        report.sort();
        Ok(report)
    }

    /// Checks a candidate, and sets it aside if it is not whole. None if it is not there any more.
    fn mend(&self, candidate: &Candidate, path: &Path, options: &RepairOptions<'_>) -> Option<Mended> {
        let check = || Some(Suspect::of(self.check(candidate, options.verify.judge)?, candidate.key, path));
        let mut suspect = match check()? {
            Ok(suspect) => suspect,
            Err(mended) => return Some(mended),
        };
        if options.dry_run {
            return Some(suspect.done(None));
        }
        let _held = match self.lock_if_free(&candidate.key) {
            Ok(LockOutcome::Acquired(lock)) => Some(lock),
            // Then nobody locks here, and the looks at the file are all there is.
            Ok(LockOutcome::Unsupported) => None,
            Ok(_) => return Some(suspect.left(UnrepairedReason::InProgress)),
            Err(error) => return Some(suspect.left(UnrepairedReason::Failed(error))),
        };
        for _ in 0..ATTEMPTS {
            // Whoever held the lock a moment ago may have made it anew, and a put needs no lock.
            suspect = match check()? {
                Ok(suspect) => suspect,
                Err(mended) => return Some(mended),
            };
            match self.set_aside(&suspect.key, path, &suspect.file, &suspect.flaw.to_string()) {
                Ok(Some(place)) => return Some(suspect.done(Some(place))),
                Ok(None) => {}
                Err(error) => return Some(suspect.left(UnrepairedReason::Failed(error))),
            }
        }
        Some(suspect.left(UnrepairedReason::InProgress))
    }
}

impl RepairReport {
    fn add(&mut self, mended: Mended) {
        match mended {
            Mended::Whole(bytes) => {
                self.checked.add(bytes);
                self.whole.add(bytes);
            }
            Mended::Foreign(beside) => self.besides.push(*beside),
            Mended::Done(bytes, deed) => {
                self.checked.add(bytes);
                self.done.push(*deed);
            }
            Mended::Left(bytes, left) => {
                self.checked.add(bytes);
                self.left.push(*left);
            }
        }
    }

    pub(crate) fn leave(&mut self, flaws: Vec<StoreProblem>, why: impl Fn() -> UnrepairedReason) {
        flaws.into_iter().for_each(|flawed| self.leave_one(flawed, why()));
    }

    pub(crate) fn leave_one(&mut self, flawed: StoreProblem, why: UnrepairedReason) {
        self.left.push(UnrepairedItem { flawed, why });
    }

    fn sort(&mut self) {
        self.done.sort_by(|one, other| one.path.cmp(&other.path));
        self.left.sort_by(|one, other| one.flawed.path.cmp(&other.flawed.path));
        self.besides.sort_by(|one, other| one.path.cmp(&other.path));
    }
}
