//! Tickets: the callers that wait, and the ends of waits.

use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use opkeep_embed::{CancelToken, FileKey, GroupClaim, NewGroup, Options, UnsharedReason};

use crate::{cache, ticket};

fn group() -> NewGroup<'static> {
    NewGroup::new([("file", &b"data"[..])])
}

#[test]
fn of_many_threads_one_makes_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let (made, barrier) = (AtomicUsize::new(0), Barrier::new(8));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let files = cache(&dir);
                barrier.wait();
                match files.get_or_begin(&FileKey::new([1; 32]), &Options::default()).unwrap() {
                    GroupClaim::Hit(group) => assert_eq!(group.get("file"), Some(&b"data"[..])),
                    GroupClaim::Begin(ticket) => {
                        made.fetch_add(1, Ordering::Relaxed);
                        ticket.publish(&group()).unwrap();
                    }
                    other => panic!("{other:?}"),
                }
            });
        }
    });
    assert_eq!(made.into_inner(), 1);
}

#[test]
fn a_ticket_that_ends_without_files_passes_to_a_waiter() {
    let dir = tempfile::tempdir().unwrap();
    let files = cache(&dir);
    let key = FileKey::new([1; 32]);
    type End = fn(opkeep_embed::GroupTicket);
    let ends: [End; 2] = [drop, |ticket| ticket.abandon(None).unwrap()];
    for end in ends {
        let begun = ticket(files.get_or_begin(&key, &Options::default()).unwrap());
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let claim = files.get_or_begin(&key, &Options::default()).unwrap();
                matches!(claim, GroupClaim::Begin(_))
            });
            end(begun);
            assert!(waiter.join().unwrap());
        });
    }
}

#[test]
fn a_failure_that_would_repeat_reaches_the_waiters_only() {
    let dir = tempfile::tempdir().unwrap();
    let files = cache(&dir);
    let key = FileKey::new([1; 32]);
    let begun = ticket(files.get_or_begin(&key, &Options::default()).unwrap());
    let waits = Barrier::new(2);
    let on_wait = || {
        waits.wait();
    };
    let options = Options::default().with_on_wait(&on_wait);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| files.get_or_begin(&key, &options).unwrap());
        waits.wait();
        begun.abandon(Some("line 3: no such type")).unwrap();
        let claim = waiter.join().unwrap();
        assert!(
            matches!(&claim, GroupClaim::HolderFailed(reason) if reason == "line 3: no such type"),
            "{claim:?}"
        );
    });
    assert!(matches!(files.get_or_begin(&key, &Options::default()).unwrap(), GroupClaim::Begin(_)));
}

#[test]
fn a_wait_ends_at_its_deadline_and_when_it_is_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let files = cache(&dir);
    let key = FileKey::new([1; 32]);
    let _begun = ticket(files.get_or_begin(&key, &Options::default()).unwrap());
    let cancel = CancelToken::new();
    thread::scope(|scope| {
        // Other threads: the one with the ticket does not wait.
        let timed = scope.spawn(|| {
            let began = Instant::now();
            let options = Options::default().with_timeout(Duration::from_millis(60));
            let claim = files.get_or_begin(&key, &options).unwrap();
            (began.elapsed() >= Duration::from_millis(60), matches!(claim, GroupClaim::TimedOut))
        });
        assert_eq!(timed.join().unwrap(), (true, true));
        let waiter =
            scope.spawn(|| files.get_or_begin(&key, &Options::default().with_cancel(&cancel)).unwrap());
        cancel.cancel();
        assert!(matches!(waiter.join().unwrap(), GroupClaim::Cancelled));
        let unwilling = scope.spawn(|| files.get_or_begin(&key, &Options::default().without_wait()).unwrap());
        assert!(matches!(unwilling.join().unwrap(), GroupClaim::Unshared(_, UnsharedReason::NoWait)));
    });
}

/// Another thread waits, with the default time after which a ticket is stale, which is longer than a test may take.
#[test]
fn a_ticket_keeps_others_waiting_up_to_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let files = cache(&dir);
    let key = FileKey::new([1; 32]);
    let mut options = Options::default();
    options.hold_limit = Duration::from_millis(100);
    let began = Instant::now();
    // A ticket without that limit, which the same thread renews.
    let _other = ticket(files.get_or_begin(&FileKey::new([2; 32]), &Options::default()).unwrap());
    let begun = thread::scope(|scope| {
        let first = scope.spawn(|| ticket(files.get_or_begin(&key, &options).unwrap()));
        first.join().unwrap()
    });
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut options = Options::default().with_timeout(Duration::from_secs(20));
            options.wait_with_ticket = Duration::from_secs(20);
            let second = ticket(files.get_or_begin(&key, &options).unwrap());
            assert!(began.elapsed() >= Duration::from_millis(100));
            assert!(second.publish(&NewGroup::new([("file", &b"second"[..])])).unwrap());
        });
        waiter.join().unwrap();
    });
    // The first one can still be published: it adds nothing.
    assert!(begun.is_held());
    assert!(begun.publish(&group()).unwrap());
    assert_eq!(files.get(&key).unwrap().unwrap().get("file"), Some(&b"second"[..]));
}

