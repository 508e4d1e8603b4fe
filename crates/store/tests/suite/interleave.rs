//! Threads that put, replace, read, damage, quarantine, stamp, collect, lock and build the same few entries, and switch
//! at every access to the disk in an order that proptest chooses and, after a failure, shrinks.
//!
//! After each access a model checks the files. Each change has one author, and must
//! be allowed for the author's operation. The results of operations are compared with the states during
//! the operation.

#![expect(clippy::disallowed_methods, reason = "the model looks at files, and damages them")]

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use crate::common::{Created, TARGET, key, names};
use opkeep_digest::Digest;
use opkeep_fs::{FsCall, FsOp, Permit, Watcher};
use opkeep_store::{
    Entry, GcOptions, KeyLock, LockOutcome, Lookup, Miss, Overwrite, PutOutcome, Store, StoreConfig,
    TargetStore, WaitOptions,
};
use opkeep_testkit::{Body, interleave};
use proptest::collection::vec;
use proptest::prelude::*;

const KEYS: usize = 2;

fn name(which: usize) -> String {
    format!("op_{which}")
}

/// One step of a thread, on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Get,
    PutOutcome,
    Overwrite,
    /// In place, like a failing disk.
    Corruption,
    Lock,
    Unlock,
    /// Get, and quarantine a damaged entry if the lock is free.
    Quarantined,
    /// Get, and mark the entry as validated.
    Restamp,
    /// Age the entry, and delete old ones.
    Collect,
    /// Get; if it is missing, lock, get again, quarantine a damaged entry, put: as a build does.
    Make,
}

/// The state of a key: the number of the process that put the entry, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Absent,
    Damaged,
    Valid(usize),
}

impl State {
    fn of(store: &TargetStore, which: usize) -> Self {
        let key = key(&name(which));
        let Ok(bytes) = fs::read(store.path(&key)) else { return Self::Absent };
        Entry::decode(bytes, Some(&key)).map_or(Self::Damaged, |entry| Self::Valid(writer(&entry)))
    }
}

