//! What a cache counts of the remote tier, in this process and in the store's statistics, and the events that it sends.

#![expect(clippy::disallowed_methods, reason = "a test leaves the lock of a killed process")]

use std::fs;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use opkeep_cache::trust::SigningKey;
use opkeep_cache::{
    Cache, CacheEvent, Claim, LeaseToken, LeaseValue, Query, RefusalKind, RemoteConfig, RemoteStatus, Source,
    TargetCache, Wait,
};
use opkeep_store::{Entry, Statistics};
use opkeep_testkit::remote::{FakeRemote, RemoteCall, RemoteFaults};

use crate::common::{
    Host, TARGET, build, builder, claim, entry_name, held_up, hit, key, lease_name, pending, publish, settle,
    take, text, until,
};
use crate::signing::{Key, RIGHT, cache, file, name_of, new_key, remote_config, trust};

/// What this process counted, after a check that the store got the same.
fn counted(cache: &TargetCache) -> Statistics {
    let (own, stored) = (cache.activity(), cache.store().unwrap().statistics());
    let of_store = |name: &str| stored.all().find(|(other, _)| *other == name).unwrap().1;
    for (name, number) in own.all().filter(|(name, _)| *name != "since") {
        // The store adds what its own hits saved.
        let is_sum = name == "saved-us" && number < of_store(name);
        assert!(number == 0 || number == of_store(name) || is_sum, "{name}: {number}, {}", of_store(name));
    }
    own
}

/// The events of a cache.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

