//! Eight processes that build, read, replace, restamp and evict the same few entries, and damage some of them, while one
//! after the other is killed with SIGKILL.
//!
//! `OPKEEP_SOAK_SECONDS` says for how long: 5 if unset; `cargo xtask soak` sets 600. Three kinds of entries:
//!
//! * *steady* ones exist from the start and no process damages them: one that is a miss at any time is **lost**;
//! * *once* ones are new, and all builders need each at the same moment: one that two of them compile
//!   is a **double compile**;
//! * *harmed* ones are truncated, removed, quarantined and evicted: they may be missing.
//!
//! For all kinds, a hit with bytes that no process put is **corrupt**.

#![expect(clippy::disallowed_methods, reason = "these processes damage files, and run themselves")]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::common::{Children, Created, child, hit, key, lock, names, open, trial, within};
use libtest_mimic::Trial;
use opkeep_digest::Digest;
use opkeep_store::{Entry, GcOptions, LockOutcome, Lookup, Miss, Overwrite, PutOutcome, TargetStore};

const PROCESSES: u64 = 8;
const KEYS: u64 = 12;

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("no_entry_is_corrupt_lost_or_compiled_twice", no_entry_is_corrupt_lost_or_compiled_twice)]
}

fn time() -> Duration {
    let seconds = std::env::var("OPKEEP_SOAK_SECONDS").map_or(5, |seconds| seconds.parse().unwrap());
    Duration::from_secs(seconds)
}

/// The entry `name` of `writer`; writers differ in content and length.
fn made(name: &str, writer: usize) -> Created {
    Created::sized(name, writer, 200 + writer % 1000)
}

/// Fails unless some writer put the entry under this name.
fn check(name: &str, entry: &Entry) {
    let json = std::str::from_utf8(entry.member("json").unwrap()).unwrap();
    let (head, writer) = json.rsplit_once(' ').unwrap();
    assert_eq!(head, format!("{{\"name\": \"{name}\", \"writer\":"));
    made(name, writer.trim_end_matches('}').parse().unwrap()).assert_is(entry);
}

/// Pseudo-random numbers, the same in each run (xorshift).
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(Digest::of(&seed.to_le_bytes()).prefix_u64() | 1)
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

/// The counts of one thread, in a file, since the process may be killed at any time.
struct Counts {
    file: File,
    numbers: [u64; Counter::ALL.len()],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counter {
    Hits,
    Puts,
    Replaced,
    Restamped,
    Quarantined,
    Evicted,
    Lost,
    Doubles,
}

impl Counter {
    const ALL: [Self; 8] = [
        Self::Hits,
        Self::Puts,
        Self::Replaced,
        Self::Restamped,
        Self::Quarantined,
        Self::Evicted,
        Self::Lost,
        Self::Doubles,
    ];
}

impl Counts {
    fn create(path: &Path) -> Self {
        Self { file: File::create(path).unwrap(), numbers: Default::default() }
    }

    fn add(&mut self, count: Counter) {
        self.numbers[count as usize] += 1;
        self.file.write_all_at(&self.numbers[count as usize].to_le_bytes(), count as u64 * 8).unwrap();
    }

    /// The sums over all threads that ran.
    fn sum(directory: &Path) -> [u64; Counter::ALL.len()] {
        let mut sum = [0; Counter::ALL.len()];
        for name in names(directory) {
            let bytes = fs::read(directory.join(name)).unwrap();
            let numbers = bytes.chunks_exact(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap()));
            sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
        }
        sum
    }
}

/// The state of a thread.
struct Worker {
    root: PathBuf,
    store: TargetStore,
    counts: Counts,
    dice: Dice,
}

/// Works until it is killed. A panic ends the process, so that the test sees it.
pub(crate) fn other_process(arguments: &[String]) {
    let [root, seed] = arguments else { panic!("{arguments:?}") };
    let (root, seed): (_, u64) = (Path::new(root), seed.parse().unwrap());
    let store = open(&root.join("store"));
    thread::scope(|scope| {
        for half in 0..2 {
            let number = seed * 2 + half;
            let counts = Counts::create(&root.join("counts").join(number.to_string()));
            let mut worker =
                Worker { root: root.to_owned(), store: store.clone(), counts, dice: Dice::new(number) };
            scope.spawn(move || {
                loop {
                    let step = std::panic::AssertUnwindSafe(|| worker.step(seed % PROCESSES));
                    if std::panic::catch_unwind(step).is_err() {
                        std::process::abort();
                    }
                }
            });
        }
    });
}

