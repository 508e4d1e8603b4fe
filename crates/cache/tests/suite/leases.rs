//! Leases in a remote tier: of all hosts that miss an entry one builds it, and no holder keeps the others waiting for long.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use opkeep_cache::{Claim, LeaseToken, LeaseValue, Query, RemoteConfig, Source, Wait};
use opkeep_cache::{Failure, WarningKind};
use opkeep_fs::CancelToken;
use opkeep_store::TryLockOutcome;
use opkeep_testkit::remote::{FakeRemote, RemoteCall, RemoteFaults, key_in};

use crate::common::{
    Host, build, builder, claim, entry_name, hit, key, lease_name, pending, publish, resume, settle, take,
    text, until,
};

const TTL: Duration = Duration::from_secs(30);

fn config(remote: &FakeRemote) -> RemoteConfig {
    let mut config = RemoteConfig::new(Arc::new(remote.clone()));
    config.lease_ttl = TTL;
    config
}

/// The value of a lease of another host.
fn value_of_another_host() -> LeaseValue {
    LeaseValue::new(LeaseToken::new([9; 16]), 0)
}

/// Gives another host the lease, which it does not renew.
fn lease_to_another_host(remote: &FakeRemote, name: &str) {
    remote.set_object(&lease_name(name, 0), value_of_another_host().to_string().into_bytes());
}

#[test]
fn of_two_hosts_one_builds_and_the_other_takes_it() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    let ticket = build(claim(&one.with_remote(&config(&remote)), "relu"));
    let cache = other.with_remote(&config(&remote));
    let waiter = pending(claim(&cache, "relu"));
    // The waiting host has locked the key: one of its callers calls the tier for all of them.
    let third = pending(claim(&cache, "relu"));
    publish(ticket, 1);
    assert_eq!(hit(settle(&cache, Claim::Pending(waiter))), (1, Source::Remote));
    assert_eq!(hit(settle(&cache, Claim::Pending(third))), (1, Source::Waited));
    assert!(!remote.is_leased(&key("relu")));
}

#[test]
fn a_waiting_caller_gets_the_entry_of_the_other_host() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    let ticket = Mutex::new(Some(build(claim(&one.with_remote(&config(&remote)), "relu"))));
    let on_wait = || {
        publish(ticket.lock().unwrap().take().unwrap(), 1);
    };
    let cancel = CancelToken::new();
    let mut query = Query::new(&take);
    query.cancel = Some(&cancel);
    query.wait = Wait::ForHolder { on_wait: Some(&on_wait) };
    let cache = other.with_remote(&config(&remote));
    assert_eq!(hit(cache.get_or_begin(&key("relu"), &query).unwrap()), (1, Source::Remote));
}

#[test]
fn a_ticket_that_is_dropped_or_abandoned_is_another_hosts() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    let cache = other.with_remote(&config(&remote));
    for fails in [false, true] {
        let ticket = build(claim(&one.with_remote(&config(&remote)), "relu"));
        let waiter = pending(claim(&cache, "relu"));
        match fails {
            true => ticket.abandon(Failure::new("no int4 kernel")),
            false => drop(ticket),
        }
        // Reasons stay on their host: the other one may have another compiler.
        drop(build(settle(&cache, Claim::Pending(waiter))));
    }
}

/// Otherwise the next caller on this host would find the lease of its own host.
#[test]
fn a_lease_is_released_before_the_lock() {
    for fails in [false, true] {
        let (remote, host) = (FakeRemote::new(), Host::new());
        let store = host.cache().store().unwrap().clone();
        let locked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&locked);
        remote.on_call(move |call, names| {
            if call == RemoteCall::Release {
                let is_held =
                    matches!(store.try_lock(&key_in(&names[0]).unwrap()).unwrap(), TryLockOutcome::Held(_));
                count.fetch_add(usize::from(is_held), Ordering::SeqCst);
            }
        });
        let ticket = build(claim(&host.with_remote(&config(&remote)), "relu"));
        match fails {
            true => ticket.abandon(Failure::new("no int4 kernel")),
            false => drop(ticket),
        }
        assert_eq!((remote.count(RemoteCall::Release), locked.load(Ordering::SeqCst)), (1, 1), "{fails}");
    }
}

