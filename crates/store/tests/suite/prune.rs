//! Files that ended processes left are pruned; files in use and foreign files stay.

#![expect(clippy::disallowed_methods, reason = "these tests leave files behind")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::room::{DAY, HOUR, MINUTE, Room, Watch, entry, filling};
use crate::common::{Created, TARGET, key, lock, miss, names, place, within};
use opkeep_fs::{FsOp, Permit};
use opkeep_store::{Destination, FileTotals, GcOptions, LockOutcome, Miss, Store, TargetStore};

/// Creates a file that was last written `ago`.
fn leave(room: &Room, path: &Path, text: &str, ago: Duration) {
    fs::write(path, text).unwrap();
    fs::File::open(path).unwrap().set_modified(room.time.ago(ago)).unwrap();
}

/// The id of a process that has ended.
fn dead() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

fn gc(store: &TargetStore) -> opkeep_store::GcReport {
    store.gc(&GcOptions::default()).unwrap()
}

#[test]
fn temporary_files_of_dead_processes_are_pruned_after_an_hour() {
    let room = Room::new("500", "50");
    let store = room.open();
    let (dead, alive) = (dead(), std::process::id());
    let tmp = store.dir().join("tmp");
    for (name, ago, stays) in [
        (format!("put-{dead}-0"), HOUR, false),
        (format!("put-{dead}-1"), HOUR - MINUTE, true),
        (format!("put-{alive}-0"), 2 * HOUR, true),
        (format!("put-{alive}-1"), DAY, false),
        (format!("evict-{dead}-12"), 2 * HOUR, false),
        // Names that the store does not use.
        (format!("put-{dead}"), DAY, true),
        (format!("put-{dead}-"), DAY, true),
        (format!("put-{dead}-1-2"), DAY, true),
        (format!("put--{dead}-1"), DAY, true),
        (format!("PUT-{dead}-1"), DAY, true),
        (format!("lock-{dead}-1"), DAY, true),
        ("put-99999999999999999999-1".to_owned(), DAY, true),
        ("notes".to_owned(), DAY, true),
    ] {
        leave(&room, &tmp.join(&name), "left", ago);
        gc(&store);
        assert_eq!(tmp.join(&name).exists(), stays, "{name} {ago:?}");
        let _ = fs::remove_file(tmp.join(name));
    }
}

#[test]
fn marks_without_an_entry_are_pruned_after_an_hour() {
    let room = Room::new("500", "50");
    let store = room.open();
    let destination = Destination::new("0123.team");
    store.put(&key("kept"), &entry(b"", Duration::ZERO)).unwrap();
    for name in ["kept", "evicted"] {
        store.mark_unsent(&key(name), &destination, false).unwrap();
    }
    let unsent = store.dir().join("unsent");
    let mark = |name| unsent.join(format!("{}.add.0123.team", key(name)));
    for (ago, with_entry, without) in
        [(HOUR - MINUTE, true, true), (HOUR, true, false), (30 * DAY, false, false)]
    {
        for name in ["kept", "evicted"].into_iter().filter(|name| mark(name).exists()) {
            leave(&room, &mark(name), "", ago);
        }
        gc(&store);
        assert_eq!((mark("kept").exists(), mark("evicted").exists()), (with_entry, without), "{ago:?}");
    }
}

