//! Calls for many keys: fetches, and the waits of one host for keys of others.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use opkeep_cache::{
    Accept, Claim, Digest, LeaseToken, LeaseValue, Query, Source, TargetCache, Ticket, WarningKind,
};
use opkeep_store::{Entry, Lookup};
use opkeep_testkit::remote::RemoteCall::{Advance, Claim as ClaimCall, Get, Progress, Put, Release, Replace};
use opkeep_testkit::remote::{FakeRemote, RemoteCall, RemoteFaults};

use crate::common::{
    Host, build, builder, claim, config, entry_name, hit, key, keys, lease_name, name, pending, publish,
    settle, take, text, until, writer,
};

/// Puts entries into the engine, as other hosts do.
fn fill(remote: &FakeRemote, numbers: impl IntoIterator<Item = usize>) {
    for number in numbers {
        let object = text(number);
        let file = builder(&object).encode(&key(&name(number))).unwrap();
        remote.set_object(&entry_name(&name(number)), file);
    }
}

fn local(cache: &TargetCache, number: usize) -> Option<Box<Entry>> {
    match cache.get(&key(&name(number))) {
        Lookup::Hit(entry) => Some(entry),
        Lookup::Miss(_) => None,
    }
}

/// One for the bundle of the plan, which is not there, and one for the entries.
#[test]
fn a_warm_fetch_is_two_calls() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    fill(&remote, 0..148);
    let cache = host.with_remote(&config(&remote));
    let judged = AtomicUsize::new(0);
    let accept = |entry: &Entry| {
        assert_eq!(entry.validation(), 0, "another host's validation does not count");
        judged.fetch_add(1, Ordering::SeqCst);
        Accept::Validated { stamp: 9, renewed: Vec::new() }
    };
    let report = cache.fetch(&keys(148), &Query::new(&accept));
    assert_eq!((report.fetched.len(), report.refused.len(), report.missing.len()), (148, 0, 0));
    assert_eq!((remote.calls(), judged.load(Ordering::SeqCst)), (vec![Get, Get], 148));
    let bytes: usize = (0..148).map(|number| remote.object(&entry_name(&name(number))).unwrap().len()).sum();
    assert_eq!(report.bytes, bytes as u64);
    for number in 0..148 {
        let entry = local(&cache, number).unwrap();
        assert_eq!((writer(&entry), entry.validation()), (number, 9));
    }
    assert_eq!(cache.store().unwrap().statistics().remote_hits, 148);
    // The local store has all of them now.
    let again = cache.fetch(&keys(148), &Query::new(&accept));
    assert_eq!((again.fetched.len(), again.missing.len(), remote.calls().len()), (0, 0, 2));
}

/// Puts large entries into the engine. Returns their size.
fn fill_with_large(remote: &FakeRemote, count: usize, bytes: usize) -> usize {
    for number in 0..count {
        let object = format!("{}{}", text(number), "x".repeat(bytes));
        let file = builder(&object).encode(&key(&name(number))).unwrap();
        remote.set_object(&entry_name(&name(number)), file);
    }
    remote.object(&entry_name(&name(0))).unwrap().len()
}

/// Records the size of each answer of the engine.
fn answers(remote: &FakeRemote) -> Arc<Mutex<Vec<usize>>> {
    let (answers, engine) = (Arc::new(Mutex::new(Vec::new())), remote.clone());
    let sizes = Arc::clone(&answers);
    remote.on_call(move |call, names| {
        if call == Get {
            let bytes = |name| engine.object(name).map_or(0, |object: Vec<u8>| object.len());
            sizes.lock().unwrap().push(names.iter().map(bytes).sum());
        }
    });
    answers
}

/// An engine has its answer in memory as a whole.
#[test]
fn an_answer_has_some_mib_whatever_the_size_of_the_entries() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    fill_with_large(&remote, 24, 1 << 20);
    let answers = answers(&remote);
    // The first one, of a few entries, shows how large they are.
    for count in [4, 24] {
        let report = host.with_remote(&config(&remote)).fetch(&keys(count), &Query::new(&take));
        assert_eq!(report.missing, []);
        // A later process knows it from the local store.
    }
    let sizes = answers.lock().unwrap().clone();
    assert!(sizes.iter().all(|size| *size <= 16 << 20) && sizes.len() > 3, "{sizes:?}");
    assert!(remote.returned().values().all(|count| *count == 1));
}

