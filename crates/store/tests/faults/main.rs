//! Every operation of the store, with every fault at every single access to the disk: a table without gaps.
//!
//! For each row the operation runs once to count its calls. Then it runs again from the same files for each call
//! and each fault of such a call; from the remaining files, also after success, each result of a power
//! cut is derived. Of calls that do the same to one directory after the other, those in the middle get
//! one error and one kill. The invariants are in `check.rs`, the rows are in `rows.rs` and `audit.rs`. States that
//! were checked once are not checked again.
//!
//! The longest rows are several tests, which share the calls. A run plays one of them, by `OPKEEP_MUTATION_SEEDS`, which CI
//! takes from the commit; `all` plays each.

#![expect(clippy::disallowed_methods, reason = "these tests look at what faults left")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "these tests are functions without `#[test]`")]
#![expect(clippy::print_stdout, reason = "how many points were covered is worth seeing")]

mod audit;
mod check;
#[path = "../common/mod.rs"]
mod common;
mod rows;

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use check::{Check, End};
use libtest_mimic::{Arguments, Trial};
use opkeep_fs::FsOp;
use opkeep_store::{Store, TargetStore};
use opkeep_testkit::fault::{Fault, FaultyDisk};
use opkeep_testkit::{DirSnapshot, is_turn};
use rows::{Act, Row, State};
use tempfile::TempDir;

static POINTS: AtomicUsize = AtomicUsize::new(0);

fn main() {
    let trials = rows::all().into_iter().chain(audit::rows()).flat_map(|row| {
        (0..row.parts).map(move |part| {
            let name =
                if row.parts == 1 { row.name.to_owned() } else { format!("{}, part {part}", row.name) };
            Trial::test(name.clone(), move || {
                let mut table = Table::new(&row, part);
                let calls = table.run();
                let (points, seen) = (table.points, table.seen.len());
                println!("{name}: {points} points at {calls} calls, {seen} different ends");
                POINTS.fetch_add(points, Ordering::Relaxed);
                Ok(())
            })
            .with_ignored_flag(!is_turn(part, row.parts))
        })
    });
    let arguments = Arguments::from_args();
    let trials = trials.collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    println!("the fault table covered {} points", POINTS.load(Ordering::Relaxed));
    conclusion.exit();
}

/// A directory in memory, if there is one: the table syncs and removes many files.
fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).unwrap()
}

/// Whether the call is one of at least 33 of one kind, or of up to four kinds by turns: the same is done to one directory
/// after the other. There one error and one kill suffice; the first and the last calls get all faults.
fn is_one_of_many(calls: &[FsOp], at: usize) -> bool {
    let Some(around) = calls.get(at.saturating_sub(17)..at + 16).filter(|around| around.len() == 33) else {
        return false;
    };
    (1..=4).any(|period| around.iter().zip(&around[period..]).all(|(one, next)| one == next))
}

/// The difference between two ends.
fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// The affected file, whatever its temporary name: digits after a dash are processes, counters and times.
fn at_risk(disk: &FaultyDisk) -> Vec<String> {
    let blurred = |line: String| {
        let mut counts = false;
        let blur = |letter: char| {
            counts = letter == '-' || counts && letter.is_ascii_digit();
            if counts && letter != '-' { '#' } else { letter }
        };
        line.chars().map(blur).collect::<String>()
    };
    disk.at_risk().into_iter().map(blurred).collect()
}

/// One row at work.
struct Table<'a> {
    row: &'a Row,
    /// Calls are assigned to the parts in turn.
    part: usize,
    directory: TempDir,
    disk: Arc<FaultyDisk>,
    before: DirSnapshot,
    points: usize,
    /// Whether the files are as they were before the operation.
    is_before: bool,
    /// States that were checked, and the subject in each.
    seen: HashMap<u64, State>,
    /// States that a power cut was applied to.
    lost: HashSet<u64>,
}