#[test]
fn one_call_renews_all_leases() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let mut config = config(&remote);
    config.lease_ttl = Duration::from_millis(300);
    let cache = host.with_remote(&config);
    let renewed = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&renewed);
    remote.on_call(move |call, names| {
        if call == RemoteCall::Renew {
            seen.lock().unwrap().push(names.len());
        }
    });
    let mut tickets: Vec<_> = (0..20).map(|number| build(claim(&cache, &format!("relu {number}")))).collect();
    let values = |remote: &FakeRemote| -> Vec<_> {
        let names = (0..20).map(|number| lease_name(&format!("relu {number}"), 0));
        names.filter_map(|name| LeaseValue::decode(&remote.object(&name)?)).collect()
    };
    let before = values(&remote);
    until("all leases", || renewed.lock().unwrap().contains(&20));
    until("heartbeats", || {
        let after = values(&remote);
        let mut pairs = before.iter().zip(&after);
        pairs.all(|(before, after)| before.token == after.token && before.heartbeats < after.heartbeats)
    });
    // A lease that is lost ends alone.
    let other = value_of_another_host().to_string().into_bytes();
    remote.set_object(&lease_name("relu 3", 0), other.clone());
    until("a lost lease", || renewed.lock().unwrap().contains(&19));
    assert_eq!(remote.count(RemoteCall::Release), 0);
    tickets.clear();
    assert_eq!(remote.object(&lease_name("relu 3", 0)), Some(other));
    until("releases", || remote.object_names() == [lease_name("relu 3", 0)]);
}

#[test]
fn a_key_is_locked_before_it_is_leased() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let store = host.cache().store().unwrap().clone();
    let locked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&locked);
    remote.on_call(move |call, names| {
        if call == RemoteCall::Claim {
            assert!(matches!(store.try_lock(&key_in(&names[0]).unwrap()).unwrap(), TryLockOutcome::Held(_)));
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    publish(build(claim(&host.with_remote(&config(&remote)), "relu")), 1);
    assert_eq!(locked.load(Ordering::SeqCst), 1);
}

/// The entry was published between the look-up and the lease.
#[test]
fn a_holder_of_a_lease_looks_again() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (object, tier) = (text(5), remote.clone());
    let file = builder(&object).encode(&key("relu")).unwrap();
    remote.on_call(move |call, _| {
        if call == RemoteCall::Claim {
            tier.set_object(&entry_name("relu"), file.clone());
        }
    });
    assert_eq!(hit(claim(&host.with_remote(&config(&remote)), "relu")), (5, Source::Remote));
    assert!(!remote.is_leased(&key("relu")));
}

#[test]
fn a_pending_key_keeps_its_lock_and_gives_heartbeats() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    lease_to_another_host(&remote, "relu");
    let cache = host.with_remote(&config(&remote));
    let mut waiter = pending(claim(&cache, "relu"));
    let lock = fs::File::options().write(true).open(host.lock_path(&key("relu"))).unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    lock.set_modified(long_ago).unwrap();
    let began = Instant::now();
    while lock.metadata().unwrap().modified().unwrap() < long_ago + Duration::from_secs(60) {
        assert!(began.elapsed() < Duration::from_secs(20), "it gives no heartbeat");
        waiter = pending(resume(&cache, waiter));
        thread::sleep(Duration::from_millis(10));
    }
    let store = cache.store().unwrap();
    assert!(matches!(store.try_lock(&key("relu")).unwrap(), TryLockOutcome::Held(_)));
    drop(waiter);
    assert!(matches!(store.try_lock(&key("relu")).unwrap(), TryLockOutcome::Acquired(_)));
}

#[test]
fn a_holder_that_died_costs_one_time_to_live() {
    let (remote, host, third) = (FakeRemote::new(), Host::new(), Host::new());
    lease_to_another_host(&remote, "relu");
    let mut config = config(&remote);
    config.lease_ttl = Duration::from_millis(400);
    let (cache, late) = (host.with_remote(&config), third.with_remote(&config));
    let began = Instant::now();
    let waiter = pending(claim(&cache, "relu"));
    let ticket = build(settle(&cache, Claim::Pending(waiter)));
    assert!(began.elapsed() >= config.lease_ttl);
    // The next generation, for which a newcomer waits, is renewed.
    let second = remote.object(&lease_name("relu", 1)).unwrap();
    let waiter = pending(claim(&late, "relu"));
    until("a heartbeat", || remote.object(&lease_name("relu", 1)).unwrap() != second);
    publish(ticket, 1);
    assert_eq!(hit(settle(&late, Claim::Pending(waiter))), (1, Source::Remote));
    assert_eq!(remote.object_names(), [entry_name("relu")], "both leases are released");
    assert!(host.warnings().is_empty() && third.warnings().is_empty());
}