impl Worker {
    /// The most frequent operation depends on the process.
    fn step(&mut self, role: u64) {
        let number = self.dice.roll(KEYS);
        let (steady, harmed) = (format!("steady_{number}"), format!("harmed_{number}"));
        match (role, self.dice.roll(20)) {
            (0, 0..3) => self.harm(&harmed),
            (0..2, 0..12) => self.replace(if role == 0 { &harmed } else { &steady }),
            (2, 0..6) => self.restamp(&steady),
            (3, 0..3) => self.evict_excess(),
            (_, 0..4) => self.read(&steady),
            (_, 4..9) => self.build(&harmed),
            (_, _) => self.build_once(),
        }
    }

    fn replace(&mut self, name: &str) {
        let writer = self.dice.roll(1 << 20) as usize;
        self.store.put_replacing(&key(name), &made(name, writer).entry(), Overwrite::Always).unwrap();
        self.counts.add(Counter::Replaced);
    }

    fn restamp(&mut self, name: &str) {
        if let Lookup::Hit(entry) = self.store.get(&key(name)) {
            self.store.restamp(&entry, self.dice.roll(100) as u32).unwrap();
            self.counts.add(Counter::Restamped);
        }
    }

    /// In place, like a failing disk; by a user; or like years without use.
    fn harm(&mut self, name: &str) {
        let path = self.store.path(&key(name));
        let Ok(file) = OpenOptions::new().write(true).open(&path) else { return };
        let _ = match self.dice.roll(3) {
            0 => fs::remove_file(path),
            1 => file.set_len(self.dice.roll(700)),
            _ => file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30)),
        };
    }

    /// Deletes entries that seem to be years old; steady ones do not.
    fn evict_excess(&mut self) {
        let older_than = Some(Duration::from_secs(24 * 3600));
        let report = self.store.gc(&GcOptions::default().with_older_than(older_than)).unwrap();
        (0..report.removed.entries.files).for_each(|_| self.counts.add(Counter::Evicted));
    }

    /// A steady entry, which must exist.
    fn read(&mut self, name: &str) {
        match self.store.get(&key(name)) {
            Lookup::Hit(entry) => {
                check(name, &entry);
                self.counts.add(Counter::Hits);
            }
            Lookup::Miss(_) => self.counts.add(Counter::Lost),
        }
    }

    /// Like a build: under the lock, after a second get, when a damaged entry is quarantined.
    fn build(&mut self, name: &str) {
        if self.find(name) {
            return;
        }
        let key = key(name);
        let LockOutcome::Acquired(lock) = within(&self.store, &key, Duration::from_secs(2)) else { return };
        match self.store.get(&key) {
            Lookup::Hit(entry) => check(name, &entry),
            Lookup::Miss(miss) => {
                if let Miss::Damaged(judged) = &miss
                    && self.store.quarantine(&key, judged, &lock).unwrap()
                {
                    self.counts.add(Counter::Quarantined);
                }
                let writer = self.dice.roll(1 << 20) as usize;
                self.store.put(&key, &made(name, writer).entry()).unwrap();
                self.counts.add(Counter::Puts);
            }
        }
    }

    /// An entry that no process damages, and that all need at this moment.
    fn build_once(&mut self) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
        let name = format!("once_{}", now / 25);
        if self.find(&name) {
            return;
        }
        let key = key(&name);
        let LockOutcome::Acquired(_lock) = within(&self.store, &key, Duration::from_secs(20)) else {
            panic!("the lock was not to be had for 20 s");
        };
        if let Lookup::Hit(entry) = self.store.get(&key) {
            return check(&name, &entry);
        }
        // The time of a compile.
        thread::sleep(Duration::from_millis(self.dice.roll(8)));
        let writer = self.dice.roll(1 << 20) as usize;
        match self.store.put(&key, &made(&name, writer).entry()).unwrap() {
            PutOutcome::Published => {
                let mut compiled = OpenOptions::new().append(true).open(self.root.join("compiled")).unwrap();
                compiled.write_all(format!("{name}\n").as_bytes()).unwrap();
                self.counts.add(Counter::Puts);
            }
            PutOutcome::Existing => self.counts.add(Counter::Doubles),
        }
    }

    fn find(&mut self, name: &str) -> bool {
        match self.store.get(&key(name)) {
            Lookup::Hit(entry) => {
                check(name, &entry);
                self.counts.add(Counter::Hits);
                true
            }
            Lookup::Miss(Miss::Absent | Miss::Damaged(_)) => false,
            // It was truncated between the check of its length and the read.
            Lookup::Miss(Miss::Io(error)) => {
                assert!(error.to_string().contains("ended early") && name.starts_with("harmed"), "{error}");
                true
            }
            Lookup::Miss(Miss::Untrusted(error)) => panic!("{error}"),
        }
    }
}

