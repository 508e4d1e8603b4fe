//! Uploads by a thread of the process: a caller does not wait for them, and what is not sent is sent later.
#![expect(clippy::disallowed_methods, reason = "a test writes a mark of an earlier version")]

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use opkeep_cache::{
    Accept, Cache, Claim, ObjectName, ObjectNames, Query, RemoteConfig, Source, TargetCache, WarningKind,
};
use opkeep_store::{Destination, Entry};
use opkeep_testkit::remote::RemoteCall::{Advance, Claim as ClaimCall, Put, Release};
use opkeep_testkit::remote::{FakeRemote, RemoteFaults};

use crate::common::{
    Host, TARGET, build, builder, claim, config, entry_name, held_up, hit, key, local_builder, name, pending,
    publish, settle, take, text, until,
};

fn open(host: &Host, remote: &RemoteConfig) -> (Cache, TargetCache) {
    let mut config = host.config();
    config.remote = Some(remote.clone());
    let cache = Cache::open(config).unwrap();
    let target = cache.target(TARGET).unwrap();
    (cache, target)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

fn unsent(target: &TargetCache) -> usize {
    target.store().unwrap().unsent().len()
}

/// What the marks for the engine name.
fn destination(remote: &FakeRemote) -> Destination {
    config(remote).destination()
}

/// Marks an entry as earlier versions did, which name no remote tier.
fn mark_unnamed(host: &Host, name: &str) {
    let directory = host.target_dir().join("unsent");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join(key(name).to_string()), "").unwrap();
}

/// The names of the entries in the engine.
fn entries(remote: &FakeRemote) -> Vec<ObjectName> {
    let names = remote.object_names().into_iter();
    names.filter(|name| name.as_str().contains("/e/")).collect()
}

fn fails(is_gone: bool) -> RemoteFaults {
    RemoteFaults { is_gone, ..RemoteFaults::default() }
}

#[test]
fn a_caller_does_not_wait_for_its_upload_and_other_hosts_do() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    let go = held_up(&remote);
    let (cache, target) = open(&one, &config(&remote));
    let object = text(1);
    let published = build(claim(&target, "relu")).publish(&builder(&object)).unwrap();
    assert!(published.remote);
    // It is here for this host, and marked; other hosts find the lease.
    assert_eq!(hit(claim(&target, "relu")), (1, Source::Local));
    assert_eq!(unsent(&target), 1);
    let second = other.with_remote(&config(&remote));
    let waiter = pending(claim(&second, "relu"));
    assert_eq!(remote.count(Release), 0);
    assert_eq!(cache.finish_uploads(Instant::now(), None), 1);
    go.store(true, Ordering::SeqCst);
    assert_eq!(hit(settle(&second, Claim::Pending(waiter))), (1, Source::Remote));
    assert_eq!(cache.finish_uploads(soon(), None), 0);
    assert_eq!((unsent(&target), remote.count(Put), remote.count(ClaimCall)), (0, 1, 1));
    assert!(!remote.is_leased(&key("relu")));
}

#[test]
fn what_waits_is_sent_in_one_call() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let go = held_up(&remote);
    let (cache, target) = open(&host, &config(&remote));
    let object = text(1);
    let count = 40;
    for number in 0..count {
        let ticket = build(claim(&target, &format!("relu {number}")));
        assert!(ticket.publish(&builder(&object)).unwrap().remote);
    }
    let released = remote.count(Release);
    go.store(true, Ordering::SeqCst);
    assert_eq!(cache.finish_uploads(soon(), None), 0);
    // The first call has what was there when the thread began.
    assert!(remote.count(Put) <= 2 && remote.count(Release) - released <= 2, "{:?}", remote.calls());
    assert_eq!(unsent(&target), 0);
    assert_eq!(remote.object_names().len(), count);
    assert_eq!(target.store().unwrap().statistics().remote_puts, count as u64);
}

#[test]
fn what_fails_is_sent_by_the_next_process() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (_, target) = open(&host, &config(&remote));
    let ticket = build(claim(&target, "relu"));
    remote.set_faults(fails(true));
    assert!(!publish(ticket, 1).remote);
    assert_eq!(unsent(&target), 1);
    let warnings = host.warnings();
    assert!(matches!(&warnings[..], [(WarningKind::Remote, text)] if text.contains("later")), "{warnings:?}");
    remote.set_faults(fails(false));
    // A mark without an entry is removed.
    target.store().unwrap().mark_unsent(&key("evicted"), &destination(&remote), false).unwrap();
    let (_, next) = open(&host, &config(&remote));
    let report = next.push_unsent(Some(soon()), None);
    assert_eq!((report.sent, report.left, unsent(&next)), (1, 0, 0));
    assert_eq!(hit(claim(&Host::new().with_remote(&config(&remote)), "relu")), (1, Source::Remote));
    assert_eq!(next.push_unsent(Some(soon()), None), Default::default());
}