/// The entries of many keys appear in the engine while nothing is known of their sizes.
#[test]
fn what_would_fill_the_memory_is_asked_for_again() {
    const COUNT: usize = 14;
    let (remote, host) = (FakeRemote::new(), Host::new());
    let cache = host.with_remote(&config(&remote));
    let missing = cache.fetch(&keys(COUNT), &Query::new(&take)).missing;
    assert_eq!(missing.len(), COUNT);
    let bytes = fill_with_large(&remote, COUNT, 3 << 20);
    let answers = answers(&remote);
    let mut query = Query::new(&take);
    query.fresh_since = Some(Instant::now() + Duration::from_secs(1));
    for number in 0..COUNT {
        let claimed = cache.get_or_begin(&key(&name(number)), &query).unwrap();
        let Claim::Hit(hit) = claimed else { panic!("{number}: {claimed:?}") };
        assert_eq!((hit.entry.key(), hit.source), (&key(&name(number)), Source::Remote));
    }
    let sizes = answers.lock().unwrap().clone();
    assert!(sizes[0] >= bytes * COUNT, "all of them came at once");
    let kept = remote.returned().values().filter(|count| **count == 1).count();
    // The first one has room of its own.
    assert!((1..=(64 << 20) / bytes + 1).contains(&kept), "{kept}");
    assert!(sizes[1..].iter().all(|size| *size <= 16 << 20), "{sizes:?}");
}

/// Damage behind the head of an entry shows what was read of it.
#[test]
#[expect(clippy::disallowed_methods, reason = "the entry is damaged")]
fn a_fetch_reads_no_local_entry_as_a_whole() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    fill(&remote, 0..4);
    let cache = host.with_remote(&config(&remote));
    cache.fetch(&keys(2), &Query::new(&take));
    let path = cache.store().unwrap().path(&key(&name(0)));
    let mut file = std::fs::read(&path).unwrap();
    let object = text(0);
    let at = file.windows(object.len()).position(|part| part == object.as_bytes()).unwrap();
    file[at] ^= 1;
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, file).unwrap();
    let mut fetched = cache.fetch(&keys(4), &Query::new(&take)).fetched;
    fetched.sort_unstable();
    let mut others = keys(4)[2..].to_vec();
    others.sort_unstable();
    assert_eq!(fetched, others);
    // Nothing at all is read for a caller that has looked up all keys, unless its process has fetched them before.
    let report = cache.fetch_lacking(&keys(4), keys(1), &Query::new(&take));
    assert_eq!((report.fetched, remote.count(Get)), (keys(1), 2));
    let cache = host.with_remote(&config(&remote));
    let report = cache.fetch_lacking(&keys(4), keys(1), &Query::new(&take));
    assert_eq!((report.fetched, host.warnings()), (keys(1), Vec::new()));
    let report = cache.fetch_lacking(&keys(4), Vec::new(), &Query::new(&take));
    assert_eq!((report.fetched.len() + report.missing.len(), remote.count(Get)), (0, 3));
}

