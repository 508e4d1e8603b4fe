//! Stores that are missing, only read, full, or on a file system without locks. None of them fails a build.

#![expect(clippy::disallowed_methods, reason = "these tests put things in the way")]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use opkeep_cache::{
    Cache, CacheConfig, CacheError, Claim, Miss, Query, RemoteConfig, Source, TargetCache, Ticket,
    UnsharedReason, WarningKind,
};
use opkeep_fs::{FsCall, FsOp, Permit, Watcher};
use opkeep_store::{CacheMode, PutOutcome, StoreConfig};
use opkeep_testkit::remote::{FakeRemote, RemoteCall};
use rustix::io::Errno;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::common::{
    Host, TARGET, build, builder, claim, hit, key, open, pending, publish, resume, settle, take, text, until,
};

fn unshared(claim: Claim) -> (Ticket, UnsharedReason) {
    match claim {
        Claim::Unshared(ticket, reason) => (ticket, reason),
        other => panic!("expected an unshared ticket, found {other:?}"),
    }
}

/// Fails one kind of call, while it is switched on.
struct Refusing {
    op: FsOp,
    error: Errno,
    refuses: AtomicBool,
}

impl Refusing {
    fn new(op: FsOp, error: Errno) -> Arc<Self> {
        Arc::new(Self { op, error, refuses: AtomicBool::new(false) })
    }

    fn cache(self: &Arc<Self>, host: &Host) -> TargetCache {
        let mut config = host.config();
        let store = StoreConfig::new(host.dir.path());
        config.store = Some(store.with_watcher(self.clone()));
        open(config)
    }
}

impl Watcher for Refusing {
    fn before(&self, call: &FsCall<'_>) -> Permit {
        match call.op == self.op && self.refuses.load(Ordering::SeqCst) {
            true => Permit::Fail(self.error.into()),
            false => Permit::Go,
        }
    }
}

#[test]
fn a_file_system_without_locks_costs_the_locks_only() {
    let host = Host::new();
    let disk = Refusing::new(FsOp::Lock, Errno::NOLCK);
    let cache = disk.cache(&host);
    disk.refuses.store(true, Ordering::SeqCst);
    let (first, reason) = unshared(claim(&cache, "relu"));
    assert_eq!(reason, UnsharedReason::NoLocks);
    let (second, _) = unshared(claim(&cache, "relu"));
    assert_eq!(publish(first, 1).local, Some(PutOutcome::Published));
    assert_eq!(publish(second, 2).local, Some(PutOutcome::Existing));
    assert_eq!(hit(claim(&cache, "relu")), (1, Source::Local));
    assert_eq!(host.warned(), [WarningKind::Locks; 2]);
}

#[test]
fn hosts_without_locks_share_by_leases_and_warn_once() {
    let (remote, host, other) = (FakeRemote::new(), Host::new(), Host::new());
    let tier = RemoteConfig::new(Arc::new(remote.clone()));
    let disk = Refusing::new(FsOp::Lock, Errno::NOLCK);
    let mut config = host.config();
    config.store = Some(StoreConfig::new(host.dir.path()).with_watcher(disk.clone()));
    config.remote = Some(tier.clone());
    let cache = open(config);
    disk.refuses.store(true, Ordering::SeqCst);
    let ticket = build(claim(&other.with_remote(&tier), "relu"));
    let mut waiter = Some(pending(claim(&cache, "relu")));
    let asked = remote.count(RemoteCall::Get);
    until("another question", || {
        waiter = waiter.take().map(|waiter| pending(resume(&cache, waiter)));
        remote.count(RemoteCall::Get) > asked
    });
    assert_eq!(host.warned(), [WarningKind::Locks]);
    drop(ticket);
    let ticket = build(settle(&cache, Claim::Pending(waiter.unwrap())));
    assert!(remote.is_leased(&key("relu")));
    assert!(publish(ticket, 1).remote);
}

#[test]
fn a_lock_that_cannot_be_taken_concerns_its_key_only() {
    let host = Host::new();
    let cache = host.cache();
    drop(build(claim(&cache, "relu")));
    fs::create_dir(host.lock_path(&key("relu"))).unwrap();
    let (ticket, reason) = unshared(claim(&cache, "relu"));
    assert_eq!(reason, UnsharedReason::LockFailed);
    let [(WarningKind::Locks, text)] = &host.warnings()[..] else { panic!() };
    assert!(text.starts_with("compiling without a lock: "), "{text}");
    publish(ticket, 1);
    drop(build(claim(&cache, "sigmoid")));
    assert_eq!(hit(claim(&cache, "relu")), (1, Source::Local));
}

