//! Marks of entries that are to be sent, and of those that are not there.

use std::sync::{Arc, Mutex};

use opkeep_cache::{Cache, CacheConfig, PushReport, RemoteConfig, Source, TargetCache, WarningKind};
use opkeep_fs::{FsCall, FsOp, Permit, Watcher};
use opkeep_store::{Lookup, StoreConfig};
use opkeep_testkit::remote::{FakeRemote, RemoteFaults};
use rustix::io::Errno;

use crate::common::{Host, TARGET, build, builder, claim, config, hit, key, open, sharing, text};

/// Asks a function of the test before each call to the file system.
struct Asking<F>(F);

impl<F: Fn(&FsCall<'_>) -> Permit + Send + Sync> Watcher for Asking<F> {
    fn before(&self, call: &FsCall<'_>) -> Permit {
        (self.0)(call)
    }
}

fn watched(
    host: &Host,
    remote: &FakeRemote,
    watch: impl Fn(&FsCall<'_>) -> Permit + Send + Sync + 'static,
) -> CacheConfig {
    let mut settings = host.config();
    settings.store = Some(StoreConfig::new(host.dir.path()).with_watcher(Arc::new(Asking(watch))));
    settings.remote = Some(config(remote));
    settings
}

fn is_publication(call: &FsCall<'_>) -> bool {
    let path = call.to.map(|to| to.to_string_lossy().into_owned()).unwrap_or_default();
    call.op == FsOp::Rename && path.contains("/entries/")
}

fn unsent(target: &TargetCache) -> usize {
    target.store().unwrap().unsent().len()
}

/// A push by another process between the mark and the entry: the mark stays, since the key is locked.
#[test]
fn a_push_beside_a_publication_keeps_its_mark() {
    for is_locked in [true, false] {
        let (remote, host) = (FakeRemote::new(), Host::new());
        let pushed = Arc::new(Mutex::new(None));
        let (root, other, seen) = (host.dir.path().to_owned(), FakeRemote::new(), Arc::clone(&pushed));
        let cache = open(watched(&host, &remote, move |call| {
            if is_publication(call) {
                let mut settings = sharing(CacheConfig::new(StoreConfig::new(&root)));
                settings.remote = Some(RemoteConfig::new(Arc::new(other.clone())));
                let pusher = open(settings);
                let report = pusher.push_unsent(None, None);
                *seen.lock().unwrap() = Some((report, unsent(&pusher)));
            }
            Permit::Go
        }));
        let mut ticket = build(claim(&cache, "relu"));
        if !is_locked {
            ticket.release_lock();
        }
        remote.set_faults(RemoteFaults { is_gone: true, ..RemoteFaults::default() });
        ticket.publish(&builder(&text(1))).unwrap();
        let (report, marks): (PushReport, usize) = pushed.lock().unwrap().take().unwrap();
        let expected = if is_locked { (0, 1, 0, 1) } else { (0, 0, 1, 0) };
        assert_eq!((report.sent, report.left, report.skipped, marks), expected);
        // Without the lock, the mark is written again.
        assert_eq!(unsent(&cache), 1);
        let next = host.with_remote(&config(&FakeRemote::new()));
        assert_eq!((next.push_unsent(None, None).sent, unsent(&next)), (1, 0));
    }
}

/// An entry that a concurrent process evicts: the mark is removed, and nothing is sent.
#[test]
fn a_mark_whose_entry_is_evicted_is_removed() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let cache = host.with_remote(&config(&remote));
    let ticket = build(claim(&cache, "relu"));
    remote.set_faults(RemoteFaults { is_gone: true, ..RemoteFaults::default() });
    ticket.publish(&builder(&text(1))).unwrap();
    #[expect(clippy::disallowed_methods, reason = "this test is the other process")]
    std::fs::remove_file(cache.store().unwrap().path(&key("relu"))).unwrap();
    let next = host.with_remote(&config(&FakeRemote::new()));
    assert_eq!(unsent(&next), 1);
    let report = next.push_unsent(None, None);
    assert_eq!((report.sent, report.left, report.skipped, unsent(&next)), (0, 0, 1, 0));
}

/// A disk without room for a mark, and one that is only read: the entry is sent all the same.
#[test]
fn an_entry_without_a_mark_is_sent_at_once() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let settings = watched(&host, &remote, |call| {
        let is_mark = call.op == FsOp::Create && call.path.to_string_lossy().contains("/unsent/");
        if is_mark { Permit::Fail(Errno::NOSPC.into()) } else { Permit::Go }
    });
    let cache = Cache::open(settings).unwrap();
    let target = cache.target(TARGET).unwrap();
    let published = build(claim(&target, "relu")).publish(&builder(&text(1))).unwrap();
    assert!(published.remote && published.local.is_some());
    assert_eq!((unsent(&target), cache.finish_uploads(soon(), None)), (0, 0));
    assert_eq!(remote.object_names().len(), 1);
    assert_eq!(hit(claim(&target, "relu")), (1, Source::Local));
    assert_eq!(host.warned(), []);

    let settings = watched(&host, &remote, |call| match call.op {
        FsOp::Create | FsOp::CreateDir | FsOp::OpenLock | FsOp::Rename | FsOp::Link => {
            Permit::Fail(Errno::ROFS.into())
        }
        _ => Permit::Go,
    });
    let cache = Cache::open(settings).unwrap();
    let target = cache.target(TARGET).unwrap();
    let _ = target.publish(&key("tanh"), &builder(&text(2)));
    assert_eq!((unsent(&target), cache.finish_uploads(soon(), None)), (0, 0));
    assert!(matches!(target.peek(&key("tanh")), Lookup::Miss(_)));
    assert_eq!(remote.object_names().len(), 2);
}

/// A disk that is full before the entry: its mark is removed as soon as the entry is sent.
#[test]
fn a_mark_of_an_entry_that_could_not_be_written_is_removed() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    let settings = watched(&host, &remote, |call| match is_publication(call) {
        true => Permit::Fail(Errno::NOSPC.into()),
        false => Permit::Go,
    });
    let cache = Cache::open(settings).unwrap();
    let target = cache.target(TARGET).unwrap();
    assert!(target.publish(&key("relu"), &builder(&text(1))).is_err());
    assert_eq!((cache.finish_uploads(soon(), None), unsent(&target)), (0, 0));
    assert!(matches!(target.peek(&key("relu")), Lookup::Miss(_)));
    assert_eq!((host.warned(), remote.object_names().len()), (vec![WarningKind::Keeping], 1));
}

fn soon() -> std::time::Instant {
    std::time::Instant::now() + std::time::Duration::from_secs(20)
}