#[test]
fn a_fetch_takes_what_arrives_and_refuses_what_is_wrong() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    fill(&remote, 0..6);
    remote.set_object(&entry_name(&name(1)), b"no entry".to_vec());
    remote.set_object(&entry_name(&name(2)), remote.object(&entry_name(&name(3))).unwrap());
    let cache = host.with_remote(&config(&remote));
    let accept = |entry: &Entry| match writer(entry) {
        4 => Accept::Replace("it is for another chip".to_owned()),
        5 => Accept::Ignore,
        _ => Accept::Take,
    };
    let mut report = cache.fetch(&keys(8), &Query::new(&accept));
    report.fetched.sort_unstable();
    report.refused.sort_unstable();
    let number = |key: &Digest| keys(8).iter().position(|other| other == key).unwrap();
    let mut fetched: Vec<_> = report.fetched.iter().map(number).collect();
    let mut refused: Vec<_> = report.refused.iter().map(|(key, _)| number(key)).collect();
    fetched.sort_unstable();
    refused.sort_unstable();
    assert_eq!((fetched, refused), (vec![0, 3], vec![1, 2, 4]));
    assert_eq!(report.missing.iter().map(number).collect::<Vec<_>>(), [5, 6, 7]);
    assert_eq!(host.warned(), [WarningKind::Remote; 3]);
    assert!((1..3).chain(4..8).all(|number| local(&cache, number).is_none()));
    // An own build replaces what was refused, and nothing else. There is no second warning.
    for number in [1, 5] {
        let query = Query::new(&accept);
        publish(build(cache.get_or_begin(&key(&name(number)), &query).unwrap()), number + 10);
    }
    assert_eq!((remote.count(Replace), remote.count(Put)), (1, 1));
    assert!(host.warnings().is_empty());
    let third = Host::new();
    assert_eq!(hit(claim(&third.with_remote(&config(&remote)), &name(1))), (11, Source::Remote));
    assert_eq!(hit(claim(&third.with_remote(&config(&remote)), &name(5))), (5, Source::Remote));
}

#[test]
fn half_an_answer_counts() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    fill(&remote, 0..10);
    remote.set_faults(RemoteFaults { fails_after: Some(4), ..RemoteFaults::default() });
    let cache = host.with_remote(&config(&remote));
    let report = cache.fetch(&keys(10), &Query::new(&take));
    assert_eq!((report.fetched.len(), report.missing.len()), (4, 6));
    assert!(host.warned().contains(&WarningKind::Remote));
}

#[test]
fn more_or_other_answers_than_requests_are_invalid() {
    let faults: [fn() -> RemoteFaults; 2] = [
        || RemoteFaults { repeats: true, ..RemoteFaults::default() },
        || RemoteFaults { answers_too_much: true, ..RemoteFaults::default() },
    ];
    for faults in faults {
        let (remote, host) = (FakeRemote::new(), Host::new());
        fill(&remote, 0..3);
        remote.set_faults(faults());
        let cache = host.with_remote(&config(&remote));
        let report = cache.fetch(&keys(3), &Query::new(&take));
        // Each entry is what its digests say.
        assert_eq!(report.fetched.len(), 3);
        let warnings = host.warnings();
        assert!(warnings[0].1.contains("invalid answer"), "{warnings:?}");
        drop(build(claim(&cache, "sigmoid")));
    }
}

#[test]
fn without_a_remote_tier_everything_is_missing() {
    let host = Host::new();
    let cache = host.cache();
    publish(build(claim(&cache, &name(0))), 0);
    let report = cache.fetch(&keys(3), &Query::new(&take));
    assert_eq!((report.fetched.len(), report.missing.len()), (0, 2));
}

/// Another host has all leases. This one looks at them once, and makes no call for each key.
#[test]
fn keys_that_another_host_builds_cost_no_calls() {
    const COUNT: usize = 148;
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    let (first, second) = (one.with_remote(&config(&remote)), other.with_remote(&config(&remote)));
    first.fetch(&keys(COUNT), &Query::new(&take));
    let tickets: Vec<_> = (0..COUNT).map(|number| build(claim(&first, &name(number)))).collect();
    let calls = remote.calls().len();
    second.fetch(&keys(COUNT), &Query::new(&take));
    let began = Instant::now();
    let waiters: Vec<_> = (0..COUNT).map(|number| pending(claim(&second, &name(number)))).collect();
    let made = remote.calls()[calls..].to_vec();
    let count = |call: RemoteCall| made.iter().filter(|made| **made == call).count();
    // On an overloaded machine, the board is refreshed while the keys are begun.
    let refreshed = 2 + began.elapsed().as_millis() as usize / 250;
    assert!((2..=2 + refreshed).contains(&count(Get)), "{made:?}");
    assert_eq!((count(ClaimCall), count(Put)), (0, 0), "{made:?}");
    // All entries arrive with a few more calls.
    let gets = remote.count(Get);
    for (number, ticket) in (0..).zip(tickets) {
        publish(ticket, number);
    }
    let published = remote.count(Get) - gets;
    for (number, waiter) in (0..).zip(waiters) {
        assert_eq!(hit(settle(&second, Claim::Pending(waiter))), (number, Source::Remote));
    }
    let waited = remote.count(Get) - gets - published;
    assert!(waited < COUNT / 4, "{waited} calls");
    assert_eq!(remote.count(ClaimCall), COUNT, "those of the first host");
}

