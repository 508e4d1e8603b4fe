//! The entries that are evicted over the limit, and those that never are.

#![expect(clippy::disallowed_methods, reason = "these tests look at files, and put others in their way")]

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::room::{ALL, CHEAP, DAY, HOUR, MB, MINUTE, Room, Watch, entry, filling, gc, ten, used};
use crate::common::{TARGET, hit, key, lock, names, snapshot};
use opkeep_digest::Digest;
use opkeep_fs::{FsOp, Permit};
use opkeep_store::{Access, GcOptions, Store, StoreError};

#[test]
fn nothing_is_evicted_within_the_limit() {
    let room = Room::new("1", "50");
    let store = ten(&room, 2 * HOUR);
    let report = gc(&store);
    assert_eq!((report.before, report.removed.entries.files, report.still_over), (report.after, 0, false));
    assert_eq!(room.left(&store, &ALL), ALL);
}

#[test]
fn over_the_limit_idle_entries_are_evicted_down_to_the_ratio() {
    for (percent, expected) in [("50", 6), ("80", 3), ("100", 1), ("1", 11)] {
        let room = Room::new("1", percent);
        let store = ten(&room, 2 * HOUR);
        room.put(&store, "more", 100 << 10, CHEAP, 3 * HOUR);
        let report = gc(&store);
        assert_eq!(report.removed.entries.files, expected, "{percent} %");
        let keep = MB * percent.parse::<u64>().unwrap() / 100;
        assert!(report.after.total().bytes <= keep, "{report:?}");
        assert!(report.after.total().bytes + (100 << 10) > keep, "no more than must be");
        assert_eq!(report.after.total(), gc(&store).before.total());
        // The entry that was idle for longest was evicted.
        assert_eq!(room.left(&store, &ALL), ALL[expected as usize - 1..]);
    }
}

#[test]
fn an_entry_used_within_half_an_hour_stays() {
    let room = Room::new("1", "10");
    let store = ten(&room, 25 * MINUTE);
    room.put(&store, "more", 200 << 10, CHEAP, Duration::ZERO);
    // Idle for 34, 33, 32, 31, 30 minutes.
    let report = gc(&store);
    assert_eq!(report.removed.entries.files, 5);
    assert_eq!(room.left(&store, &ALL), ALL[5..]);
    assert!(!report.still_over, "there is room again, if less than there should be");
    room.time.pass(MINUTE - Duration::from_secs(1));
    room.put(&store, "even more", 900 << 10, CHEAP, Duration::ZERO);
    let report = gc(&store);
    assert!(report.still_over && report.removed.entries.files == 0, "{report:?}");
    room.time.pass(Duration::from_secs(1));
    assert_eq!(gc(&store).removed.entries.files, 1);
}

/// Of the considered entries, the cheapest ones by compile time per byte are evicted first.
#[test]
fn cheap_entries_are_evicted_first() {
    let room = Room::new("1", "81");
    let store = room.open();
    // Costs per byte 10, 1, 2, 30, 3 in some unit; nearly equally idle; two must go, of four considered.
    for (at, (name, size, cost)) in
        [("a", 2, 20), ("b", 2, 2), ("c", 2, 4), ("d", 2, 60), ("e", 2, 6)].into_iter().enumerate()
    {
        let ago = 10 * HOUR - Duration::from_secs(at as u64);
        room.put(&store, name, size * (100 << 10), Duration::from_secs(cost), ago);
    }
    room.put(&store, "new", 200 << 10, CHEAP, Duration::ZERO);
    assert_eq!(gc(&store).removed.entries.files, 2);
    assert_eq!(room.left(&store, &["a", "b", "c", "d", "e"]), ["a", "d", "e"]);
}

