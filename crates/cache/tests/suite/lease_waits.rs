//! The waits for leases of other hosts: their ends, and the locks that a waiting caller holds.

#![expect(clippy::disallowed_methods, reason = "these tests look at locks")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use opkeep_cache::{
    CacheConfig, Claim, Failure, PendingKey, Query, Source, TargetCache, UnsharedReason, Wait, WarningKind,
};
use opkeep_store::{CacheMode, TryLockOutcome};
use opkeep_testkit::remote::{FakeRemote, RemoteCall, RemoteFaults};

use crate::common::{
    Host, build, claim, config, entry_name, failed, hit, key, open, pending, publish, resume, settle,
    sharing, take, until,
};

/// A cache without a local store.
fn nowhere(remote: &FakeRemote) -> TargetCache {
    let mut settings = sharing(CacheConfig::default());
    settings.remote = Some(config(remote));
    open(settings)
}

/// Resumes a key until it has noticed a heartbeat of a lease holder after `since`.
fn noticed(cache: &TargetCache, mut waiter: PendingKey, since: Instant) -> PendingKey {
    let began = Instant::now();
    while waiter.is_stale(since.elapsed()) {
        assert!(began.elapsed() < Duration::from_secs(20), "no heartbeat");
        std::thread::sleep(Duration::from_millis(1));
        waiter = pending(resume(cache, waiter));
    }
    waiter
}

/// Resumes a key until `done` says so, with the pending key.
fn resumed_until(cache: &TargetCache, waiter: PendingKey, done: impl Fn(&PendingKey) -> bool) -> PendingKey {
    let mut waiter = Some(waiter);
    until("a pending key", || {
        let resumed = pending(resume(cache, waiter.take().unwrap()));
        done(waiter.insert(resumed))
    });
    waiter.unwrap()
}

fn is_locked(cache: &TargetCache, name: &str) -> bool {
    !matches!(cache.store().unwrap().try_lock(&key(name)).unwrap(), TryLockOutcome::Acquired(_))
}

/// A caller that compiles something else keeps no other caller of its host waiting.
#[test]
fn a_parked_key_can_be_locked_by_another_caller() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    let ticket = build(claim(&one.with_remote(&config(&remote)), "relu"));
    let cache = other.with_remote(&config(&remote));
    let mut parked = pending(claim(&cache, "relu"));
    assert!(is_locked(&cache, "relu"));
    parked.park();
    assert!(!is_locked(&cache, "relu"));
    let second = pending(claim(&cache, "relu"));
    assert!(is_locked(&cache, "relu"));
    publish(ticket, 1);
    assert_eq!(hit(settle(&cache, Claim::Pending(second))), (1, Source::Remote));
    // The entry is in the local store now, in which a parked key is looked up, too.
    let gets = remote.count(RemoteCall::Get);
    assert!(matches!(hit(settle(&cache, Claim::Pending(parked))), (1, Source::Local | Source::Waited)));
    assert_eq!(remote.count(RemoteCall::Get), gets);
}

#[test]
fn a_parked_key_is_locked_again_when_it_is_resumed() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    let ticket = build(claim(&one.with_remote(&config(&remote)), "relu"));
    let cache = other.with_remote(&config(&remote));
    let mut parked = pending(claim(&cache, "relu"));
    parked.park();
    let mut waiter = resumed_until(&cache, parked, |_| is_locked(&cache, "relu"));
    // While another caller has the key locked, this one waits for it.
    waiter.park();
    let held = cache.store().unwrap().try_lock(&key("relu")).unwrap();
    let second = resumed_until(&cache, waiter, |waiter| format!("{waiter:?}").contains("this host"));
    drop(ticket);
    drop(held);
    drop(build(settle(&cache, Claim::Pending(second))));
}

/// A caller may resume many keys in turn, or never resume one: other callers on its host can then call the tier, and need not
/// wait until the caller is stale.
#[test]
fn a_key_that_is_not_resumed_is_parked_soon() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    let ticket = build(claim(&one.with_remote(&config(&remote)), "relu"));
    let cache = other.with_remote(&config(&remote));
    let idle = pending(claim(&cache, "relu"));
    let second = pending(claim(&cache, "relu"));
    let second = resumed_until(&cache, second, |second| format!("{second:?}").contains("another host"));
    assert!(is_locked(&cache, "relu"));
    publish(ticket, 1);
    for waiter in [second, idle] {
        assert_eq!(hit(settle(&cache, Claim::Pending(waiter))).0, 1);
    }
    assert!(other.warnings().is_empty());
}

