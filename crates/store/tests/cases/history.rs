//! Processes of several threads each run random operations of proptest on the same few entries; some are killed. Each
//! thread records each operation and its result in one file to which all append, so the order of its lines is the order of
//! events: an operation that ended before another began is before it. A model then checks whether the history is possible.
//!
//! `interleave.rs` schedules every access and so covers each order; here nothing is scheduled.

#![expect(clippy::disallowed_methods, reason = "these processes damage files, and run themselves")]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::common::{Children, Created, child, key, names, open, trial, until, within};
use crate::model::{Action, History, Saw};
use libtest_mimic::Trial;
use opkeep_store::{Entry, GcOptions, LockOutcome, Lookup, Miss, Overwrite, PutOutcome, TargetStore};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};

const KEYS: usize = 2;
/// Threads of a process.
const THREADS: usize = 2;
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("no_history_contradicts_the_model", no_history_contradicts_the_model)]
}

fn name(which: usize) -> String {
    format!("op_{which}")
}

/// The program of a process: for each of its threads, actions with their keys.
type Program = Vec<Vec<(Action, usize)>>;

/// As an argument: `make0 get1,clear0`.
fn written(program: &Program) -> String {
    let thread = |actions: &Vec<(Action, usize)>| {
        actions
            .iter()
            .map(|(action, which)| format!("{}{which}", action.name()))
            .collect::<Vec<_>>()
            .join(" ")
    };
    program.iter().map(thread).collect::<Vec<_>>().join(",")
}

fn read(text: &str) -> Program {
    let action = |word: &str| {
        let (name, which) = word.split_at(word.len() - 1);
        (Action::named(name), which.parse().unwrap())
    };
    text.split(',').map(|thread| thread.split_whitespace().map(action).collect()).collect()
}

/// Waits for the signal to begin, then begins.
pub(crate) fn other_process(arguments: &[String]) {
    let [root, number, program] = arguments else { panic!("{arguments:?}") };
    let (root, number): (_, usize) = (Path::new(root), number.parse().unwrap());
    let store = open(&root.join("store"));
    fs::write(root.join(format!("ready{number}")), "").unwrap();
    until("the beginning", || root.join("go").exists());
    thread::scope(|scope| {
        for (at, actions) in read(program).into_iter().enumerate() {
            let log = OpenOptions::new().append(true).open(root.join("log")).unwrap();
            let mut actor = Actor { me: number * 10 + at, store: store.clone(), log, puts: 0 };
            scope.spawn(move || {
                let actions = std::panic::AssertUnwindSafe(|| {
                    actions.into_iter().for_each(|(action, which)| actor.act(action, which));
                });
                if std::panic::catch_unwind(actions).is_err() {
                    std::process::abort();
                }
            });
        }
    });
}

/// One thread.
struct Actor {
    me: usize,
    store: TargetStore,
    log: File,
    puts: usize,
}

impl Actor {
    /// Appends one line with one write, so that lines are complete and in the order of events.
    fn note(&mut self, line: &str) {
        self.log.write_all(format!("{} {line}\n", self.me).as_bytes()).unwrap();
    }

    /// Records the begin of an action, runs it, and records its result.
    fn does(&mut self, action: Action, which: usize, act: impl FnOnce(&mut Self) -> Saw) -> Saw {
        self.note(&format!("begins {} {which}", action.name()));
        let saw = act(self);
        self.note(&format!("ends {saw}"));
        saw
    }

    fn act(&mut self, action: Action, which: usize) {
        match action {
            Action::Get => drop(self.get(Action::Get, which)),
            Action::PutOutcome => drop(self.put(Action::PutOutcome, which, Overwrite::Never)),
            Action::Make => self.make(which),
            Action::Force => self.force(which),
            Action::Damage => drop(self.does(action, which, |own| own.damage(which))),
            Action::Quarantined => self.quarantine_file(which),
            Action::Restamp => self.restamp(which),
            Action::Evict => drop(self.does(action, which, |own| own.evict(which))),
            Action::Clear => drop(self.does(action, which, |own| own.gc(Duration::ZERO))),
            Action::GetHeld | Action::Compile => panic!("part of another"),
        }
    }

    fn get(&mut self, action: Action, which: usize) -> (Saw, Option<Lookup>) {
        let mut found = None;
        let saw = self.does(action, which, |own| {
            let lookup = own.store.get(&key(&name(which)));
            let saw = match &lookup {
                Lookup::Hit(entry) => Saw::Hit(writer(which, entry)),
                Lookup::Miss(Miss::Absent) => Saw::Absent,
                // Or it was truncated between the check of its length and the read.
                Lookup::Miss(Miss::Damaged(_) | Miss::Io(_)) => Saw::Damaged,
                Lookup::Miss(Miss::Untrusted(error)) => panic!("{error}"),
            };
            found = Some(lookup);
            saw
        });
        (saw, found)
    }

