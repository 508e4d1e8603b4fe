//! Remote tiers that work, and ones that do not. None of them fails a build, and none serves a wrong entry.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use opkeep_cache::{
    Accept, Cache, CacheError, Claim, ExclusiveCreate, Query, RemotePolicy, Source, TargetCache,
    UnsharedReason, WarningKind,
};
use opkeep_store::{CacheMode, Entry, EntryBuilder, PutOutcome, StoreConfig};
use opkeep_testkit::remote::RemoteCall::{Capabilities, Claim as ClaimCall, Get, Put, Release, Replace};
use opkeep_testkit::remote::{FakeRemote, RemoteFaults};

use crate::common::{
    Host, STAMP, build, builder, claim, config, entry_name, hit, key, open, publish, sharing, take, text,
    until, writer,
};

#[test]
fn an_entry_of_one_host_is_a_hit_on_the_other() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    let published = publish(build(claim(&one.with_remote(&config(&remote)), "relu")), 1);
    assert!(published.remote);
    // The lease is released when waiters find the entry.
    assert_eq!(remote.calls(), [Get, Capabilities, ClaimCall, Get, Put, Release]);

    let cache = other.with_remote(&config(&remote));
    let stamps = Mutex::new(Vec::new());
    let accept = |entry: &Entry| {
        stamps.lock().unwrap().push(entry.validation());
        Accept::Take
    };
    let found = hit(cache.get_or_begin(&key("relu"), &Query::new(&accept)).unwrap());
    assert_eq!(found, (1, Source::Remote));
    // The entry is in the store, and no lock remains.
    assert!(!other.lock_path(&key("relu")).exists());
    assert_eq!(hit(cache.get_or_begin(&key("relu"), &Query::new(&accept)).unwrap()), (1, Source::Local));
    // The rules that another host applied do not count here.
    assert_eq!(stamps.into_inner().unwrap(), [0, 0]);
    assert_eq!(remote.count(Get), 3);
    let statistics = cache.store().unwrap().statistics();
    assert_eq!((statistics.remote_hits, statistics.remote_puts, statistics.remote_errors), (1, 0, 0));
    assert_eq!(statistics.misses_absent, 1);
    assert_eq!(one.cache().store().unwrap().statistics().remote_puts, 1);
    assert!(one.warnings().is_empty() && other.warnings().is_empty());
}

/// Fails unless the answer of the remote tier under `faults` leads to a build with one warning.
fn is_never_served(remote: &FakeRemote, host: &Host, faults: RemoteFaults) {
    let cache = host.with_remote(&config(remote));
    remote.set_faults(faults.clone());
    let judged = AtomicUsize::new(0);
    let accept = |_: &Entry| {
        judged.fetch_add(1, Ordering::Relaxed);
        Accept::Take
    };
    let claim = cache.get_or_begin(&key("relu"), &Query::new(&accept)).unwrap();
    assert!(matches!(claim, Claim::Build(_)), "{faults:?}: {claim:?}");
    assert_eq!(judged.into_inner(), 0, "{faults:?}: the caller judges no damage");
    // There is one look-up before the lease, and one with it.
    assert_eq!(host.warned(), [WarningKind::Remote], "{faults:?}");
}

#[test]
fn no_flipped_bit_is_served() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    publish(build(claim(&one.with_remote(&config(&remote)), "relu")), 1);
    let bits = 8 * remote.object(&entry_name("relu")).unwrap().len();
    for bit in 0..bits {
        let faults = RemoteFaults { flips_bit: Some(bit), ..RemoteFaults::default() };
        is_never_served(&remote, &other, faults);
    }
    let cache = other.with_remote(&config(&remote));
    assert_eq!(cache.store().unwrap().statistics().remote_errors, bits as u64);
    // The tier works again.
    remote.set_faults(RemoteFaults::default());
    assert_eq!(hit(claim(&cache, "relu")), (1, Source::Remote));
}