/// The preview has the entries that an eviction deletes, in its order, whether the limit is exceeded or not.
#[test]
fn the_preview_is_what_is_evicted() {
    let room = Room::new("1", "50");
    let store = room.open();
    for (at, name) in ALL.into_iter().enumerate() {
        let cost = if name == "a" { CHEAP * 60 } else { CHEAP };
        room.put(&store, name, 100 << 10, cost, 2 * HOUR + MINUTE * (9 - at as u32));
    }
    room.put(&store, "new", 10 << 10, CHEAP, Duration::ZERO);
    let names = |count| {
        let preview = store.eviction_preview(count).unwrap();
        let name = |wanted: Digest| ALL.into_iter().find(|name| key(name) == wanted).unwrap();
        let next: Vec<&str> = preview.next.iter().map(|entry| name(entry.key)).collect();
        (preview.is_over, preview.idle.files, next)
    };
    room.seen.take();
    assert_eq!(names(3), (false, 10, vec!["b", "c", "d"]));
    let reads = [FsOp::OpenDir, FsOp::Stat, FsOp::List, FsOp::Look, FsOp::Open, FsOp::Read];
    assert!(room.seen.ops().iter().all(|op| reads.contains(op)), "the preview writes nothing");
    room.put(&store, "more", 20 << 10, CHEAP, Duration::ZERO);
    let (is_over, idle, next) = names(20);
    assert_eq!((is_over, idle, next.len(), next.last()), (true, 10, 10, Some(&"a")));
    let preview = store.eviction_preview(1).unwrap().next[0];
    assert_eq!((preview.bytes, preview.cost), (100 << 10, Some(CHEAP)));
    assert_eq!(preview.last_used, used(&store, "b"));
    let removed = gc(&store).removed.entries.files as usize;
    assert_eq!(room.left(&store, &next[..removed]), [""; 0]);
    assert_eq!(room.left(&store, &next[removed..]), next[removed..]);
}

/// The compile time is unknown, as for kernels of other programs: it may be impossible to compile again.
#[test]
fn an_entry_of_unknown_cost_counts_as_the_most_expensive() {
    let room = Room::new("1", "81");
    let store = room.open();
    // As above, and without a cost for two of them.
    for (at, (name, size, cost)) in
        [("a", 2, 20), ("b", 2, 0), ("c", 2, 4), ("d", 2, 6), ("e", 2, 0)].into_iter().enumerate()
    {
        let ago = 10 * HOUR - Duration::from_secs(at as u64);
        room.put(&store, name, size * (100 << 10), Duration::from_secs(cost), ago);
    }
    room.put(&store, "new", 200 << 10, CHEAP, Duration::ZERO);
    assert_eq!(gc(&store).removed.entries.files, 2);
    assert_eq!(room.left(&store, &["a", "b", "c", "d", "e"]), ["a", "b", "e"]);
}

/// An hour of compiling for a small entry, and for a large one: the large one frees more bytes for it.
#[test]
fn the_cost_is_that_of_a_byte() {
    let room = Room::new("1", "90");
    let store = room.open();
    room.put(&store, "small", 50 << 10, CHEAP, 3 * HOUR);
    room.put(&store, "large", 500 << 10, CHEAP, 3 * HOUR);
    room.put(&store, "new", 600 << 10, CHEAP, Duration::ZERO);
    gc(&store);
    assert_eq!(room.left(&store, &["small", "large"]), ["small"]);
}

/// Thirty days against three hours outweigh a cost that is twice as high, and not one a thousand times as high.
#[test]
fn idleness_counts_against_cost() {
    for (cost, gone) in [(2, "idle"), (1000, "fresh")] {
        let room = Room::new("1", "90");
        let store = room.open();
        room.put(&store, "idle", 300 << 10, CHEAP * cost, 30 * DAY);
        room.put(&store, "fresh", 300 << 10, CHEAP, 3 * HOUR);
        room.put(&store, "new", 600 << 10, CHEAP, Duration::ZERO);
        let report = gc(&store);
        assert_eq!(report.removed.entries.files, 1, "{report:?}");
        assert!(!store.path(&key(gone)).exists(), "{cost}");
    }
}