/// A key that is resumed keeps its lock.
#[test]
fn a_key_that_is_resumed_is_not_parked() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    let _ticket = build(claim(&one.with_remote(&config(&remote)), "relu"));
    let cache = other.with_remote(&config(&remote));
    let mut waiter = pending(claim(&cache, "relu"));
    let began = Instant::now();
    let (mut slowest, mut last) = (Duration::ZERO, began);
    while began.elapsed() < Duration::from_millis(2500) {
        std::thread::sleep(Duration::from_millis(20));
        let locked = is_locked(&cache, "relu");
        slowest = slowest.max(last.elapsed());
        // On an overloaded machine the key may be resumed too late.
        assert!(locked || slowest > Duration::from_millis(800), "{slowest:?}");
        last = Instant::now();
        waiter = pending(resume(&cache, waiter));
    }
}

#[test]
fn a_wait_that_timed_out_locks_nothing() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    let _ticket = build(claim(&one.with_remote(&config(&remote)), "relu"));
    let cache = other.with_remote(&config(&remote));
    let mut waiter = pending(claim(&cache, "relu"));
    let mut query = Query::new(&take);
    query.wait = Wait::ForHolder { on_wait: None };
    // Whether or not a call to the tier is due, and whether or not the caller waits.
    for pause in [Duration::ZERO, Duration::from_millis(300), Duration::ZERO, Duration::from_millis(300)] {
        std::thread::sleep(pause);
        query.deadline = Some(Instant::now());
        let claimed = cache.resume(waiter, &query).unwrap();
        let Claim::TimedOut(late) = claimed else { panic!("{claimed:?}") };
        assert!(!is_locked(&cache, "relu"));
        waiter = late;
        query.wait = match query.wait {
            Wait::Never => Wait::ForHolder { on_wait: None },
            Wait::ForHolder { .. } => Wait::Never,
        };
    }
    let late = waiter;
    drop(pending(resume(&cache, late)));
}

/// With wrong answers of the tier, a wait also ends for a caller whose deadline has passed.
#[test]
fn a_stale_lease_ends_a_wait_after_its_deadline() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    remote.set_faults(RemoteFaults { holds_every_lease: true, ..RemoteFaults::default() });
    let mut config = config(&remote);
    config.lease_ttl = Duration::from_millis(20);
    let cache = host.with_remote(&config);
    let waiter = pending(claim(&cache, "relu"));
    let mut query = Query::new(&take);
    query.deadline = Some(Instant::now());
    let mut waiter = Some(waiter);
    until("a stale lease", || match cache.resume(waiter.take().unwrap(), &query).unwrap() {
        Claim::Pending(pending) | Claim::TimedOut(pending) => {
            waiter = Some(pending);
            false
        }
        other => {
            drop(build(other));
            true
        }
    });
    assert_eq!(host.warned(), [WarningKind::Remote]);
}

/// A heartbeat before and after each call, since a call may take as long as other callers wait for a heartbeat.
#[test]
fn the_lock_gets_a_heartbeat_on_both_sides_of_each_call() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let other = build(claim(&Host::new().with_remote(&config(&remote)), "relu"));
    let cache = host.with_remote(&config(&remote));
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    let age = move |path: &Path| {
        let lock = fs::File::options().write(true).open(path).unwrap();
        lock.set_modified(long_ago).unwrap();
    };
    let is_old = move |path: &Path| {
        fs::metadata(path).unwrap().modified().unwrap() < long_ago + Duration::from_secs(60)
    };
    let path = host.lock_path(&key("relu"));
    let (lock, was_late) = (path.clone(), Arc::new(AtomicBool::new(false)));
    let (late, calls) = (Arc::clone(&was_late), Arc::new(AtomicU64::new(0)));
    let (count, caller, tier) = (Arc::clone(&calls), std::thread::current().id(), remote.clone());
    remote.on_call(move |call, names| {
        if std::thread::current().id() != caller {
            return;
        }
        if matches!(call, RemoteCall::Get | RemoteCall::Claim) {
            count.fetch_add(1, Ordering::SeqCst);
            late.fetch_or(is_old(&lock), Ordering::SeqCst);
            age(&lock);
            // The lease is released between the look and the claim, so all calls of a caller follow.
            names.iter().for_each(|name| tier.remove_object(name));
        }
    });
    let ticket = build(claim(&cache, "relu"));
    assert_eq!(calls.load(Ordering::SeqCst), 3);
    assert!(!was_late.load(Ordering::SeqCst), "no heartbeat before a call");
    assert!(!is_old(&path), "no heartbeat after a call");
    drop((ticket, other));
}