/// With a counter, a batch comes when an entry is published, and not before.
#[test]
fn a_counter_says_when_to_look() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    let (first, second) = (one.with_remote(&config(&remote)), other.with_remote(&config(&remote)));
    for cache in [&first, &second] {
        cache.fetch(&keys(2), &Query::new(&take));
    }
    let ticket = build(claim(&first, &name(0)));
    let waiter = pending(claim(&second, &name(0)));
    let gets = remote.count(Get);
    remote.wait_for(Progress, 5);
    assert_eq!(remote.count(Get), gets);
    publish(ticket, 1);
    assert_eq!(hit(settle(&second, Claim::Pending(waiter))), (1, Source::Remote));
    assert_eq!((remote.count(Get), remote.count(Advance), remote.counters()), (gets + 1, 1, vec![1]));
    // A ticket that ends without an entry is progress, too.
    let ticket = build(claim(&first, &name(1)));
    let waiter = pending(claim(&second, &name(1)));
    drop(ticket);
    assert_eq!(remote.counters(), [2]);
    drop(build(settle(&second, Claim::Pending(waiter))));
}

/// An engine that loses its counters and leases, or has no counters, or fails at each second call, costs time and work only.
#[test]
fn without_counters_or_leases_the_entries_are_found() {
    let faults: [fn() -> RemoteFaults; 2] = [
        || RemoteFaults { has_no_counters: true, ..RemoteFaults::default() },
        || RemoteFaults { evicts_leases: true, ..RemoteFaults::default() },
    ];
    for faults in faults {
        let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
        let (first, second) = (one.with_remote(&config(&remote)), other.with_remote(&config(&remote)));
        for cache in [&first, &second] {
            cache.fetch(&keys(1), &Query::new(&take));
        }
        let ticket = build(claim(&first, &name(0)));
        remote.set_faults(faults());
        let waiter = pending(claim(&second, &name(0)));
        publish(ticket, 1);
        assert_eq!(hit(settle(&second, Claim::Pending(waiter))), (1, Source::Remote));
    }
}

/// A tier that fails during a wait is asked again, until it is paused: then the caller builds.
#[test]
fn a_tier_that_fails_during_a_wait_ends_it() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    let _ticket = build(claim(&one.with_remote(&config(&remote)), "relu"));
    let cache = other.with_remote(&config(&remote));
    let waiter = pending(claim(&cache, "relu"));
    remote.set_faults(RemoteFaults { is_gone: true, ..RemoteFaults::default() });
    drop(build(settle(&cache, Claim::Pending(waiter))));
    let warned = host_warnings(&other);
    assert!((1..=3).contains(&warned), "{warned}");
}

fn host_warnings(host: &Host) -> usize {
    host.warned().len()
}

/// A host that does not publish, and only reads, waits for no other host.
#[test]
fn a_wait_ends_with_its_pending_key() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    let mut config = config(&remote);
    config.lease_ttl = Duration::from_millis(300);
    let _ticket = build(claim(&one.with_remote(&config), "relu"));
    let cache = other.with_remote(&config);
    let waiter = pending(claim(&cache, "relu"));
    let gets = remote.count(Get);
    until("a batch", || remote.count(Get) > gets);
    drop(waiter);
    // A batch may be in progress.
    let gets = remote.count(Get) + 1;
    std::thread::sleep(Duration::from_millis(400));
    assert!(remote.count(Get) <= gets);
}