/// Prefixes are read of the idlest entries up to twice the bytes that must be evicted, and of no others.
#[test]
fn few_prefixes_are_read() {
    let room = Room::new("1", "90");
    let store = ten(&room, 2 * HOUR);
    room.put(&store, "more", 30 << 10, CHEAP, Duration::ZERO);
    room.seen.take();
    let report = gc(&store);
    let read: Vec<PathBuf> = room
        .seen
        .take()
        .into_iter()
        .filter(|(op, path)| *op == FsOp::Read && path.extension().is_some())
        .map(|(_, path)| path)
        .collect();
    // 109 KiB must go, that is two entries; worth twice as much are three.
    assert_eq!(report.removed.entries.files, 2);
    let mut expected: Vec<_> = ALL[..3].iter().map(|name| store.path(&key(name))).collect();
    expected.sort();
    let mut read = read;
    read.sort();
    assert_eq!(read, expected);
}

#[test]
fn an_idle_damaged_entry_is_evicted_first() {
    let room = Room::new("1", "90");
    let store = ten(&room, 2 * HOUR);
    fs::write(store.path(&key("b")), vec![7; 100 << 10]).unwrap();
    room.use_at(&store, "b", room.time.ago(2 * HOUR + 8 * MINUTE));
    room.put(&store, "more", 30 << 10, CHEAP, Duration::ZERO);
    room.use_at(&store, "a", room.time.ago(30 * DAY));
    gc(&store);
    assert!(!store.path(&key("b")).exists());
}

#[test]
fn without_a_limit_nothing_ages_and_no_use_is_noted() {
    let room = Room::new("-1", "50");
    let store = ten(&room, 2 * HOUR);
    room.put(&store, "more", 5 * MB, CHEAP, 2 * DAY);
    let report = gc(&store);
    assert_eq!((report.removed.entries.files, report.still_over), (0, false));
    let before = used(&store, "a");
    hit(&store, &key("a"));
    assert_eq!(used(&store, "a"), before);
    drop(store);
    assert_eq!(room.left(&room.open(), &ALL), ALL);
    // An eviction on request runs.
    let report = room.open().gc(&GcOptions::default().with_max_bytes(MB)).unwrap();
    assert!(report.after.total().bytes <= MB && report.after.entries.files > 8, "{report:?}");
}

#[test]
fn entries_can_be_limited_by_number() {
    let mut room = Room::new("500", "50");
    room.limits.max_entries = Some("10".to_owned());
    let store = ten(&room, 2 * HOUR);
    assert_eq!(gc(&store).removed.entries.files, 0);
    room.put(&store, "more", 1 << 10, CHEAP, Duration::ZERO);
    let report = gc(&store);
    assert_eq!((report.removed.entries.files, report.after.entries.files), (6, 5));
    assert_eq!(room.left(&store, &ALL), ALL[6..]);
}

#[test]
fn a_lower_limit_and_a_maximum_age_can_be_requested() {
    let room = Room::new("500", "50");
    let store = ten(&room, 20 * MINUTE);
    // Idle for 29 to 20 minutes: only old ones are evicted, although they are not idle for half an hour.
    let options = GcOptions::default().with_older_than(25 * MINUTE);
    assert_eq!(store.gc(&options).unwrap().removed.entries.files, 5);
    assert_eq!(room.left(&store, &ALL), ALL[5..]);
    // At most that many bytes, not a share of them; and never an entry in use.
    room.time.pass(HOUR);
    let report = store.gc(&GcOptions::default().with_max_bytes(300 << 10)).unwrap();
    assert_eq!((report.removed.entries.files, report.after.entries.files), (3, 2));
    room.put(&store, "new", 100 << 10, CHEAP, Duration::ZERO);
    let both = GcOptions::default().with_max_bytes(0).with_older_than(DAY);
    let report = store.gc(&both).unwrap();
    assert_eq!((report.removed.entries.files, report.after.entries.files, report.still_over), (2, 1, true));
}

