//! When entries are evicted: the estimated and the actual size.

#![expect(clippy::disallowed_methods, reason = "these tests look at files, and put others in their way")]

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::room::{ALL, CHEAP, HOUR, MB, MINUTE, Room, Watch, counted, entry, filling, gc, ten};
use crate::common::{TARGET, key, names};
use opkeep_fs::{FsOp, Permit};
use opkeep_store::{Overwrite, PutOutcome, Store};

#[test]
fn opening_and_puts_evict() {
    let room = Room::new("1", "50");
    let store = ten(&room, 2 * HOUR);
    assert_eq!(store.put(&key("more"), &entry(&filling(100 << 10), CHEAP)).unwrap(), PutOutcome::Published);
    assert_eq!(room.left(&store, &ALL), ALL, "not with each put");
    drop(store);
    let store = room.open();
    assert_eq!(room.left(&store, &ALL), ALL[6..], "when a store is opened");

    // In one long build, too: after 64 puts, and after 16 MiB.
    let room = Room::new("1", "50");
    let store = ten(&room, 2 * HOUR);
    (0..54).for_each(|at| drop(store.put(&key(&at.to_string()), &entry(&filling(8 << 10), CHEAP))));
    assert!(room.left(&store, &ALL).len() < 10);
    let room = Room::new("16", "50");
    let store = ten(&room, 2 * HOUR);
    store.put(&key("large"), &entry(&filling(15 * MB), CHEAP)).unwrap();
    assert_eq!(room.left(&store, &ALL), ALL);
    store.put(&key("small"), &entry(&filling(MB / 4), CHEAP)).unwrap();
    assert!(room.left(&store, &ALL).is_empty());
}

/// While all entries are in use, a repeated walk would gain nothing.
#[test]
fn an_eviction_without_effect_is_not_repeated_at_once() {
    let room = Room::new("1", "50");
    let store = ten(&room, Duration::ZERO);
    room.put(&store, "more", MB, CHEAP, Duration::ZERO);
    drop(store);
    let walks = || {
        room.seen.take();
        drop(room.open());
        room.seen.ops().iter().filter(|op| **op == FsOp::List).count() > 8
    };
    assert!(walks());
    assert!(!walks());
    room.time.pass(10 * MINUTE);
    assert!(walks());
    // The first falls idle 21 minutes after it was put; it is checked every ten.
    room.time.pass(9 * MINUTE);
    assert!(!walks());
    room.time.pass(10 * MINUTE);
    assert!(walks());
    assert_eq!(room.left(&room.open(), &ALL), ["j"]);
}

/// Without a valid count, opening the store does not count, but the first put does.
#[test]
fn an_unknown_size_is_counted_once() {
    let room = Room::new("1", "50");
    drop(ten(&room, 2 * HOUR));
    let size = room.open().dir().join("size");
    for corrupt in [None, Some("opkeep size 1\nbytes 7"), Some("")] {
        match corrupt {
            None => fs::remove_file(&size).unwrap(),
            Some(text) => fs::write(&size, text).unwrap(),
        }
        room.seen.take();
        let store = room.open();
        let lists = || {
            let calls = room.seen.take();
            calls.iter().filter(|(op, path)| *op == FsOp::List && path.starts_with(store.dir())).count()
        };
        assert_eq!(lists(), 0);
        assert_eq!(store.estimate(), None);
        store.put_replacing(&key("a"), &entry(&filling(100 << 10), CHEAP), Overwrite::Always).unwrap();
        let (estimate, counted) = (store.estimate().unwrap(), counted(&store));
        // The file with the total may not have been there when it was counted.
        assert!(estimate.entries == 10 && counted.bytes - estimate.bytes <= 4096, "{estimate:?} {counted:?}");
        store.put_replacing(&key("a"), &entry(&filling(100 << 10), CHEAP), Overwrite::Always).unwrap();
        assert_eq!(
            lists(),
            2 * (names(&store.dir().join("entries")).len() + 5),
            "once by the first put, and once to compare"
        );
    }
}

#[test]
fn the_estimate_follows_puts_replacements_and_evictions() {
    let room = Room::new("1", "50");
    let store = room.open();
    let records = counted(&store).bytes;
    for (bytes, name) in [(1000, "a"), (5000, "a"), (2000, "b"), (3000, "a")] {
        store.put_replacing(&key(name), &entry(&filling(bytes), CHEAP), Overwrite::Always).unwrap();
    }
    let estimate = store.estimate().unwrap();
    assert_eq!((estimate.bytes, estimate.entries), (5000, 2));
    // The estimate is of entries; a walk counts the rest.
    let report = gc(&store);
    assert_eq!(store.estimate(), Some(counted(&store)));
    assert!(report.after.total().bytes >= 5000 + records, "{report:?}");
    let size = store.dir().join("size");
    drop(store);
    assert!(fs::read_to_string(size).unwrap().starts_with("opkeep size 2\nbytes"));
}

/// Other processes find an eviction in progress and continue: the evicting process checks again.
#[test]
fn puts_of_other_processes_during_an_eviction_count() {
    let room = Room::new("1", "50");
    drop(ten(&room, 2 * HOUR));
    room.put(&room.open(), "more", 200 << 10, CHEAP, Duration::ZERO);
    let unlimited = opkeep_store::LimitSettings::new().with_size(-1);
    let mut config = room.config().with_limits(unlimited);
    config.watcher = None;
    let other = Store::open(config).unwrap().target(TARGET).unwrap();
    let last = names(&other.dir().join("entries")).pop().unwrap();
    let last = other.dir().join("entries").join(last);
    let (old, done) = (room.time.ago(HOUR), AtomicBool::new(false));
    let hook = Watch(move |call: &opkeep_fs::FsCall<'_>| {
        if call.op == FsOp::List && call.path == last && !done.swap(true, Ordering::Relaxed) {
            for at in 0..100 {
                let key = key(&format!("meanwhile {at}"));
                other.put(&key, &entry(&filling(16 << 10), CHEAP)).unwrap();
                fs::File::open(other.path(&key)).unwrap().set_modified(old).unwrap();
            }
            other.flush().unwrap();
        }
        Permit::Go
    });
    let store = Store::open(room.config().with_watcher(Arc::new(hook))).unwrap().target(TARGET).unwrap();
    let left = counted(&store);
    assert!(left.entries > 10 && left.bytes <= MB, "{left:?}");
}