#[test]
fn no_entry_that_is_cut_or_of_another_key_is_served() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    let cache = one.with_remote(&config(&remote));
    publish(build(claim(&cache, "relu")), 1);
    publish(build(claim(&cache, "sigmoid")), 2);
    let length = remote.object(&entry_name("relu")).unwrap().len();
    for cuts in [1, 40, length - 1, length] {
        is_never_served(&remote, &other, RemoteFaults { cuts, ..RemoteFaults::default() });
    }
    let answers_with = Some(entry_name("sigmoid"));
    is_never_served(&remote, &other, RemoteFaults { answers_with, ..RemoteFaults::default() });
    remote.set_object(&entry_name("relu"), b"OPKKERN\0 and nothing like an entry".to_vec());
    is_never_served(&remote, &other, RemoteFaults::default());
}

#[test]
fn a_lazy_member_with_a_wrong_digest_is_not_served() {
    // One digest in the table does not match its bytes, and all others do.
    let (remote, host) = (FakeRemote::new(), Host::new());
    let object = text(1);
    let good = builder(&object).encode(&key("relu")).unwrap();
    let digest = opkeep_digest::Digest::of(object.as_bytes());
    let at: Vec<_> = (0..good.len() - 32).filter(|at| good[*at..*at + 32] == *digest.as_bytes()).collect();
    let [_, lazy] = at[..] else { panic!("two members have it: {at:?}") };
    let mut bad = good.clone();
    bad[lazy] ^= 1;
    let prefix = u32::from_le_bytes(bad[12..16].try_into().unwrap()) as usize;
    let digest = opkeep_digest::Digest::of(&bad[..prefix - 32]);
    bad[prefix - 32..prefix].copy_from_slice(digest.as_bytes());
    assert!(Entry::decode(bad.clone(), Some(&key("relu"))).is_ok());
    remote.set_object(&entry_name("relu"), bad);
    is_never_served(&remote, &host, RemoteFaults::default());
    remote.set_object(&entry_name("relu"), good);
    assert_eq!(hit(claim(&host.with_remote(&config(&remote)), "relu")), (1, Source::Remote));
}

#[test]
fn a_stamp_of_another_host_does_not_count() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let object = text(3);
    let stamped = EntryBuilder::new(u32::MAX).eager("object", object.as_bytes());
    let stamped = stamped.lazy("header", object.as_bytes()).encode(&key("relu")).unwrap();
    remote.set_object(&entry_name("relu"), stamped);
    let cache = host.with_remote(&config(&remote));
    let unstamped = |entry: &Entry| match entry.validation() {
        0 => Accept::Take,
        other => panic!("it has the stamp {other}"),
    };
    let query = Query::new(&unstamped);
    assert_eq!(hit(cache.get_or_begin(&key("relu"), &query).unwrap()), (3, Source::Remote));
    assert_eq!(hit(cache.get_or_begin(&key("relu"), &query).unwrap()), (3, Source::Local));
}

#[test]
fn an_entry_that_the_caller_refuses_is_built_and_replaced() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    publish(build(claim(&one.with_remote(&config(&remote)), "relu")), 1);
    let cache = other.with_remote(&config(&remote));
    let refuse = |entry: &Entry| match writer(entry) {
        1 => Accept::Replace("it is for another chip".to_owned()),
        _ => Accept::Take,
    };
    let ticket = build(cache.get_or_begin(&key("relu"), &Query::new(&refuse)).unwrap());
    let warnings = other.warnings();
    assert!(
        warnings.iter().all(|(kind, text)| *kind == WarningKind::Remote && text.contains("another chip"))
    );
    publish(ticket, 2);
    let third = Host::new();
    assert_eq!(hit(claim(&third.with_remote(&config(&remote)), "relu")), (2, Source::Remote));
    // An entry that the caller ignores is not a failure of the tier.
    let ignore = |_: &Entry| Accept::Ignore;
    let fourth = Host::new();
    drop(build(
        fourth.with_remote(&config(&remote)).get_or_begin(&key("relu"), &Query::new(&ignore)).unwrap(),
    ));
    assert!(fourth.warnings().is_empty());
}