/// The holder may be in a slow call to the tier.
#[test]
fn a_holder_is_not_stale_before_a_call_to_the_tier_may_end() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let _ticket = build(claim(&host.cache(), "relu"));
    let mut query = Query::new(&take);
    query.stale_after = Duration::ZERO;
    let cache = host.with_remote(&config(&remote));
    let waiter = pending(cache.get_or_begin(&key("relu"), &query).unwrap());
    let waiter = pending(cache.resume(waiter, &query).unwrap());
    drop(waiter);
    // Without a tier, the holder is stale.
    let cache = host.cache();
    let claimed = cache.get_or_begin(&key("relu"), &query).unwrap();
    let Claim::Unshared(_, UnsharedReason::HolderStale) = claimed else { panic!("{claimed:?}") };
}

#[test]
fn hosts_without_a_store_share_by_leases() {
    let remote = FakeRemote::new();
    let (one, other) = (nowhere(&remote), nowhere(&remote));
    let ticket = build(claim(&one, "relu"));
    let waiter = pending(claim(&other, "relu"));
    let waiter = pending(resume(&other, waiter));
    publish(ticket, 1);
    assert_eq!(hit(settle(&other, Claim::Pending(waiter))), (1, Source::Remote));
}

/// A stopped process on this host may have the lease, too: other callers on the host do not wait for that lease.
#[test]
fn a_caller_whose_lock_holder_is_stale_does_not_wait_for_its_lease() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let mut config = config(&remote);
    config.call_timeout = Duration::ZERO;
    let cache = host.with_remote(&config);
    let _held = cache.store().unwrap().try_lock(&key("relu")).unwrap();
    remote.set_faults(RemoteFaults { holds_every_lease: true, ..RemoteFaults::default() });
    let mut waiter = pending(claim(&cache, "relu"));
    until("a stale holder", || waiter.is_stale(Duration::from_secs(3)));
    let mut query = Query::new(&take);
    query.stale_after = Duration::ZERO;
    let claimed = cache.resume(waiter, &query).unwrap();
    let Claim::Unshared(_, UnsharedReason::HolderStale) = claimed else { panic!("{claimed:?}") };
    assert_eq!(remote.count(RemoteCall::Claim), 0);
}

#[test]
fn with_force_no_host_waits_for_another() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    let forced = |host: &Host| {
        let mut settings = host.config();
        settings.mode = CacheMode::Force;
        settings.remote = Some(config(&remote));
        open(settings)
    };
    let (first, second) = (forced(&one), forced(&other));
    let tickets = [build(claim(&first, "relu")), build(claim(&second, "relu"))];
    assert_eq!(remote.calls(), []);
    // On one host one builds at a time, as before.
    drop(pending(claim(&first, "relu")));
    for (number, ticket) in (1..).zip(tickets) {
        assert!(publish(ticket, number).remote);
    }
}