/// A server that restarts while the last kernels are sent is not given up: the same process sends them at its end.
#[test]
fn what_fails_is_sent_by_the_same_process_once_the_engine_is_well() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (cache, target) = open(&host, &config(&remote));
    let ticket = build(claim(&target, "relu"));
    remote.set_faults(fails(true));
    assert!(!publish(ticket, 1).remote);
    let report = cache.push_unsent(Some(soon()), None);
    assert_eq!((report.sent, report.left, unsent(&target)), (0, 1, 1));
    remote.set_faults(fails(false));
    let report = cache.push_unsent(Some(soon()), None);
    assert_eq!((report.sent, report.left, unsent(&target)), (1, 0, 0));
    assert_eq!(hit(claim(&Host::new().with_remote(&config(&remote)), "relu")), (1, Source::Remote));
}

/// Hosts use several engines and namespaces with one store. What was to be sent to one of them is sent to no other: its kernels may be
/// secret there.
#[test]
fn what_was_to_be_sent_elsewhere_is_not_sent_here() {
    let [remote, other_engine] = [FakeRemote::new(), FakeRemote::at("memory:other")];
    let host = Host::new();
    let mut secret = config(&remote);
    secret.namespace = "secret-a".parse().unwrap();
    let mut public = config(&remote);
    public.namespace = "public-b".parse().unwrap();
    let mut other = config(&other_engine);
    other.namespace = "secret-a".parse().unwrap();
    let (_, target) = open(&host, &secret);
    let ticket = build(claim(&target, "relu"));
    remote.set_faults(fails(true));
    assert!(!publish(ticket, 1).remote);
    remote.set_faults(fails(false));
    for config in [&public, &other] {
        let (cache, target) = open(&host, config);
        assert_eq!(cache.push_unsent(Some(soon()), None).sent, 0);
        for report in
            [target.push_unsent(Some(soon()), None), target.push_unsent_and_unnamed(Some(soon()), None)]
        {
            assert_eq!((report.sent, report.left, report.elsewhere, unsent(&target)), (0, 0, 1, 1));
        }
        assert_eq!((entries(&remote), entries(&other_engine)), (vec![], vec![]));
        // The same entry can be sent to both.
        target.store().unwrap().mark_unsent(&key("relu"), &config.destination(), true).unwrap();
        assert_eq!(target.push_unsent(Some(soon()), None).sent, 1);
        assert_eq!(unsent(&target), 1);
        for engine in [&remote, &other_engine] {
            engine.object_names().iter().for_each(|name| engine.remove_object(name));
        }
        // A cache whose engine does not answer counts its own entries.
        remote.set_faults(fails(true));
        other_engine.set_faults(fails(true));
        assert_eq!(cache.push_unsent(Some(soon()), None).left, 0);
        remote.set_faults(fails(false));
        other_engine.set_faults(fails(false));
    }
    let (cache, target) = open(&host, &secret);
    let report = cache.push_unsent(Some(soon()), None);
    assert_eq!((report.sent, report.elsewhere, unsent(&target)), (1, 0, 0));
    let names = ObjectNames::new(&secret.namespace, TARGET).unwrap();
    assert_eq!(entries(&remote), [names.entry(&key("relu"))]);
}

/// A mark of an earlier version may be for any engine: only a caller that asks for it sends its entry.
#[test]
fn a_mark_without_a_destination_is_sent_on_demand() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let object = text(1);
    build(claim(&host.cache(), "relu")).publish(&builder(&object)).unwrap();
    mark_unnamed(&host, "relu");
    let (cache, target) = open(&host, &config(&remote));
    assert_eq!(cache.push_unsent(Some(soon()), None).sent, 0);
    let report = target.push_unsent(Some(soon()), None);
    assert_eq!((report.sent, report.left, report.elsewhere, unsent(&target)), (0, 0, 1, 1));
    let report = target.push_unsent_and_unnamed(Some(soon()), None);
    assert_eq!((report.sent, report.elsewhere, unsent(&target)), (1, 0, 0));
    assert!(remote.object(&entry_name("relu")).is_some());
}