#[test]
fn a_full_tier_is_read_on() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    publish(build(claim(&one.with_remote(&config(&remote)), "relu")), 1);
    remote.set_faults(RemoteFaults { is_full: true, ..RemoteFaults::default() });
    let cache = other.with_remote(&config(&remote));
    for name in ["a", "b", "c", "d"] {
        let published = publish(build(claim(&cache, name)), 2);
        assert_eq!((published.local, published.remote), (Some(PutOutcome::Published), false));
    }
    // Reads that are answered do not end it.
    assert_eq!(other.warned(), [WarningKind::Remote]);
    assert_eq!(hit(claim(&cache, "relu")), (1, Source::Remote));
    let statistics = cache.store().unwrap().statistics();
    assert_eq!((statistics.remote_puts, statistics.remote_errors), (0, 4));
}

/// The next outage is another problem.
#[test]
fn each_outage_is_one_warning() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let cache = host.with_remote(&config(&remote));
    for outage in ["a", "b", "c"] {
        remote.set_faults(RemoteFaults { is_gone: true, ..RemoteFaults::default() });
        // Two calls fail. After a third one, the tier would be paused.
        drop(build(claim(&cache, outage)));
        assert_eq!(host.warned(), [WarningKind::Remote], "{outage}");
        remote.set_faults(RemoteFaults::default());
        assert!(publish(build(claim(&cache, outage)), 1).remote);
        assert!(host.warnings().is_empty());
    }
    assert_eq!(cache.store().unwrap().statistics().remote_errors, 6);
}

#[test]
fn a_tier_that_is_gone_costs_a_few_calls_and_no_build() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    remote.set_faults(RemoteFaults { is_gone: true, ..RemoteFaults::default() });
    let cache = host.with_remote(&config(&remote));
    for number in 0..10 {
        let ticket = build(claim(&cache, &format!("relu_{number}")));
        assert_eq!(publish(ticket, number).local, Some(PutOutcome::Published));
    }
    // After three failures in a row, the tier is paused.
    assert_eq!(remote.calls().len(), 3);
    // One warning; each failure is counted.
    assert_eq!(host.warned(), [WarningKind::Remote]);
    assert_eq!(cache.store().unwrap().statistics().remote_errors, 3);
    assert_eq!(hit(claim(&cache, "relu_4")), (4, Source::Local));
}

#[test]
fn a_slow_tier_is_not_waited_for() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    publish(build(claim(&one.with_remote(&config(&remote)), "relu")), 1);
    let calls = remote.calls().len();
    let mut config = config(&remote);
    config.call_timeout = Duration::from_millis(5);
    // The tier would answer within an hour, but the call ends at the deadline.
    remote.set_faults(RemoteFaults { delay: Duration::from_secs(3600), ..RemoteFaults::default() });
    let cache = other.with_remote(&config);
    for name in ["relu", "sigmoid", "tanh"] {
        assert_eq!(publish(build(claim(&cache, name)), 2).local, Some(PutOutcome::Published));
    }
    assert_eq!(remote.calls().len() - calls, 3);
    // The answer of a tier that ignores the deadline is used, and the tier is soon paused.
    let (delay, ignores_deadlines) = (Duration::from_millis(20), true);
    remote.set_faults(RemoteFaults { delay, ignores_deadlines, ..RemoteFaults::default() });
    let third = Host::new();
    config = self::config(&remote);
    config.call_timeout = Duration::from_millis(5);
    let cache = third.with_remote(&config);
    assert_eq!(hit(claim(&cache, "relu")), (1, Source::Remote));
    let calls = remote.calls().len();
    publish(build(claim(&cache, "sigmoid")), 3);
    publish(build(claim(&cache, "tanh")), 3);
    // A lease that is not released expires.
    assert_eq!(remote.calls()[calls..], [Get, Capabilities]);
    let warnings = third.warnings();
    assert!(matches!(&warnings[..], [(_, text)] if text.contains("took too long")), "{warnings:?}");
}

