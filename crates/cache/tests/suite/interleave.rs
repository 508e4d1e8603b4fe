//! Threads that claim, publish, abandon, drop, damage and evict the same few keys, and that alternate at every access to the
//! disk, in an order that proptest generates and, after a failure, shrinks.
//!
//! After each access a model looks at the files. It knows which thread ran, its step, and which tickets are held. So each
//! change has one author, and must be permitted to it: only the holder of a ticket publishes, and never over a
//! valid entry, which would have been built twice. The store's own promises are tested in the same way beside the store.

#![expect(clippy::disallowed_methods, reason = "the model looks at files, and damages them")]

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, SystemTime};

use opkeep_cache::{CacheConfig, Claim, Failure, PendingKey, Source, TargetCache, Ticket};
use opkeep_digest::Digest;
use opkeep_fs::{FsCall, FsOp, Permit, Watcher};
use opkeep_store::{Entry, GcOptions, Lookup, StoreConfig, TargetStore};
use opkeep_testkit::{Body, interleave};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::{Host, claim, key, names, open, publish, resume, writer};

const KEYS: usize = 2;

fn name(which: usize) -> String {
    format!("op_{which}")
}

/// One step of a thread, on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Claim the key, or resume it. A ticket is kept.
    Claim,
    /// Publish with the ticket, if there is one.
    Publish,
    /// Abandon the ticket with a reason.
    Abandon,
    /// Drop the ticket, or end the wait.
    Drop,
    /// Damage the entry in place, as a failing disk does.
    Damage,
    /// Age the entry, and evict old ones.
    Collect,
}

/// The content of a key: the number of its writer, if it is an entry.
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

/// A step in progress, and the number that it publishes.
#[derive(Clone, Copy, Debug)]
struct Doing {
    step: Step,
    which: usize,
    writes: usize,
    /// The entry that it has moved, and must restore unless it may be evicted.
    in_hand: Option<State>,
}

struct Model {
    /// The content of each key after each access; the first is before any access.
    states: Vec<[State; KEYS]>,
    doing: Vec<Option<Doing>>,
    holders: [Option<usize>; KEYS],
    /// The content at the time at which a thread aged it.
    aged: Vec<State>,
    /// The failures of holders. Waiters get one of these.
    reasons: Vec<String>,
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
            // Without its file, the key is free for others, although the lock is released by the next access.
            let is_publishing = self.doing[who].is_some_and(|doing| doing.step == Step::Publish);
            let lock = store.dir().join("locks").join(key(&name(which)).to_string());
            if self.holders[which] == Some(who) && is_publishing && !lock.exists() {
                self.holders[which] = None;
            }
        }
    }

    /// Fails unless the operation of `who` may make this change.
    fn allow(&mut self, who: usize, which: usize, before: State, after: State) {
        use State::{Absent, Damaged, Valid};
        let told = format!("thread {who}, key {which}: {before:?} -> {after:?} by {:?}", self.doing[who]);
        let holder = self.holders[which];
        let is_old = self.aged.contains(&before);
        let Some(doing) = &mut self.doing[who] else { panic!("{told}") };
        let is_about = doing.which == which;
        let allowed = match (doing.step, before, after) {
            // The entry may have been damaged since the ticket was given out; there is no valid one.
            (Step::Publish, Absent | Damaged, Valid(put)) => {
                is_about && put == doing.writes && holder == Some(who)
            }
            (Step::Damage, _, Damaged) => is_about,
            // A damaged entry is quarantined under the lock, before the ticket is given out.
            (Step::Claim, Damaged, Absent) => is_about && holder.is_none(),
            // Never while a thread holds the key; and an entry that is not old is restored.
            (Step::Collect, found, Absent) => {
                doing.in_hand = (!is_old && matches!(found, Valid(_))).then_some(found);
                holder.is_none_or(|holder| holder == who)
            }
            (Step::Collect, Absent, found) => doing.in_hand.take() == Some(found),
            _ => false,
        };
        assert!(allowed, "{told}");
    }
}

/// A watcher that is set later, since the accesses of opening the store are not part of the test.
#[derive(Default)]
struct Late(OnceLock<Arc<dyn Watcher>>);

impl Watcher for Late {
    fn before(&self, call: &FsCall<'_>) -> Permit {
        self.0.get().map_or(Permit::Go, |watcher| watcher.before(call))
    }
}

/// The ticket or the wait of a thread for a key.
#[derive(Default)]
enum Held {
    #[default]
    Nothing,
    Ticket(Ticket),
    Pending(PendingKey),
}