#[test]
fn unnamed_files_are_pruned_everywhere() {
    let room = Room::new("500", "50");
    let store = room.open();
    let dead = dead();
    let dir = store.dir();
    let dirs = [room.root(), &room.root().join("v1"), dir, &dir.join("entries"), &dir.join("quarantine")];
    for (at, directory) in dirs.into_iter().enumerate() {
        let file = directory.join(format!(".new-{dead}-{at}"));
        leave(&room, &file, "left", 2 * HOUR);
        let made = directory.join(format!(".new-{dead}-9{at}"));
        fs::create_dir(&made).unwrap();
        // No directory of the store has content before it has its name.
        let full = directory.join(format!(".new-{dead}-99{at}"));
        fs::create_dir(&full).unwrap();
        fs::write(full.join("precious"), "").unwrap();
        for path in [&made, &full] {
            fs::File::open(path).unwrap().set_modified(room.time.ago(2 * HOUR)).unwrap();
        }
        let report = gc(&store);
        assert!(report.removed.temporary.files == 2 && report.after.temporary.files == 1, "{report:?}");
        assert!(
            !file.exists() && !made.exists() && full.join("precious").exists(),
            "{}",
            directory.display()
        );
        fs::remove_dir_all(full).unwrap();
    }
    leave(&room, &dir.join("locks").join(format!("lock-{dead}-0")), "", 2 * HOUR);
    leave(&room, &dir.join(format!("lock-{dead}-1")), "", 2 * HOUR);
    assert_eq!(gc(&store).removed.temporary.files, 2);
}

/// A power cut may undo the name of a shared directory, but not the puts into it since.
#[test]
fn a_directory_that_lost_its_name_is_removed_with_its_entries() {
    let room = Room::new("500", "50");
    let store = room.open();
    let (dir, outside) = (store.dir(), room.root().join("outside"));
    let name = format!("{}.kern", key("a"));
    let (shard, all) = (dir.join("entries/.new-4000000-1"), dir.join(".new-4000000-2"));
    for directory in [&shard, &all.join("5a"), &all.join(".new-4000000-3")] {
        fs::create_dir_all(directory).unwrap();
        leave(&room, &directory.join(&name), "an entry", 2 * HOUR);
    }
    leave(&room, &shard.join("put-4000000-7"), "", 2 * HOUR);
    let age =
        |path: &Path, ago: Duration| fs::File::open(path).unwrap().set_modified(room.time.ago(ago)).unwrap();
    let all_old = || {
        for directory in [&all.join("5a"), &all.join(".new-4000000-3"), &shard, &all] {
            let _ =
                fs::File::open(directory).map(|directory| directory.set_modified(room.time.ago(2 * HOUR)));
        }
    };
    // It has a foreign file, a young one, or a link: all of it stays.
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join(&name), "precious").unwrap();
    let stays = |reason: &str| {
        all_old();
        assert_eq!(gc(&store).removed.temporary.files, 0, "{reason}");
        assert!(shard.join(&name).exists() && all.join("5a").join(&name).exists(), "{reason}");
        assert!(outside.join(&name).exists(), "{reason}");
    };
    for directory in [&shard, &all.join("5a")] {
        fs::write(directory.join("notes"), "precious").unwrap();
    }
    stays("a file of somebody else's");
    for directory in [&shard, &all.join("5a")] {
        fs::remove_file(directory.join("notes")).unwrap();
        symlink(&outside, directory.join("77")).unwrap();
    }
    stays("a link");
    for directory in [&shard, &all.join("5a")] {
        fs::remove_file(directory.join("77")).unwrap();
        age(&directory.join(&name), HOUR / 2);
    }
    stays("a file that was written half an hour ago");
    for directory in [&shard, &all.join("5a")] {
        age(&directory.join(&name), 2 * HOUR);
    }
    all_old();
    assert_eq!(gc(&store).removed.temporary.files, 2);
    assert!(!shard.exists() && !all.exists() && outside.join(&name).exists());
}

#[test]
fn a_free_lock_file_is_pruned() {
    let room = Room::new("500", "50");
    let store = room.open();
    let path = |name: &str| store.dir().join("locks").join(key(name).to_string());
    let held = lock(&store, &key("held"));
    fs::File::open(path("held")).unwrap().set_modified(room.time.ago(3 * DAY)).unwrap();
    leave(&room, &path("left"), "", 2 * HOUR);
    leave(&room, &path("young"), "", 30 * MINUTE);
    leave(&room, &path("failed"), "failed: a killed one", 2 * HOUR);
    leave(&room, &store.dir().join("locks/notes"), "", 2 * HOUR);
    let waiting = fs::File::open(path("failed")).unwrap();
    let report = gc(&store);
    assert_eq!(report.removed.locks, FileTotals { files: 2, bytes: 20 });
    let mut expected = [key("held").to_string(), key("young").to_string(), "notes".to_owned()];
    expected.sort();
    assert_eq!(names(&store.dir().join("locks")), expected);
    // A process that had opened it finds no reason in it.
    assert_eq!(waiting.metadata().unwrap().len(), 0);
    assert!(matches!(within(&store, &key("held"), Duration::ZERO), LockOutcome::TimedOut));
    drop(held);
    assert!(matches!(within(&store, &key("held"), Duration::ZERO), LockOutcome::Acquired(_)));
}