impl Events {
    fn open(&self, host: &Host, remote: &RemoteConfig) -> (Cache, TargetCache) {
        let mut config = host.config();
        let seen = Arc::clone(&self.0);
        config.remote = Some(remote.clone());
        config.on_event = Some(Arc::new(move |event| {
            let text = match event {
                CacheEvent::Sent { entries, .. } => format!("sent {entries}"),
                CacheEvent::NotSent { entries, is_refused, .. } => format!("not sent {entries} {is_refused}"),
                other => format!("{other:?}"),
            };
            seen.lock().unwrap().push(text);
        }));
        let cache = Cache::open(config).unwrap();
        let target = cache.target(TARGET).unwrap();
        (cache, target)
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[test]
fn objects_count_on_both_sides_and_local_hits_do_not() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    let (first, events) = (one.with_remote(&remote_config(&remote)), Events::default());
    publish(build(claim(&first, "relu")), 1);
    let bytes = remote.object(&entry_name("relu")).unwrap().len() as u64;
    let sent = counted(&first);
    assert_eq!((sent.remote_puts, sent.remote_bytes_sent, sent.remote_hits), (1, bytes, 0));
    let (_, second) = events.open(&other, &remote_config(&remote));
    assert_eq!(hit(claim(&second, "relu")), (1, Source::Remote));
    let found = counted(&second);
    assert_eq!((found.remote_hits, found.remote_shared, found.remote_bytes_received), (1, 0, bytes));
    assert_eq!((found.remote_failures, found.lost_host_micros, found.takeovers), (0, 0, 0));
    // The other host compiled for so long; a hit of the local store counts in the store only.
    assert_eq!((found.saved_micros, second.store().unwrap().statistics().saved_micros), (5000, 5000));
    assert_eq!(hit(claim(&second, "relu")), (1, Source::Local));
    assert_eq!((counted(&second), events.take()), (found, vec![]));
    assert_eq!(second.store().unwrap().statistics().saved_micros, 10_000);
    // What is counted outlives the process.
    drop((first, second));
    let later = other.cache().store().unwrap().statistics();
    assert_eq!((later.remote_hits, later.remote_bytes_received), (1, bytes));
}

/// Each way to refuse an entry is its own counter, once for each entry.
#[test]
fn what_is_refused_counts_by_its_reason() {
    let [one, twin, stranger] = [new_key("one"), new_key("one"), new_key("stranger")];
    let object = text(1);
    let good = builder(&object);
    let signed = |by: &[&Key]| {
        let by: Vec<&SigningKey> = by.iter().map(|key| &***key).collect();
        file("relu", &good, &RIGHT.sign(&good, &by).encode())
    };
    let cut = |mut file: Vec<u8>| {
        file.pop();
        file
    };
    let cases = [
        (RefusalKind::Damaged, cut(signed(&[&one]))),
        (RefusalKind::Unsigned, good.encode(&key("relu")).unwrap()),
        (RefusalKind::Untrusted, signed(&[&stranger])),
        (RefusalKind::Forged, signed(&[&twin])),
    ];
    for (kind, content) in cases {
        let (remote, host) = (FakeRemote::new(), Host::new());
        remote.set_object(&name_of("relu", &one), content.clone());
        let reader = cache(&host, &remote, &trust(None, Some(&[&one])));
        let peeked = reader.peek_remote(&[key("relu"), key("tanh")], &Query::new(&take));
        let [RemoteStatus::Refused { bytes, kind: found, .. }, RemoteStatus::Absent] = &peeked[..] else {
            panic!("{peeked:?}");
        };
        assert_eq!((*found, *bytes), (kind, content.len() as u64));
        assert_eq!(
            (refusals(&counted(&reader)), host.warnings().len()),
            ([0; 5], 0),
            "a look changes nothing"
        );
        drop(build(claim(&reader, "relu")));
        drop(build(claim(&reader, "relu")));
        let mut expected = [0; 5];
        expected[RefusalKind::ALL.iter().position(|one| *one == kind).unwrap()] = 1;
        assert_eq!(refusals(&counted(&reader)), expected, "{kind:?}");
    }
    // The caller cannot use it.
    let (remote, host) = (FakeRemote::new(), Host::new());
    remote.set_object(&entry_name("relu"), good.encode(&key("relu")).unwrap());
    let reader = host.with_remote(&remote_config(&remote));
    let judge = |_: &Entry| opkeep_cache::Accept::Replace("another kernel".to_owned());
    let peeked = reader.peek_remote(&[key("relu")], &Query::new(&judge));
    assert!(matches!(&peeked[..], [RemoteStatus::Refused { kind: RefusalKind::Invalid, .. }]), "{peeked:?}");
    drop(build(reader.get_or_begin(&key("relu"), &Query::new(&judge)).unwrap()));
    assert_eq!(refusals(&counted(&reader)), [0, 0, 0, 0, 1]);
}

fn refusals(counted: &Statistics) -> [u64; 5] {
    let Statistics {
        refused_damaged,
        refused_unsigned,
        refused_untrusted,
        refused_forged,
        refused_invalid,
        ..
    } = *counted;
    [refused_damaged, refused_unsigned, refused_untrusted, refused_forged, refused_invalid]
}

/// A look takes nothing, stores nothing, and is one call.
#[test]
fn a_look_at_the_tier_changes_nothing() {
    let [one, own] = [new_key("one"), new_key("own")];
    let (remote, host) = (FakeRemote::new(), Host::new());
    let object = text(1);
    let good = builder(&object);
    let unsigned = good.encode(&key("relu")).unwrap();
    // Of two signers, one has a good entry.
    remote.set_object(&name_of("relu", &own), unsigned);
    remote.set_object(&name_of("relu", &one), file("relu", &good, &RIGHT.sign(&good, &[&one]).encode()));
    let before = remote.object_names();
    let reader = cache(&host, &remote, &trust(Some(&own), Some(&[&one, &own])));
    let peeked = reader.peek_remote(&[key("tanh"), key("relu")], &Query::new(&take));
    assert!(matches!(&peeked[..], [RemoteStatus::Absent, RemoteStatus::Available { .. }]), "{peeked:?}");
    assert_eq!((remote.calls(), remote.object_names()), (vec![RemoteCall::Get], before));
    assert_eq!(reader.store().unwrap().keys(9), []);
    assert_eq!((counted(&reader).remote_hits, host.warnings().len()), (0, 0));
    // Half an answer: what arrived is known.
    remote.set_faults(RemoteFaults { fails_after: Some(1), ..RemoteFaults::default() });
    let peeked = reader.peek_remote(&[key("relu"), key("tanh")], &Query::new(&take));
    let [RemoteStatus::Refused { .. }, RemoteStatus::Unknown { reason, .. }] = &peeked[..] else {
        panic!("{peeked:?}");
    };
    assert!(!reason.is_empty() && host.warnings().is_empty());
    // After three failures the tier is paused, and not asked.
    remote.set_faults(RemoteFaults { is_gone: true, ..RemoteFaults::default() });
    let paused = |_| match reader.peek_remote(&[key("relu")], &Query::new(&take)).as_slice() {
        [RemoteStatus::Unknown { is_paused, .. }] => (*is_paused, remote.calls().len()),
        other => panic!("{other:?}"),
    };
    let paused: Vec<_> = (0..3).map(paused).collect();
    assert_eq!(paused, [(false, 3), (false, 4), (true, 4)]);
}

/// The wait for a killed host counts, and so does the lease that was taken over.
#[test]
fn a_lease_that_is_taken_over_counts_and_so_does_the_wait() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let value = LeaseValue::new(LeaseToken::new([9; 16]), 0).to_string();
    remote.set_object(&lease_name("relu", 0), value.into_bytes());
    let mut config = remote_config(&remote);
    // On a busy machine, finding the lease takes a part of the time to live, which is no wait.
    config.lease_ttl = Duration::from_secs(1);
    let cache = host.with_remote(&config);
    let mut query = Query::new(&take);
    query.wait = Wait::ForHolder { on_wait: None };
    let began = Instant::now();
    let ticket = build(cache.get_or_begin(&key("relu"), &query).unwrap());
    let (took, found) = (began.elapsed(), counted(&cache));
    assert!(ticket.is_takeover());
    assert_eq!((found.takeovers, found.host_waits), (1, 1));
    let lost = Duration::from_micros(found.lost_host_micros);
    assert!(lost > config.lease_ttl / 2 && lost <= took, "{lost:?} of {took:?}");
    assert_eq!(found.lost_process_micros, 0);
    drop(ticket);
    let next = build(claim(&cache, "relu"));
    assert!(!next.is_takeover());
    assert_eq!(counted(&cache).takeovers, 1);
}