/// A thread at work.
struct Player<'a> {
    me: usize,
    cache: TargetCache,
    gate: Arc<Late>,
    model: &'a Mutex<Model>,
    held: RefCell<[Held; KEYS]>,
}

impl Player<'_> {
    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap()
    }

    fn take(&self, which: usize) -> Held {
        std::mem::take(&mut self.held.borrow_mut()[which])
    }

    /// A turn of its own, so that no access of one step counts as the next one's.
    fn turn(&self) {
        self.gate.before(&FsCall { op: FsOp::Look, path: Path::new(""), to: None, bytes: 0 });
    }

    fn play(&self, at: usize, step: Step, which: usize) {
        self.turn();
        let writes = self.me * 100 + at;
        self.model().doing[self.me] = Some(Doing { step, which, writes, in_hand: None });
        match step {
            Step::Claim => self.claim(which),
            Step::Publish => self.publish(which, writes),
            Step::Abandon => self.abandon(which),
            Step::Drop => self.drop(which),
            Step::Damage => self.damage(which),
            Step::Collect => self.collect(which),
        }
        self.turn();
        let done = self.model().doing[self.me].take();
        assert!(done.is_some_and(|doing| doing.in_hand.is_none()), "a valid entry was lost: {done:?}");
    }

    fn claim(&self, which: usize) {
        let from = self.model().now();
        let (claimed, waited) = match self.take(which) {
            Held::Nothing => (claim(&self.cache, &name(which)), false),
            Held::Pending(pending) => (resume(&self.cache, pending), true),
            ticket => return self.held.borrow_mut()[which] = ticket,
        };
        let mut model = self.model();
        let to = model.now();
        let mut there = model.states[from..=to].iter().map(|states| states[which]);
        match claimed {
            Claim::Hit(hit) => {
                let found = State::Valid(writer(&hit.entry));
                assert!(there.any(|state| state == found), "{found:?} was not there");
                assert!(matches!(hit.source, Source::Local | Source::Waited));
            }
            Claim::Build(ticket) => {
                // At some moment since the claim there was no usable entry.
                assert!(there.any(|state| !matches!(state, State::Valid(_))), "what was there was not taken");
                assert_eq!(model.holders[which].replace(self.me), None, "two hold the key {which}");
                self.held.borrow_mut()[which] = Held::Ticket(ticket);
            }
            Claim::Pending(pending) => self.held.borrow_mut()[which] = Held::Pending(pending),
            Claim::HolderFailed(failure) => {
                assert!(waited && model.reasons.contains(&failure.reason), "{failure:?}");
            }
            other => panic!("{other:?}"),
        }
    }

    /// The ticket is held until the file of its lock is removed, or at most until this returns.
    fn publish(&self, which: usize, writes: usize) {
        match self.take(which) {
            Held::Ticket(ticket) => {
                let released = Released { player: self, which };
                publish(ticket, writes);
                drop(released);
            }
            other => self.held.borrow_mut()[which] = other,
        }
    }

    fn abandon(&self, which: usize) {
        match self.take(which) {
            Held::Ticket(ticket) => {
                let reason = format!("the reason of {}", self.me);
                self.model().reasons.push(reason.clone());
                self.model().holders[which] = None;
                ticket.abandon(Failure::new(reason));
            }
            other => self.held.borrow_mut()[which] = other,
        }
    }

    fn drop(&self, which: usize) {
        let held = self.take(which);
        if matches!(held, Held::Ticket(_)) {
            self.model().holders[which] = None;
        }
        drop(held);
    }

    fn damage(&self, which: usize) {
        let path = self.cache.store().unwrap().path(&key(&name(which)));
        if let Ok(file) = fs::OpenOptions::new().write(true).open(path) {
            file.set_len(150).unwrap();
        }
    }

    /// This is no access of the store, so no other thread runs between the look and the change.
    fn collect(&self, which: usize) {
        let store = self.cache.store().unwrap();
        if let Ok(file) = fs::File::open(store.path(&key(&name(which)))) {
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30)).unwrap();
            let mut model = self.model();
            let now = State::of(store, which);
            model.aged.push(now);
        }
        let older_than = Some(Duration::from_secs(24 * 3600));
        store.gc(&GcOptions::default().with_older_than(older_than)).unwrap();
    }
}

/// Reports to the model that a ticket has ended.
struct Released<'a> {
    player: &'a Player<'a>,
    which: usize,
}

impl Drop for Released<'_> {
    fn drop(&mut self) {
        let mut model = self.player.model();
        if model.holders[self.which] == Some(self.player.me) {
            model.holders[self.which] = None;
        }
    }
}

