//! Locks that are taken while their holders end.

use std::sync::{Arc, Mutex};

use crate::common::{TARGET, fresh, key, lock, names};
use opkeep_store::{Store, StoreConfig, TryLockOutcome};
use opkeep_testkit::fault::{Fault, FaultyDisk};
use rustix::io::Errno;

/// The holder fails before any access of an attempt to lock. An attempt that has opened the file and not found it locked
/// finds the reason in it, which is for the waiters.
#[test]
fn a_process_that_had_not_begun_to_wait_tries_for_itself() {
    let (directory, store) = fresh();
    let disk = FaultyDisk::new(directory.path());
    let config = StoreConfig::new(directory.path()).with_watcher(disk.clone());
    let raced = Store::open(config).unwrap().target(TARGET).unwrap();
    let (mut tried, mut waited) = (0, 0);
    for at in 1.. {
        let held = Arc::new(Mutex::new(Some(lock(&store, &key("relu")))));
        let failing = Arc::clone(&held);
        disk.interrupt(at, move || {
            failing.lock().unwrap().take().unwrap().release_with_failure("no int4 kernel");
        });
        let outcome = raced.try_lock(&key("relu")).unwrap();
        let is_over = !disk.has_sprung();
        disk.disarm();
        match outcome {
            TryLockOutcome::Acquired(own) => {
                assert!(!own.waited(), "{at}");
                tried += 1;
            }
            TryLockOutcome::Held(waiter) => {
                drop(held.lock().unwrap().take());
                match raced.poll(waiter).unwrap() {
                    TryLockOutcome::Acquired(own) if is_over => assert!(own.waited()),
                    TryLockOutcome::HolderFailed(reason) if !is_over => {
                        assert_eq!(reason, "no int4 kernel");
                        waited += 1;
                    }
                    other => panic!("{at}: {other:?}"),
                }
            }
            other => panic!("{at}: {other:?}"),
        }
        assert!(names(&store.dir().join("locks")).is_empty(), "{at}");
        if is_over {
            break;
        }
    }
    assert!(tried >= 2 && waited >= 1, "{tried} {waited}");
}

/// Other threads of the process close their files at some time.
#[test]
fn a_process_without_file_descriptors_waits_for_one() {
    let (directory, store) = fresh();
    let disk = FaultyDisk::new(directory.path());
    let config = StoreConfig::new(directory.path()).with_watcher(disk.clone());
    let raced = Store::open(config).unwrap().target(TARGET).unwrap();
    let mut waited = 0;
    for at in 1.. {
        disk.arm(at, Fault::Error(Errno::MFILE));
        // The directory cannot be opened, or the lock's file cannot.
        if let Ok(TryLockOutcome::Held(waiter)) = raced.try_lock(&key("relu")) {
            disk.disarm();
            let TryLockOutcome::Acquired(own) = raced.poll(waiter).unwrap() else { panic!("it is free") };
            assert!(own.waited());
            waited += 1;
        } else if !disk.has_sprung() {
            break;
        }
        disk.disarm();
    }
    assert_eq!(waited, 1);
    drop(store);
}