/// The engine deleted the stale generation, so a newcomer is granted it.
#[test]
fn a_newcomer_yields_to_a_host_that_took_over() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (tier, other) = (remote.clone(), value_of_another_host().to_string().into_bytes());
    remote.on_call(move |call, _| {
        if call == RemoteCall::Claim {
            tier.set_object(&lease_name("relu", 1), other.clone());
        }
    });
    let cache = host.with_remote(&config(&remote));
    let waiter = pending(claim(&cache, "relu"));
    assert_eq!(remote.object_names(), [lease_name("relu", 1)], "the lease is released");
    let object = text(1);
    remote.set_object(&entry_name("relu"), builder(&object).encode(&key("relu")).unwrap());
    assert_eq!(hit(settle(&cache, Claim::Pending(waiter))), (1, Source::Remote));
}

#[test]
fn a_lease_is_renewed_while_its_ticket_is_held() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let mut config = config(&remote);
    config.lease_ttl = Duration::from_millis(30);
    let ticket = build(claim(&host.with_remote(&config), "relu"));
    remote.wait_for(RemoteCall::Renew, 3);
    drop(ticket);
    // If a renewal was in progress, its thread releases the lease after it.
    remote.wait_for(RemoteCall::Release, 1);
    let renewed = remote.count(RemoteCall::Renew) + 1;
    thread::sleep(Duration::from_millis(100));
    assert!(remote.count(RemoteCall::Renew) <= renewed);
    // The next lease is renewed, too.
    let _ticket = build(claim(&host.with_remote(&config), "relu"));
    remote.wait_for(RemoteCall::Renew, renewed + 2);
}

/// The caller does not wait for the tier's answer.
#[test]
fn a_ticket_that_is_dropped_during_a_renewal_is_released_after_it() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let mut config = config(&remote);
    config.lease_ttl = Duration::from_millis(10);
    let (begin, begun) = mpsc::channel();
    let (answer, answered) = mpsc::channel::<()>();
    let (begin, answered) = (Mutex::new(begin), Mutex::new(answered));
    remote.on_call(move |call, _| {
        if call == RemoteCall::Renew {
            let _ = begin.lock().unwrap().send(());
            let _ = answered.lock().unwrap().recv_timeout(Duration::from_secs(20));
        }
    });
    let ticket = build(claim(&host.with_remote(&config), "relu"));
    begun.recv_timeout(Duration::from_secs(20)).unwrap();
    drop(ticket);
    assert_eq!(remote.count(RemoteCall::Release), 0);
    answer.send(()).unwrap();
    remote.wait_for(RemoteCall::Release, 1);
}

#[test]
fn a_leaked_ticket_keeps_other_hosts_no_longer_than_its_limit() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    let mut config = config(&remote);
    config.lease_ttl = Duration::from_millis(10);
    let hold_limit = Duration::from_millis(100);
    let mut query = Query::new(&take);
    query.hold_limit = Some(hold_limit);
    std::mem::forget(build(one.with_remote(&config).get_or_begin(&key("relu"), &query).unwrap()));
    let began = Instant::now();
    until("the limit", || began.elapsed() > 2 * hold_limit);
    // A renewal that began before the limit may be counted only now.
    let renewed = remote.count(RemoteCall::Renew) + 1;
    thread::sleep(Duration::from_millis(200));
    assert!(remote.count(RemoteCall::Renew) <= renewed);
    drop(build(settle(&other.with_remote(&config), claim(&other.with_remote(&config), "relu"))));
}

#[test]
fn a_lease_that_another_host_has_by_now_is_not_renewed() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let mut config = config(&remote);
    config.lease_ttl = Duration::from_millis(30);
    let ticket = build(claim(&host.with_remote(&config), "relu"));
    lease_to_another_host(&remote, "relu");
    remote.wait_for(RemoteCall::Renew, 1);
    let renewed = remote.count(RemoteCall::Renew) + 1;
    thread::sleep(Duration::from_millis(100));
    assert!(remote.count(RemoteCall::Renew) <= renewed);
    // The holder continues to build: more work, no harm.
    assert!(publish(ticket, 1).remote);
    assert!(host.warnings().is_empty());
    assert!(remote.is_leased(&key("relu")), "the lease of the other host stays");
}