fn steps(collections: u32) -> impl Strategy<Value = Vec<(Step, usize)>> {
    let step = prop_oneof![
        6 => Just(Step::Claim),
        4 => Just(Step::Publish),
        1 => Just(Step::Abandon),
        1 => Just(Step::Drop),
        2 => Just(Step::Damage),
        collections => Just(Step::Collect),
    ];
    vec((step, 0..KEYS), 1..7)
}

fn play(programs: &[Vec<(Step, usize)>], order: &[u8]) {
    let host = Host::new();
    let looks = host.cache().store().unwrap().clone();
    let model = Mutex::new(Model {
        states: vec![[State::Absent; KEYS]],
        doing: vec![None; programs.len()],
        holders: [None; KEYS],
        aged: Vec::new(),
        reasons: Vec::new(),
    });
    let bodies = programs.iter().enumerate().map(|(me, program)| -> Body<'_> {
        let gate = Arc::new(Late::default());
        let store = StoreConfig::new(host.dir.path());
        let cache = open(CacheConfig::new(store.with_watcher(gate.clone())));
        let model = &model;
        Box::new(move |watcher| {
            assert!(gate.0.set(watcher).is_ok());
            let player = Player { me, cache, gate, model, held: RefCell::default() };
            for (at, (step, which)) in program.iter().enumerate() {
                player.play(at, *step, *which);
            }
            (0..KEYS).for_each(|which| player.drop(which));
        })
    });
    interleave(order, bodies.collect(), |who| model.lock().unwrap().look(&looks, who));

    assert!(names(&looks.dir().join("tmp")).is_empty());
    assert!(names(&looks.dir().join("locks")).is_empty());
    let quarantine = looks.dir().join("quarantine");
    for name in names(&quarantine).iter().filter(|name| name.ends_with(".kern")) {
        let entry = Entry::decode(fs::read(quarantine.join(name)).unwrap(), None);
        assert!(entry.is_err(), "a valid entry was quarantined");
    }
    // Whatever happened, the next caller gets an entry or a ticket.
    for which in 0..KEYS {
        let is_there = matches!(looks.get(&key(&name(which))), Lookup::Hit(_));
        match claim(&host.cache(), &name(which)) {
            Claim::Hit(_) => assert!(is_there),
            Claim::Build(_) => assert!(!is_there),
            other => panic!("{other:?}"),
        }
    }
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn claims_in_any_order(programs in vec(steps(0), 2..5), order in vec(any::<u8>(), 1..200)) {
        play(&programs, &order);
    }
}

proptest! {
    #![proptest_config(config(40))]

    #[test]
    fn claims_in_any_order_with_evictions(
        programs in vec(steps(2), 2..5),
        order in vec(any::<u8>(), 1..200),
    ) {
        play(&programs, &order);
    }
}

/// Many pseudorandom orders from fixed seeds.
fn in_many_orders(programs: &[Vec<(Step, usize)>]) {
    for seed in 0..200u32 {
        let number = |at: u32| Digest::of(&[seed.to_le_bytes(), at.to_le_bytes()].concat()).as_bytes()[0];
        let order: Vec<u8> = (0..120).map(number).collect();
        play(programs, &order);
    }
}

/// Waiters that resume while the holder publishes, drops its ticket or fails.
#[test]
fn waiters_among_holders_that_end() {
    use Step::{Abandon, Claim, Drop, Publish};
    let waits = vec![(Claim, 0), (Claim, 0), (Claim, 0), (Publish, 0)];
    for end in [Publish, Abandon, Drop] {
        in_many_orders(&[vec![(Claim, 0), (end, 0)], waits.clone(), waits.clone()]);
    }
}

/// A caller locks a key whose holder has removed the lock's file, and not yet released the lock.
#[test]
fn a_claim_at_the_end_of_a_publication() {
    use Step::{Claim, Damage, Publish};
    let publisher = vec![(Publish, 0), (Claim, 0), (Publish, 0), (Publish, 0), (Publish, 0), (Publish, 0)];
    let waiter = vec![(Claim, 0), (Claim, 0), (Claim, 0), (Claim, 1), (Publish, 0)];
    play(&[publisher, vec![(Damage, 0), (Claim, 0)], waiter], &[62, 42, 92]);
}

/// A damaged entry that several callers claim.
#[test]
fn claims_among_damage() {
    use Step::{Claim, Damage, Publish};
    let builds = vec![(Claim, 0), (Publish, 0), (Claim, 0), (Publish, 0)];
    in_many_orders(&[builds.clone(), builds, vec![(Damage, 0), (Damage, 0)]]);
}