#[test]
fn a_full_disk_is_one_warning_and_is_still_read() {
    let host = Host::new();
    let disk = Refusing::new(FsOp::Write, Errno::NOSPC);
    let cache = disk.cache(&host);
    publish(build(claim(&cache, "relu")), 1);
    let (first, second) = (build(claim(&cache, "a")), build(claim(&cache, "b")));
    disk.refuses.store(true, Ordering::SeqCst);
    let object = text(2);
    let error = first.publish(&builder(&object)).unwrap_err();
    assert!(error.to_string().contains("cannot write"), "{error}");
    // Other callers began before the failure: no further write is tried.
    assert!(!second.is_kept());
    assert_eq!(publish(second, 2).local, None);
    let (third, reason) = unshared(claim(&cache, "c"));
    assert_eq!((reason, publish(third, 3).local), (UnsharedReason::ReadOnly, None));
    assert_eq!(hit(claim(&cache, "relu")), (1, Source::Local));
    let [(WarningKind::Keeping, text)] = &host.warnings()[..] else { panic!() };
    assert!(text.starts_with("kernels are built and not kept: "), "{text}");
    // Another process tries.
    disk.refuses.store(false, Ordering::SeqCst);
    publish(build(claim(&host.cache(), "a")), 4);
}

/// A process may run for weeks. Writes that are tried again warn of nothing, until one succeeds.
#[test]
fn a_disk_that_was_full_is_written_again() {
    let host = Host::new();
    for op in [FsOp::Write, FsOp::OpenLock] {
        let disk = Refusing::new(op, Errno::NOSPC);
        let mut config = host.config();
        config.store = Some(StoreConfig::new(host.dir.path()).with_watcher(disk.clone()));
        config.write_pause = Duration::ZERO;
        let cache = open(config);
        let held = build(claim(&cache, "held"));
        for round in 0..2 {
            disk.refuses.store(true, Ordering::SeqCst);
            for name in ["a", "b"] {
                let object = text(1);
                match claim(&cache, name) {
                    Claim::Build(ticket) => assert!(ticket.publish(&builder(&object)).is_err()),
                    other => drop(unshared(other)),
                }
            }
            let [(WarningKind::Keeping, text)] = &host.warnings()[..] else { panic!("{op:?} {round}") };
            assert!(text.starts_with("kernels are built and not kept: "), "{text}");
            disk.refuses.store(false, Ordering::SeqCst);
            let name = format!("{op:?} {round}");
            publish(build(claim(&cache, &name)), 2);
            assert_eq!(hit(claim(&cache, &name)), (2, Source::Local));
            let [(WarningKind::Keeping, text)] = &host.warnings()[..] else { panic!("{op:?} {round}") };
            assert!(text.starts_with("kernels are kept again, in `"), "{text}");
        }
        // The ticket's lock was held all the time.
        drop(pending(claim(&host.cache(), "held")));
        assert_eq!(publish(held, 3).local, Some(PutOutcome::Published));
        fs::remove_dir_all(host.target_dir()).unwrap();
    }
}

/// Also while a ticket is held, and its waiter waits.
#[test]
fn a_removed_store_is_created_again() {
    let host = Host::new();
    let cache = host.cache();
    let (held, waiter) = (build(claim(&cache, "held")), pending(claim(&cache, "held")));
    for removed in [host.target_dir(), host.dir.path().join("v1"), host.dir.path().to_owned()] {
        publish(build(claim(&cache, "relu")), 1);
        fs::remove_dir_all(removed).unwrap();
        publish(build(claim(&cache, "relu")), 2);
        assert_eq!(hit(claim(&host.cache(), "relu")), (2, Source::Local));
        fs::remove_dir_all(host.target_dir()).unwrap();
    }
    assert_eq!(publish(held, 3).local, Some(PutOutcome::Published));
    assert_eq!(hit(settle(&cache, Claim::Pending(waiter))), (3, Source::Waited));
    assert!(host.warnings().is_empty());
}

/// A store that cannot be created again is used when it is there again.
#[test]
fn a_store_that_is_away_is_used_when_it_is_back() {
    let host = Host::new();
    let (root, away) = (host.dir.path().join("store"), host.dir.path().join("away"));
    let disk = Refusing::new(FsOp::CreateDir, Errno::ROFS);
    let mut config = host.config();
    config.store = Some(StoreConfig::new(&root).with_watcher(disk.clone()));
    config.write_pause = Duration::ZERO;
    let cache = open(config);
    publish(build(claim(&cache, "relu")), 1);
    fs::rename(&root, &away).unwrap();
    disk.refuses.store(true, Ordering::SeqCst);
    for name in ["relu", "tanh"] {
        drop(unshared(claim(&cache, name)));
    }
    let [(_, text)] = &host.warnings()[..] else { panic!("one warning") };
    assert!(text.starts_with("kernels are built and not kept: "), "{text}");
    fs::rename(&away, &root).unwrap();
    disk.refuses.store(false, Ordering::SeqCst);
    assert_eq!(hit(claim(&cache, "relu")), (1, Source::Local));
    publish(build(claim(&cache, "tanh")), 2);
    let [(_, text)] = &host.warnings()[..] else { panic!("one message") };
    assert!(text.starts_with("kernels are kept again, in `"), "{text}");
}