#[test]
fn a_lease_that_is_held_for_ever_is_not_believed() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    remote.set_faults(RemoteFaults { holds_every_lease: true, ..RemoteFaults::default() });
    let mut config = config(&remote);
    config.lease_ttl = Duration::from_millis(20);
    let cache = host.with_remote(&config);
    let mut query = Query::new(&take);
    query.hold_limit = Some(Duration::from_millis(20));
    let cancel = CancelToken::new();
    query.cancel = Some(&cancel);
    query.wait = Wait::ForHolder { on_wait: None };
    let ticket = build(cache.get_or_begin(&key("relu"), &query).unwrap());
    assert_eq!(host.warned(), [WarningKind::Remote]);
    assert!(publish(ticket, 1).remote);
    // Without a limit of the caller, several generations of stale holders are enough.
    query.hold_limit = None;
    drop(build(cache.get_or_begin(&key("sigmoid"), &query).unwrap()));
    assert_eq!(host.warned(), [WarningKind::Remote]);
}

#[test]
fn a_lease_that_is_granted_twice_costs_a_build_and_no_more() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    // The second host neither sees the lease of the first one, nor is refused.
    let (grants_every_lease, evicts_leases) = (true, true);
    remote.set_faults(RemoteFaults { grants_every_lease, evicts_leases, ..RemoteFaults::default() });
    let (first, second) = (one.with_remote(&config(&remote)), other.with_remote(&config(&remote)));
    let (ticket, same) = (build(claim(&first, "relu")), build(claim(&second, "relu")));
    assert!(publish(ticket, 1).remote && publish(same, 2).remote);
    assert_eq!(hit(claim(&first, "relu")), (1, Source::Local));
    assert_eq!(hit(claim(&second, "relu")), (2, Source::Local));
    assert_eq!(hit(claim(&Host::new().with_remote(&config(&remote)), "relu")), (1, Source::Remote));
    assert!(one.warnings().is_empty() && other.warnings().is_empty());
}

/// Several hosts with several callers each, all at the same moment.
#[test]
fn of_a_crowd_on_several_hosts_one_builds_each_key() {
    let remote = FakeRemote::new();
    let hosts: Vec<Host> = (0..3).map(|_| Host::new()).collect();
    let built = AtomicUsize::new(0);
    thread::scope(|scope| {
        for caller in 0..9 {
            let (remote, host, built) = (&remote, &hosts[caller % 3], &built);
            scope.spawn(move || {
                let cache = host.with_remote(&config(remote));
                for name in ["relu", "sigmoid", "tanh"] {
                    match settle(&cache, claim(&cache, name)) {
                        Claim::Build(ticket) => {
                            built.fetch_add(1, Ordering::SeqCst);
                            publish(ticket, caller);
                        }
                        other => drop(hit(other)),
                    }
                }
            });
        }
    });
    assert_eq!(built.into_inner(), 3);
}

#[test]
fn a_lease_without_a_limit_is_renewed() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let mut config = config(&remote);
    config.lease_ttl = Duration::from_millis(10);
    let mut query = Query::new(&take);
    query.hold_limit = Some(Duration::MAX);
    let _ticket = build(host.with_remote(&config).get_or_begin(&key("relu"), &query).unwrap());
    remote.wait_for(RemoteCall::Renew, 2);
    // Times that an `Instant` cannot express have the same effect.
    config.call_timeout = Duration::MAX;
    drop(build(claim(&host.with_remote(&config), "sigmoid")));
}

#[test]
fn renewals_that_fail_are_errors_of_the_tier_and_go_on() {
    for panics in [false, true] {
        let (remote, host) = (FakeRemote::new(), Host::new());
        let mut config = config(&remote);
        config.lease_ttl = Duration::from_millis(10);
        let cache = host.with_remote(&config);
        let ticket = build(claim(&cache, "relu"));
        match panics {
            true => remote.on_call(|call, _| assert!(call != RemoteCall::Renew, "on purpose")),
            false => remote.set_faults(RemoteFaults { is_gone: true, ..RemoteFaults::default() }),
        }
        until("errors", || cache.store().unwrap().statistics().remote_errors >= 2);
        let warnings = host.warnings();
        assert!(warnings.iter().all(|(kind, _)| *kind == WarningKind::Remote), "{warnings:?}");
        drop(ticket);
    }
}

/// The function for warnings panics on the thread that renews, which continues nevertheless.
#[test]
fn a_function_for_warnings_that_panics_ends_no_renewals() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let mut remote_config = config(&remote);
    remote_config.lease_ttl = Duration::from_millis(10);
    let mut config = host.config();
    config.remote = Some(remote_config);
    config.on_warning = Some(Arc::new(|_, text| panic!("on purpose: {text}")));
    let cache = crate::common::open(config);
    remote.on_call(|call, _| assert!(call != RemoteCall::Renew, "on purpose"));
    let _ticket = build(claim(&cache, "relu"));
    // Each renewal fails, and is followed by another one.
    remote.wait_for(RemoteCall::Renew, 3);
}