#[test]
fn a_tier_without_leases_is_used_without() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let exclusive_create = Some(ExclusiveCreate::None);
    remote.set_faults(RemoteFaults { exclusive_create, ..RemoteFaults::default() });
    let cache = host.with_remote(&config(&remote));
    assert!(publish(build(claim(&cache, "relu")), 1).remote);
    assert_eq!(remote.calls(), [Get, Capabilities, Put]);
    drop(build(claim(&cache, "sigmoid")));
    // The warning comes once.
    let warnings = host.warnings();
    assert!(
        matches!(&warnings[..], [(WarningKind::Remote, text)] if text.contains("memory:")),
        "{warnings:?}"
    );
}

#[test]
fn the_policy_and_the_mode_decide_the_uses_of_the_tier() {
    let (remote, one) = (FakeRemote::new(), Host::new());
    publish(build(claim(&one.with_remote(&config(&remote)), "relu")), 1);
    let calls = || {
        let calls = remote.calls();
        move |remote: &FakeRemote| remote.calls()[calls.len()..].to_vec()
    };
    let mut only_read = config(&remote);
    only_read.policy = RemotePolicy::Read;
    let (host, since) = (Host::new(), calls());
    assert_eq!(hit(claim(&host.with_remote(&only_read), "relu")), (1, Source::Remote));
    assert!(!publish(build(claim(&host.with_remote(&only_read), "sigmoid")), 2).remote);
    assert_eq!(since(&remote), [Get, Get]);

    let mut off = config(&remote);
    off.policy = RemotePolicy::Off;
    let (host, since) = (Host::new(), calls());
    publish(build(claim(&host.with_remote(&off), "relu")), 2);
    assert_eq!(since(&remote), []);

    let host = Host::new();
    let in_mode = |mode| {
        let mut config = host.config();
        config.mode = mode;
        config.remote = Some(self::config(&remote));
        open(config)
    };
    // `force` publishes, and reads no entries: so no host waits for another one.
    let (cache, since) = (in_mode(CacheMode::Force), calls());
    assert!(publish(build(claim(&cache, "relu")), 3).remote);
    assert_eq!(since(&remote), [Replace]);
    // `disable` does neither.
    let (cache, since) = (in_mode(CacheMode::Disable), calls());
    assert!(matches!(claim(&cache, "relu"), Claim::Unshared(_, UnsharedReason::NoStore)));
    assert_eq!(since(&remote), []);
}

#[test]
fn modes_that_write_nothing_take_from_the_tier() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    publish(build(claim(&one.with_remote(&config(&remote)), "relu")), 1);
    // The store is empty.
    drop(other.cache());
    let in_mode = |mode| {
        let mut config = other.config();
        config.mode = mode;
        config.remote = Some(self::config(&remote));
        open(config)
    };
    for mode in [CacheMode::ReadOnly, CacheMode::Require] {
        assert_eq!(hit(claim(&in_mode(mode), "relu")), (1, Source::Remote));
    }
    let refused = in_mode(CacheMode::Require).get_or_begin(&key("sigmoid"), &Query::new(&take));
    assert!(matches!(refused, Err(CacheError::NotCached { .. })), "{refused:?}");
    let Claim::Unshared(ticket, UnsharedReason::ReadOnly) = claim(&in_mode(CacheMode::ReadOnly), "sigmoid")
    else {
        panic!("the store is only read")
    };
    assert_eq!(publish(ticket, 2), Default::default());
    drop(build(claim(&other.cache(), "relu")));
}

/// A host that must not compile needs no store of its own.
#[test]
fn modes_that_create_no_store_take_from_the_tier_without_one() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    publish(build(claim(&one.with_remote(&config(&remote)), "relu")), 1);
    for mode in [CacheMode::ReadOnly, CacheMode::Require] {
        for has_path in [true, false] {
            let mut config = other.config();
            config.mode = mode;
            config.remote = Some(self::config(&remote));
            let root = other.dir.path().join("absent");
            config.store = has_path.then(|| StoreConfig::new(&root));
            let cache = open(config.clone());
            assert_eq!(hit(claim(&cache, "relu")), (1, Source::Remote));
            assert!(!root.exists());
            // A tier that is not read is no replacement.
            config.remote.as_mut().unwrap().policy = RemotePolicy::Off;
            assert!(Cache::open(config).is_err(), "{mode} {has_path}");
        }
    }
}

