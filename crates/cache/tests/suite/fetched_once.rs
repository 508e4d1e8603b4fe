//! Hosts that wait for entries of others: each fetches each entry once, however it learns of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use opkeep_cache::{Accept, Claim, ObjectName, PendingKey, Query, Source, TargetCache};
use opkeep_store::{Entry, Lookup, TryLockOutcome};
use opkeep_testkit::remote::RemoteCall::{self, Claim as ClaimCall, Get};
use opkeep_testkit::remote::{FakeRemote, RemoteFaults};

use crate::common::{
    Host, build, builder, claim, config, entry_name, hit, key, keys, name, pending, publish, resume, settle,
    take, text, until,
};

const HOSTS: usize = 3;

/// Puts an entry into the engine, as another host does.
fn put(remote: &FakeRemote, number: usize) {
    let object = text(number);
    remote.set_object(&entry_name(&name(number)), builder(&object).encode(&key(&name(number))).unwrap());
}

/// How often each entry was returned.
fn entries(remote: &FakeRemote) -> BTreeMap<ObjectName, usize> {
    remote.returned().into_iter().filter(|(name, _)| name.as_str().contains("/e/")).collect()
}

/// Each of `count` entries was returned once to each of `hosts` hosts.
#[track_caller]
fn once(remote: &FakeRemote, count: usize, hosts: usize) {
    let expected: BTreeMap<_, _> = (0..count).map(|number| (entry_name(&name(number)), hosts)).collect();
    assert_eq!(entries(remote), expected);
}

fn is_local(cache: &TargetCache, number: usize) -> bool {
    matches!(cache.peek(&key(&name(number))), Lookup::Hit(_))
}

/// Resumes all keys in turn until each is a hit, as a build does that has nothing else to do.
fn wait_for_all(cache: &TargetCache, waiters: Vec<PendingKey>) {
    let mut waiters: Vec<_> = waiters.into_iter().map(Some).collect();
    until("all entries", || {
        for waiter in &mut waiters {
            match waiter.take().map(|pending| resume(cache, pending)) {
                Some(Claim::Pending(pending)) => *waiter = Some(pending),
                Some(Claim::Hit(found)) => assert_eq!(found.source, Source::Remote),
                Some(other) => panic!("{other:?}"),
                None => {}
            }
        }
        waiters.iter().all(Option::is_none)
    });
}

/// One host builds all keys, and the others wait for them. The engine has counters, or batches come without hints.
fn waiting_hosts(count: usize, faults: RemoteFaults, is_one_by_one: bool) {
    let (remote, first) = (FakeRemote::new(), Host::new());
    remote.set_faults(faults);
    let builder = first.with_remote(&config(&remote));
    builder.fetch(&keys(count), &Query::new(&take));
    let tickets: Vec<_> = (0..count).map(|number| build(claim(&builder, &name(number)))).collect();
    let all_wait = Barrier::new(HOSTS + 1);
    thread::scope(|scope| {
        for _ in 0..HOSTS {
            scope.spawn(|| {
                let host = Host::new();
                let cache = host.with_remote(&config(&remote));
                cache.fetch(&keys(count), &Query::new(&take));
                let waiters = (0..count).map(|number| pending(claim(&cache, &name(number)))).collect();
                all_wait.wait();
                wait_for_all(&cache, waiters);
                assert!((0..count).all(|number| is_local(&cache, number)), "{:?}", host.warnings());
            });
        }
        all_wait.wait();
        for (number, ticket) in (0..).zip(tickets) {
            let before = entries(&remote).values().sum::<usize>();
            publish(ticket, number);
            if is_one_by_one {
                until("the waiting hosts", || entries(&remote).values().sum::<usize>() >= before + HOSTS);
            }
        }
    });
    once(&remote, count, HOSTS);
}

#[test]
fn entries_that_appear_together_are_fetched_once_by_each_host() {
    waiting_hosts(40, RemoteFaults::default(), false);
}

#[test]
fn entries_that_appear_one_after_the_other_are_fetched_once_by_each_host() {
    waiting_hosts(12, RemoteFaults::default(), true);
}