/// Quarantines `name` as damaged, with this many bytes.
fn quarantine_file(store: &TargetStore, name: &str, bytes: usize) {
    fs::write(place(store, &key(name)), vec![b'x'; bytes]).unwrap();
    let Miss::Damaged(judged) = miss(store, &key(name)) else { unreachable!("it is damaged") };
    assert!(store.quarantine(&key(name), &judged, &lock(store, &key(name))).unwrap());
}

#[test]
fn damage_is_kept_for_a_week() {
    let room = Room::new("500", "50");
    let store = room.open();
    quarantine_file(&store, "a", 900);
    leave(&room, &store.dir().join("quarantine/notes"), "precious", 30 * DAY);
    room.time.pass(7 * DAY - MINUTE);
    assert_eq!(gc(&store).removed.quarantine.files, 0);
    room.time.pass(2 * MINUTE);
    let report = gc(&store);
    assert_eq!((report.removed.quarantine.files, report.after.quarantine.files), (2, 0));
    assert_eq!(names(&store.dir().join("quarantine")), ["notes"]);
}

#[test]
fn over_the_limit_quarantine_is_deleted_before_entries() {
    let room = Room::new("1", "90");
    let store = room.open();
    room.put(&store, "idle", 300 << 10, Duration::ZERO, DAY);
    for name in ["a", "b", "c"] {
        quarantine_file(&store, name, 300 << 10);
        std::thread::sleep(Duration::from_millis(20));
    }
    // Another process may be reading it.
    let report = gc(&store);
    assert_eq!((report.removed.quarantine.files, report.removed.entries.files), (0, 1));
    room.put(&store, "idle", 300 << 10, Duration::ZERO, DAY);
    room.time.pass(31 * MINUTE);
    let report = gc(&store);
    // One of them is enough; its reason is deleted, too.
    assert_eq!((report.removed.quarantine.files, report.removed.entries.files), (2, 0), "{report:?}");
    let left = names(&store.dir().join("quarantine")).join(" ");
    assert!(!left.contains(&key("a").to_string()), "{left}");
    assert!(left.contains(&key("b").to_string()) && left.contains(&key("c").to_string()), "{left}");
    assert!(store.path(&key("idle")).exists());
}

