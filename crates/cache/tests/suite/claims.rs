//! Claims on a host where everything works.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use opkeep_cache::{
    Accept, CacheError, Claim, Failure, Miss, Query, Source, UnsharedReason, Wait, WarningKind,
};
use opkeep_fs::CancelToken;
use opkeep_store::{Entry, Lookup, PutOutcome};

use crate::common::{
    Host, build, claim, failed, hit, key, names, pending, publish, resume, settle, take, until,
};

#[test]
fn an_entry_that_is_missing_is_built_once_and_found_then() {
    let host = Host::new();
    let cache = host.cache();
    let ticket = build(claim(&cache, "relu"));
    assert_eq!(ticket.key(), &key("relu"));
    assert!(matches!(ticket.miss(), Miss::Absent) && ticket.is_kept());
    ticket.count_build(Duration::from_secs(1));
    let published = publish(ticket, 1);
    assert_eq!((published.local, published.remote), (Some(PutOutcome::Published), false));
    assert!(!host.lock_path(&key("relu")).exists());
    assert_eq!(hit(claim(&cache, "relu")), (1, Source::Local));
    let statistics = cache.store().unwrap().statistics();
    assert_eq!((statistics.hits, statistics.misses_absent, statistics.puts), (1, 1, 1));
    assert_eq!((statistics.compiles, statistics.compile_micros, statistics.waits), (1, 1_000_000, 0));
    assert!(host.warnings().is_empty());
}

#[test]
fn an_uncounted_look_up_is_not_counted() {
    let host = Host::new();
    let cache = host.cache();
    let mut query = Query::new(&take);
    query.counted = false;
    drop(build(cache.get_or_begin(&key("relu"), &query).unwrap()));
    assert_eq!(cache.store().unwrap().statistics().misses(), 0);
    drop(build(claim(&cache, "relu")));
    assert_eq!(cache.store().unwrap().statistics().misses(), 1);
}

#[test]
fn a_pending_key_is_resumed_until_its_holder_is_done() {
    let host = Host::new();
    let (holder, waiter) = (host.cache(), host.cache());
    let ticket = build(claim(&holder, "relu"));
    let first = pending(claim(&waiter, "relu"));
    assert_eq!(first.key(), &key("relu"));
    let second = pending(resume(&waiter, first));
    assert!(second.waited() > Duration::ZERO);
    publish(ticket, 1);
    assert_eq!(hit(resume(&waiter, second)), (1, Source::Waited));
    assert_eq!(waiter.store().unwrap().statistics().waits, 1);
    // No caller holds another key.
    drop(build(claim(&waiter, "sigmoid")));
}