/// Two hosts fail in the same way, one after the other: all hosts that waited for them build at the same time.
#[test]
fn a_failure_makes_no_queue_of_hosts() {
    let remote = FakeRemote::new();
    let hosts: Vec<Host> = (0..5).map(|_| Host::new()).collect();
    let caches: Vec<_> = hosts.iter().map(|host| host.with_remote(&config(&remote))).collect();
    let first = build(claim(&caches[0], "relu"));
    let mut waiters: Vec<_> = caches[1..].iter().map(|cache| pending(claim(cache, "relu"))).collect();
    let local = pending(claim(&caches[4], "relu"));
    first.abandon(Failure::new("no int4 kernel"));
    let second = build(settle(&caches[1], Claim::Pending(waiters.remove(0))));
    let began = Instant::now();
    // The first may have been cancelled: the others wait for the second.
    let mut waiters: Vec<_> =
        (caches[2..].iter().zip(waiters)).map(|(cache, waiter)| noticed(cache, waiter, began)).collect();
    second.abandon(Failure::new("no int4 kernel"));
    // The next host has the lease, and keeps it.
    let third = build(settle(&caches[2], Claim::Pending(waiters.remove(0))));
    let mut tickets: Vec<_> = (caches[3..].iter().zip(waiters))
        .map(|(cache, waiter)| build(settle(cache, Claim::Pending(waiter))))
        .collect();
    assert!(hosts.iter().all(|host| host.warnings().is_empty()));
    // The other callers of a host share its failure.
    tickets.pop().unwrap().abandon(Failure::new("no int4 kernel"));
    assert_eq!(failed(settle(&caches[4], Claim::Pending(local))).reason, "no int4 kernel");
    drop(third);
}

/// A caller that is cancelled has not failed.
#[test]
fn one_host_takes_over_a_ticket_that_was_dropped() {
    let remote = FakeRemote::new();
    let hosts: Vec<Host> = (0..4).map(|_| Host::new()).collect();
    let caches: Vec<_> = hosts.iter().map(|host| host.with_remote(&config(&remote))).collect();
    let first = build(claim(&caches[0], "relu"));
    let mut waiters: Vec<_> = caches[1..].iter().map(|cache| pending(claim(cache, "relu"))).collect();
    drop(first);
    let second = build(settle(&caches[1], Claim::Pending(waiters.remove(0))));
    let began = Instant::now();
    let waiters: Vec<_> = (caches[2..].iter().zip(waiters))
        .map(|(cache, waiter)| (cache, noticed(cache, waiter, began)))
        .collect();
    publish(second, 1);
    for (cache, waiter) in waiters {
        assert_eq!(hit(settle(cache, Claim::Pending(waiter))), (1, Source::Remote));
    }
}

/// Another host gets the lease between the look-up and the claim, and publishes the entry while it still has the lease.
#[test]
fn an_entry_that_is_published_before_the_release_is_taken() {
    let (remote, other) = (FakeRemote::new(), Host::new());
    let cache = other.with_remote(&config(&remote));
    let (third, tier, is_first) = (Host::new(), remote.clone(), AtomicBool::new(true));
    remote.on_call(move |call, _| {
        if call == RemoteCall::Claim && is_first.swap(false, Ordering::SeqCst) {
            std::mem::forget(build(claim(&third.with_remote(&config(&tier)), "relu")));
            let object = crate::common::text(1);
            let file = crate::common::builder(&object).encode(&key("relu")).unwrap();
            tier.set_object(&entry_name("relu"), file);
        }
    });
    let waiter = pending(claim(&cache, "relu"));
    assert_eq!(hit(settle(&cache, Claim::Pending(waiter))), (1, Source::Remote));
}

/// A host that renews its lease is waited for; a host waits no longer than it would build.
#[test]
fn a_renewed_lease_is_waited_for_within_the_time_limit() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    remote.set_faults(RemoteFaults { renews_every_lease: true, ..RemoteFaults::default() });
    let mut config = config(&remote);
    config.lease_ttl = Duration::from_millis(60);
    let cache = host.with_remote(&config);
    // For any time after which local holders are stale.
    let mut query = Query::new(&take);
    query.stale_after = Duration::from_millis(1);
    let longest = Duration::from_millis(600);
    query.time_limit = Some(longest);
    query.wait = Wait::ForHolder { on_wait: None };
    let began = Instant::now();
    drop(build(cache.get_or_begin(&key("relu"), &query).unwrap()));
    assert!(began.elapsed() >= longest, "{:?}", began.elapsed());
    assert_eq!(host.warned(), [WarningKind::Remote]);
    // The same for a caller that resumes.
    query.wait = Wait::Never;
    let began = Instant::now();
    let mut waiter = Some(pending(cache.get_or_begin(&key("sigmoid"), &query).unwrap()));
    until("the time limit", || match cache.resume(waiter.take().unwrap(), &query).unwrap() {
        Claim::Pending(pending) => {
            waiter = Some(pending);
            false
        }
        other => {
            drop(build(other));
            true
        }
    });
    assert!(began.elapsed() >= longest, "{:?}", began.elapsed());
}