/// As for one key: without an answer to the look with the leases in hand, nothing is known of another host.
#[test]
fn leases_of_many_keys_stay_if_the_next_call_fails() {
    const COUNT: usize = 16;
    let (remote, host) = (FakeRemote::new(), Host::new());
    let cache = host.with_remote(&config(&remote));
    let (engine, has_claimed) = (remote.clone(), AtomicBool::new(false));
    remote.on_call(move |call, _| {
        let is_gone = call == Get && has_claimed.load(Ordering::SeqCst);
        has_claimed.fetch_or(call == ClaimCall, Ordering::SeqCst);
        engine.set_faults(RemoteFaults { is_gone, ..RemoteFaults::default() });
    });
    let claims = cache.get_or_begin_many(&keys(COUNT), COUNT, &Query::new(&take)).unwrap();
    let tickets: Vec<_> = claims.into_iter().map(|claim| build(claim.unwrap())).collect();
    assert_eq!((remote.count(ClaimCall), remote.count(Release)), (1, 0));
    assert!(keys(COUNT).iter().all(|key| remote.is_leased(key)));
    assert_eq!(host.warned(), [WarningKind::Remote]);
    Ticket::drop_all(tickets);
    assert_eq!(remote.count(Release), 1);
}

/// The locks of many keys may take longer than an answer is believed. What the request has asked for it does not ask for again.
#[test]
fn a_slow_request_for_many_keys_makes_no_more_calls() {
    const COUNT: usize = 8;
    let (remote, host) = (FakeRemote::new(), Host::new());
    publish(build(claim(&host.cache(), &name(COUNT / 2))), 0);
    let (cache, began) = (host.with_remote(&config(&remote)), Instant::now());
    cache.fetch(&keys(COUNT), &Query::new(&take));
    // Half of the keys are begun by then.
    let slow = |_: &Entry| {
        thread::sleep(Duration::from_millis(300));
        Accept::Take
    };
    let mut query = Query::new(&slow);
    query.fresh_since = Some(began);
    let claims = cache.get_or_begin_many(&keys(COUNT), COUNT, &query).unwrap();
    assert_eq!(claims.iter().filter(|claim| matches!(claim, Some(Claim::Build(_)))).count(), COUNT - 1);
    // The entries, the leases, the claims, and the entries with the leases in hand.
    let calls: Vec<_> = remote.calls().into_iter().filter(|call| *call != RemoteCall::Capabilities).collect();
    assert_eq!(calls, [Get, Get, ClaimCall, Get]);
}

/// Of many granted leases, other hosts have taken over some, which are released together.
#[test]
fn leases_of_many_keys_that_do_not_hold_are_released_in_one_call() {
    const COUNT: usize = 16;
    let (remote, host) = (FakeRemote::new(), Host::new());
    let cache = host.with_remote(&config(&remote));
    let value = LeaseValue::new(LeaseToken::new([7; 16]), 0).to_string().into_bytes();
    let engine = remote.clone();
    remote.on_call(move |call, _| {
        if call == ClaimCall {
            for number in 0..COUNT / 2 {
                engine.set_object(&lease_name(&name(number), 1), value.clone());
            }
        }
    });
    let claims = cache.get_or_begin_many(&keys(COUNT), COUNT, &Query::new(&take)).unwrap();
    let (tickets, waiting): (Vec<_>, Vec<_>) =
        claims.into_iter().flatten().partition(|claim| matches!(claim, Claim::Build(_)));
    assert_eq!((tickets.len(), waiting.len()), (COUNT / 2, COUNT / 2));
    assert_eq!((remote.count(ClaimCall), remote.count(Release)), (1, 1));
}

