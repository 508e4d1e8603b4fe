//! A process that is killed at each of its calls to the file system while it publishes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};

use opkeep_cache::CacheConfig;
use opkeep_fs::{FsCall, Permit, Watcher};
use opkeep_store::{Lookup, StoreConfig};
use opkeep_testkit::remote::{FakeRemote, RemoteFaults};
use rustix::process::{Signal, getpid, kill_process};

use crate::common::{Host, build, builder, claim, config, key, open, sharing, text};
use crate::processes::{Children, spawn};

/// Kills the process before a call of its first thread.
struct KilledAt {
    thread: ThreadId,
    left: AtomicUsize,
}

impl Watcher for KilledAt {
    fn before(&self, _: &FsCall<'_>) -> Permit {
        if thread::current().id() == self.thread && self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            kill_process(getpid(), Signal::KILL).unwrap();
        }
        Permit::Go
    }
}

/// Publishes an entry, which the engine does not take, and is killed before the call whose number is the name of `file`.
pub(crate) fn publish_until_killed(root: &Path, file: &Path) {
    let number = file.file_name().unwrap().to_str().unwrap().parse().unwrap();
    let watcher = KilledAt { thread: thread::current().id(), left: AtomicUsize::new(usize::MAX) };
    let (watcher, remote) = (Arc::new(watcher), FakeRemote::new());
    let mut settings = sharing(CacheConfig::new(StoreConfig::new(root).with_watcher(watcher.clone())));
    settings.remote = Some(config(&remote));
    let cache = open(settings);
    let ticket = build(claim(&cache, "relu"));
    remote.set_faults(RemoteFaults { is_gone: true, ..RemoteFaults::default() });
    watcher.left.store(number, Ordering::SeqCst);
    ticket.publish(&builder(&text(1))).unwrap();
    watcher.left.store(usize::MAX, Ordering::SeqCst);
}

/// Whenever it is killed: the next process sends the entry if it is there, and no mark is left if it is not.
pub(crate) fn killed_at_each_call_of_a_publication() {
    let (mut with_entry, mut without) = (0, 0);
    for number in 0.. {
        let host = Host::new();
        let mut child = Children(vec![spawn("killed", &host, &host.dir.path().join(number.to_string()))]);
        let has_ended = child.0[0].wait().unwrap().success();
        let remote = FakeRemote::new();
        let cache = host.with_remote(&config(&remote));
        let is_there = matches!(cache.peek(&key("relu")), Lookup::Hit(_));
        let report = cache.push_unsent(None, None);
        let stored = remote.object_names().len();
        assert_eq!((report.sent, stored), (is_there.into(), is_there.into()), "call {number}");
        assert_eq!((report.left, cache.store().unwrap().unsent().len()), (0, 0), "call {number}");
        if has_ended {
            assert!(is_there && with_entry > 0 && without > 5, "{with_entry}, {without}");
            println!("killed {with_entry} times with the entry and {without} times without it");
            return;
        }
        *if is_there { &mut with_entry } else { &mut without } += 1;
    }
}