fn writer(entry: &Entry) -> usize {
    let json = std::str::from_utf8(entry.member("json").unwrap()).unwrap();
    let number = json.rsplit_once(": ").unwrap().1.trim_end_matches('}').parse().unwrap();
    let which = (0..KEYS).find(|which| *entry.key() == key(&name(*which))).unwrap();
    Created::new(&name(which), number).assert_is(entry);
    number
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Saw {
    Found(State),
    Io,
    Published,
    Existing,
    Quarantined(bool),
}

/// A result for a key between the states `from` and `to`.
struct Seen {
    which: usize,
    me: usize,
    saw: Saw,
    from: usize,
    to: usize,
}

/// A step in progress: its kind, its key, and the number that it puts.
#[derive(Clone, Copy, Debug)]
struct Doing {
    step: Step,
    which: usize,
    puts: usize,
    /// A valid entry that was moved away by mistake, and has to be restored.
    owes: Option<usize>,
    /// The entry that a stamp or a collection has moved, and may restore.
    in_hand: Option<State>,
    /// Whether another process put an entry without a lock since this step began.
    raced: bool,
}

struct Model {
    /// The state of each key after each access; the first is before any.
    states: Vec<[State; KEYS]>,
    doing: Vec<Option<Doing>>,
    holders: [Option<usize>; KEYS],
    /// The entry that another process aged.
    aged: Vec<State>,
    seen: Vec<Seen>,
}

impl Model {
    fn now(&self) -> usize {
        self.states.len() - 1
    }

    /// Records the files after thread `who` made one access.
    fn look(&mut self, store: &TargetStore, who: usize) {
        let before = self.states[self.now()];
        let after = std::array::from_fn(|which| State::of(store, which));
        self.states.push(after);
        for which in 0..KEYS {
            if before[which] != after[which] {
                self.allow(who, which, before[which], after[which]);
            }
        }
    }

    /// Fails unless the operation of `who` may make this change.
    fn allow(&mut self, who: usize, which: usize, before: State, after: State) {
        let message = format!("thread {who}: {before:?} -> {after:?} by {:?}", self.doing[who]);
        let (is_old, is_held) =
            (self.aged.contains(&before), self.holders[which].is_some_and(|it| it != who));
        // A collection concerns all keys.
        let is_its = |doing: &&mut Doing| doing.which == which || doing.step == Step::Collect;
        let doing = self.doing[who].as_mut().filter(is_its);
        let doing = doing.unwrap_or_else(|| panic!("{message}: it has nothing to do with key {which}"));
        use State::{Absent, Damaged, Valid};
        let allowed = match (doing.step, before, after) {
            (Step::PutOutcome | Step::Overwrite, _, Valid(put)) => put == doing.puts,
            (Step::Corruption, _, Damaged) => true,
            // Never over an entry that another one built under the lock: that would be compiled twice.
            (Step::Make, _, Valid(put)) if put == doing.puts => doing.raced || !matches!(before, Valid(_)),
            (Step::Quarantined | Step::Make, Damaged, Absent) => true,
            (Step::Quarantined | Step::Make, Valid(healthy), Absent) => doing.owes.replace(healthy).is_none(),
            (Step::Quarantined | Step::Make, Absent, Valid(healthy)) => doing.owes.take() == Some(healthy),
            // An older one only in place of a damaged one, or of an entry that was put without a lock at that moment.
            (Step::Restamp, _, Valid(_)) => {
                (doing.raced || before == Damaged) && doing.in_hand == Some(after)
            }
            // Never while another process builds it; and an entry that is not old is restored.
            (Step::Collect, found, Absent) => {
                doing.in_hand = Some(found);
                doing.owes = if let (Valid(put), false) = (found, is_old) { Some(put) } else { None };
                !is_held
            }
            (Step::Collect, Absent, found) => {
                doing.owes = None;
                doing.in_hand.take() == Some(found)
            }
            _ => false,
        };
        assert!(allowed, "{message}");
        let lockless = matches!(doing.step, Step::PutOutcome | Step::Overwrite);
        let is_concurrent = |doing: &&mut Doing| doing.which == which || doing.step == Step::Collect;
        for doing in self.doing.iter_mut().flatten().filter(|doing| lockless && is_concurrent(doing)) {
            doing.raced = true;
            // A newer entry stays, and the moved one is removed.
            doing.owes = None;
        }
    }

    /// Fails unless the result was a state of the key meanwhile.
    fn check(&self, seen: &Seen) {
        let to = (seen.to + 1).min(self.now());
        let mut there = self.states[seen.from..=to].iter().map(|states| states[seen.which]);
        let possible = match seen.saw {
            Saw::Found(state) => there.any(|there| there == state),
            // It was cut between the look at its length and the read.
            Saw::Io => there.any(|there| there == State::Damaged),
            Saw::Published => there.any(|there| there == State::Valid(seen.me)),
            Saw::Existing => there.any(|there| matches!(there, State::Valid(_))),
            Saw::Quarantined(true) => there.any(|there| there == State::Absent),
            Saw::Quarantined(false) => true,
        };
        let there: Vec<_> = self.states[seen.from..=to].iter().map(|states| states[seen.which]).collect();
        assert!(possible, "{:?} of key {}, which was {there:?}", seen.saw, seen.which);
    }
}

/// A watcher that is set later: opening the store is not scheduled.
#[derive(Default)]
struct Late(OnceLock<Arc<dyn Watcher>>);

impl Watcher for Late {
    fn before(&self, call: &FsCall<'_>) -> Permit {
        self.0.get().map_or(Permit::Go, |watcher| watcher.before(call))
    }
}

/// A running thread.
struct Player<'a> {
    me: usize,
    store: TargetStore,
    gate: Arc<Late>,
    model: &'a Mutex<Model>,
    held: RefCell<[Option<KeyLock>; KEYS]>,
}

