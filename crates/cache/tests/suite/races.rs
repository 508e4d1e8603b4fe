//! Races of tickets, at every access to the disk at which they are possible.

#![expect(clippy::disallowed_methods, reason = "these tests damage entries")]

use std::sync::{Arc, Mutex};

use opkeep_cache::{CacheConfig, Claim, Failure, Source, TargetCache, Ticket};
use opkeep_store::StoreConfig;
use opkeep_testkit::fault::{Fault, FaultyDisk};

use crate::common::{Host, build, builder, claim, hit, key, names, open, publish, resume, settle, text};

/// A host, its cache, and the same cache on a disk with events between its accesses.
fn watched() -> (Host, TargetCache, TargetCache, Arc<FaultyDisk>) {
    let host = Host::new();
    let cache = host.cache();
    let disk = FaultyDisk::new(host.dir.path());
    let store = StoreConfig::new(host.dir.path()).with_watcher(disk.clone());
    (host, cache, open(CacheConfig::new(store)), disk)
}

/// Calls `round` for each access of an operation: it triggers an event before the access with the given number, does
/// the operation, and checks the outcome. The rounds end when there is no access with that number.
fn at_every_access(disk: &FaultyDisk, mut round: impl FnMut(usize)) {
    for at in 1..1000 {
        round(at);
        if !disk.has_sprung() {
            disk.disarm();
            assert!(at > 1, "the operation makes no accesses");
            return;
        }
    }
    panic!("no end");
}

/// Claims `name` on the watched disk while the holder's ticket ends with `end` before access `at`. Returns the
/// claim when it is not pending any more.
fn while_the_holder_ends(
    caches: (&TargetCache, &TargetCache, &FaultyDisk),
    name: &str,
    at: usize,
    end: impl FnOnce(Ticket) + Send + 'static,
) -> Claim {
    let (cache, raced, disk) = caches;
    let held = Arc::new(Mutex::new(Some(build(claim(cache, name)))));
    let ending = Arc::clone(&held);
    let take = move || ending.lock().unwrap().take();
    disk.interrupt(at, move || end(take().unwrap()));
    let mut claimed = claim(raced, name);
    // Once more, for accesses that only a waiter makes.
    if let Claim::Pending(pending) = claimed {
        claimed = resume(raced, pending);
    }
    match held.lock().unwrap().take() {
        // There is no such access: the holder ends now.
        Some(ticket) => {
            assert!(matches!(claimed, Claim::Pending(_)), "{at}: {claimed:?}");
            disk.interrupt(usize::MAX, || {});
            drop(ticket);
        }
        None => assert!(disk.has_sprung()),
    }
    settle(raced, claimed)
}

#[test]
fn a_holder_that_publishes_at_any_moment_is_not_followed_by_a_build() {
    let (_host, cache, raced, disk) = watched();
    at_every_access(&disk, |at| {
        let name = format!("relu_{at}");
        let end = move |ticket| {
            publish(ticket, at);
        };
        let claimed = while_the_holder_ends((&cache, &raced, &disk), &name, at, end);
        if disk.has_sprung() {
            assert_eq!(hit(claimed).0, at);
        }
    });
}

#[test]
fn a_ticket_that_is_dropped_at_any_moment_is_taken_by_one() {
    let (host, cache, raced, disk) = watched();
    at_every_access(&disk, |at| {
        let name = format!("relu_{at}");
        let ticket = build(while_the_holder_ends((&cache, &raced, &disk), &name, at, drop));
        assert!(matches!(claim(&cache, &name), Claim::Pending(_)), "{at}: two hold it");
        drop(ticket);
        assert!(names(&host.target_dir().join("locks")).is_empty(), "{at}");
    });
}

#[test]
fn a_failure_at_any_moment_is_shared_or_tried_again() {
    let (host, cache, raced, disk) = watched();
    let (mut shared, mut tried) = (0, 0);
    at_every_access(&disk, |at| {
        let name = format!("relu_{at}");
        let end = |ticket: Ticket| ticket.abandon(Failure::new("no int4 kernel"));
        match while_the_holder_ends((&cache, &raced, &disk), &name, at, end) {
            Claim::HolderFailed(failure) => {
                assert_eq!(failure, Failure::new("no int4 kernel"));
                shared += 1;
            }
            // It had not begun to wait; or the holder did not end at all.
            other => {
                drop(build(other));
                tried += 1;
            }
        }
        assert!(names(&host.target_dir().join("locks")).is_empty(), "{at}");
    });
    assert!(shared > 0 && tried > 0, "{shared} {tried}");
}

/// If any access fails, the claim still returns a ticket or a hit. The next process works, even after a kill.
#[test]
fn no_fault_at_any_access_fails_a_build() {
    let (host, cache, raced, disk) = watched();
    for (number, is_damaged) in [(0, false), (1, true)] {
        let name = format!("relu_{number}");
        let path = cache.store().unwrap().path(&key(&name));
        let prepare = || {
            disk.disarm();
            // The first put makes the entry's directory.
            let _ = std::fs::remove_dir_all(path.parent().unwrap());
            if is_damaged {
                std::fs::create_dir(path.parent().unwrap()).unwrap();
                std::fs::write(&path, "damaged").unwrap();
            }
        };
        let attempt = |cache: &TargetCache| {
            let object = text(5);
            // Without a file descriptor it is pending, and resumed.
            match settle(cache, claim(cache, &name)) {
                Claim::Build(ticket) | Claim::Unshared(ticket, _) => {
                    ticket.publish(&builder(&object)).map(drop).map_err(|_| ())
                }
                Claim::Hit(_) => Ok(()),
                other => panic!("{other:?}"),
            }
        };
        prepare();
        attempt(&raced).unwrap();
        let calls = disk.calls();
        for (at, op) in (1..).zip(calls) {
            for fault in Fault::all_for(op) {
                prepare();
                // A disk that refused a write is not written again by the same cache.
                let store = StoreConfig::new(host.dir.path()).with_watcher(disk.clone());
                let fresh = open(CacheConfig::new(store));
                disk.arm(at, fault);
                let published = attempt(&fresh);
                assert!(disk.has_sprung(), "{at} {fault:?}");
                disk.disarm();
                let next = settle(&cache, claim(&cache, &name));
                match next {
                    Claim::Hit(found) => assert_eq!(found.source, Source::Local),
                    other => {
                        // A failed write was reported; or the entry exists and could not be read.
                        assert!(published.is_err() || !path.exists(), "{at} {op:?} {fault:?}");
                        publish(build(other), 6);
                    }
                }
            }
        }
    }
}