#[test]
fn batches_without_hints_fetch_each_entry_once() {
    waiting_hosts(40, RemoteFaults { has_no_counters: true, ..RemoteFaults::default() }, false);
}

/// From now on each claim finds that another host has just claimed the same, which is a reason to ask for the whole plan at once.
fn hold_all(remote: &FakeRemote) {
    let tier = remote.clone();
    remote.on_call(move |call, names| {
        if call == ClaimCall {
            names.iter().for_each(|name| tier.set_object(name, vec![b'0'; 48]));
        }
    });
}

/// The entries have arrived with the first of these looks, and no caller has begun their keys.
#[test]
fn what_has_arrived_is_not_asked_for_again() {
    const COUNT: usize = 20;
    let (remote, host) = (FakeRemote::new(), Host::new());
    let cache = host.with_remote(&config(&remote));
    cache.fetch(&keys(COUNT), &Query::new(&take));
    hold_all(&remote);
    let mut waiters = vec![pending(claim(&cache, "another 0"))];
    (0..COUNT).for_each(|number| put(&remote, number));
    for number in 1..6 {
        waiters.push(pending(claim(&cache, &format!("another {number}"))));
    }
    assert!(remote.count(Get) >= 6);
    drop(waiters);
    for number in 0..COUNT {
        assert_eq!(hit(claim(&cache, &name(number))), (number, Source::Remote));
    }
    once(&remote, COUNT, 1);
}

/// An entry that arrives is in the store before a caller begins its key: another process of the host finds it there.
#[test]
fn what_arrives_is_stored_at_once() {
    const COUNT: usize = 6;
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (cache, other) = (host.with_remote(&config(&remote)), host.with_remote(&config(&remote)));
    for cache in [&cache, &other] {
        cache.fetch(&keys(COUNT), &Query::new(&take));
    }
    hold_all(&remote);
    let waiters = [&cache, &other].map(|cache| pending(claim(cache, "another 0")));
    let judged = AtomicUsize::new(0);
    let accept = |entry: &Entry| {
        judged.fetch_add(1, Ordering::SeqCst);
        assert_eq!(entry.validation(), 0);
        Accept::Validated { stamp: 9, renewed: Vec::new() }
    };
    let query = Query::new(&accept);
    TargetCache::storing_arrivals(std::slice::from_ref(&cache), &query, || {
        (0..COUNT).for_each(|number| put(&remote, number));
        let waiter = pending(claim(&cache, "another 1"));
        until("the store", || (0..COUNT).all(|number| is_local(&cache, number)));
        drop(waiter);
    });
    assert_eq!(judged.load(Ordering::SeqCst), COUNT);
    // The process that fetched them says so.
    assert_eq!(hit(claim(&cache, &name(0))), (0, Source::Remote));
    assert_eq!(hit(claim(&other, &name(1))), (1, Source::Local));
    // The other process asks for nothing that is there, not even with a key of its own.
    let waiter = pending(claim(&other, "another 2"));
    for number in 2..COUNT {
        assert_eq!(hit(claim(&other, &name(number))), (number, Source::Local));
    }
    drop((waiter, waiters));
    once(&remote, COUNT, 1);
    assert_eq!(cache.store().unwrap().statistics().remote_hits, COUNT as u64);
    assert!(host.warnings().is_empty());
}

/// A caller may find an entry in the store before the thread that stores it has recorded that: each entry that was fetched is one that
/// a caller got from the remote tier.
#[test]
fn what_a_caller_finds_as_it_is_stored_comes_from_the_remote_tier() {
    const COUNT: usize = 100;
    let (remote, host) = (FakeRemote::new(), Host::new());
    let cache = host.with_remote(&config(&remote));
    cache.fetch(&keys(COUNT), &Query::new(&take));
    hold_all(&remote);
    let mut waiters = vec![pending(claim(&cache, "another"))];
    let query = Query::new(&take);
    TargetCache::storing_arrivals(std::slice::from_ref(&cache), &query, || {
        for number in 0..COUNT {
            put(&remote, number);
            let found = thread::scope(|scope| {
                let finder = scope.spawn(|| {
                    // Without a pause: the entry is found as soon as it is there.
                    let began = Instant::now();
                    while !is_local(&cache, number) {
                        assert!(began.elapsed() < Duration::from_secs(20), "entry {number} does not arrive");
                        thread::yield_now();
                    }
                    hit(claim(&cache, &name(number)))
                });
                waiters.push(pending(claim(&cache, &format!("another {number}"))));
                finder.join().unwrap()
            });
            assert_eq!(found, (number, Source::Remote));
        }
    });
    once(&remote, COUNT, 1);
    assert_eq!(cache.store().unwrap().statistics().remote_hits, COUNT as u64);
}