/// During a pause of the engine a push calls nothing, and warns of nothing again.
#[test]
fn a_push_during_a_pause_calls_nothing() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (cache, target) = open(&host, &config(&remote));
    let ticket = build(claim(&target, "relu"));
    remote.set_faults(fails(true));
    assert!(!publish(ticket, 1).remote);
    for _ in 0..2 {
        cache.push_unsent(Some(soon()), None);
    }
    let (calls, warned) = (remote.calls().len(), host.warnings().len());
    assert!(remote.count(Put) == 3 && warned > 0, "{:?}", remote.calls());
    remote.set_faults(fails(false));
    assert_eq!(cache.push_unsent(Some(soon()), None).left, 1);
    assert_eq!((remote.calls().len(), host.warnings()), (calls, Vec::new()));
}

#[test]
fn a_full_queue_drops_the_upload_and_keeps_the_mark() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let mut config = config(&remote);
    config.upload_limit = 10;
    let (cache, target) = open(&host, &config);
    let go = held_up(&remote);
    // One is being sent, and one waits.
    let object = text(2);
    for name in ["gelu", "tanh"] {
        assert!(build(claim(&target, name)).publish(&builder(&object)).unwrap().remote);
        remote.wait_for(Put, 1);
    }
    assert!(!publish(build(claim(&target, "relu")), 1).remote);
    assert_eq!((unsent(&target), entries(&remote).len()), (3, 0));
    until("the end of the lease", || !remote.is_leased(&key("relu")));
    go.store(true, Ordering::SeqCst);
    assert_eq!((cache.finish_uploads(soon(), None), unsent(&target), entries(&remote).len()), (0, 1, 2));
    assert_eq!(target.push_unsent(None, None).sent, 1);
    assert!(remote.object(&entry_name("relu")).is_some());
}

/// While a call takes long, the leases of all kernels that are not sent end together, and no caller waits for that.
#[test]
fn a_caller_does_not_wait_for_the_end_of_the_lease_of_a_kernel_that_is_not_sent() {
    const COUNT: usize = 6;
    let (remote, host) = (FakeRemote::new(), Host::new());
    let mut config = config(&remote);
    config.upload_limit = 10;
    let (cache, target) = open(&host, &config);
    let go = Arc::new(AtomicBool::new(false));
    let (may_go, caller) = (Arc::clone(&go), thread::current().id());
    remote.on_call(move |call, _| {
        if let Put | Release | Advance = call {
            assert_ne!(thread::current().id(), caller, "{call:?}");
            until("the caller", || may_go.load(Ordering::SeqCst));
        }
    });
    let object = text(2);
    for name in ["gelu", "tanh"] {
        build(claim(&target, name)).publish(&builder(&object)).unwrap();
        remote.wait_for(Put, 1);
    }
    for number in 0..COUNT {
        assert!(!build(claim(&target, &name(number))).publish(&builder(&object)).unwrap().remote);
    }
    // Nor for one that no other host can use.
    build(claim(&target, "local")).publish(&local_builder(&object)).unwrap();
    go.store(true, Ordering::SeqCst);
    assert_eq!(cache.finish_uploads(soon(), None), 0);
    assert!((0..COUNT).all(|number| !remote.is_leased(&key(&name(number)))));
    assert!(!remote.is_leased(&key("local")));
    // Two for those that are sent, one for what ended first, and one for all others.
    assert!(remote.count(Release) <= 4, "{:?}", remote.calls());
}

/// Otherwise a host that waits would find neither the lease nor the entry, and each host would build a large one.
#[test]
fn an_entry_that_is_larger_than_the_queue_is_sent_alone() {
    let (remote, one, other) = (FakeRemote::new(), Host::new(), Host::new());
    let mut config = config(&remote);
    config.upload_limit = 10;
    let ((_, target), waiting) = (open(&one, &config), other.with_remote(&config));
    let ticket = build(claim(&target, "relu"));
    let waiter = pending(claim(&waiting, "relu"));
    assert!(publish(ticket, 1).remote);
    assert_eq!(hit(settle(&waiting, Claim::Pending(waiter))), (1, Source::Remote));
    assert_eq!(unsent(&target), 0);
}

#[test]
fn entries_that_no_host_can_use_are_not_marked() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (cache, target) = open(&host, &config(&remote));
    let object = text(1);
    let unvalidated = builder(&object).with_validation(0);
    build(claim(&target, "relu")).publish(&unvalidated).unwrap();
    build(claim(&target, "tanh")).publish(&local_builder(&object)).unwrap();
    assert_eq!((cache.finish_uploads(soon(), None), unsent(&target), remote.count(Put)), (0, 0, 0));
    // The hosts that wait are not kept waiting.
    assert!(!remote.is_leased(&key("relu")) && !remote.is_leased(&key("tanh")));
    let query = Query::new(&take);
    assert_eq!(hit(target.get_or_begin(&key("tanh"), &query).unwrap()), (1, Source::Local));
}