#[test]
fn an_entry_that_was_not_validated_is_not_published_to_other_hosts() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let cache = host.with_remote(&config(&remote));
    let object = text(1);
    let published = build(claim(&cache, "relu")).publish(&builder(&object).with_validation(0)).unwrap();
    assert_eq!((published.local, published.remote), (Some(PutOutcome::Published), false));
    assert_eq!(remote.count(Put), 0);
    assert!(remote.object(&entry_name("relu")).is_none());
    until("the end of the lease", || !remote.is_leased(&key("relu")));
    const { assert!(STAMP > 0) };
}

/// Hosts whose disks fail still share.
#[test]
fn without_a_local_store_entries_come_from_the_tier_and_go_there() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let mut nowhere = sharing(opkeep_cache::CacheConfig::default());
    nowhere.remote = Some(config(&remote));
    let cache = open(nowhere.clone());
    let ticket = build(claim(&cache, "relu"));
    assert!(ticket.is_kept());
    let published = publish(ticket, 1);
    assert_eq!((published.local, published.remote), (None, true));
    assert_eq!(hit(claim(&cache, "relu")), (1, Source::Remote));
    assert_eq!(hit(claim(&host.with_remote(&config(&remote)), "relu")), (1, Source::Remote));
    // Without leases, other hosts may build the same entry.
    let exclusive_create = Some(ExclusiveCreate::None);
    remote.set_faults(RemoteFaults { exclusive_create, ..RemoteFaults::default() });
    let cache = open(nowhere);
    let Claim::Unshared(ticket, UnsharedReason::NoStore) = claim(&cache, "sigmoid") else { panic!() };
    assert!(publish(ticket, 2).remote);
}

#[test]
fn an_entry_that_the_caller_validated_is_kept_as_validated() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    publish(build(claim(&one.with_remote(&config(&remote)), "relu")), 1);
    let cache = other.with_remote(&config(&remote));
    let renewed = vec![("rules".to_owned(), b"of this host".to_vec())];
    let validate = |_: &Entry| Accept::Validated { stamp: 9, renewed: renewed.clone() };
    let query = Query::new(&validate);
    assert_eq!(hit(cache.get_or_begin(&key("relu"), &query).unwrap()), (1, Source::Remote));
    let stored = |cache: &TargetCache| match cache.get(&key("relu")) {
        opkeep_store::Lookup::Hit(entry) => *entry,
        opkeep_store::Lookup::Miss(miss) => panic!("{miss}"),
    };
    let entry = stored(&cache);
    assert_eq!((entry.validation(), entry.lazy_member("rules").unwrap()), (9, Some(&b"of this host"[..])));
    assert_eq!(writer(&entry), 1);
    // The same holds for an entry of the local store; a lower stamp changes nothing.
    let cache = one.cache();
    for (stamp, kept) in [(STAMP - 1, STAMP), (9, 9)] {
        let validate = |_: &Entry| Accept::Validated { stamp, renewed: Vec::new() };
        assert_eq!(hit(cache.get_or_begin(&key("relu"), &Query::new(&validate)).unwrap()).1, Source::Local);
        assert_eq!(stored(&cache).validation(), kept);
    }
}

#[test]
fn a_client_that_panics_fails_no_build() {
    // The number of calls that fail; those of one kind are one problem.
    for (panics, failures) in [(Get, 2), (Put, 1), (Capabilities, 1), (ClaimCall, 1), (Release, 0)] {
        let (remote, host) = (FakeRemote::new(), Host::new());
        remote.on_call(move |call, _| assert!(call != panics, "on purpose"));
        let cache = host.with_remote(&config(&remote));
        assert_eq!(publish(build(claim(&cache, "relu")), 1).local, Some(PutOutcome::Published));
        let warnings = host.warnings();
        assert_eq!(warnings.len(), failures.min(1), "{warnings:?}");
        assert!(
            warnings.iter().all(|(kind, text)| *kind == WarningKind::Remote && text.contains("on purpose")),
            "{warnings:?}"
        );
        assert_eq!(cache.store().unwrap().statistics().remote_errors, failures as u64);
    }
}