/// Two threads that need each other's keys: each holds one and requests the other.
#[test]
fn a_thread_that_holds_a_ticket_does_not_wait() {
    let dir = tempfile::tempdir().unwrap();
    let barrier = Barrier::new(2);
    let cross = |own: u8, other: u8| {
        let files = cache(&dir);
        let begun = ticket(files.get_or_begin(&FileKey::new([own; 32]), &Options::default()).unwrap());
        barrier.wait();
        let claim = files.get_or_begin(&FileKey::new([other; 32]), &Options::default()).unwrap();
        assert!(matches!(claim, GroupClaim::Unshared(_, UnsharedReason::HoldsTicket)), "{claim:?}");
        barrier.wait();
        begun.publish(&group()).unwrap();
        drop(claim);
        // Without a ticket, the thread waits again.
        let claim = files.get_or_begin(&FileKey::new([other; 32]), &Options::default()).unwrap();
        assert!(matches!(claim, GroupClaim::Hit(_)), "{claim:?}");
    };
    thread::scope(|scope| {
        scope.spawn(|| cross(1, 2));
        scope.spawn(|| cross(2, 1));
    });
}

/// Whether this process runs the test `name` only. If it does not, another process runs it here: tickets of other tests would
/// count as well.
fn is_alone(name: &str) -> bool {
    const ALONE: &str = "TEST_RUNS_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut alone = Command::new(std::env::current_exe().unwrap());
    let output = alone.args(["--exact", name]).env(ALONE, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    false
}

/// Its thread that holds the ticket may wait for one that waits, so the wait for another key ends.
#[test]
fn a_process_that_holds_a_ticket_waits_for_a_limited_time() {
    if !is_alone("tickets::a_process_that_holds_a_ticket_waits_for_a_limited_time") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let files = cache(&dir);
    let (own, other) = (FileKey::new([1; 32]), FileKey::new([2; 32]));
    let begin = |key| ticket(files.get_or_begin(key, &Options::default()).unwrap());
    let wait = |key, limit| {
        let mut options = Options::default().with_timeout(Duration::from_millis(300));
        options.wait_with_ticket = limit;
        files.get_or_begin(key, &options).unwrap()
    };
    let short = Duration::from_millis(50);
    let waited = |key, limit| thread::scope(|scope| scope.spawn(|| wait(key, limit)).join().unwrap());
    let begun = begin(&own);
    // No other key is held.
    assert!(matches!(waited(&own, short), GroupClaim::TimedOut));
    let held = thread::scope(|scope| scope.spawn(|| begin(&other)).join().unwrap());
    let began = Instant::now();
    let claim = waited(&other, short);
    assert!(matches!(claim, GroupClaim::Unshared(_, UnsharedReason::ProcessHoldsTicket)), "{claim:?}");
    assert!(began.elapsed() >= short);
    drop(claim);
    assert!(matches!(waited(&other, Duration::from_secs(60)), GroupClaim::TimedOut));
    // The ticket that is held may come after the wait began.
    begun.abandon(None).unwrap();
    let waits = Barrier::new(2);
    let on_wait = || {
        waits.wait();
    };
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut options = Options::default().with_timeout(Duration::from_secs(60)).with_on_wait(&on_wait);
            options.wait_with_ticket = short;
            files.get_or_begin(&other, &options).unwrap()
        });
        waits.wait();
        let _begun = begin(&own);
        let claim = waiter.join().unwrap();
        assert!(matches!(claim, GroupClaim::Unshared(_, UnsharedReason::ProcessHoldsTicket)), "{claim:?}");
    });
    held.abandon(None).unwrap();
}

/// The thread that makes the files may need a lock that the waiting one holds.
#[test]
fn a_thread_waits_for_another_of_its_process_for_a_limited_time() {
    let dir = tempfile::tempdir().unwrap();
    let files = cache(&dir);
    let key = FileKey::new([1; 32]);
    let begun = ticket(files.get_or_begin(&key, &Options::default()).unwrap());
    let wait = |limit| {
        let mut options = Options::default().with_timeout(Duration::from_secs(1));
        options.wait_in_process = limit;
        files.get_or_begin(&key, &options).unwrap()
    };
    let claim = thread::scope(|scope| scope.spawn(|| wait(Duration::from_millis(50))).join().unwrap());
    assert!(matches!(claim, GroupClaim::Unshared(_, UnsharedReason::ProcessMakesFiles)), "{claim:?}");
    drop(claim);
    begun.publish(&group()).unwrap();
    assert!(matches!(wait(Duration::ZERO), GroupClaim::Hit(_)));
}

/// Its own ticket, for which it would wait until the hold limit, and those of other caches of the process.
#[test]
fn a_thread_that_holds_a_ticket_of_another_cache_does_not_wait() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (cache(&dir), cache(&dir));
    let key = FileKey::new([1; 32]);
    let options = || Options::default().with_timeout(Duration::from_secs(2));
    let begun = ticket(first.get_or_begin(&key, &options()).unwrap());
    let claim = second.get_or_begin(&key, &options()).unwrap();
    assert!(matches!(claim, GroupClaim::Unshared(_, UnsharedReason::HoldsTicket)), "{claim:?}");
    drop(claim);
    // Another thread may end the ticket; the one that got it may wait then.
    thread::scope(|scope| scope.spawn(|| begun.publish(&group()).unwrap()).join().unwrap());
    assert!(matches!(second.get_or_begin(&key, &options()).unwrap(), GroupClaim::Hit(_)));
    let _held = thread::scope(|scope| {
        scope
            .spawn(|| ticket(first.get_or_begin(&FileKey::new([2; 32]), &options()).unwrap()))
            .join()
            .unwrap()
    });
    let options = Options::default().with_timeout(Duration::from_millis(20));
    assert!(matches!(second.get_or_begin(&FileKey::new([2; 32]), &options).unwrap(), GroupClaim::TimedOut));
}