#[test]
fn a_store_that_is_only_read_is_taken_from_and_not_written() {
    let host = Host::new();
    publish(build(claim(&host.cache(), "relu")), 1);
    let cache = host.in_mode(CacheMode::ReadOnly);
    assert_eq!(hit(claim(&cache, "relu")), (1, Source::Local));
    let (ticket, reason) = unshared(claim(&cache, "sigmoid"));
    assert_eq!(reason, UnsharedReason::ReadOnly);
    assert!(!ticket.is_kept());
    assert_eq!(publish(ticket, 2), Default::default());
    assert!(!host.lock_path(&key("sigmoid")).exists());
    drop(unshared(claim(&cache, "sigmoid")));
    assert!(host.warnings().is_empty());
}

#[test]
fn without_a_store_every_caller_builds() {
    let cache = open(CacheConfig::default());
    assert!(cache.store().is_none());
    let (ticket, reason) = unshared(claim(&cache, "relu"));
    assert_eq!(reason, UnsharedReason::NoStore);
    assert!(matches!(ticket.miss(), Miss::NoStore));
    ticket.heartbeat();
    assert_eq!(publish(ticket, 1), Default::default());
    let host = Host::new();
    let cache = host.in_mode(CacheMode::Disable);
    assert_eq!(unshared(claim(&cache, "relu")).1, UnsharedReason::NoStore);
    assert_eq!(crate::common::names(host.dir.path()), [""; 0]);
}

#[test]
fn a_store_that_cannot_be_used_is_a_warning_unless_the_mode_requires_it() {
    let host = Host::new();
    fs::write(host.dir.path().join("v1"), "a file").unwrap();
    let cache = host.cache();
    assert_eq!(unshared(claim(&cache, "relu")).1, UnsharedReason::NoStore);
    let [(WarningKind::Store, text)] = &host.warnings()[..] else { panic!() };
    assert!(text.starts_with("building without the store: "), "{text}");
    for mode in [CacheMode::ReadOnly, CacheMode::Require] {
        let mut config = host.config();
        config.mode = mode;
        let opened = Cache::open(config).and_then(|cache| cache.target(TARGET));
        assert!(matches!(opened, Err(CacheError::Store { mode: found, .. }) if found == mode), "{opened:?}");
        let mut config = CacheConfig::default();
        config.mode = mode;
        assert!(matches!(Cache::open(config), Err(CacheError::NoStore { .. })));
    }
}