    fn put(&mut self, action: Action, which: usize, replace: Overwrite) -> Saw {
        self.puts += 1;
        let number = self.me * 100 + self.puts;
        self.note(&format!("writes {number}"));
        self.does(action, which, |own| {
            let made = Created::sized(&name(which), number, 600 + number);
            match own.store.put_replacing(&key(&name(which)), &made.entry(), replace).unwrap() {
                PutOutcome::Published => Saw::Published(number),
                PutOutcome::Existing => Saw::Existing,
            }
        })
    }

    /// Runs something under the lock, and then reads the entry.
    fn locked(&mut self, which: usize, act: impl FnOnce(&mut Self, &opkeep_store::KeyLock)) {
        let outcome = within(&self.store, &key(&name(which)), Duration::from_secs(20));
        let LockOutcome::Acquired(lock) = outcome else { panic!("a deadlock: {outcome:?}") };
        self.note(&format!("locks {which}"));
        act(self, &lock);
        self.note(&format!("unlocks {which}"));
    }

    /// As a build.
    fn make(&mut self, which: usize) {
        if matches!(self.get(Action::Get, which).0, Saw::Hit(_)) {
            return;
        }
        self.locked(which, |own, lock| {
            let (saw, found) = own.get(Action::Get, which);
            if let Some(Lookup::Miss(Miss::Damaged(judged))) = found {
                own.does(Action::Quarantined, which, |own| {
                    Saw::Quarantined(own.store.quarantine(&key(&name(which)), &judged, lock).unwrap())
                });
            }
            if !matches!(saw, Saw::Hit(_)) {
                own.put(Action::Compile, which, Overwrite::Never);
                own.get(Action::GetHeld, which);
            }
        });
    }

    fn force(&mut self, which: usize) {
        self.locked(which, |own, _| {
            own.put(Action::Force, which, Overwrite::Always);
            own.get(Action::GetHeld, which);
        });
    }

    fn quarantine_file(&mut self, which: usize) {
        if let (_, Some(Lookup::Miss(Miss::Damaged(judged)))) = self.get(Action::Get, which) {
            self.locked(which, |own, lock| {
                own.does(Action::Quarantined, which, |own| {
                    Saw::Quarantined(own.store.quarantine(&key(&name(which)), &judged, lock).unwrap())
                });
            });
        }
    }

    fn restamp(&mut self, which: usize) {
        if let (Saw::Hit(number), Some(Lookup::Hit(entry))) = self.get(Action::Get, which) {
            self.does(Action::Restamp, which, |own| {
                match own.store.restamp(&entry, entry.validation() + 1) {
                    Ok(()) => Saw::Published(number),
                    // Truncated between the check of its length and the read.
                    Err(error) if error.to_string().contains("ended early") => Saw::Done,
                    Err(error) => panic!("{error}"),
                }
            });
        }
    }

    /// In place, like a failing disk.
    fn damage(&self, which: usize) -> Saw {
        let path = self.store.path(&key(&name(which)));
        if let Ok(file) = OpenOptions::new().write(true).open(path) {
            file.set_len(200).unwrap();
        }
        Saw::Done
    }

    /// Like years without use.
    fn evict(&self, which: usize) -> Saw {
        if let Ok(file) = File::open(self.store.path(&key(&name(which)))) {
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30)).unwrap();
        }
        self.gc(DAY)
    }

    fn gc(&self, older_than: Duration) -> Saw {
        let report = self.store.gc(&GcOptions::default().with_older_than(older_than));
        assert_eq!(report.unwrap().failed, 0);
        Saw::Done
    }
}

/// The writer of the entry; fails unless the entry is exactly that writer's.
fn writer(which: usize, entry: &Entry) -> usize {
    let json = std::str::from_utf8(entry.member("json").unwrap()).unwrap();
    let number = json.rsplit_once(": ").unwrap().1.trim_end_matches('}').parse().unwrap();
    Created::sized(&name(which), number, 600 + number).assert_is(entry);
    number
}

fn programs() -> impl Strategy<Value = Vec<Program>> {
    let action = prop_oneof![
        3 => Just(Action::Get),
        2 => Just(Action::PutOutcome),
        5 => Just(Action::Make),
        3 => Just(Action::Force),
        2 => Just(Action::Damage),
        1 => Just(Action::Quarantined),
        2 => Just(Action::Restamp),
        2 => Just(Action::Evict),
        1 => Just(Action::Clear),
    ];
    vec(vec(vec((action, 0..KEYS), 3..14), THREADS), 2..5)
}