#[test]
fn everything_but_foreign_files_counts() {
    let room = Room::new("1", "50");
    let store = room.open();
    store.put(&key("a"), &entry(&filling(1000), Duration::ZERO)).unwrap();
    store.flush().unwrap();
    quarantine_file(&store, "b", 900);
    let held = lock(&store, &key("c"));
    let (dir, me) = (store.dir(), std::process::id());
    fs::write(dir.join("tmp").join(format!("put-{me}-77")), [0; 70]).unwrap();
    gc(&store);
    let before = gc(&store).before;
    assert_eq!(before.entries, FileTotals { files: 1, bytes: 1000 });
    assert_eq!(before.temporary, FileTotals { files: 1, bytes: 70 });
    assert_eq!(before.locks.files, 1);
    assert_eq!(before.quarantine.files, 2);
    assert!(
        before.quarantine.bytes > 900 && before.records.files == 5 && before.records.bytes > 100,
        "{before:?}"
    );
    assert_eq!(before.foreign, FileTotals::default());
    let total = before.total();
    drop(held);

    // Two MB of foreign files, in every directory. They stay, are reported, and cause no eviction.
    fs::create_dir_all(dir.join("entries/00")).unwrap();
    for below in ["", "tmp", "locks", "quarantine", "entries", "entries/00"] {
        fs::write(dir.join(below).join("precious.kern"), vec![1; 2 << 20]).unwrap();
    }
    // Entries in a wrong directory, and names of entries that are no files.
    let wrong = dir.join("entries/00").join(format!("{}.kern", key("a")));
    fs::write(&wrong, "x").unwrap();
    fs::create_dir(place(&store, &key("dir"))).unwrap();
    symlink("nowhere", place(&store, &key("link"))).unwrap();
    room.time.pass(30 * DAY);
    let report = gc(&store);
    assert_eq!(report.before.total().bytes, total.bytes);
    assert!(report.before.foreign.files == 9 && report.before.foreign.bytes > 12 << 20, "{report:?}");
    assert!(!report.still_over && report.removed.entries.files == 0, "{report:?}");
    assert!(wrong.exists() && store.path(&key("dir")).exists() && store.path(&key("link")).is_symlink());
    // Temporary and quarantined files do.
    leave(&room, &dir.join("tmp").join(format!("put-{me}-78")), &"0".repeat(2 << 20), Duration::ZERO);
    assert_eq!(gc(&store).removed.entries.files, 1);
}

/// Without a request and within the limit: once a day, by opening the store, and without a look at any entry.
#[test]
fn stale_files_are_pruned_once_a_day() {
    for limit in ["500", "-1"] {
        let room = Room::new(limit, "50");
        let store = room.open();
        let stray = store.dir().join("tmp").join(format!("put-{}-0", dead()));
        store.put(&key("a"), &entry(&filling(900), Duration::ZERO)).unwrap();
        quarantine_file(&store, "a", 900);
        drop(store);
        room.time.pass(5 * DAY);
        let opened = |pass: Duration| {
            leave(&room, &stray, "left", 2 * HOUR);
            room.time.pass(pass);
            room.seen.take();
            drop(room.open());
            let calls = room.seen.take();
            assert!(!calls.iter().any(|(op, path)| *op == FsOp::List && path.ends_with("entries/00")));
            !stray.exists()
        };
        assert!(opened(Duration::ZERO));
        assert!(!opened(DAY - MINUTE));
        assert!(opened(2 * MINUTE));
        let before = room.open().estimate().unwrap();
        assert!(opened(DAY));
        let after = room.open().estimate().unwrap();
        assert_eq!(
            (before.bytes, before.entries, after.bytes, after.entries),
            (900, 0, 0, 0),
            "after a week"
        );
        assert!(names(&room.open().dir().join("quarantine")).is_empty());
    }
}

/// Another process with the same id writes to a file of that name, right before it would be deleted.
#[test]
fn a_stale_file_that_is_written_again_stays() {
    let room = Room::new("500", "50");
    let store = room.open();
    let stray = store.dir().join("tmp").join(format!("put-{}-0", dead()));
    leave(&room, &stray, "left", 2 * HOUR);
    let (looks, path) = (AtomicUsize::new(0), stray.clone());
    let hook = Watch(move |call: &opkeep_fs::FsCall<'_>| {
        if call.op == FsOp::Look && call.path == path && looks.fetch_add(1, Ordering::Relaxed) == 1 {
            fs::write(&path, "again").unwrap();
        }
        Permit::Go
    });
    let config = room.config().with_watcher(Arc::new(hook));
    let watched = Store::open(config).unwrap().target(TARGET).unwrap();
    assert_eq!(gc(&watched).removed.temporary.files, 0);
    assert_eq!(fs::read(&stray).unwrap(), b"again");
}

/// No process uses it for most of a year, within the limit.
#[test]
fn a_valid_entry_is_not_pruned() {
    let room = Room::new("500", "50");
    let store = room.open();
    let made = Created::new("a", 0);
    store.put(&key("a"), &made.entry()).unwrap();
    room.time.pass(300 * DAY);
    gc(&store);
    made.assert_is(&crate::common::hit(&store, &key("a")));
}
