//! What is no file of the store's in the place of one: a pipe, a socket, a directory, a link, a file that is larger than all memory. No
//! call hangs, reads all of it, follows it, or deletes a file in it; and what has nothing to do with it works.

#![expect(clippy::disallowed_methods, reason = "these tests put things in the way")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, SystemTime};

use opkeep_fs::{FsCall, FsOp, Permit};
use opkeep_store::{
    Access, BuildRecordKind, GcOptions, Lookup, RepairOptions, Store, StoreConfig, StoreError,
    TryLockOutcome, VerifyOptions,
};
use rustix::fs::{CWD, FileType, Mode, mkfifoat, mknodat};

use crate::common::room::Watch;
use crate::common::{Created, TARGET, key, names, open, snapshot};

/// The time after which a call hangs. All calls together take milliseconds.
const HANGS: Duration = Duration::from_secs(100);

/// The maximum number of bytes that all calls together read: a thousandth of the large file.
const MOST_READ: usize = 64 << 20;

/// The things, by name. `at` is the place, and `outside` a directory beside the store.
type Thing = (&'static str, fn(at: &Path, outside: &Path));

const THINGS: [Thing; 7] = [
    ("a pipe", |at, _| mkfifoat(CWD, at, Mode::RUSR | Mode::WUSR).unwrap()),
    ("a socket", |at, _| mknodat(CWD, at, FileType::Socket, Mode::RWXU, 0).unwrap()),
    ("a directory", |at, _| {
        fs::create_dir(at).unwrap();
        fs::write(at.join("thesis"), "a user's").unwrap();
    }),
    ("a link to a file", |at, outside| symlink(outside.join("file"), at).unwrap()),
    ("a link to a directory", |at, outside| symlink(outside, at).unwrap()),
    ("a link to nothing", |at, _| symlink("/nonexistent/file", at).unwrap()),
    ("a file of 300 GiB", |at, _| fs::File::create(at).unwrap().set_len(300 << 30).unwrap()),
];

/// A place in a store.
struct Place {
    path: String,
    serves: Serves,
}

/// Which stores can use the entries of other keys, although that is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Serves {
    All,
    /// One that only reads. One that writes needs the directory there, and says that it is none.
    Readers,
    None,
}

fn places() -> Vec<Place> {
    let target = format!("v1/{TARGET}");
    let (stored, other) = (key("stored"), key("other"));
    let shard = |key: &opkeep_digest::Digest| format!("{target}/entries/{}", &key.to_string()[..2]);
    assert_ne!(shard(&stored), shard(&other));
    let paths = [
        ("op_cache.ini".to_owned(), Serves::All),
        ("CACHEDIR.TAG".to_owned(), Serves::All),
        (".gitignore".to_owned(), Serves::All),
        ("notes".to_owned(), Serves::All),
        ("v1/.builds".to_owned(), Serves::All),
        ("v1/.builds/001764331200123-77-0-5678.full".to_owned(), Serves::All),
        ("v1/.builds/.new-77-0".to_owned(), Serves::All),
        ("v1/Ascend910B1".to_owned(), Serves::All),
        ("v1/notes".to_owned(), Serves::All),
        (format!("{target}/size"), Serves::All),
        (format!("{target}/stats"), Serves::All),
        (format!("{target}/numbers.lock"), Serves::All),
        (format!("{target}/gc.lock"), Serves::All),
        (format!("{target}/STORE.TAG"), Serves::None),
        (format!("{target}/notes"), Serves::All),
        (shard(&other), Serves::All),
        (format!("{}/{other}.kern", shard(&other)), Serves::All),
        (format!("{}/notes", shard(&other)), Serves::All),
        (format!("{target}/locks"), Serves::Readers),
        (format!("{target}/locks/{other}"), Serves::All),
        (format!("{target}/locks/{stored}"), Serves::All),
        (format!("{target}/locks/notes"), Serves::All),
        (format!("{target}/tmp"), Serves::Readers),
        (format!("{target}/tmp/put-77-0"), Serves::All),
        (format!("{target}/tmp/evict-77-0"), Serves::All),
        (format!("{target}/tmp/notes"), Serves::All),
        (format!("{target}/quarantine"), Serves::Readers),
        (format!("{target}/quarantine/{other}-1764331200.kern"), Serves::All),
        (format!("{target}/quarantine/{other}-1764331200.reason"), Serves::All),
        (format!("{target}/unsent"), Serves::All),
        (format!("{target}/unsent/{other}"), Serves::All),
        (format!("{target}/unsent/notes"), Serves::All),
    ];
    paths.into_iter().map(|(path, serves)| Place { path, serves }).collect()
}

/// What a store did.
#[derive(Debug)]
struct Use {
    /// Whether the entry was found, before and after the repair, if the store was opened.
    found: Result<[bool; 2], StoreError>,
    /// The number of bytes that were to be read.
    read: usize,
}

/// Does all that a store does, with each access.
fn use_all(root: &Path) -> [(Access, Use); 2] {
    [Access::ReadOnly, Access::ReadWrite].map(|access| {
        let read = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&read);
        let watch = Watch(move |call: &FsCall<'_>| {
            if call.op == FsOp::Read {
                counts.fetch_add(call.bytes, Ordering::Relaxed);
            }
            Permit::Go
        });
        let found = use_with(StoreConfig::new(root).with_access(access).with_watcher(Arc::new(watch)));
        (access, Use { found, read: read.load(Ordering::Relaxed) })
    })
}