/// Runs the programs, one a process, and returns the history. The first process is killed after `kill_at` events.
fn play(programs: &[Program], kill_at: Option<usize>) -> History {
    let memory = Path::new("/dev/shm");
    let directory = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).unwrap();
    let (root, log) = (directory.path(), directory.path().join("log"));
    let store = open(&root.join("store"));
    File::create(&log).unwrap();
    let spawn = |(number, program): (usize, &Program)| {
        let arguments = [root.to_str().unwrap(), &number.to_string(), &written(program)];
        child("history", &arguments).spawn().unwrap()
    };
    let mut others = Children(programs.iter().enumerate().map(spawn).collect());
    until("all processes", || (0..programs.len()).all(|at| root.join(format!("ready{at}")).exists()));
    File::create(root.join("go")).unwrap();
    let began = Instant::now();
    let mut killed = false;
    while others.0.iter_mut().any(|other| other.try_wait().unwrap().is_none()) {
        assert!(began.elapsed() < Duration::from_secs(60), "a deadlock");
        if let Some(at) = kill_at.filter(|_| !killed)
            && fs::read(&log).unwrap().iter().filter(|byte| **byte == b'\n').count() >= at
        {
            others.0[0].kill().unwrap();
            killed = true;
        }
        thread::sleep(Duration::from_micros(200));
    }
    for (at, other) in others.0.iter_mut().enumerate() {
        let status = other.wait().unwrap();
        assert!(status.success() || (killed && at == 0), "process {at} ended with {status}");
    }
    in_order(&store, killed);
    History::read(&fs::read_to_string(log).unwrap())
}

/// The next run works, with no manual step; and a process that was not killed left no file behind.
fn in_order(store: &TargetStore, killed: bool) {
    let quarantine = store.dir().join("quarantine");
    let moved: Vec<_> = names(&quarantine).into_iter().filter(|name| name.ends_with(".kern")).collect();
    let intact = moved.iter().map(|name| quarantine.join(name)).filter(|path| {
        let is_intact = Entry::decode(fs::read(path).unwrap(), None).is_ok();
        assert!(!is_intact || !path.with_extension("reason").exists(), "an intact entry was judged damaged");
        is_intact
    });
    // A put replaced the damaged entry before the move, and the kill came before the entry was restored.
    assert!(intact.count() <= if killed { THREADS } else { 0 }, "an intact entry was quarantined");
    for which in 0..KEYS {
        let (key, made) = (key(&name(which)), Created::new(&name(which), 7));
        let LockOutcome::Acquired(lock) = within(store, &key, Duration::ZERO) else { panic!("it is locked") };
        if let Lookup::Miss(Miss::Damaged(judged)) = store.get(&key) {
            assert!(store.quarantine(&key, &judged, &lock).unwrap());
        }
        store.put_replacing(&key, &made.entry(), Overwrite::Always).unwrap();
        made.assert_is(&crate::common::hit(store, &key));
    }
    assert!(killed || names(&store.dir().join("tmp")).is_empty());
    assert!(killed || names(&store.dir().join("locks")).is_empty());
}

fn no_history_contradicts_the_model() {
    // A third of the time of the soak: 20 seconds check about a thousand histories.
    let soak: u64 = std::env::var("OPKEEP_SOAK_SECONDS").map_or(15, |seconds| seconds.parse().unwrap());
    let seconds = soak / 3;
    let (began, mut histories, mut events) = (Instant::now(), 0, 0);
    let config = ProptestConfig {
        cases: 1,
        failure_persistence: None,
        // A history cannot be reproduced, so it is not shrunk.
        max_shrink_iters: 0,
        ..ProptestConfig::default()
    };
    while began.elapsed() < Duration::from_secs(seconds) || histories < 20 {
        let (seen, judged) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
        let result = TestRunner::new(config.clone()).run(
            &(programs(), proptest::option::weighted(0.4, 5..150usize)),
            |(programs, kill_at)| {
                let history = play(&programs, kill_at);
                seen.set(seen.get() + 1);
                judged.set(judged.get() + history.len());
                history.check().map_err(TestCaseError::fail)
            },
        );
        if let Err(TestError::Fail(reason, (programs, kill_at))) = result {
            let programs: Vec<_> = programs.iter().map(written).collect();
            panic!("{reason}\nprograms: {programs:#?}, killed at {kill_at:?}");
        }
        (histories, events) = (histories + seen.get(), events + judged.get());
    }
    println!("{events} events in {histories} histories, and none that cannot be");
}