impl Player<'_> {
    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap()
    }

    fn play(&self, at: usize, step: Step, which: usize) {
        // A turn of its own, so that no access of the last step counts for this one.
        self.gate.before(&FsCall { op: FsOp::Look, path: Path::new(""), to: None, bytes: 0 });
        let puts = self.me * 100 + at;
        self.model().doing[self.me] =
            Some(Doing { step, which, puts, owes: None, in_hand: None, raced: false });
        match step {
            Step::Get => drop(self.get(which)),
            Step::PutOutcome => self.put(which, puts, Overwrite::Never),
            Step::Overwrite => self.put(which, puts, Overwrite::Always),
            Step::Corruption => {
                if let Ok(file) = fs::OpenOptions::new().write(true).open(self.store.path(&key(&name(which))))
                {
                    file.set_len(200).unwrap();
                }
            }
            Step::Lock => drop(self.lock(which)),
            Step::Unlock => self.unlock(which),
            Step::Quarantined => {
                if let Lookup::Miss(Miss::Damaged(judged)) = self.get(which)
                    && self.lock(which)
                {
                    self.quarantine_file(which, &judged);
                }
            }
            Step::Restamp => {
                if let Lookup::Hit(entry) = self.get(which) {
                    let valid = State::Valid(writer(&entry));
                    self.model().doing[self.me].iter_mut().for_each(|doing| doing.in_hand = Some(valid));
                    // A truncated entry cannot be read.
                    let _ = self.store.restamp(&entry, entry.validation() + 1);
                }
            }
            Step::Collect => self.collect(which),
            Step::Make => self.make(which, puts),
        }
        self.gate.before(&FsCall { op: FsOp::Look, path: Path::new(""), to: None, bytes: 0 });
        let done = self.model().doing[self.me].take();
        assert!(done.is_some_and(|doing| doing.owes.is_none()), "a valid entry was lost: {done:?}");
    }

    fn see<T>(&self, which: usize, me: usize, act: impl FnOnce() -> T, saw: impl FnOnce(&T) -> Saw) -> T {
        let from = self.model().now();
        let outcome = act();
        let mut model = self.model();
        let to = model.now();
        model.seen.push(Seen { which, me, saw: saw(&outcome), from, to });
        outcome
    }

    fn get(&self, which: usize) -> Lookup {
        self.see(
            which,
            0,
            || self.store.get(&key(&name(which))),
            |found| match found {
                Lookup::Hit(entry) => Saw::Found(State::Valid(writer(entry))),
                Lookup::Miss(Miss::Absent) => Saw::Found(State::Absent),
                Lookup::Miss(Miss::Damaged(_)) => Saw::Found(State::Damaged),
                Lookup::Miss(_) => Saw::Io,
            },
        )
    }

    fn put(&self, which: usize, puts: usize, replace: Overwrite) {
        let made = Created::new(&name(which), puts);
        let put = || self.store.put_replacing(&key(&name(which)), &made.entry(), replace).unwrap();
        self.see(which, puts, put, |put| match put {
            PutOutcome::Published => Saw::Published,
            PutOutcome::Existing => Saw::Existing,
        });
    }

    fn quarantine_file(&self, which: usize, judged: &opkeep_store::DamagedEntry) {
        let held = self.held.borrow();
        let quarantine =
            || self.store.quarantine(&key(&name(which)), judged, held[which].as_ref().unwrap()).unwrap();
        self.see(which, 0, quarantine, |moved| Saw::Quarantined(*moved));
    }

    /// Whether the lock is held now; it is kept.
    fn lock(&self, which: usize) -> bool {
        if self.held.borrow()[which].is_some() {
            return true;
        }
        let deadline = Instant::now().checked_add(Duration::from_millis(2));
        let options = WaitOptions::new(&|| false).with_deadline(deadline);
        let outcome = self.store.lock(&key(&name(which)), options).unwrap();
        let LockOutcome::Acquired(lock) = outcome else { return false };
        let other = self.model().holders[which].replace(self.me);
        assert_eq!(other, None, "two hold the lock on key {which}");
        self.held.borrow_mut()[which] = Some(lock);
        true
    }

    fn unlock(&self, which: usize) {
        let held = self.held.borrow_mut()[which].take();
        if held.is_some() {
            self.model().holders[which] = None;
        }
        drop(held);
    }

    /// Not an access of the store, so no thread runs between the check and the change.
    fn collect(&self, which: usize) {
        if let Ok(file) = fs::File::open(self.store.path(&key(&name(which)))) {
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30)).unwrap();
            let mut model = self.model();
            let now = State::of(&self.store, which);
            model.aged.push(now);
        }
        let older_than = Some(Duration::from_secs(24 * 3600));
        self.store.gc(&GcOptions::default().with_older_than(older_than)).unwrap();
    }

    fn make(&self, which: usize, puts: usize) {
        if matches!(self.get(which), Lookup::Hit(_)) || !self.lock(which) {
            return;
        }
        match self.get(which) {
            Lookup::Hit(_) => return,
            Lookup::Miss(Miss::Damaged(judged)) => self.quarantine_file(which, &judged),
            Lookup::Miss(_) => {}
        }
        self.put(which, puts, Overwrite::Never);
        self.unlock(which);
    }
}