/// The mark says that the entry replaces a wrong one: the process that refused that has ended.
#[test]
fn what_a_reader_refused_is_replaced_by_a_later_process() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    remote.set_object(&entry_name("relu"), b"no entry".to_vec());
    let (_, target) = open(&host, &config(&remote));
    let ticket = build(claim(&target, "relu"));
    remote.set_faults(fails(true));
    assert!(!publish(ticket, 1).remote);
    remote.set_faults(fails(false));
    // Another upload of the same entry that only adds it heals nothing.
    target.store().unwrap().mark_unsent(&key("relu"), &destination(&remote), false).unwrap();
    target.store().unwrap().mark_sent(&key("relu"), Some(&destination(&remote)), false);
    let (_, next) = open(&host, &config(&remote));
    assert_eq!((next.push_unsent(Some(soon()), None).sent, unsent(&next)), (1, 0));
    assert_eq!(hit(claim(&Host::new().with_remote(&config(&remote)), "relu")), (1, Source::Remote));
}

/// What its caller refuses is a valid entry for the cache.
#[test]
fn what_the_process_refused_is_replaced_by_its_push() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (_, target) = open(&host, &config(&remote));
    publish(build(claim(&target, "relu")), 1);
    let other = Host::new();
    let (_, reader) = open(&other, &config(&remote));
    let refuse = |_: &Entry| Accept::Replace("it is for another chip".to_owned());
    let ticket = build(reader.get_or_begin(&key("relu"), &Query::new(&refuse)).unwrap());
    remote.set_faults(fails(true));
    assert!(!publish(ticket, 2).remote);
    remote.set_faults(fails(false));
    // The process knows that it refused the entry, also without the mark.
    reader.store().unwrap().mark_sent(&key("relu"), Some(&destination(&remote)), true);
    assert_eq!(reader.push_all(&|_| false, Some(soon()), None).sent, 1);
    assert_eq!(hit(claim(&Host::new().with_remote(&config(&remote)), "relu")), (2, Source::Remote));
}

/// Hosts with the same plan poll its counter: what ends a lease without an entry is progress as well, since one of them takes over.
#[test]
fn every_end_of_a_lease_and_every_push_is_progress() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (_, target) = open(&host, &config(&remote));
    let names = ["relu", "tanh", "exp", "log"];
    target.fetch(&names.map(key), &Query::new(&take));
    let object = text(1);
    let progress = || remote.counters().iter().sum::<u64>();
    // An entry that is not sent.
    build(claim(&target, "relu")).publish(&builder(&object).with_validation(0)).unwrap();
    until("the first", || progress() == 1);
    build(claim(&target, "tanh")).publish(&local_builder(&object)).unwrap();
    until("the second", || progress() == 2);
    drop(build(claim(&target, "exp")));
    assert_eq!(progress(), 3);
    // An upload that fails, and the push that follows.
    let ticket = build(claim(&target, "log"));
    remote.on_call(|call, _| assert!(call != Put, "the upload fails"));
    assert!(!publish(ticket, 1).remote);
    assert_eq!((progress(), remote.is_leased(&key("log"))), (4, false));
    remote.on_call(|_, _| {});
    assert_eq!(target.push_unsent(Some(soon()), None).sent, 1);
    assert_eq!(progress(), 5);
}

/// The mark of an entry that was to be sent does not send the one that replaces it and stays here.
#[test]
fn an_entry_for_this_host_drops_the_mark_of_its_key() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (_, target) = open(&host, &config(&remote));
    let object = text(1);
    for destination in [destination(&remote), Destination::new("elsewhere")] {
        target.store().unwrap().mark_unsent(&key("tanh"), &destination, true).unwrap();
    }
    mark_unnamed(&host, "tanh");
    build(claim(&target, "tanh")).publish(&local_builder(&object)).unwrap();
    assert_eq!(unsent(&target), 0);
    assert_eq!(target.push_unsent(Some(soon()), None).sent, 0);
    until("the end of the lease", || remote.object_names().is_empty());
}