/// Starts `waiters` threads that wait for a key, and calls `end` with the key's ticket when all of them wait. Each thread that
/// becomes a builder publishes. Returns the outcomes.
fn wait_for(
    host: &Host,
    waiters: usize,
    end: impl FnOnce(opkeep_cache::Ticket),
) -> (Vec<Result<Source, Option<Failure>>>, usize) {
    let ticket = build(claim(&host.cache(), "relu"));
    let (waiting, built, cancel) = (AtomicUsize::new(0), AtomicUsize::new(0), CancelToken::new());
    let outcomes = thread::scope(|scope| {
        let threads: Vec<_> = (0..waiters)
            .map(|number| {
                let (waiting, built, cancel) = (&waiting, &built, &cancel);
                scope.spawn(move || {
                    let on_wait = || {
                        waiting.fetch_add(1, Ordering::SeqCst);
                    };
                    let mut query = Query::new(&take);
                    query.time_limit = Some(Duration::from_secs(1));
                    query.cancel = Some(cancel);
                    query.wait = Wait::ForHolder { on_wait: Some(&on_wait) };
                    match host.cache().get_or_begin(&key("relu"), &query).unwrap() {
                        Claim::Build(ticket) => {
                            built.fetch_add(1, Ordering::SeqCst);
                            publish(ticket, number);
                            Err(None)
                        }
                        Claim::HolderFailed(failure) => Err(Some(failure)),
                        other => Ok(hit(other).1),
                    }
                })
            })
            .collect();
        until("all that wait", || waiting.load(Ordering::SeqCst) == waiters);
        end(ticket);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    (outcomes, built.into_inner())
}

#[test]
fn all_waiters_share_the_entry_of_the_holder() {
    let host = Host::new();
    let (outcomes, built) = wait_for(&host, 4, |ticket| {
        publish(ticket, 9);
    });
    assert!(outcomes.iter().all(|outcome| *outcome == Ok(Source::Waited)), "{outcomes:?}");
    assert_eq!(built, 0);
}

#[test]
fn one_takes_over_a_ticket_that_was_dropped() {
    let host = Host::new();
    let (outcomes, built) = wait_for(&host, 4, drop);
    let waited = outcomes.iter().filter(|outcome| **outcome == Ok(Source::Waited)).count();
    assert_eq!((built, waited), (1, 3), "{outcomes:?}");
}

#[test]
fn all_waiters_share_a_failure_and_later_callers_try() {
    let host = Host::new();
    let failure = Failure::new("no int4 kernel\nof `Relu`");
    let (outcomes, built) = wait_for(&host, 4, |ticket| ticket.abandon(failure.clone()));
    assert!(outcomes.iter().all(|outcome| *outcome == Err(Some(failure.clone()))), "{outcomes:?}");
    assert_eq!(built, 0);
    drop(build(claim(&host.cache(), "relu")));
}

#[test]
fn a_timeout_is_shared_by_waiters_with_no_more_time() {
    let host = Host::new();
    let too_slow = |limit| Failure::timed_out("too slow", Duration::from_millis(limit));
    let (outcomes, built) = wait_for(&host, 2, |ticket| ticket.abandon(too_slow(1000)));
    assert!(outcomes.iter().all(|outcome| *outcome == Err(Some(too_slow(1000)))), "{outcomes:?}");
    assert_eq!(built, 0);
    let (outcomes, built) = wait_for(&host, 2, |ticket| ticket.abandon(too_slow(999)));
    assert_eq!(built, 1, "{outcomes:?}");
}

#[test]
fn a_wait_ends_at_its_deadline_and_can_go_on() {
    let host = Host::new();
    let cache = host.cache();
    let ticket = build(claim(&cache, "relu"));
    let cancel = CancelToken::new();
    let mut query = Query::new(&take);
    query.deadline = Some(Instant::now());
    query.cancel = Some(&cancel);
    query.wait = Wait::ForHolder { on_wait: None };
    let Claim::TimedOut(late) = cache.get_or_begin(&key("relu"), &query).unwrap() else { panic!() };
    let Claim::TimedOut(late) = cache.resume(late, &query).unwrap() else { panic!() };
    publish(ticket, 1);
    query.deadline = None;
    assert_eq!(hit(cache.resume(late, &query).unwrap()), (1, Source::Waited));
}

#[test]
fn a_wait_ends_when_it_is_cancelled() {
    let host = Host::new();
    let cache = host.cache();
    let _ticket = build(claim(&cache, "relu"));
    let cancel = CancelToken::new();
    let told = AtomicUsize::new(0);
    let on_wait = || {
        told.fetch_add(1, Ordering::SeqCst);
        cancel.cancel();
    };
    let mut query = Query::new(&take);
    query.cancel = Some(&cancel);
    query.wait = Wait::ForHolder { on_wait: Some(&on_wait) };
    assert!(matches!(cache.get_or_begin(&key("relu"), &query).unwrap(), Claim::Cancelled));
    assert_eq!(told.into_inner(), 1);
    // The wait is counted.
    assert_eq!(cache.store().unwrap().statistics().waits, 1);
}

#[test]
fn a_waiting_caller_is_polled_and_may_cancel() {
    let host = Host::new();
    let cache = host.cache();
    let _ticket = build(claim(&cache, "relu"));
    let (cancel, polls) = (CancelToken::new(), AtomicUsize::new(0));
    let on_poll = || {
        if polls.fetch_add(1, Ordering::SeqCst) == 2 {
            cancel.cancel();
        }
        true
    };
    let mut query = Query::new(&take);
    query.cancel = Some(&cancel);
    query.on_poll = Some(&on_poll);
    query.wait = Wait::ForHolder { on_wait: None };
    assert!(matches!(cache.get_or_begin(&key("relu"), &query).unwrap(), Claim::Cancelled));
    assert_eq!(polls.load(Ordering::SeqCst), 3);
    // A caller that does not wait is not polled.
    query.wait = Wait::Never;
    query.cancel = None;
    let _pending = pending(cache.get_or_begin(&key("relu"), &query).unwrap());
    assert_eq!(polls.load(Ordering::SeqCst), 3);
    // A wait that does not go on.
    query.wait = Wait::ForHolder { on_wait: None };
    query.on_poll = Some(&|| false);
    let _pending = pending(cache.get_or_begin(&key("relu"), &query).unwrap());
}

#[test]
fn a_caller_may_choose_not_to_wait() {
    let host = Host::new();
    let cache = host.cache();
    let ticket = build(claim(&cache, "relu"));
    let own = pending(claim(&cache, "relu")).into_unshared();
    assert_eq!(publish(own, 1).local, Some(PutOutcome::Published));
    // The holder's entry has the same content, and is not written again.
    assert_eq!(publish(ticket, 2).local, Some(PutOutcome::Existing));
    assert_eq!(hit(claim(&cache, "relu")), (1, Source::Local));
}

#[test]
fn a_holder_without_a_heartbeat_is_not_waited_for() {
    let host = Host::new();
    let cache = host.cache();
    let ticket = build(claim(&cache, "relu"));
    let mut query = Query::new(&take);
    let mut waiter = pending(cache.get_or_begin(&key("relu"), &query).unwrap());
    assert!(waiter.is_stale(Duration::ZERO));
    // Each heartbeat gives the lock's file another time.
    thread::sleep(Duration::from_millis(20));
    ticket.heartbeat();
    assert!(!waiter.is_stale(Duration::ZERO), "the holder has just given a heartbeat");
    query.stale_after = Duration::ZERO;
    let Claim::Unshared(own, reason) = cache.resume(waiter, &query).unwrap() else { panic!() };
    assert_eq!(reason, UnsharedReason::HolderStale);
    // Which entry, since when, and how to find the process.
    let [(WarningKind::Locks, text)] = &host.warnings()[..] else { panic!() };
    let lock = host.lock_path(&key("relu"));
    for part in [key("relu").to_string(), "for 0 s:".to_owned(), lock.display().to_string()] {
        assert!(text.contains(&part), "{text}");
    }
    publish(own, 1);
    publish(ticket, 2);
    assert_eq!(hit(claim(&cache, "relu")), (1, Source::Local));
}

#[test]
fn a_holder_may_end_the_waits_and_publish_later() {
    let host = Host::new();
    let cache = host.cache();
    let mut ticket = build(claim(&cache, "relu"));
    let waiter = pending(claim(&cache, "relu"));
    ticket.release_lock();
    let second = build(resume(&cache, waiter));
    assert_eq!(publish(second, 1).local, Some(PutOutcome::Published));
    assert_eq!(publish(ticket, 2).local, Some(PutOutcome::Existing));
    assert_eq!(hit(claim(&cache, "relu")), (1, Source::Local));
}

/// Only an entry that the caller uses counts as a hit, and only one that is not there as a miss.
#[test]
fn a_look_up_that_does_not_use_the_entry_counts_nothing() {
    let host = Host::new();
    let cache = host.cache();
    let found = |accept: Accept, counted| {
        let accept = |_: &Entry| accept.clone();
        let mut query = Query::new(&accept);
        query.counted = counted;
        cache.find(&key("relu"), &query).is_some()
    };
    assert!(!found(Accept::Take, true) && !found(Accept::Take, false));
    publish(build(claim(&cache, "relu")), 1);
    assert!(!found(Accept::Ignore, true) && !found(Accept::Replace("a test".to_owned()), true));
    assert!(found(Accept::Take, true) && found(Accept::Take, false));
    let counted = cache.store().unwrap().statistics();
    assert_eq!((counted.hits, counted.misses_absent), (2, 2));
    // A validation is recorded.
    assert!(found(Accept::Validated { stamp: 7, renewed: Vec::new() }, true));
    let Lookup::Hit(entry) = cache.peek(&key("relu")) else { panic!() };
    assert_eq!(entry.validation(), 7);
}

#[test]
fn an_ignored_entry_stays_and_a_replaced_one_does_not() {
    let host = Host::new();
    let cache = host.cache();
    publish(build(claim(&cache, "relu")), 1);
    let ignore = |_: &Entry| Accept::Ignore;
    let ticket = build(cache.get_or_begin(&key("relu"), &Query::new(&ignore)).unwrap());
    assert!(matches!(ticket.miss(), Miss::Ignored));
    assert_eq!(publish(ticket, 2).local, Some(PutOutcome::Existing));
    assert_eq!(hit(claim(&cache, "relu")).0, 1);
    let replace = |_: &Entry| Accept::Replace("it is too old".to_owned());
    let ticket = build(cache.get_or_begin(&key("relu"), &Query::new(&replace)).unwrap());
    assert_eq!(ticket.miss().to_string(), "it is too old");
    assert_eq!(publish(ticket, 3).local, Some(PutOutcome::Published));
    assert_eq!(hit(claim(&cache, "relu")).0, 3);
    // Neither look-up was a use of the entry.
    assert_eq!(cache.store().unwrap().statistics().hits, 2);
}

/// Other callers with force use an entry that the first one has replaced.
#[test]
fn a_new_enough_entry_is_taken_under_the_lock() {
    let host = Host::new();
    let cache = host.cache();
    publish(build(claim(&cache, "relu")), 1);
    let not_the_first = |entry: &Entry| match crate::common::writer(entry) {
        1 => Accept::Replace("it is too old".to_owned()),
        _ => Accept::Take,
    };
    let query = Query::new(&not_the_first);
    let ticket = build(cache.get_or_begin(&key("relu"), &query).unwrap());
    let waiter = pending(cache.get_or_begin(&key("relu"), &query).unwrap());
    publish(ticket, 2);
    assert_eq!(hit(cache.resume(waiter, &query).unwrap()), (2, Source::Waited));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the entry is damaged")]
fn a_damaged_entry_is_quarantined_and_built_again_once() {
    let host = Host::new();
    let cache = host.cache();
    publish(build(claim(&cache, "relu")), 1);
    let path = cache.store().unwrap().path(&key("relu"));
    std::fs::write(&path, "damaged").unwrap();
    let ticket = build(claim(&cache, "relu"));
    assert!(matches!(ticket.miss(), Miss::Damaged(_)));
    let [(WarningKind::Corruption, text)] = &host.warnings()[..] else { panic!() };
    assert!(text.contains(path.to_str().unwrap()) && text.contains("quarantined"), "{text}");
    assert_eq!(names(&host.target_dir().join("quarantine")).len(), 2);
    publish(ticket, 2);
    assert_eq!(hit(claim(&cache, "relu")), (2, Source::Local));
    let statistics = cache.store().unwrap().statistics();
    assert_eq!((statistics.misses_damaged, statistics.quarantines), (1, 1));
}

/// Only the lock's holder quarantines it.
#[test]
#[expect(clippy::disallowed_methods, reason = "this test damages an entry")]
fn without_the_lock_no_damaged_entry_is_reported_as_quarantined() {
    let host = Host::new();
    let cache = host.cache();
    publish(build(claim(&cache, "relu")), 1);
    let store = cache.store().unwrap();
    std::fs::write(store.path(&key("relu")), "damaged").unwrap();
    let _held = store.try_lock(&key("relu")).unwrap();
    let mut query = Query::new(&take);
    query.stale_after = Duration::ZERO;
    let claimed = cache.get_or_begin(&key("relu"), &query).unwrap();
    let Claim::Unshared(_, UnsharedReason::HolderStale) = claimed else { panic!("{claimed:?}") };
    let warnings = host.warnings();
    let mut damage = warnings.iter().filter(|(kind, _)| *kind == WarningKind::Corruption);
    assert!(damage.next().is_some_and(|(_, text)| !text.contains("quarantined")), "{warnings:?}");
    assert_eq!(store.statistics().quarantines, 0);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "this test damages an entry")]
fn a_ticket_keeps_no_damaged_file_open() {
    let host = Host::new();
    let cache = host.cache();
    publish(build(claim(&cache, "relu")), 1);
    std::fs::write(cache.store().unwrap().path(&key("relu")), "damaged").unwrap();
    let ticket = build(claim(&cache, "relu"));
    assert!(matches!(ticket.miss(), Miss::Damaged(_)));
    assert_eq!(host.open_files(), [host.lock_path(&key("relu"))]);
    drop(ticket);
    assert!(host.open_files().is_empty());
}

/// Many threads that need the same keys at the same moment.
#[test]
fn of_a_crowd_one_builds_each_key() {
    const THREADS: usize = 8;
    let host = Host::new();
    let (built, barrier) = (AtomicUsize::new(0), Barrier::new(THREADS));
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (host, built, barrier) = (&host, &built, &barrier);
            scope.spawn(move || {
                let cache = host.cache();
                for name in ["relu", "sigmoid", "tanh"] {
                    barrier.wait();
                    match settle(&cache, claim(&cache, name)) {
                        Claim::Build(ticket) => {
                            built.fetch_add(1, Ordering::SeqCst);
                            publish(ticket, number);
                        }
                        other => drop(hit(other)),
                    }
                }
            });
        }
    });
    assert_eq!(built.into_inner(), 3);
    let failure = failed({
        let cache = host.cache();
        let ticket = build(claim(&cache, "last"));
        let waiter = pending(claim(&cache, "last"));
        ticket.abandon(Failure::new("no"));
        resume(&cache, waiter)
    });
    assert_eq!(failure, Failure::new("no"));
}

