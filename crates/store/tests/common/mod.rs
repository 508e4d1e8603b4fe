//! Stores in fresh directories, entries that are easy to distinguish, and the files on the disk.

#![allow(dead_code, reason = "each test file uses its own part of this")]
#![allow(clippy::disallowed_methods, reason = "tests look at what was written")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are not themselves marked as tests")]

pub(crate) mod harm;
pub(crate) mod room;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use opkeep_digest::Digest;
use opkeep_store::{
    Entry, EntryBuilder, KeyLock, LockOutcome, Lookup, Miss, Store, StoreConfig, TargetStore, WaitOptions,
};
use tempfile::TempDir;

/// The target that most tests use.
pub(crate) const TARGET: &str = "cpu-x86_64";

/// A fresh directory with a store in it.
pub(crate) fn fresh() -> (TempDir, TargetStore) {
    let directory = tempfile::tempdir().unwrap();
    let target = open(directory.path());
    (directory, target)
}

/// The store at `root`, opened for writing.
pub(crate) fn open(root: &Path) -> TargetStore {
    Store::open(StoreConfig::new(root)).unwrap().target(TARGET).unwrap()
}

/// The key of `name`.
pub(crate) fn key(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}

/// The contents of an entry that names its writer.
pub(crate) struct Created {
    json: Vec<u8>,
    object: Vec<u8>,
    info: Vec<u8>,
}

impl Created {
    /// The entry that `writer` puts under the key of `name`.
    pub(crate) fn new(name: &str, writer: usize) -> Self {
        Self::sized(name, writer, 600)
    }

    /// The same with an object of `bytes` bytes.
    pub(crate) fn sized(name: &str, writer: usize, bytes: usize) -> Self {
        let json = format!("{{\"name\": \"{name}\", \"writer\": {writer}}}").into_bytes();
        let seed = Digest::of(&json);
        let object: Vec<u8> = seed.as_bytes().iter().copied().cycle().take(bytes).collect();
        let info = format!("{{\"object\": \"{}\"}}", Digest::of(&object)).into_bytes();
        Self { json, object, info }
    }

    /// As a draft of eight members, eager and lazy ones mixed, one of them empty.
    pub(crate) fn entry(&self) -> EntryBuilder<'_> {
        EntryBuilder::new(7)
            .lazy("info", &self.info)
            .eager("json", &self.json)
            .eager("object", &self.object)
            .lazy("header", b"for people")
            .eager("x/twin", b"twin")
            .eager("x/empty", b"")
            .lazy("x/log", b"log")
            .eager("x/last", b"!")
    }

    /// Fails unless `entry` is this one, in every member.
    pub(crate) fn assert_is(&self, entry: &Entry) {
        assert_eq!(entry.member("json"), Some(&self.json[..]));
        assert_eq!(entry.member("object"), Some(&self.object[..]));
        assert_eq!(entry.lazy_member("info").unwrap(), Some(&self.info[..]));
        assert_eq!(entry.lazy_member("header").unwrap(), Some(&b"for people"[..]));
        assert_eq!(entry.member("x/empty"), Some(&b""[..]));
        assert_eq!(entry.names().count(), 8);
    }
}

/// The entry, which must be there.
pub(crate) fn hit(store: &TargetStore, key: &Digest) -> Entry {
    match store.get(key) {
        Lookup::Hit(entry) => *entry,
        Lookup::Miss(miss) => panic!("expected a hit, found: {miss}"),
    }
}

/// The reason of a miss; fails on a hit.
pub(crate) fn miss(store: &TargetStore, key: &Digest) -> Miss {
    match store.get(key) {
        Lookup::Hit(entry) => panic!("expected a miss, found {:?}", entry.names().collect::<Vec<_>>()),
        Lookup::Miss(miss) => miss,
    }
}

/// A lock that no process else holds.
pub(crate) fn lock(store: &TargetStore, key: &Digest) -> KeyLock {
    match within(store, key, Duration::from_secs(20)) {
        LockOutcome::Acquired(lock) => lock,
        other => panic!("expected the lock, found {other:?}"),
    }
}

/// Waits for a lock for this long.
pub(crate) fn within(store: &TargetStore, key: &Digest, time: Duration) -> LockOutcome {
    let deadline = Instant::now().checked_add(time);
    store.lock(key, WaitOptions::new(&|| false).with_deadline(deadline)).unwrap()
}

/// The names in `directory`.
/// The path of the entry of `key`, in a directory that exists: for tests that write the file themselves.
pub(crate) fn place(store: &TargetStore, key: &Digest) -> PathBuf {
    let path = store.path(key);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    path
}

pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Inode, times, mode, owner and content of everything below `root`, itself included.
pub(crate) fn snapshot(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut seen = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let mut text = format!(
            "{} {:o} {}:{} {}.{} {}.{}",
            meta.ino(),
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.mtime(),
            meta.mtime_nsec(),
            meta.ctime(),
            meta.ctime_nsec()
        );
        if meta.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if meta.is_file() {
            text.push_str(&format!(" {}", Digest::of(&fs::read(&path).unwrap())));
        }
        seen.insert(path, text);
    }
    seen
}

/// The inode at `path`, itself and not where a link points.
pub(crate) fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

/// The first argument of a test program that is run as the other process.
pub(crate) const CHILD: &str = "--child";

/// The arguments behind [`CHILD`], if this process is the other one.
pub(crate) fn child_arguments() -> Option<Vec<String>> {
    let mut arguments = std::env::args().skip(1);
    (arguments.next().as_deref() == Some(CHILD)).then(|| arguments.collect())
}

/// This program, to be run as the other process of `module`.
pub(crate) fn child(module: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([CHILD, module]).args(arguments).stdin(Stdio::null());
    command
}

/// Processes that end with the test, whether or not it passes.
pub(crate) struct Children(pub(crate) Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until `done`, at most 20 s.
pub(crate) fn until(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(20), "waited too long for: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A test of a program that has its own `main`.
pub(crate) fn trial(name: &str, body: fn()) -> Trial {
    Trial::test(name, move || {
        body();
        Ok(())
    })
}

/// Whether this user may change the owner of files.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
