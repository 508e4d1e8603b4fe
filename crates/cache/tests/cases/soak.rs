//! Eight processes that claim, build, fail, damage and evict the same few entries, while one after the other is killed with
//! SIGKILL.
//!
//! `OPKEEP_SOAK_SECONDS` is the duration: 5 if unset; `cargo xtask soak` sets 600. Two kinds of entries:
//!
//! * *once* entries are always new, and all processes need each at the same moment. No process damages them, and one that
//!   two of them publish is **built twice**;
//! * *harmed* entries are damaged, removed and evicted, and their builds sometimes fail.
//!
//! For both kinds, a hit with bytes that no process published is **corrupt**, and a key that is pending although no
//! process holds it is **stuck**. The store's own soak is beside the store.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use opkeep_cache::{Claim, Failure, TargetCache, Ticket};
use opkeep_digest::Digest;
use opkeep_store::{GcOptions, PutOutcome};

use crate::common::{Host, build, claim, hit, key, publish, settle};
use crate::processes::{Children, spawn};

const PROCESSES: u64 = 8;
const KEYS: u64 = 6;

fn time() -> Duration {
    let seconds = std::env::var("OPKEEP_SOAK_SECONDS").map_or(5, |seconds| seconds.parse().unwrap());
    Duration::from_secs(seconds)
}

/// Pseudorandom numbers from a seed (xorshift).
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

/// Works until it is killed. A panic ends the process with a failure, so that the test sees it.
pub(crate) fn work(cache: &TargetCache, log: &Path) {
    let mut dice = Dice::new(std::process::id().into());
    loop {
        let harmed = format!("harmed_{}", dice.roll(KEYS));
        match dice.roll(20) {
            0..3 => harm(cache, &harmed, &mut dice),
            3 => evict(cache),
            4..10 => build_harmed(cache, &harmed, &mut dice),
            _ => build_once(cache, log, &mut dice),
        }
    }
}

fn harm(cache: &TargetCache, name: &str, dice: &mut Dice) {
    let path = cache.store().unwrap().path(&key(name));
    let Ok(file) = OpenOptions::new().write(true).open(&path) else { return };
    let _ = match dice.roll(3) {
        0 => fs::remove_file(path),
        1 => file.set_len(dice.roll(300)),
        _ => file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30)),
    };
}

/// Evicts entries that seem to be years old.
fn evict(cache: &TargetCache) {
    let older_than = Some(Duration::from_secs(24 * 3600));
    cache.store().unwrap().gc(&GcOptions::default().with_older_than(older_than)).unwrap();
}

fn build_harmed(cache: &TargetCache, name: &str, dice: &mut Dice) {
    match settle(cache, claim(cache, name)) {
        Claim::Build(ticket) => match dice.roll(4) {
            0 => ticket.abandon(Failure::new(name)),
            1 => drop(ticket),
            _ => {
                publish_any(ticket, dice);
            }
        },
        Claim::HolderFailed(failure) => assert_eq!(failure.reason, name),
        other => {
            hit(other);
        }
    }
}

/// An entry that no process damages, and that all processes need at this moment.
fn build_once(cache: &TargetCache, log: &Path, dice: &mut Dice) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let name = format!("once_{}", now / 25);
    match settle(cache, claim(cache, &name)) {
        Claim::Build(ticket) => {
            // The duration of a build.
            std::thread::sleep(Duration::from_millis(dice.roll(8)));
            let published = publish_any(ticket, dice).unwrap();
            let mut log = OpenOptions::new().append(true).open(log).unwrap();
            let twice = if published == PutOutcome::Existing { "\ntwice" } else { "" };
            log.write_all(format!("{name}{twice}\n").as_bytes()).unwrap();
        }
        other => {
            hit(other);
        }
    }
}

fn publish_any(ticket: Ticket, dice: &mut Dice) -> Option<PutOutcome> {
    publish(ticket, dice.roll(1 << 20) as usize).local
}

pub(crate) fn nothing_is_corrupt_lost_or_built_twice() {
    let host = Host::new();
    let cache = host.cache();
    let log = host.dir.path().join("built");
    File::create(&log).unwrap();
    let mut others = Children((0..PROCESSES).map(|_| spawn("soak", &host, &log)).collect());
    let (mut dice, mut kills, mut ended) = (Dice::new(7), 0, 0);
    let (began, mut next_kill) = (Instant::now(), Duration::from_millis(400));
    while began.elapsed() < time() {
        for other in &mut others.0 {
            if other.try_wait().unwrap().is_some() {
                // It found an entry that no process published, or waited too long, and reported that.
                ended += 1;
                *other = spawn("soak", &host, &log);
            }
        }
        if began.elapsed() > next_kill {
            next_kill = began.elapsed() + Duration::from_millis(dice.roll(120));
            let which = dice.roll(PROCESSES) as usize;
            others.0[which].kill().unwrap();
            others.0[which].wait().unwrap();
            kills += 1;
            others.0[which] = spawn("soak", &host, &log);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(others);

    let mut built = BTreeMap::new();
    for name in fs::read_to_string(&log).unwrap().lines() {
        *built.entry(name.to_owned()).or_insert(0) += 1;
    }
    let twice = built.values().filter(|times| **times > 1).count();
    println!(
        "soak: {PROCESSES} processes, {kills} kills, {} entries wanted by all, {twice} built twice",
        built.len()
    );
    assert_eq!((ended, twice), (0, 0));
    assert!(!built.contains_key("twice"));
    assert!(kills > 5 && built.len() > 10);
    // Without a repair, the next caller works, and no published entry is lost.
    for number in 0..KEYS {
        let name = format!("harmed_{number}");
        match claim(&cache, &name) {
            Claim::Hit(_) => {}
            other => {
                publish(build(other), 1);
            }
        }
        hit(claim(&cache, &name));
    }
    for name in built.keys() {
        hit(claim(&cache, name));
    }
}