fn spawn(root: &Path, seed: u64) -> Child {
    child("soak", &[root.to_str().unwrap(), &seed.to_string()]).spawn().unwrap()
}

fn no_entry_is_corrupt_lost_or_compiled_twice() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let store = open(&root.join("store"));
    fs::create_dir(root.join("counts")).unwrap();
    File::create(root.join("compiled")).unwrap();
    for name in (0..KEYS).map(|number| format!("steady_{number}")) {
        store.put(&key(&name), &made(&name, 0).entry()).unwrap();
    }

    let (mut dice, mut kills, mut lost_here, mut corrupt) = (Dice::new(7), 0, 0, 0);
    let mut others = Children((0..PROCESSES).map(|seed| spawn(root, seed)).collect());
    let mut seeds: Vec<u64> = (0..PROCESSES).collect();
    let (began, mut next_kill) = (Instant::now(), Duration::from_millis(400));
    while began.elapsed() < time() {
        for name in (0..KEYS).map(|number| format!("steady_{number}")) {
            match store.get(&key(&name)) {
                Lookup::Hit(entry) => check(&name, &entry),
                Lookup::Miss(_) => lost_here += 1,
            }
        }
        for (other, seed) in others.0.iter_mut().zip(&mut seeds) {
            if other.try_wait().unwrap().is_some() {
                // It found an entry that no process put, and reported it.
                corrupt += 1;
                *seed += PROCESSES;
                *other = spawn(root, *seed);
            }
        }
        if began.elapsed() > next_kill {
            next_kill = began.elapsed() + Duration::from_millis(dice.roll(120));
            let which = dice.roll(PROCESSES) as usize;
            others.0[which].kill().unwrap();
            others.0[which].wait().unwrap();
            kills += 1;
            seeds[which] += PROCESSES;
            others.0[which] = spawn(root, seeds[which]);
        }
        thread::sleep(Duration::from_millis(2));
    }
    drop(others);

    let counts = Counts::sum(&root.join("counts"));
    let of = |count: Counter| counts[count as usize];
    let mut made_once = BTreeMap::new();
    for name in fs::read_to_string(root.join("compiled")).unwrap().lines() {
        *made_once.entry(name.to_owned()).or_insert(0) += 1;
    }
    let doubles = of(Counter::Doubles) + made_once.values().map(|times| times - 1).sum::<u64>();
    let lost = of(Counter::Lost) + lost_here;
    println!(
        "soak: {PROCESSES} processes, {:.0} s: {} operations, {kills} kills, {} entries wanted by all; \
         torn = {corrupt}, lost = {lost}, double compiles = {doubles}",
        began.elapsed().as_secs_f64(),
        counts.iter().sum::<u64>(),
        made_once.len(),
    );
    assert_eq!((corrupt, lost, doubles), (0, 0, 0));
    assert!(kills > 5 && made_once.len() > 10);
    let never = [Counter::Lost, Counter::Doubles];
    for count in Counter::ALL.into_iter().filter(|count| !never.contains(count)) {
        assert!(of(count) > 0, "no process counted {count:?}");
    }
    the_next_run_works(&root.join("store"));
}

/// Without a manual step.
fn the_next_run_works(root: &Path) {
    let store = open(root);
    for name in (0..KEYS).flat_map(|number| [format!("steady_{number}"), format!("harmed_{number}")]) {
        let (key, lock) = (key(&name), lock(&store, &key(&name)));
        match store.get(&key) {
            Lookup::Hit(entry) => check(&name, &entry),
            Lookup::Miss(Miss::Absent) => {}
            Lookup::Miss(Miss::Damaged(judged)) => assert!(store.quarantine(&key, &judged, &lock).unwrap()),
            Lookup::Miss(other) => panic!("{other:?}"),
        }
        store.put_replacing(&key, &made(&name, 5).entry(), Overwrite::Always).unwrap();
        made(&name, 5).assert_is(&hit(&store, &key));
    }
}
