//! Processes that read, write, replace, damage and set aside the same few entries, and are killed while they do.

#![expect(clippy::disallowed_methods, reason = "these processes damage files, and run themselves")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "these tests are functions without the attribute")]

mod common;

use std::fs;
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use common::{Children, Made, child, hit, key, lock, open, trial, within};
use libtest_mimic::Arguments;
use opbuild_digest::Digest;
use opbuild_store::{Entry, LockOutcome, Lookup, Miss, Put, Replace, TargetStore};

const KEYS: u64 = 16;
const TIME: Duration = Duration::from_secs(3);

fn main() {
    if let Some(arguments) = common::child_arguments() {
        return other_process(Path::new(&arguments[0]), arguments[1].parse().unwrap());
    }
    let tests = vec![trial("every_hit_is_whole_whoever_dies", every_hit_is_whole)];
    libtest_mimic::run(&Arguments::from_args(), tests).exit();
}

/// The entry `name` as `writer` makes it; writers differ in content and length.
fn made(name: &str, writer: usize) -> Made {
    Made::sized(name, writer, 200 + writer % 1000)
}

/// Fails unless the entry is one that some writer made for this name.
fn check(name: &str, entry: &Entry) {
    let json = std::str::from_utf8(entry.member("json").unwrap()).unwrap();
    let (head, writer) = json.rsplit_once(' ').unwrap();
    assert_eq!(head, format!("{{\"name\": \"{name}\", \"writer\":"));
    made(name, writer.trim_end_matches('}').parse().unwrap()).assert_is(entry);
}

/// Numbers that look random and come again (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

/// Works until it is killed. A panic ends the process, so that the test sees it.
fn other_process(root: &Path, seed: u64) {
    let store = open(root);
    thread::scope(|scope| {
        for half in 1..=2 {
            let store = &store;
            scope.spawn(move || {
                let mut dice = Dice(Digest::of(&(seed * 2 + half).to_le_bytes()).prefix_u64() | 1);
                loop {
                    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| step(root, store, &mut dice)))
                        .is_err()
                    {
                        std::process::abort();
                    }
                }
            });
        }
    });
}

fn step(root: &Path, store: &TargetStore, dice: &mut Dice) {
    let name = format!("op_{}", dice.roll(KEYS));
    let (key, writer) = (key(&name), dice.roll(1 << 20) as usize);
    let said = |what: &str| fs::write(root.join(what), "").unwrap();
    match dice.roll(20) {
        0 => {
            store.put_replacing(&key, &made(&name, writer).draft(), Replace::Always).unwrap();
            said("replaced");
        }
        // In place, as a failing disk does it. The file may be gone by now.
        1 => {
            if let Ok(file) = fs::OpenOptions::new().write(true).open(store.path(&key)) {
                let _ = file.set_len(dice.roll(700));
            }
        }
        2 => {
            let _ = fs::remove_file(store.path(&key));
        }
        _ => match store.get(&key) {
            Lookup::Hit(entry) => {
                check(&name, &entry);
                said("hit");
            }
            Lookup::Miss(Miss::Absent | Miss::Damaged(_)) => make(root, store, &name, writer),
            // It was cut between the look at its length and the read.
            Lookup::Miss(Miss::Trouble(error)) => {
                assert!(error.to_string().contains("ended early"), "{error}")
            }
            Lookup::Miss(Miss::Untrusted(error)) => panic!("{error}"),
        },
    }
}

/// Makes an entry as a build does: under the lock, after another look, once what is damaged is out of the way.
fn make(root: &Path, store: &TargetStore, name: &str, writer: usize) {
    let key = key(name);
    let LockOutcome::Acquired(lock) = within(store, &key, Duration::from_secs(2)) else { return };
    match store.get(&key) {
        Lookup::Hit(entry) => check(name, &entry),
        Lookup::Miss(miss) => {
            if let Miss::Damaged(judged) = &miss
                && store.quarantine(&key, judged, &lock).unwrap()
            {
                fs::write(root.join("set aside"), "").unwrap();
            }
            if store.put(&key, &made(name, writer).draft()).unwrap() == Put::Published {
                fs::write(root.join("published"), "").unwrap();
            }
        }
    }
}

fn spawn(root: &Path, seed: u64) -> Child {
    child(&[root.to_str().unwrap(), &seed.to_string()]).spawn().unwrap()
}

fn every_hit_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let store = open(root);
    let mut others = Children((0..3).map(|seed| spawn(root, seed)).collect());
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut seeds, mut hits, mut next_kill) = (3.., 0, Duration::from_millis(300));
    let began = Instant::now();
    while began.elapsed() < TIME {
        for name in (0..KEYS).map(|i| format!("op_{i}")) {
            if let Lookup::Hit(entry) = store.get(&key(&name)) {
                check(&name, &entry);
                hits += 1;
            }
        }
        for other in &mut others.0 {
            assert!(other.try_wait().unwrap().is_none(), "a process ended by itself");
        }
        if began.elapsed() > next_kill {
            next_kill += Duration::from_millis(40 + dice.roll(120));
            let other = &mut others.0[dice.roll(3) as usize];
            other.kill().unwrap();
            other.wait().unwrap();
            *other = spawn(root, seeds.next().unwrap());
        }
        thread::sleep(Duration::from_millis(2));
    }
    drop(others);
    assert!(hits > 100, "{hits} hits only");
    for what in ["hit", "replaced", "published", "set aside"] {
        assert!(root.join(what).exists(), "nobody said `{what}`");
    }

    // The next run works, with no manual step.
    let store = open(root);
    for name in (0..KEYS).map(|i| format!("op_{i}")) {
        let (key, lock) = (key(&name), lock(&store, &key(&name)));
        match store.get(&key) {
            Lookup::Hit(entry) => check(&name, &entry),
            Lookup::Miss(Miss::Absent) => {}
            Lookup::Miss(Miss::Damaged(judged)) => assert!(store.quarantine(&key, &judged, &lock).unwrap()),
            Lookup::Miss(other) => panic!("{other:?}"),
        }
        store.put_replacing(&key, &made(&name, 5).draft(), Replace::Always).unwrap();
        made(&name, 5).assert_is(&hit(&store, &key));
    }
    assert!(common::names(&store.dir().join("locks")).is_empty());
}