fn use_with(config: StoreConfig) -> Result<[bool; 2], StoreError> {
    let mut found = [false; 2];
    let store = Store::open(config)?;
    let _ = (store.exists(), store.targets(), store.foreign(), store.limit_warnings().len());
    let _ = store.add_build_record(SystemTime::now(), BuildRecordKind::Full, b"text");
    let _ = store.build_records(usize::MAX);
    for name in store.targets().unwrap_or_default() {
        if let Ok(target) = store.target(&name) {
            let _ = target.gc(&GcOptions::default().with_dry_run(true));
        }
    }
    let target = store.target(TARGET)?;
    found[0] = matches!(target.get(&key("stored")), Lookup::Hit(_));
    let _ = (target.get(&key("other")), target.peek(&key("other")), target.open_entry(&key("other")));
    for name in ["other", "new"] {
        if let Ok(TryLockOutcome::Acquired(lock)) = target.try_lock(&key(name)) {
            lock.release_with_failure("a test");
        }
        let _ = target.put(&key(name), &Created::new(name, 1).entry());
        let _ = target.get(&key(name));
    }
    let _ = (target.statistics(), target.estimate(), target.keys(9), target.flush());
    let _ = (target.quarantined(), target.unsent(), target.count_unsent());
    let _ = (target.eviction_preview(9), target.verify(&VerifyOptions::default()));
    let _ = target.repair(&RepairOptions::default().with_dry_run(true));
    let _ = (target.repair(&RepairOptions::default()), target.reset_statistics());
    let _ = target.gc(&GcOptions::default());
    let _ = store.remove_build_records();
    found[1] = matches!(target.get(&key("stored")), Lookup::Hit(_));
    Ok(found)
}

/// The number of files of the user below `root`.
fn kept(root: &Path) -> usize {
    let entries = fs::read_dir(root).unwrap().map(|entry| entry.unwrap());
    let count = |entry: fs::DirEntry| match entry.file_type().unwrap().is_dir() {
        true => kept(&entry.path()),
        false => usize::from(entry.file_name() == "thesis"),
    };
    entries.map(count).sum()
}

#[test]
fn nothing_in_the_place_of_a_file_is_followed_read_whole_or_waited_for() {
    for Place { path, serves } in places() {
        for (what, put) in THINGS {
            let dir = tempfile::tempdir().unwrap();
            let (root, outside) = (dir.path().join("store"), dir.path().join("outside"));
            fs::create_dir(&outside).unwrap();
            fs::write(outside.join("file"), "a user's").unwrap();
            let store = open(&root);
            store.put(&key("stored"), &Created::new("stored", 0).entry()).unwrap();
            store.flush().unwrap();
            drop(store);
            let at = root.join(&path);
            match fs::symlink_metadata(&at) {
                Ok(found) if found.is_dir() => fs::rename(&at, dir.path().join("moved")).unwrap(),
                Ok(_) => fs::remove_file(&at).unwrap(),
                Err(_) => fs::create_dir_all(at.parent().unwrap()).unwrap(),
            }
            put(&at, &outside);
            let before = (snapshot(&outside), kept(&root));
            let (sender, receiver) = channel();
            let used = root.clone();
            thread::spawn(move || drop(sender.send(use_all(&used))));
            let used = receiver.recv_timeout(HANGS);
            let used = used.unwrap_or_else(|_| panic!("a call hangs or panics with {what} at {path}"));
            assert_eq!((snapshot(&outside), kept(&root)), before, "{what} at {path}");
            for (access, used) in used {
                let is_right = match (&used.found, serves) {
                    (_, Serves::None) => true,
                    (Ok(found), _) => *found == [true; 2],
                    // It says what is in the way.
                    (Err(StoreError::NotADirectory { path }), Serves::Readers) => {
                        access == Access::ReadWrite && *path == at
                    }
                    (Err(_), _) => false,
                };
                assert!(is_right, "{what} at {path}, {access:?}: {used:?}");
                assert!(used.read <= MOST_READ, "{what} at {path}, {access:?}: {used:?}");
            }
        }
    }
}

/// A directory with the name of a record is no reason to keep the records.
#[test]
fn records_are_deleted_beside_what_is_no_record() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(StoreConfig::new(dir.path())).unwrap();
    store.target(TARGET).unwrap().put(&key("stored"), &Created::new("stored", 0).entry()).unwrap();
    store.add_build_record(SystemTime::now(), BuildRecordKind::Full, b"text").unwrap();
    let builds = dir.path().join("v1/.builds");
    let foreign = builds.join("001764331200123-77-0-5678.full");
    fs::create_dir(&foreign).unwrap();
    let found = store.build_records(usize::MAX).unwrap();
    assert_eq!((found.texts.len(), found.damaged, found.foreign), (1, 1, vec![foreign.clone()]));
    assert_eq!(store.remove_build_records().unwrap(), 1);
    assert_eq!(names(&builds), [foreign.file_name().unwrap().to_str().unwrap()]);
}