/// What the receiver does not take is for the caller of the key.
#[test]
fn an_entry_that_is_not_judged_at_once_goes_to_its_caller() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let cache = host.with_remote(&config(&remote));
    cache.fetch(&keys(2), &Query::new(&take));
    hold_all(&remote);
    let first = pending(claim(&cache, "another 0"));
    let seen = AtomicUsize::new(0);
    let ignore = |_: &Entry| {
        seen.fetch_add(1, Ordering::SeqCst);
        Accept::Ignore
    };
    let query = Query::new(&ignore);
    TargetCache::storing_arrivals(std::slice::from_ref(&cache), &query, || {
        (0..2).for_each(|number| put(&remote, number));
        let waiter = pending(claim(&cache, "another 1"));
        until("the receiver", || seen.load(Ordering::SeqCst) == 2);
        drop(waiter);
    });
    drop(first);
    for number in 0..2 {
        assert_eq!(hit(claim(&cache, &name(number))), (number, Source::Remote));
    }
    once(&remote, 2, 1);
}

/// While one thread asks for a key, another one that begins it waits for the answer. What has been stored since a thread looked into the
/// local store is found there. The rounds differ in which threads look before the entries are stored, and ask after that.
#[test]
fn what_is_being_fetched_is_not_asked_for_again() {
    (0..40).for_each(|_| threads_that_fetch_the_same());
}

fn threads_that_fetch_the_same() {
    const COUNT: usize = 8;
    let (remote, host) = (FakeRemote::new(), Host::new());
    let cache = host.with_remote(&config(&remote));
    (0..COUNT).for_each(|number| put(&remote, number));
    let (is_first, other) = (Arc::new(AtomicBool::new(true)), cache.clone());
    let threads = Arc::new(std::sync::Mutex::new(Vec::new()));
    let begun = Arc::clone(&threads);
    // During the first call, other threads begin the same keys, and fetch them.
    remote.on_call(move |call, _| {
        if call != RemoteCall::Get || !is_first.swap(false, Ordering::SeqCst) {
            return;
        }
        let started = Arc::new(Barrier::new(COUNT + 2));
        for number in 0..=COUNT {
            let (cache, started) = (other.clone(), Arc::clone(&started));
            begun.lock().unwrap().push(thread::spawn(move || {
                started.wait();
                match number {
                    COUNT => drop(cache.fetch(&keys(COUNT), &Query::new(&take))),
                    _ => assert_eq!(hit(settle(&cache, claim(&cache, &name(number)))).0, number),
                }
            }));
        }
        started.wait();
    });
    assert_eq!(cache.fetch(&keys(COUNT), &Query::new(&take)).fetched.len(), COUNT);
    for thread in std::mem::take(&mut *threads.lock().unwrap()) {
        thread.join().unwrap();
    }
    once(&remote, COUNT, 1);
}

/// A bundle that has all entries is fetched once, and no entry beside it.
#[test]
fn hosts_that_take_a_bundle_fetch_no_entry() {
    const COUNT: usize = 20;
    let (remote, first) = (FakeRemote::new(), Host::new());
    (0..COUNT).for_each(|number| put(&remote, number));
    let accept = |_: &Entry| Accept::Validated { stamp: 9, renewed: Vec::new() };
    let cache = first.with_remote(&config(&remote));
    assert_eq!(cache.fetch(&keys(COUNT), &Query::new(&accept)).fetched.len(), COUNT);
    assert_eq!(cache.share_plans(None, None), 1);
    once(&remote, COUNT, 1);
    for _ in 0..HOSTS {
        let host = Host::new();
        let cache = host.with_remote(&config(&remote));
        assert_eq!(cache.fetch(&keys(COUNT), &Query::new(&accept)).fetched.len(), COUNT);
        for number in 0..COUNT {
            assert_eq!(hit(claim(&cache, &name(number))), (number, Source::Local));
        }
    }
    once(&remote, COUNT, 1);
    let bundles = remote.returned().into_iter().filter(|(name, _)| name.as_str().contains("/b/"));
    assert_eq!(bundles.map(|(_, times)| times).collect::<Vec<_>>(), [HOSTS]);
}

