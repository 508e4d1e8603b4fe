//! Uploads by a thread of the process: a caller does not wait for them, and what is not sent is sent later.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use opkeep_cache::{Cache, Claim, Query, RemoteConfig, Source, TargetCache, WarningKind};
use opkeep_testkit::remote::RemoteCall::{Claim as ClaimCall, Put, Release};
use opkeep_testkit::remote::{FakeRemote, RemoteFaults};

use crate::common::{
    Host, TARGET, build, builder, claim, entry_name, hit, key, pending, publish, settle, take, text, until,
};

fn config(remote: &FakeRemote) -> RemoteConfig {
    RemoteConfig::new(Arc::new(remote.clone()))
}

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

fn fails(is_gone: bool) -> RemoteFaults {
    RemoteFaults { is_gone, ..RemoteFaults::default() }
}

/// The engine holds up the first upload until `go`.
fn held_up(remote: &FakeRemote) -> Arc<AtomicBool> {
    let go = Arc::new(AtomicBool::new(false));
    let may_go = Arc::clone(&go);
    remote.on_call(move |call, _| {
        if call == Put {
            until("the upload", || may_go.load(Ordering::SeqCst));
        }
    });
    go
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
    target.store().unwrap().mark_unsent(&key("evicted")).unwrap();
    let (_, next) = open(&host, &config(&remote));
    let report = next.push_unsent(Some(soon()), None);
    assert_eq!((report.sent, report.left, unsent(&next)), (1, 0, 0));
    assert_eq!(hit(claim(&Host::new().with_remote(&config(&remote)), "relu")), (1, Source::Remote));
    assert_eq!(next.push_unsent(Some(soon()), None), Default::default());
}

#[test]
fn a_full_queue_drops_the_upload_and_keeps_the_mark() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let mut config = config(&remote);
    config.upload_limit = 10;
    let (cache, target) = open(&host, &config);
    assert!(!publish(build(claim(&target, "relu")), 1).remote);
    assert_eq!((cache.finish_uploads(soon(), None), unsent(&target), remote.count(Put)), (0, 1, 0));
    assert!(!remote.is_leased(&key("relu")), "the lease is released");
    assert_eq!(target.push_unsent(None, None).sent, 1);
    assert!(remote.object(&entry_name("relu")).is_some());
}

#[test]
fn entries_that_no_host_can_use_are_not_marked() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let (cache, target) = open(&host, &config(&remote));
    let object = text(1);
    let unvalidated = builder(&object).with_validation(0);
    build(claim(&target, "relu")).publish(&unvalidated).unwrap();
    build(claim(&target, "tanh")).publish_locally(&builder(&object)).unwrap();
    assert_eq!((cache.finish_uploads(soon(), None), unsent(&target), remote.count(Put)), (0, 0, 0));
    // The hosts that wait are not kept waiting.
    assert!(!remote.is_leased(&key("relu")) && !remote.is_leased(&key("tanh")));
    let query = Query::new(&take);
    assert_eq!(hit(target.get_or_begin(&key("tanh"), &query).unwrap()), (1, Source::Local));
}
