//! The lock that an eviction moves from key to key excludes others from each key at any moment.

#![expect(clippy::disallowed_methods, reason = "this test ages entries")]

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crate::common::room::Watch;
use crate::common::{Created, TARGET, fresh, key, lock, names, within};
use opkeep_fs::{FsCall, FsOp, Permit};
use opkeep_store::{GcOptions, LockOutcome, Overwrite, Store, StoreConfig, TargetStore};
use opkeep_testkit::fault::FaultyDisk;

/// Puts an entry that was idle for long.
fn put_idle(store: &TargetStore, name: &str) {
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30);
    store.put_replacing(&key(name), &Created::new(name, 0).entry(), Overwrite::Always).unwrap();
    fs::File::open(store.path(&key(name))).unwrap().set_modified(long_ago).unwrap();
}

/// Evicts entries that were idle for a day. Returns their number.
fn evict(store: &TargetStore) -> u64 {
    let older_than = Some(Duration::from_secs(24 * 3600));
    store.gc(&GcOptions::default().with_older_than(older_than)).unwrap().removed.entries.files
}

/// Names whose entries are in the directory of `relu`'s.
fn neighbours() -> impl Iterator<Item = String> {
    let first = |name: &str| key(name).as_bytes()[0];
    (0..).map(|at| format!("near{at}")).filter(move |name| first(name) == first("relu"))
}

/// Two entries of one directory are evicted under one lock, which is moved from key to key. A process that gets the lock on
/// either key at any moment keeps its entry.
#[test]
fn a_lock_that_is_moved_excludes_others() {
    let (directory, store) = fresh();
    let disk = FaultyDisk::new(directory.path());
    let config = StoreConfig::new(directory.path()).with_watcher(disk.clone());
    let raced = Store::open(config).unwrap().target(TARGET).unwrap();
    let names_of_both = ["relu".to_owned(), neighbours().next().unwrap()];
    names_of_both.iter().for_each(|name| put_idle(&store, name));
    let (mut kept, mut excluded, mut moves) = (0, 0, 0);
    for which in names_of_both.clone() {
        for at in 1.. {
            disk.disarm();
            names_of_both.iter().for_each(|name| put_idle(&store, name));
            let (other, taken) = (store.clone(), Arc::new(Mutex::new(None)));
            let (gives, wanted) = (Arc::clone(&taken), key(&which));
            disk.interrupt(at, move || {
                let outcome = within(&other, &wanted, Duration::ZERO);
                *gives.lock().unwrap() = Some((outcome, other.path(&wanted).exists()));
            });
            evict(&raced);
            match taken.lock().unwrap().take() {
                Some((LockOutcome::Acquired(_), was_there)) => {
                    assert_eq!(store.path(&wanted).exists(), was_there, "{at}");
                    kept += usize::from(was_there);
                }
                Some((LockOutcome::TimedOut, _)) => excluded += 1,
                other => assert!(!disk.has_sprung(), "{other:?}"),
            }
            moves += disk.calls().iter().filter(|op| **op == FsOp::Rename).count() / 3;
            assert!(names(&store.dir().join("locks")).is_empty(), "{at}");
            assert!(names(&store.dir().join("tmp")).is_empty(), "{at}");
            if !disk.has_sprung() {
                break;
            }
        }
    }
    assert!(kept > 0 && excluded > 10 && moves > 0, "{kept} {excluded} {moves}");
}

/// Before any access of an eviction, another process deletes the locks, and locks one of the keys again. It keeps the
/// lock, unless it runs between the check of a name and the call that removes or renames that name.
#[test]
fn a_lock_of_another_process_is_not_moved() {
    let (directory, store) = fresh();
    let disk = FaultyDisk::new(directory.path());
    let config = StoreConfig::new(directory.path()).with_watcher(disk.clone());
    let raced = Store::open(config).unwrap().target(TARGET).unwrap();
    let names_of_both = ["relu".to_owned(), neighbours().next().unwrap()];
    names_of_both.iter().for_each(|name| put_idle(&store, name));
    let mut locked = 0;
    for at in 1.. {
        disk.disarm();
        names_of_both.iter().for_each(|name| put_idle(&store, name));
        let (other, taken, keys) = (store.clone(), Arc::new(Mutex::new(None)), names_of_both.clone());
        let gives = Arc::clone(&taken);
        disk.interrupt(at, move || {
            let lock_path = |name: &String| other.dir().join("locks").join(key(name).to_string());
            if let Some(name) = keys.iter().find(|name| fs::remove_file(lock_path(name)).is_ok()) {
                *gives.lock().unwrap() = Some((lock(&other, &key(name)), key(name)));
            }
        });
        evict(&raced);
        if let Some((held, key)) = taken.lock().unwrap().take() {
            let before = disk.calls()[at - 1];
            match within(&store, &key, Duration::ZERO) {
                LockOutcome::TimedOut => locked += 1,
                other => assert!(matches!(before, FsOp::Remove | FsOp::Rename), "{at} {before:?}: {other:?}"),
            }
            drop(held);
            for left in names(&store.dir().join("locks")) {
                assert!(matches!(before, FsOp::Remove | FsOp::Rename), "{at} {before:?}: {left}");
                fs::remove_file(store.dir().join("locks").join(left)).unwrap();
            }
        }
        if !disk.has_sprung() {
            break;
        }
    }
    assert!(locked > 2, "{locked}");
}

/// A waiter that has opened the lock of a key waits until it is released, not until the end of the eviction.
#[test]
fn a_moved_lock_is_released_after_64_moves() {
    let (directory, store) = fresh();
    let (locks, opened) = (store.dir().join("locks"), Arc::new(Mutex::new(0)));
    let count = Arc::clone(&opened);
    let watcher = Arc::new(Watch(move |call: &FsCall<'_>| {
        let is_lock = call.op == FsOp::Lock && call.path.starts_with(&locks);
        *count.lock().unwrap() += usize::from(is_lock);
        Permit::Go
    }));
    let config = StoreConfig::new(directory.path()).with_watcher(watcher);
    let watched = Store::open(config).unwrap().target(TARGET).unwrap();
    for (entries, locks) in [(65, 1), (66, 2)] {
        neighbours().take(entries).for_each(|name| put_idle(&store, &name));
        *opened.lock().unwrap() = 0;
        assert_eq!(evict(&watched), entries as u64);
        assert_eq!(*opened.lock().unwrap(), locks, "{entries}");
    }
}
