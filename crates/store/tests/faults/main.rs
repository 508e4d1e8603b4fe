//! Every operation of the store, with every fault at every single access to the disk: a table without gaps.
//!
//! For each row the operation is done once to count its calls. Then it is done again from the same files for each call
//! and each fault that such a call can meet; after each death also for each way in which a power cut could leave the
//! files, and the same after an error, and after it went well. Of calls that do the same to one folder after the other,
//! those in the middle meet one error and death. What must hold each time is in `check.rs`, the rows are
//! in `rows.rs`. Files that were looked at once are not looked at again.

#![expect(clippy::disallowed_methods, reason = "these tests look at what faults left")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "these tests are functions without the attribute")]
#![expect(clippy::print_stdout, reason = "how many points were covered is worth seeing")]

mod audit;
mod check;
#[path = "../common/mod.rs"]
mod common;
mod rows;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use check::{Check, End};
use libtest_mimic::{Arguments, Trial};
use opbuild_store::{Config, Op, Store, TargetStore};
use opbuild_testkit::Folder;
use opbuild_testkit::fault::{Fault, FaultyDisk};
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
        })
    });
    let arguments = Arguments::from_args();
    let trials = trials.collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    println!("the fault table covered {} points", POINTS.load(Ordering::Relaxed));
    conclusion.exit();
}

/// Where files are in memory, if there is such a place: the table syncs and removes a great deal.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).unwrap()
}

/// Whether the call is one of at least 33 of one kind, or of up to four kinds by turns: the same is done to one folder
/// after the other. One error and death must do there; whatever is special about the first and the last is tried.
fn is_one_of_many(calls: &[Op], at: usize) -> bool {
    let Some(around) = calls.get(at.saturating_sub(17)..at + 16).filter(|around| around.len() == 33) else {
        return false;
    };
    (1..=4).any(|period| around.iter().zip(&around[period..]).all(|(one, next)| one == next))
}

fn changes_files(op: Op) -> bool {
    use Op::{List, Lock, Look, Open, OpenFolder, Read, Stat, Unlock};
    !matches!(op, List | Lock | Look | Open | OpenFolder | Read | Stat | Unlock)
}

/// One row at work.
struct Table<'a> {
    row: &'a Row,
    /// Calls are dealt out to the parts in turn.
    part: usize,
    folder: TempDir,
    disk: Arc<FaultyDisk>,
    before: Folder,
    points: usize,
    /// Whether what a loss of power would leave now is looked at.
    power: bool,
    /// Files that were looked at already, and what the subject was there.
    seen: HashMap<Folder, State>,
}

impl<'a> Table<'a> {
    fn new(row: &'a Row, part: usize) -> Self {
        let folder = folder();
        (row.prepare)(folder.path());
        let before = Folder::of(folder.path()).unwrap();
        Self {
            row,
            part,
            disk: FaultyDisk::new(folder.path()),
            folder,
            before,
            points: 0,
            power: true,
            seen: HashMap::new(),
        }
    }

    /// The number of calls.
    fn run(&mut self) -> usize {
        let said = self.act(None);
        assert!(said, "`{}` fails without a fault", self.row.name);
        let calls = self.disk.calls();
        assert!(!calls.is_empty());
        (self.row.well)(self.folder.path());
        let said = self.act(None);
        self.judge("no fault", None, None, said);
        for (at, op) in (1..).zip(&calls).skip(self.part).step_by(self.row.parts) {
            let many = is_one_of_many(&calls, at);
            // An audit looks at each of 256 folders in the same way: the first and the last of them must do.
            if many && self.row.alike {
                continue;
            }
            let faults = match many {
                true => vec![Fault::Error(Fault::ERRORS[0]), Fault::Death],
                false => Fault::all_for(*op),
            };
            // Who dies here leaves what who died one call before left, if that call changes nothing.
            let is_news = at == 1 || changes_files(calls[at - 2]);
            for fault in faults {
                let said = self.act(Some((at, fault)));
                assert!(self.disk.has_sprung(), "call {at} of `{}` never came", self.row.name);
                self.power = if fault == Fault::Death { is_news } else { !many };
                self.judge(&format!("{fault:?} at call {at}, {op:?}"), Some(*op), Some(fault), said);
            }
        }
        calls.len()
    }

    /// Does the operation, from the files as they were, with `fault` at one of its calls. Whether it says that it is
    /// done.
    fn act(&mut self, fault: Option<(usize, Fault)>) -> bool {
        self.before.restore(self.folder.path()).unwrap();
        let config = Config { watcher: Some(self.disk.clone()), ..self.row.config(self.folder.path()) };
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

    /// Checks what is left, now and after each loss of power that can follow.
    fn judge(&mut self, what: &str, op: Option<Op>, fault: Option<Fault>, said: bool) {
        let losses = match fault {
            _ if !self.power => Vec::new(),
            // What an error leaves does not hang on which one it was.
            Some(Fault::Error(error)) if error != Fault::ERRORS[0] => Vec::new(),
            _ => self.disk.losses(),
        };
        let end = match fault {
            None => End::Well,
            Some(fault) if fault.is_death() => End::Death,
            Some(_) => End::Error,
        };
        // Looking may change the files: a store that is opened makes what is missing.
        let left = self.point(what, end, op, said, false);
        for loss in losses {
            left.restore(self.folder.path()).unwrap();
            loss.apply().unwrap();
            self.point(&format!("{what}; {loss}"), end, op, said, true);
        }
    }

    /// Checks what is left, which is returned.
    fn point(&mut self, what: &str, end: End, failed: Option<Op>, said: bool, power_lost: bool) -> Folder {
        self.points += 1;
        let root = self.folder.path();
        let found = Folder::of(root).unwrap();
        let check = Check { row: self.row, root, end, failed, said, power_lost, found: &found };
        let files = check.files();
        let judged = catch_unwind(AssertUnwindSafe(|| {
            let state = self.seen.get(&files).copied().unwrap_or_else(|| check.look());
            check.judge(state);
            state
        }));
        match judged {
            Ok(state) => self.seen.insert(files, state),
            Err(panic) => {
                println!("`{}` does not hold: {what}", self.row.name);
                resume_unwind(panic);
            }
        };
        found
    }
}
