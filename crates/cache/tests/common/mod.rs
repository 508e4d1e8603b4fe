//! Hosts with caches in fresh directories, entries that are easy to distinguish, and the warnings.

#![allow(dead_code, reason = "each test program uses its own part of this")]
#![allow(clippy::disallowed_methods, reason = "tests look at what was written")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are not themselves marked as tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use opkeep_cache::{
    Accept, Cache, CacheConfig, Claim, Failure, ObjectName, PendingKey, Query, RemoteConfig, Source,
    TargetCache, Ticket, WarningKind,
};
use opkeep_digest::Digest;
use opkeep_store::{CacheMode, Entry, EntryBuilder, StoreConfig};
use opkeep_testkit::remote::{FakeRemote, RemoteCall};
use tempfile::TempDir;

/// The settings of a host that shares entries through `remote`.
pub(crate) fn config(remote: &FakeRemote) -> RemoteConfig {
    RemoteConfig::new(Arc::new(remote.clone()))
}

/// The name of the operator of a number.
pub(crate) fn name(number: usize) -> String {
    format!("relu {number}")
}

/// The keys of as many of them.
pub(crate) fn keys(count: usize) -> Vec<Digest> {
    (0..count).map(|number| key(&name(number))).collect()
}

/// The target of all tests.
pub(crate) const TARGET: &str = "cpu-x86_64";

/// The member of entries that other hosts cannot use.
pub(crate) const LOCAL: &str = "local";

/// The stamp of entries that are published.
pub(crate) const STAMP: u32 = 7;

/// A machine with a store.
pub(crate) struct Host {
    pub(crate) dir: TempDir,
    warnings: Arc<Mutex<Vec<(WarningKind, String)>>>,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self { dir: fresh(), warnings: Arc::default() }
    }

    /// The settings of a cache on this host.
    pub(crate) fn config(&self) -> CacheConfig {
        let mut config = sharing(CacheConfig::new(StoreConfig::new(self.dir.path())));
        let warnings = Arc::clone(&self.warnings);
        config.on_warning =
            Some(Arc::new(move |kind, text| warnings.lock().unwrap().push((kind, text.to_owned()))));
        config
    }

    pub(crate) fn cache(&self) -> TargetCache {
        open(self.config())
    }

    pub(crate) fn in_mode(&self, mode: CacheMode) -> TargetCache {
        let mut config = self.config();
        config.mode = mode;
        open(config)
    }

    pub(crate) fn with_remote(&self, remote: &RemoteConfig) -> TargetCache {
        let mut config = self.config();
        config.remote = Some(remote.clone());
        open(config)
    }

    /// The kinds of the warnings since this was last called.
    pub(crate) fn warned(&self) -> Vec<WarningKind> {
        self.warnings().into_iter().map(|(kind, _)| kind).collect()
    }

    /// The warnings since they were last taken.
    pub(crate) fn warnings(&self) -> Vec<(WarningKind, String)> {
        std::mem::take(&mut self.warnings.lock().unwrap())
    }

    /// The path of the key's lock while it is held.
    pub(crate) fn lock_path(&self, key: &Digest) -> PathBuf {
        self.target_dir().join("locks").join(key.to_string())
    }

    /// The files of the store that this process has open.
    pub(crate) fn open_files(&self) -> Vec<PathBuf> {
        let descriptors = fs::read_dir("/proc/self/fd").unwrap().flatten();
        // Another thread may close a file in the meantime.
        let paths = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
        paths.filter(|path| path.starts_with(self.dir.path()) && !path.is_dir()).collect()
    }

    pub(crate) fn target_dir(&self) -> PathBuf {
        self.dir.path().join("v1").join(TARGET)
    }
}

/// Settings by which other hosts can use all entries, except those of [`local_builder`].
pub(crate) fn sharing(mut config: CacheConfig) -> CacheConfig {
    config.is_for_others = |entry| !entry.has_member(LOCAL);
    config
}

/// A directory in memory, if there is one: a store has hundreds of directories.
fn fresh() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(crate) fn open(config: CacheConfig) -> TargetCache {
    Cache::open(config).unwrap().target(TARGET).unwrap()
}

/// The key of `name`.
pub(crate) fn key(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}