/// A collection has hundreds of accesses, so there are few.
fn steps(collections: u32) -> impl Strategy<Value = Vec<(Step, usize)>> {
    let step = prop_oneof![
        2 => Just(Step::Get),
        2 => Just(Step::PutOutcome),
        2 => Just(Step::Overwrite),
        3 => Just(Step::Corruption),
        1 => Just(Step::Lock),
        1 => Just(Step::Unlock),
        3 => Just(Step::Quarantined),
        2 => Just(Step::Restamp),
        collections => Just(Step::Collect),
        4 => Just(Step::Make),
    ];
    vec((step, 0..KEYS), 1..5)
}

fn play(programs: &[Vec<(Step, usize)>], order: &[u8]) {
    let memory = Path::new("/dev/shm");
    let directory = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).unwrap();
    let looks = crate::common::open(directory.path());
    let none = [State::Absent; KEYS];
    let model = Mutex::new(Model {
        states: vec![none],
        doing: vec![None; programs.len()],
        holders: [None; KEYS],
        aged: Vec::new(),
        seen: Vec::new(),
    });
    let bodies = programs.iter().enumerate().map(|(me, program)| -> Body<'_> {
        let gate = Arc::new(Late::default());
        let config = StoreConfig::new(directory.path()).with_watcher(gate.clone());
        let store = Store::open(config).unwrap().target(TARGET).unwrap();
        let model = &model;
        Box::new(move |watcher| {
            assert!(gate.0.set(watcher).is_ok());
            let player = Player { me, store, gate, model, held: RefCell::default() };
            for (at, (step, which)) in program.iter().enumerate() {
                player.play(at, *step, *which);
            }
            (0..KEYS).for_each(|which| player.unlock(which));
        })
    });
    interleave(order, bodies.collect(), |who| model.lock().unwrap().look(&looks, who));

    let model = model.into_inner().unwrap();
    model.seen.iter().for_each(|seen| model.check(seen));
    assert!(names(&looks.dir().join("tmp")).is_empty());
    assert!(names(&looks.dir().join("locks")).is_empty());
    let quarantined = looks.dir().join("quarantine");
    for name in names(&quarantined).iter().filter(|name| name.ends_with(".kern")) {
        let entry = Entry::decode(fs::read(quarantined.join(name)).unwrap(), None);
        assert!(entry.is_err(), "a valid entry was quarantined");
    }
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn operations_in_any_order(programs in vec(steps(0), 2..5), order in vec(any::<u8>(), 1..200)) {
        play(&programs, &order);
    }
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn operations_and_collections_in_any_order(
        programs in vec(steps(3), 2..5),
        order in vec(any::<u8>(), 1..200),
    ) {
        play(&programs, &order);
    }
}

/// Many pseudo-random orders, the same in each run.
fn in_many_orders(programs: &[Vec<(Step, usize)>]) {
    for seed in 0..200u32 {
        let number = |at: u32| Digest::of(&[seed.to_le_bytes(), at.to_le_bytes()].concat()).as_bytes()[0];
        let order: Vec<u8> = (0..90).map(number).collect();
        play(programs, &order);
    }
}

/// The worst case: valid entries are put while a damaged one is quarantined.
#[test]
fn a_quarantine_among_puts() {
    use Step::{Corruption, Get, Make, Overwrite, Quarantined};
    let quarantine = vec![(Overwrite, 0), (Corruption, 0), (Quarantined, 0)];
    in_many_orders(&[quarantine, vec![(Overwrite, 0), (Overwrite, 0)], vec![(Make, 0), (Get, 0)]]);
}

/// Valid entries are put while an old one is collected, and others use it.
#[test]
fn a_collection_among_puts_and_hits() {
    use Step::{Collect, Get, Make, Overwrite, Restamp};
    for seed in 0..20u32 {
        let number = |at: u32| Digest::of(&[seed.to_le_bytes(), at.to_le_bytes()].concat()).as_bytes()[0];
        let order: Vec<u8> = (0..900).map(number).collect();
        let collects = vec![(Overwrite, 0), (Collect, 0), (Collect, 0)];
        play(&[collects, vec![(Get, 0), (Restamp, 0), (Overwrite, 0)], vec![(Make, 0), (Get, 0)]], &order);
    }
}

/// Locks are created and removed: a lock on a removed file does not count.
#[test]
fn locks_that_come_and_go() {
    use Step::{Lock, Unlock};
    let comes_and_goes = vec![(Lock, 0), (Unlock, 0), (Lock, 0), (Unlock, 0)];
    in_many_orders(&[comes_and_goes.clone(), comes_and_goes.clone(), comes_and_goes]);
}