impl<'a> Table<'a> {
    fn new(row: &'a Row, part: usize) -> Self {
        let directory = directory();
        (row.prepare)(directory.path());
        let before = DirSnapshot::of(directory.path()).unwrap();
        Self {
            row,
            part,
            disk: FaultyDisk::new(directory.path()),
            directory,
            before,
            points: 0,
            is_before: true,
            seen: HashMap::new(),
            lost: HashSet::new(),
        }
    }

    /// The number of calls.
    fn run(&mut self) -> usize {
        let said = self.act(None);
        assert!(said, "`{}` fails without a fault", self.row.name);
        let calls = self.disk.calls();
        assert!(!calls.is_empty());
        (self.row.well)(self.directory.path());
        let said = self.act(None);
        self.check("no fault", None, None, said);
        for (at, op) in (1..).zip(&calls).skip(self.part).step_by(self.row.parts) {
            let many = is_one_of_many(&calls, at);
            let faults = match many {
                true => vec![Fault::Error(Fault::ERRORS[0]), Fault::Death],
                false => Fault::all_for(*op),
            };
            for fault in faults {
                let said = self.act(Some((at, fault)));
                assert!(self.disk.has_sprung(), "call {at} of `{}` never came", self.row.name);
                self.check(&format!("{fault:?} at call {at}, {op:?}"), Some(*op), Some(fault), said);
            }
        }
        calls.len()
    }

    /// Runs the operation on the original files, with `fault` at one of its calls. Returns whether it reports
    /// success.
    fn act(&mut self, fault: Option<(usize, Fault)>) -> bool {
        if !self.is_before {
            self.before.restore(self.directory.path()).unwrap();
        }
        self.is_before = false;
        let config = self.row.config(self.directory.path()).with_watcher(self.disk.clone());
        self.disk.disarm();
        let arm = |disk: &FaultyDisk| match fault {
            Some((at, fault)) => disk.arm(at, fault),
            None => disk.disarm(),
        };
        match self.row.act {
            Act::Open(act) => {
                arm(&self.disk);
                act(config)
            }
            Act::On(act) => {
                let store: TargetStore = Store::open(config).unwrap().target(common::TARGET).unwrap();
                arm(&self.disk);
                act(&store)
            }
        }
    }

    /// Checks the remaining files, now and after each possible power cut.
    fn check(&mut self, what: &str, op: Option<FsOp>, fault: Option<Fault>, said: bool) {
        let end = match fault {
            None => End::Well,
            Some(fault) if fault.is_death() => End::Death,
            Some(_) => End::Error,
        };
        let (at_risk, losses) = (at_risk(&self.disk), self.disk.losses());
        // A check may change the files: opening a store creates missing directories.
        let (left, files) = self.point(what, end, op, said, false);
        // After a power cut, only a successful operation is checked for more than its files.
        if end != End::Well && !self.lost.insert(hash((files, at_risk))) {
            return;
        }
        for loss in losses {
            left.restore(self.directory.path()).unwrap();
            loss.apply().unwrap();
            self.point(&format!("{what}; {loss}"), end, op, said, true);
        }
    }

    /// Checks the files that are left, and returns them and the difference to other ends.
    fn point(
        &mut self,
        what: &str,
        end: End,
        failed: Option<FsOp>,
        said: bool,
        power_lost: bool,
    ) -> (DirSnapshot, u64) {
        self.points += 1;
        let root = self.directory.path();
        let found = DirSnapshot::of(root).unwrap();
        let check = Check { row: self.row, root, end, failed, said, power_lost, found: &found };
        let files = hash(check.files());
        let judged = catch_unwind(AssertUnwindSafe(|| {
            let seen = self.seen.get(&files).copied();
            let state = seen.unwrap_or_else(|| check.look());
            check.check(state);
            (state, seen.is_some())
        }));
        match judged {
            Ok((state, was_seen)) => {
                // A check changes the files.
                self.is_before = was_seen && found == self.before;
                self.seen.insert(files, state);
            }
            Err(panic) => {
                println!("`{}` does not hold: {what}", self.row.name);
                resume_unwind(panic);
            }
        }
        (found, files)
    }
}