#[test]
fn a_dry_run_reports_the_actions_and_writes_nothing() {
    let room = Room::new("1", "50");
    let store = ten(&room, 2 * HOUR);
    room.put(&store, "more", 100 << 10, CHEAP, 3 * HOUR);
    fs::write(store.dir().join("tmp/put-999999999-0"), "left").unwrap();
    fs::File::open(store.dir().join("tmp/put-999999999-0"))
        .unwrap()
        .set_modified(room.time.ago(2 * HOUR))
        .unwrap();
    room.put(&store, "future", 1 << 10, CHEAP, Duration::ZERO);
    room.use_at(&store, "future", room.time.ago(Duration::ZERO) + DAY);
    let before = snapshot(room.root());
    let dry = GcOptions::default().with_dry_run(true);
    let would = store.gc(&dry).unwrap();
    assert_eq!((would.removed.entries.files, would.removed.temporary.files), (6, 1));
    let reader = Store::open(room.config().with_access(Access::ReadOnly)).unwrap().target(TARGET).unwrap();
    assert_eq!(reader.gc(&dry).unwrap().removed, would.removed);
    assert!(matches!(reader.gc(&GcOptions::default()), Err(StoreError::ReadOnly { .. })));
    assert_eq!(snapshot(room.root()), before);
    let did = gc(&store);
    assert_eq!(did.removed, would.removed);
    assert_eq!(did.after.entries, would.after.entries);
}

#[test]
fn one_process_evicts_and_others_continue() {
    let room = Room::new("1", "50");
    let store = ten(&room, 2 * HOUR);
    let held = fs::File::create(store.dir().join("gc.lock")).unwrap();
    held.lock().unwrap();
    for at in 0..70 {
        store.put(&key(&format!("put {at}")), &entry(&filling(8 << 10), CHEAP)).unwrap();
    }
    assert!(gc(&store).busy);
    assert_eq!(room.left(&room.open(), &ALL), ALL);
    drop(held);
    assert!(!gc(&store).busy);
    assert!(room.left(&store, &ALL).len() < 10);
}

#[test]
fn an_entry_is_not_evicted_while_its_lock_is_held() {
    let room = Room::new("1", "1");
    let store = ten(&room, 2 * HOUR);
    room.put(&store, "more", 100 << 10, CHEAP, 2 * HOUR);
    let held = [lock(&store, &key("c")), lock(&store, &key("d"))];
    let dry_run = store.gc(&GcOptions::default().with_dry_run(true)).unwrap();
    assert_eq!(dry_run.removed.entries.files, 9);
    let report = gc(&store);
    assert_eq!((report.removed.entries.files, report.failed), (9, 0));
    assert_eq!(room.left(&store, &ALL), ["c", "d"]);
    drop(held);
    assert!(names(&store.dir().join("locks")).is_empty());
    assert!(names(&store.dir().join("tmp")).is_empty());
}