/// The name of the entry of `name` in an engine.
pub(crate) fn entry_name(name: &str) -> ObjectName {
    opkeep_testkit::remote::names(TARGET).entry(&key(name))
}

/// The name of a lease on `name` in an engine.
pub(crate) fn lease_name(name: &str, generation: u64) -> ObjectName {
    opkeep_testkit::remote::names(TARGET).lease(&key(name), generation)
}

/// The text of a writer's entry.
pub(crate) fn text(writer: usize) -> String {
    format!("written by {writer}, {}", "and longer ".repeat(writer % 7))
}

/// Publishes the entry of `writer`, and waits for its upload.
pub(crate) fn publish(ticket: Ticket, writer: usize) -> opkeep_cache::Published {
    let object = text(writer);
    ticket.publish_before(&builder(&object), Instant::now() + Duration::from_secs(20)).unwrap()
}

/// An entry with eager and lazy members.
pub(crate) fn builder(object: &str) -> EntryBuilder<'_> {
    EntryBuilder::new(STAMP)
        .cost(Duration::from_millis(5))
        .eager("object", object.as_bytes())
        .lazy("header", object.as_bytes())
}

/// An entry that other hosts cannot use.
pub(crate) fn local_builder(object: &str) -> EntryBuilder<'_> {
    builder(object).lazy(LOCAL, b"yes")
}

/// Returns the number of an entry's writer, after checking that the bytes are that writer's.
pub(crate) fn writer(entry: &Entry) -> usize {
    let object = std::str::from_utf8(entry.member("object").unwrap()).unwrap();
    let number = object.strip_prefix("written by ").and_then(|rest| rest.split_once(','));
    let number = number.unwrap().0.parse().unwrap();
    assert_eq!(object, text(number));
    assert_eq!(entry.lazy_member("header").unwrap(), Some(object.as_bytes()));
    number
}

/// Takes every entry.
pub(crate) fn take(_: &Entry) -> Accept {
    Accept::Take
}

/// The claim of a caller that takes every entry and does not wait.
pub(crate) fn claim(cache: &TargetCache, name: &str) -> Claim {
    cache.get_or_begin(&key(name), &Query::new(&take)).unwrap()
}

/// The same for a key that is pending.
pub(crate) fn resume(cache: &TargetCache, pending: PendingKey) -> Claim {
    cache.resume(pending, &Query::new(&take)).unwrap()
}

/// Resumes until the key is not pending.
pub(crate) fn settle(cache: &TargetCache, mut claim: Claim) -> Claim {
    let began = Instant::now();
    while let Claim::Pending(pending) = claim {
        assert!(began.elapsed() < Duration::from_secs(20), "it is pending for 20 s");
        std::thread::sleep(Duration::from_millis(1));
        claim = resume(cache, pending);
    }
    claim
}

pub(crate) fn build(claim: Claim) -> Ticket {
    match claim {
        Claim::Build(ticket) => ticket,
        other => panic!("expected a ticket, found {other:?}"),
    }
}

pub(crate) fn pending(claim: Claim) -> PendingKey {
    match claim {
        Claim::Pending(pending) => pending,
        other => panic!("expected a pending key, found {other:?}"),
    }
}

/// The writer of the entry, and how it was found.
pub(crate) fn hit(claim: Claim) -> (usize, Source) {
    match claim {
        Claim::Hit(hit) => (writer(&hit.entry), hit.source),
        other => panic!("expected a hit, found {other:?}"),
    }
}

pub(crate) fn failed(claim: Claim) -> Failure {
    match claim {
        Claim::HolderFailed(failure) => failure,
        other => panic!("expected a failure, found {other:?}"),
    }
}

/// The names of the files in `dir`.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Waits until `done`, at most 20 s.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(20), "waited too long for: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The engine holds up uploads until the result is set.
pub(crate) fn held_up(remote: &FakeRemote) -> Arc<AtomicBool> {
    let go = Arc::new(AtomicBool::new(false));
    let may_go = Arc::clone(&go);
    remote.on_call(move |call, _| {
        if call == RemoteCall::Put {
            until("the upload", || may_go.load(Ordering::SeqCst));
        }
    });
    go
}