/// While the leases of many keys are confirmed, another thread asks for the leases on all keys of the plan.
#[test]
fn own_leases_are_not_taken_for_those_of_another_host() {
    const COUNT: usize = 8;
    let (remote, host) = (FakeRemote::new(), Host::new());
    let cache = Arc::new(host.with_remote(&config(&remote)));
    cache.fetch(&keys(COUNT + 1), &Query::new(&take));
    let (engine, other, has_looked) = (remote.clone(), Arc::downgrade(&cache), AtomicBool::new(false));
    remote.on_call(move |call, _| {
        if call != Get || engine.count(ClaimCall) == 0 || has_looked.swap(true, Ordering::SeqCst) {
            return;
        }
        let other = other.upgrade().unwrap();
        let looks = move || {
            let mut query = Query::new(&take);
            query.fresh_since = Some(Instant::now() + Duration::from_secs(1));
            drop(other.get_or_begin(&key(&name(COUNT)), &query).unwrap());
        };
        thread::spawn(looks).join().unwrap();
    });
    let claims = cache.get_or_begin_many(&keys(COUNT), COUNT, &Query::new(&take)).unwrap();
    let tickets: Vec<_> = claims.into_iter().map(|claim| build(claim.unwrap())).collect();
    assert_eq!(
        (tickets.len(), remote.count(ClaimCall)),
        (COUNT, 2),
        "one for all, and one of the other thread"
    );
}

/// Some engines have a request for each object. A call for all of a large build would take longer than a call may.
#[test]
fn no_call_asks_for_more_than_an_engine_answers_in_time() {
    const COUNT: usize = 1100;
    let (remote, host, most) = (FakeRemote::new(), Host::new(), Arc::new(AtomicUsize::new(0)));
    let largest = Arc::clone(&most);
    remote.on_call(move |call, names| {
        let asked = if call == Get { names.len() } else { 0 };
        largest.fetch_max(asked, Ordering::SeqCst);
    });
    remote.set_faults(RemoteFaults { holds_every_lease: true, ..RemoteFaults::default() });
    let mut config = config(&remote);
    config.lease_ttl = Duration::from_secs(3);
    let cache = host.with_remote(&config);
    let keys = keys(COUNT);
    assert_eq!(cache.fetch(&keys, &Query::new(&take)).missing.len(), COUNT);
    let waiting: Vec<_> =
        keys.iter().map(|key| pending(cache.get_or_begin(key, &Query::new(&take)).unwrap())).collect();
    // Callers wait for all of them, and all are asked for again.
    let (before, asked) = (remote.count(Get), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&asked);
    let largest = Arc::clone(&most);
    remote.on_call(move |call, names| {
        if call == Get {
            largest.fetch_max(names.len(), Ordering::SeqCst);
            counted.fetch_add(
                names.iter().filter(|name| name.as_str().contains("/e/")).count(),
                Ordering::SeqCst,
            );
        }
    });
    until("a batch for all keys", || asked.load(Ordering::SeqCst) >= COUNT);
    assert!(remote.count(Get) > before);
    cache.peek_remote(&keys, &Query::new(&take));
    drop(waiting);
    assert!((1..=1024).contains(&most.load(Ordering::SeqCst)), "{most:?}");
}

/// A killed process of this host had the leases, which one host takes over. It releases them with its own.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test leaves the locks of a killed process")]
fn leases_that_were_taken_over_are_released_in_one_call() {
    const COUNT: usize = 16;
    let (remote, host) = (FakeRemote::new(), Host::new());
    let cache = host.with_remote(&config(&remote));
    let value = LeaseValue::new(LeaseToken::new([7; 16]), 0).to_string();
    for number in 0..COUNT {
        remote.set_object(&lease_name(&name(number), 0), value.clone().into_bytes());
        let lock = host.lock_path(&key(&name(number)));
        std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
        std::fs::write(lock, format!("note: lease 0 {value}")).unwrap();
    }
    let claims = cache.get_or_begin_many(&keys(COUNT), COUNT, &Query::new(&take)).unwrap();
    let tickets: Vec<_> = claims.into_iter().map(|claim| build(claim.unwrap())).collect();
    assert_eq!(remote.object_names().len(), 2 * COUNT);
    Ticket::drop_all(tickets);
    assert_eq!((remote.count(Release), remote.object_names().len()), (2, 0));
}