/// Right before the entry is moved, another process uses, replaces, or removes it.
#[test]
fn an_entry_that_changed_meanwhile_is_not_evicted() {
    for what in ["used", "replaced", "replaced unseen", "gone"] {
        let room = Room::new("1", "1");
        let store = ten(&room, 2 * HOUR);
        room.put(&store, "more", 100 << 10, CHEAP, 2 * HOUR);
        let (path, fresh, now) =
            (store.path(&key("c")), room.root().join("fresh"), room.time.ago(Duration::ZERO));
        fs::copy(&path, &fresh).unwrap();
        if what == "replaced unseen" {
            // Another file of the same length and time.
            let before = fs::metadata(&path).unwrap().modified().unwrap();
            fs::File::open(&fresh).unwrap().set_modified(before).unwrap();
        }
        let hook = {
            let path = path.clone();
            Watch(move |call: &opkeep_fs::FsCall<'_>| {
                if call.op == FsOp::Rename && call.path == path {
                    match what {
                        "used" => fs::File::open(&path).unwrap().set_modified(now).unwrap(),
                        "replaced" | "replaced unseen" => fs::rename(&fresh, &path).unwrap(),
                        _ => fs::remove_file(&path).unwrap(),
                    }
                }
                Permit::Go
            })
        };
        let config = room.config().with_watcher(Arc::new(hook));
        // Not by opening the store, which evicts already.
        let watched = Store::open(config.with_limits(Default::default())).unwrap().target(TARGET).unwrap();
        let report = watched.gc(&GcOptions::default().with_max_bytes(0)).unwrap();
        assert_eq!((report.removed.entries.files, report.failed), (10, 0), "{what}");
        assert_eq!(path.exists(), what != "gone", "{what}");
        if what != "gone" {
            hit(&store, &key("c"));
        }
        assert!(names(&store.dir().join("tmp")).is_empty(), "{what}");
    }
}

/// A link in place of an entry or a directory is never followed, and its target is never deleted.
#[test]
fn no_link_is_followed() {
    let room = Room::new("1", "1");
    let store = ten(&room, 2 * HOUR);
    let outside = room.root().join("outside");
    fs::create_dir(&outside).unwrap();
    let shard = store.path(&key("c")).parent().unwrap().to_owned();
    let precious = outside.join("precious.kern");
    fs::rename(store.path(&key("d")), &precious).unwrap();
    symlink(&precious, store.path(&key("d"))).unwrap();
    fs::rename(&shard, outside.join("shard")).unwrap();
    symlink(outside.join("shard"), &shard).unwrap();
    for name in ["put-999999999-1", ".new-999999999-1"] {
        symlink(&precious, store.dir().join("tmp").join(name)).unwrap();
    }
    room.time.pass(30 * DAY);
    let before = snapshot(&outside);
    let everything = GcOptions::default().with_max_bytes(0).with_older_than(Duration::ZERO);
    let report = store.gc(&everything).unwrap();
    assert_eq!((report.removed.entries.files, report.after.entries.files), (8, 0));
    assert_eq!(snapshot(&outside), before);
    assert!(store.path(&key("d")).is_symlink() && shard.is_symlink());
    assert_eq!(names(&store.dir().join("tmp")), [".new-999999999-1", "put-999999999-1"]);
}

/// A child that another thread starts has all files of this process open until it runs its own program.
#[test]
fn a_child_that_has_the_lock_open_does_not_hold_it() {
    let room = Room::new("1", "50");
    let lock = room.open().dir().join("gc.lock");
    let inherited = Arc::new(Mutex::new(Vec::new()));
    let hook = {
        let inherited = inherited.clone();
        Watch(move |call: &opkeep_fs::FsCall<'_>| {
            if call.op == FsOp::SetTime && call.path == lock {
                inherited.lock().unwrap().extend(open_again(&lock));
            }
            Permit::Go
        })
    };
    let store = Store::open(room.config().with_watcher(Arc::new(hook))).unwrap().target(TARGET).unwrap();
    assert!(!gc(&store).busy);
    assert!(!gc(&store).busy);
    assert_eq!(inherited.lock().unwrap().len(), 2);
}

/// A duplicate of this process's open file at `path`, as a child would have it.
fn open_again(path: &Path) -> Option<OwnedFd> {
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    let open = fs::read_dir("/proc/self/fd").ok()?.filter_map(|fd| Some(fd.ok()?.path()));
    let fd = open.filter(|fd| fs::read_link(fd).is_ok_and(|to| to == path)).last()?;
    let number = fd.file_name()?.to_str()?.parse().ok()?;
    let me: Pid = getpid();
    pidfd_getfd(pidfd_open(me, PidfdFlags::empty()).ok()?, number, PidfdGetfdFlags::empty()).ok()
}