#[test]
fn a_key_is_resumed_on_its_own_target() {
    let host = Host::new();
    let cache = opkeep_cache::Cache::open(host.config()).unwrap();
    let (own, other) = (cache.target(crate::common::TARGET).unwrap(), cache.target("other").unwrap());
    let ticket = build(claim(&own, "relu"));
    let waiter = pending(claim(&own, "relu"));
    publish(ticket, 1);
    assert_eq!(hit(resume(&other, waiter)), (1, Source::Waited));
}

#[test]
fn no_holder_is_waited_for_for_ever_by_default() {
    assert!(Query::new(&take).stale_after <= Duration::from_secs(3600));
}

#[test]
fn a_target_has_a_name_that_a_directory_can_have() {
    let host = Host::new();
    for config in [host.config(), opkeep_cache::CacheConfig::default()] {
        let cache = opkeep_cache::Cache::open(config).unwrap();
        for bad in ["../../x", "", "a/b", ".hidden"] {
            let error = cache.target(bad).unwrap_err();
            assert!(matches!(&error, CacheError::TargetName { target } if target == bad), "{error}");
        }
        cache.target("cpu-x86_64").unwrap();
    }
    assert!(host.warnings().is_empty());
}

/// A hit opens its file and nothing else.
#[test]
fn a_hit_opens_no_directory() {
    use rustix::fs::inotify;
    let host = Host::new();
    let cache = host.cache();
    publish(build(claim(&cache, "relu")), 1);
    hit(claim(&cache, "relu"));
    let path = cache.store().unwrap().path(&key("relu"));
    let events = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&events, path.parent().unwrap(), inotify::WatchFlags::OPEN).unwrap();
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut opened = || {
        let mut reader = inotify::Reader::new(&events, &mut buffer);
        let mut opened = Vec::new();
        while let Ok(event) = reader.next() {
            opened.push(event.events().contains(inotify::ReadFlags::ISDIR));
        }
        opened
    };
    hit(claim(&cache, "relu"));
    assert_eq!(opened(), [false]);
    // After a wait, the directory is opened again, since the file system may cache it.
    cache.store().unwrap().refresh(&key("relu"));
    assert_eq!(opened(), [true]);
}
