//! The calls to the disk and their order, on which durability and servers depend.

#![expect(clippy::disallowed_methods, reason = "these tests look at files, and rename some as a server does")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::common::room::{Seen, Watch};
use crate::common::{Created, TARGET, fresh, hit, inode, key, miss, names, open};
use opkeep_fs::{FsCall, FsOp, Permit, Watcher};
use opkeep_store::{Entry, Lookup, Miss, Overwrite, PutOutcome, Store, StoreConfig, TargetStore};
use opkeep_testkit::fault::FaultyDisk;
use rustix::io::Errno;

/// The store at `root` with a watcher.
fn watched(root: &Path, watcher: Arc<dyn Watcher>) -> TargetStore {
    let config = StoreConfig::new(root).with_watcher(watcher);
    Store::open(config).unwrap().target(TARGET).unwrap()
}

#[test]
fn an_entry_is_complete_synced_and_readable_before_it_has_its_name() {
    for (root_mode, mode) in [(0o700, 0o644), (0o2775, 0o664)] {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(root_mode)).unwrap();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let plain = open(directory.path());
        let (path, temps) = (plain.path(&key("relu")), plain.dir().join("tmp"));
        let (made, seen) = (Created::new("relu", 1), Arc::clone(&calls));
        let look = move |call: &FsCall<'_>| {
            if call.op == FsOp::Rename && call.to == Some(&path) {
                let found = fs::metadata(call.path).unwrap().permissions().mode() & 0o7777;
                assert_eq!(found, mode, "{root_mode:o}");
                let entry = Entry::decode(fs::read(call.path).unwrap(), Some(&key("relu"))).unwrap();
                Created::new("relu", 1).assert_is(&entry);
            }
            if call.path.parent() == Some(&temps) {
                seen.lock().unwrap().push(call.op);
            }
            Permit::Go
        };
        let store = watched(directory.path(), Arc::new(Watch(look)));
        store.put(&key("relu"), &made.entry()).unwrap();
        let calls = std::mem::take(&mut *calls.lock().unwrap());
        assert_eq!(calls, [FsOp::Create, FsOp::Write, FsOp::SetMode, FsOp::SyncData, FsOp::Rename]);
    }
}

/// And the directory of those directories, some of which may be new. No other directory is synced, and none by a caller that only reads.
#[test]
fn directories_are_synced_once_each_at_the_end() {
    let (directory, _) = fresh();
    let seen = Arc::new(Seen::default());
    let store = watched(directory.path(), seen.clone());
    let keys = ["relu", "square", "neg"].map(key);
    for key in keys {
        store.put(&key, &Created::new("relu", 1).entry()).unwrap();
    }
    let synced = |calls: Vec<(FsOp, _)>| calls.into_iter().filter(|(op, _)| *op == FsOp::SyncDir).count();
    assert_eq!(synced(seen.take()), 0);
    store.sync(&[keys[0], keys[1], keys[0], keys[2], keys[1]]);
    assert_eq!(synced(seen.take()), 3 + 1);
}

/// A server renamed the file, lost its answer, and then did not find the file.
#[test]
fn a_rename_that_was_done_and_reported_as_failed_counts() {
    for error in [Errno::NOENT, Errno::STALE, Errno::IO] {
        let (directory, store) = fresh();
        let (path, made) = (store.path(&key("relu")), Created::new("relu", 1));
        let deny = move |call: &FsCall<'_>| match call.op {
            FsOp::Rename if call.to == Some(&path) => {
                fs::rename(call.path, &path).unwrap();
                Permit::Fail(error.into())
            }
            _ => Permit::Go,
        };
        let raced = watched(directory.path(), Arc::new(Watch(deny)));
        let put = raced.put_replacing(&key("relu"), &made.entry(), Overwrite::Always);
        assert_eq!(put.unwrap(), PutOutcome::Published, "{error}");
        made.assert_is(&hit(&store, &key("relu")));
        assert!(names(&store.dir().join("tmp")).is_empty());
    }
}

/// The same answer without a rename: an entry of another process does not count as this one.
#[test]
fn a_rename_that_failed_is_an_error() {
    let (directory, store) = fresh();
    let (path, old) = (store.path(&key("relu")), Created::new("relu", 0));
    store.put(&key("relu"), &old.entry()).unwrap();
    let deny = move |call: &FsCall<'_>| match call.op {
        FsOp::Rename if call.to == Some(&path) => Permit::Fail(Errno::STALE.into()),
        _ => Permit::Go,
    };
    let raced = watched(directory.path(), Arc::new(Watch(deny)));
    assert!(raced.put_replacing(&key("relu"), &Created::new("relu", 1).entry(), Overwrite::Always).is_err());
    old.assert_is(&hit(&store, &key("relu")));
    assert!(names(&store.dir().join("tmp")).is_empty());
}

/// A network file system may cache a missing name: opening the directory again asks the server.
#[test]
fn a_second_look_up_opens_the_directory_again() {
    let (directory, _) = fresh();
    let seen = Arc::new(Seen::default());
    let store = watched(directory.path(), seen.clone());
    let path = store.path(&key("relu"));
    let shard = path.parent().unwrap().to_owned();
    seen.take();
    assert!(matches!(store.get(&key("relu")), Lookup::Miss(Miss::Absent)));
    assert_eq!(seen.take(), [(FsOp::Open, path.clone())], "a look-up has no time for that");
    assert!(matches!(store.get_uncounted(&key("relu")), Lookup::Miss(Miss::Absent)));
    let calls = seen.take();
    let at = |wanted| calls.iter().position(|call| *call == wanted);
    assert!(at((FsOp::OpenDir, shard)).unwrap() < at((FsOp::Open, path)).unwrap(), "{calls:?}");
}

/// Files are read and never mapped: a file that is truncated meanwhile is an error of this look-up, and no signal.
#[test]
fn an_entry_truncated_during_a_read_is_an_io_miss() {
    let (directory, store) = fresh();
    let disk = FaultyDisk::new(directory.path());
    let raced = watched(directory.path(), disk.clone());
    store.put(&key("relu"), &Created::sized("relu", 1, 100_000).entry()).unwrap();
    hit(&raced, &key("relu"));
    let (path, before) = (store.path(&key("relu")), inode(&store.path(&key("relu"))));
    disk.disarm();
    hit(&raced, &key("relu"));
    let read = 1 + disk.calls().iter().position(|op| *op == FsOp::Read).unwrap();
    let cut = path.clone();
    disk.interrupt(read, move || {
        fs::OpenOptions::new().write(true).open(cut).unwrap().set_len(5000).unwrap();
    });
    let found = miss(&raced, &key("relu"));
    assert!(disk.has_sprung() && matches!(found, Miss::Io(_)), "{found:?}");
    assert_eq!(inode(&path), before);
    // From now on it is damage.
    assert!(matches!(miss(&raced, &key("relu")), Miss::Damaged(_)));
}

/// An entry directory is checked once, not at each look-up.
#[test]
fn a_hit_is_one_open_one_stat_and_one_read() {
    let (directory, store) = fresh();
    store.put(&key("relu"), &Created::new("relu", 1).entry()).unwrap();
    let seen = Arc::new(Seen::default());
    let raced = watched(directory.path(), seen.clone());
    hit(&raced, &key("relu"));
    seen.take();
    for _ in 0..3 {
        hit(&raced, &key("relu"));
        assert_eq!(seen.ops(), [FsOp::Open, FsOp::Stat, FsOp::Read]);
    }
}