#[test]
fn the_mode_require_never_gives_a_ticket() {
    let host = Host::new();
    publish(build(claim(&host.cache(), "relu")), 1);
    let cache = host.in_mode(CacheMode::Require);
    assert_eq!(hit(claim(&cache, "relu")), (1, Source::Local));
    let refused = cache.get_or_begin(&key("sigmoid"), &Query::new(&take));
    let Err(CacheError::NotCached { why, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(why, "not in the store");
}

#[test]
fn an_entry_that_cannot_be_read_is_left_alone() {
    let host = Host::new();
    let cache = host.cache();
    publish(build(claim(&cache, "relu")), 1);
    let path = cache.store().unwrap().path(&key("relu"));
    fs::rename(&path, path.with_extension("away")).unwrap();
    fs::create_dir(&path).unwrap();
    let ticket = build(claim(&cache, "relu"));
    assert!(matches!(ticket.miss(), Miss::Unreadable(_)));
    drop(ticket);
    assert_eq!(host.warned(), [WarningKind::Reading]);
    assert!(path.is_dir());
}

/// Directories that this user cannot write.
struct Closed(Vec<String>);

impl Watcher for Closed {
    fn before(&self, call: &FsCall<'_>) -> Permit {
        let to = call.to.unwrap_or(call.path).parent();
        let writes = matches!(call.op, FsOp::Create | FsOp::Rename | FsOp::OpenLock);
        match writes && self.0.iter().any(|closed| to.is_some_and(|to| to.ends_with(closed))) {
            true => Permit::Fail(Errno::ACCESS.into()),
            false => Permit::Go,
        }
    }
}

/// In a store that users share, one of them may own some of the directories.
#[test]
fn a_directory_of_another_user_stops_no_other_write() {
    let shard = |name: &str| key(name).to_string()[..2].to_owned();
    let of_relu = format!("entries/{}", shard("relu"));
    assert_ne!(shard("relu"), shard("tanh"));
    for (closed, kept, warning) in [
        (&[&*of_relu][..], true, "a kernel is not kept: "),
        (&["locks"], true, "compiling without a lock: "),
        (&["tmp"], false, "kernels are built and not kept: "),
        (&["tmp", "locks"], false, "kernels are built and not kept: "),
    ] {
        let host = Host::new();
        publish(build(claim(&host.cache(), "sigmoid")), 3);
        let mut config = host.config();
        let closed_dirs = Arc::new(Closed(closed.iter().map(|&name| name.to_owned()).collect()));
        config.store = Some(StoreConfig::new(host.dir.path()).with_watcher(closed_dirs));
        let cache = open(config);
        let object = text(1);
        let ticket = |name| match claim(&cache, name) {
            Claim::Build(ticket) | Claim::Unshared(ticket, _) => ticket,
            other => panic!("{other:?}"),
        };
        let _ = ticket("relu").publish(&builder(&object));
        let put = ticket("tanh").publish(&builder(&object));
        assert_eq!(put.is_ok_and(|put| put.local.is_some()), kept, "{closed:?}");
        let warnings = host.warnings();
        assert!(warnings[0].1.starts_with(warning), "{closed:?}: {warnings:?}");
    }
}

/// As with a full disk: a store that cannot be written for a foreign file is read, with one warning, and the file stays.
#[test]
fn a_foreign_file_in_place_of_a_directory_stops_writes_only() {
    for name in ["locks", "tmp", "quarantine"] {
        let host = Host::new();
        publish(build(claim(&host.cache(), "relu")), 1);
        let path = host.target_dir().join(name);
        fs::remove_dir_all(&path).unwrap();
        fs::write(&path, "a user's").unwrap();
        let cache = host.cache();
        assert_eq!(hit(claim(&cache, "relu")), (1, Source::Local), "{name}");
        for other in ["tanh", "sigmoid"] {
            let (ticket, reason) = unshared(claim(&cache, other));
            assert_eq!((reason, publish(ticket, 2).local), (UnsharedReason::ReadOnly, None), "{name}");
        }
        let [(WarningKind::Keeping, text)] = &host.warnings()[..] else { panic!("{name}: one warning") };
        assert!(
            text.starts_with(&format!(
                "kernels are built and not kept: the cache directory `{}`",
                path.display()
            )),
            "{text}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"a user's");
        fs::remove_file(&path).unwrap();
        publish(build(claim(&host.cache(), "tanh")), 2);
    }
}

/// A client that panics is an engine that fails: the callers build.
#[test]
fn an_engine_that_panics_keeps_no_caller_waiting() {
    const CALLERS: usize = 4;
    let (remote, host) = (FakeRemote::new(), Host::new());
    let cache = host.with_remote(&RemoteConfig::new(Arc::new(remote.clone())));
    let asked = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&asked);
    remote.on_call(move |call, _| {
        if call == RemoteCall::Get {
            counts.fetch_add(1, Ordering::SeqCst);
            std::panic::resume_unwind(Box::new("a client"));
        }
    });
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let cache = &cache;
            scope.spawn(move || match settle(cache, claim(cache, "relu")) {
                Claim::Build(ticket) => drop(publish(ticket, caller)),
                Claim::Hit(_) => {}
                other => panic!("{other:?}"),
            });
        }
    });
    assert!(asked.load(Ordering::SeqCst) > 0);
}

/// A subscriber of the process that panics at the end of each call to the engine. That is outside of the guard against panics of a client.
struct PanicsAtAnswers(Arc<AtomicUsize>);

impl Subscriber for PanicsAtAnswers {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "opkeep_cache::remote::client"
    }

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::panic::resume_unwind(Box::new("a subscriber"));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A panic that leaves a call to the remote cache ends that call: its key is asked for again, by the same cache.
#[test]
fn what_a_call_asked_for_that_panics_is_asked_for_again() {
    let (remote, host, other) = (FakeRemote::new(), Host::new(), Host::new());
    let tier = RemoteConfig::new(Arc::new(remote.clone()));
    publish(build(claim(&other.with_remote(&tier), "shared")), 1);
    let cache = host.with_remote(&tier);
    let panics = Arc::new(AtomicUsize::new(0));
    let subscriber = PanicsAtAnswers(Arc::clone(&panics));
    let first = tracing::subscriber::with_default(subscriber, || {
        // The capabilities are asked for before: that call panics as well.
        let ask = || catch_unwind(AssertUnwindSafe(|| drop(claim(&cache, "shared"))));
        let asked = |remote: &FakeRemote| remote.calls().contains(&RemoteCall::Get);
        let mut last = ask();
        for _ in 0..3 {
            if asked(&remote) {
                break;
            }
            last = ask();
        }
        assert!(asked(&remote), "no call asks for the entry");
        last
    });
    assert!(first.is_err() && panics.load(Ordering::SeqCst) > 0, "the call does not panic");
    assert_eq!(hit(claim(&cache, "shared")), (1, Source::Remote));
}