#[test]
fn all_entries_for_other_hosts_are_pushed_and_no_others() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let target = host.cache();
    let object = text(1);
    for number in 0..70 {
        build(claim(&target, &format!("relu {number}"))).publish(&builder(&object)).unwrap();
    }
    build(claim(&target, "unvalidated")).publish(&builder(&object).with_validation(0)).unwrap();
    build(claim(&target, "local")).publish(&local_builder(&object)).unwrap();
    let (_, target) = open(&host, &config(&remote));
    let report = target.push_all(&|_| false, Some(soon()), None);
    assert_eq!((report.sent, report.left, report.skipped), (70, 0, 2));
    assert_eq!((remote.object_names().len(), remote.count(Put)), (70, 2));
    // A remote tier that is gone is not asked for each of them.
    remote.set_faults(fails(true));
    let report = target.push_all(&|_| false, Some(soon()), None);
    assert_eq!((report.sent, report.left), (0, 70));
    let expected = remote.count(Put);
    assert_eq!(expected, 4);
}

/// Whatever way leads to the engine: an entry that other hosts cannot use does not leave the machine, also one that an earlier version
/// stored and marked, nor does a cache whose settings name no entries for others share any.
#[test]
fn no_way_sends_an_entry_that_stays_here() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (cache, target) = open(&host, &config(&remote));
    let object = text(1);
    let keys: Vec<_> = (0..20).map(|number| key(&format!("relu {number}"))).collect();
    target.fetch(&keys, &Query::new(&take));
    for (number, key) in keys.iter().enumerate() {
        build(claim(&target, &format!("relu {number}"))).publish(&local_builder(&object)).unwrap();
        target.store().unwrap().mark_unsent(key, &destination(&remote), number % 2 == 0).unwrap();
    }
    assert!(!target.publish(&key("put"), &local_builder(&object)).unwrap().remote);
    assert_eq!(cache.finish_uploads(soon(), None), 0);
    assert_eq!((target.push_unsent(Some(soon()), None).sent, unsent(&target)), (0, 0));
    assert_eq!(target.push_all(&|_| false, Some(soon()), None).sent, 0);
    assert_eq!((target.share_plans(Some(soon()), None), remote.object_names()), (0, Vec::new()));

    let mut untold = host.config();
    untold.remote = Some(config(&remote));
    untold.is_for_others = opkeep_cache::CacheConfig::default().is_for_others;
    let cache = Cache::open(untold).unwrap();
    let target = cache.target(TARGET).unwrap();
    assert!(!build(claim(&target, "tanh")).publish(&builder(&object)).unwrap().remote);
    assert!(!target.publish(&key("exp"), &builder(&object)).unwrap().remote);
    assert_eq!(
        (cache.finish_uploads(soon(), None), target.push_all(&|_| false, Some(soon()), None).sent),
        (0, 0)
    );
    assert_eq!(remote.object_names(), Vec::new());
}

/// A forged entry, or one that an earlier version sent.
#[test]
fn no_way_takes_an_entry_that_stays_elsewhere() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (_, target) = open(&host, &config(&remote));
    let object = text(1);
    for name in ["relu", "tanh", "exp"] {
        remote.set_object(&entry_name(name), local_builder(&object).encode(&key(name)).unwrap());
    }
    let query = Query::new(&take);
    assert!(target.get_remote(&key("relu"), &query).is_none());
    drop(build(claim(&target, "tanh")));
    let report = target.fetch(&[key("exp")], &query);
    assert_eq!((report.fetched.len(), report.refused.len()), (0, 1));
    assert!(host.warnings().iter().any(|(_, text)| text.contains("only by the machine that made it")));
}

/// A request for an entry that stays here asks the engine for nothing, and makes no lease.
#[test]
fn a_request_for_an_entry_that_stays_here_makes_no_call() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (cache, target) = open(&host, &config(&remote));
    let object = text(1);
    remote.set_object(&entry_name("relu"), builder(&object).encode(&key("relu")).unwrap());
    let mut query = Query::new(&take);
    query.stays_here = true;
    assert!(target.get_remote(&key("relu"), &query).is_none());
    let ticket = build(target.get_or_begin(&key("relu"), &query).unwrap());
    ticket.publish(&local_builder(&object)).unwrap();
    cache.finish_uploads(soon(), None);
    assert_eq!(remote.calls(), []);
    query.stays_here = false;
    assert_eq!(hit(target.get_or_begin(&key("relu"), &query).unwrap()), (1, Source::Local));
}

#[test]
fn an_entry_is_sent_without_a_ticket() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (cache, target) = open(&host, &config(&remote));
    let object = text(1);
    let published = target.publish(&key("relu"), &builder(&object)).unwrap();
    assert!(published.remote && published.local.is_some());
    assert_eq!((cache.finish_uploads(soon(), None), unsent(&target)), (0, 0));
    assert!(remote.object(&entry_name("relu")).is_some());
}