/// Processes of one host that start together: the first one fetches, and the others find its entries in the store.
#[test]
fn processes_of_one_host_fetch_a_plan_once() {
    const COUNT: usize = 20;
    let (remote, host) = (FakeRemote::new(), Host::new());
    (0..COUNT).for_each(|number| put(&remote, number));
    let started = Arc::new(Barrier::new(HOSTS + 1));
    let (is_first, all) = (AtomicBool::new(true), Arc::clone(&started));
    // The first call takes as long as the others need to begin.
    remote.on_call(move |call, _| {
        if call == Get && is_first.swap(false, Ordering::SeqCst) {
            all.wait();
        }
    });
    let caches: Vec<_> = (0..=HOSTS).map(|_| host.with_remote(&config(&remote))).collect();
    let fetched = |cache: &TargetCache| cache.fetch(&keys(COUNT), &Query::new(&take)).fetched.len();
    thread::scope(|scope| {
        let first = scope.spawn(|| fetched(&caches[0]));
        remote.wait_for(Get, 1);
        for cache in &caches[1..] {
            let started = Arc::clone(&started);
            scope.spawn(move || {
                started.wait();
                fetched(cache);
                assert!((0..COUNT).all(|number| is_local(cache, number)));
            });
        }
        assert_eq!(first.join().unwrap(), COUNT);
    });
    once(&remote, COUNT, 1);
}

/// A process that is stopped during its fetch keeps the others waiting for a part of what a call may take.
#[test]
fn a_fetch_that_hangs_does_not_keep_the_others_of_its_host() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    (0..4).for_each(|number| put(&remote, number));
    let mut config = config(&remote);
    config.call_timeout = std::time::Duration::from_millis(100);
    let cache = host.with_remote(&config);
    let plan = opkeep_cache::ObjectNames::plan(&keys(4));
    let held = cache.store().unwrap().try_lock(&plan).unwrap();
    assert_eq!(cache.fetch(&keys(4), &Query::new(&take)).fetched.len(), 4);
    drop(held);
}

/// While one thread asks for an entry that the engine lacks, another process of the host stores it.
#[test]
fn what_another_process_stores_during_a_call_is_not_fetched() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let cache = Arc::new(host.with_remote(&config(&remote)));
    let (other, waiter) = (host.cache(), Arc::downgrade(&cache));
    let (claimed, has_begun) = (Arc::new(Mutex::new(None)), AtomicBool::new(false));
    let (of_waiter, relu) = (Arc::clone(&claimed), key(&name(0)));
    remote.on_call(move |call, _| {
        if call != Get || has_begun.swap(true, Ordering::SeqCst) {
            return;
        }
        let cache = waiter.upgrade().unwrap();
        // Another caller may hold the lock for a moment.
        let work = move || {
            let claim = cache.get_or_begin(&relu, &Query::new(&take)).unwrap();
            settle(&cache, claim)
        };
        *of_waiter.lock().unwrap() = Some(thread::spawn(work));
        let store = other.store().unwrap();
        // It has looked into the local store, or does so now, and waits for the answer to this call.
        until("the lock of the key", || matches!(store.try_lock(&relu), Ok(TryLockOutcome::Held(_))));
        store.put(&relu, &builder(&text(0))).unwrap();
    });
    assert_eq!(cache.fetch(&keys(1), &Query::new(&take)).fetched, []);
    let (_, source) = hit(claimed.lock().unwrap().take().unwrap().join().unwrap());
    assert_ne!(source, Source::Remote);
    assert_eq!(cache.store().unwrap().statistics().remote_hits, 0);
}