/// A host takes over from another one, and its process is killed: the next process finds the note of that lease, and does not wait.
#[test]
fn the_note_of_a_takeover_is_left_for_the_next_process() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let first = LeaseValue::new(LeaseToken::new([9; 16]), 0).to_string();
    remote.set_object(&lease_name("relu", 0), first.clone().into_bytes());
    let mut config = remote_config(&remote);
    config.lease_ttl = Duration::from_millis(200);
    let cache = host.with_remote(&config);
    let mut query = Query::new(&take);
    query.wait = Wait::ForHolder { on_wait: None };
    let ticket = build(cache.get_or_begin(&key("relu"), &query).unwrap());
    assert!(ticket.is_takeover());
    let lock = host.lock_path(&key("relu"));
    let note = fs::read(&lock).unwrap();
    let second = remote.object(&lease_name("relu", 1)).unwrap();
    drop((ticket, cache));
    for is_first_deleted in [false, true] {
        // As the kill leaves them.
        let remote = FakeRemote::new();
        remote.set_object(&lease_name("relu", 1), second.clone());
        if !is_first_deleted {
            remote.set_object(&lease_name("relu", 0), first.clone().into_bytes());
        }
        fs::write(&lock, &note).unwrap();
        let next = host.with_remote(&remote_config(&remote));
        let before = next.activity();
        let ticket = build(claim(&next, "relu"));
        let after = next.activity();
        assert!(!ticket.is_takeover(), "{is_first_deleted}");
        let waits = |found: &Statistics| (found.takeovers, found.host_waits);
        assert_eq!(waits(&after), waits(&before), "{is_first_deleted}");
    }
}

/// A killed process of this host left its lease: the next one knows that by the lock, does not wait, and counts no other host.
#[test]
fn a_lease_that_this_host_left_is_no_takeover() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let cache = host.with_remote(&remote_config(&remote));
    // As a process leaves them that is killed with the lease, and one that had taken over from it.
    for generation in [0, 1] {
        let value = LeaseValue::new(LeaseToken::new([9 + generation; 16]), 0);
        remote.set_object(&lease_name("relu", generation.into()), value.to_string().into_bytes());
        let lock = host.lock_path(&key("relu"));
        fs::create_dir_all(lock.parent().unwrap()).unwrap();
        fs::write(lock, format!("note: lease {generation} {value}")).unwrap();
        let ticket = build(claim(&cache, "relu"));
        assert!(!ticket.is_takeover(), "{generation}");
        let found = counted(&cache);
        assert_eq!((found.takeovers, found.host_waits), (0, 0), "{generation}");
        drop(ticket);
    }
}

#[test]
fn waits_for_hosts_and_for_processes_are_apart() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    let ticket = build(claim(&one.with_remote(&remote_config(&remote)), "relu"));
    let cache = other.with_remote(&remote_config(&remote));
    let first = pending(claim(&cache, "relu"));
    let second = pending(claim(&cache, "relu"));
    assert!(first.waits_for_host() && !second.waits_for_host());
    first.count_lost(Duration::from_millis(30));
    second.count_lost(Duration::from_millis(50));
    publish(ticket, 1);
    assert_eq!(hit(settle(&cache, Claim::Pending(first))), (1, Source::Remote));
    assert_eq!(hit(settle(&cache, Claim::Pending(second))), (1, Source::Waited));
    let found = counted(&cache);
    assert_eq!((found.host_waits, found.remote_hits, found.remote_shared), (1, 1, 1));
    assert_eq!((found.lost_host_micros, found.lost_process_micros), (30_000, 50_000));
}

#[test]
fn what_is_not_sent_counts_by_its_reason() {
    let (remote, host, events) = (FakeRemote::new(), Host::new(), Events::default());
    let (_, cache) = events.open(&host, &remote_config(&remote));
    for (name, (faults, expected, event)) in ["relu 1", "relu 2"].into_iter().zip([
        (RemoteFaults { is_full: true, ..RemoteFaults::default() }, (1, 0, 1), "not sent 1 true"),
        (RemoteFaults { is_gone: true, ..RemoteFaults::default() }, (1, 1, 2), "not sent 1 false"),
    ]) {
        let ticket = build(claim(&cache, name));
        remote.set_faults(faults);
        publish(ticket, 1);
        remote.set_faults(RemoteFaults::default());
        let found = counted(&cache);
        assert_eq!((found.uploads_refused, found.uploads_unsent), (expected.0, expected.1));
        assert!(found.remote_failures >= expected.2, "{found:?}");
        assert_eq!((found.remote_puts, events.take()), (0, vec![event.to_owned()]));
    }
    publish(build(claim(&cache, "relu")), 1);
    assert_eq!(events.take(), ["sent 1"]);
    // One above the limit of the queue, while one is being sent and one waits.
    let mut small = remote_config(&remote);
    small.upload_limit = 10;
    let (_, cache) = events.open(&Host::new(), &small);
    let (go, puts, object) = (held_up(&remote), remote.count(RemoteCall::Put), text(2));
    for name in ["gelu", "mish"] {
        build(claim(&cache, name)).publish(&builder(&object)).unwrap();
        remote.wait_for(RemoteCall::Put, puts + 1);
    }
    publish(build(claim(&cache, "tanh")), 1);
    assert_eq!((cache.activity().uploads_unsent, events.take()), (1, vec!["not sent 1 false".to_owned()]));
    go.store(true, Ordering::SeqCst);
}

/// The tier is paused once, by whichever call notices it.
#[test]
fn a_pause_is_one_event() {
    let (remote, host, events) = (FakeRemote::new(), Host::new(), Events::default());
    let (_, cache) = events.open(&host, &remote_config(&remote));
    remote.set_faults(RemoteFaults { is_gone: true, ..RemoteFaults::default() });
    for number in 0..6 {
        drop(build(claim(&cache, &format!("relu {number}"))));
    }
    assert_eq!(events.take(), ["Paused"]);
    assert_eq!(counted(&cache).remote_failures, 3);
}

/// An answer that a caller waits for costs time; one that a thread waits for does not.
#[test]
fn only_the_answers_that_callers_wait_for_are_lost_time() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let cache = host.with_remote(&remote_config(&remote));
    let delay = Duration::from_millis(40);
    remote.set_faults(RemoteFaults { delay, ..RemoteFaults::default() });
    let ticket = build(claim(&cache, "relu"));
    let lost = Duration::from_micros(counted(&cache).lost_remote_micros);
    // It looked the entry up, asked what the engine does, claimed, and confirmed.
    assert!(lost >= delay * 3, "{lost:?}");
    let object = text(1);
    assert!(ticket.publish(&builder(&object)).unwrap().remote);
    // It is counted after the call.
    until("the upload", || cache.activity().remote_puts == 1);
    assert_eq!(Duration::from_micros(counted(&cache).lost_remote_micros), lost);
}
