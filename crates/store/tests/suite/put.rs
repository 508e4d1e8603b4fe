//! Puts: valid entries stay, damaged ones are replaced, failed puts leave no file. And stores for reading.

#![expect(clippy::disallowed_methods, reason = "these tests look at files, and put others in their way")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Created, TARGET, fresh, hit, inode, key, miss, names, open, place, snapshot};
use opkeep_store::{
    Access, EntryBuilder, LockOutcome, Lookup, Miss, Overwrite, PutOutcome, Store, StoreConfig, StoreError,
    TargetStore, WaitOptions,
};

fn read_only(root: &Path) -> Result<TargetStore, StoreError> {
    Store::open(StoreConfig::new(root).with_access(Access::ReadOnly))?.target(TARGET)
}

#[test]
fn a_valid_entry_stays() {
    let (_dir, store) = fresh();
    let (key, first) = (key("relu"), Created::new("relu", 1));
    assert_eq!(store.put(&key, &first.entry()).unwrap(), PutOutcome::Published);
    let before = snapshot(&store.path(&key));
    assert_eq!(store.put(&key, &Created::new("relu", 2).entry()).unwrap(), PutOutcome::Existing);
    assert_eq!(snapshot(&store.path(&key)), before);
    first.assert_is(&hit(&store, &key));

    let second = Created::new("relu", 2);
    assert_eq!(store.put_replacing(&key, &second.entry(), Overwrite::Always).unwrap(), PutOutcome::Published);
    second.assert_is(&hit(&store, &key));
    assert!(names(&store.dir().join("tmp")).is_empty());
    assert!(names(&store.dir().join("locks")).is_empty());
}

#[test]
fn the_keys_of_all_entries_are_listed_in_order() {
    let (directory, store) = fresh();
    assert!(store.keys(10).is_empty());
    let mut keys: Vec<_> = ["relu", "square", "neg", "abs"].map(key).into();
    for key in &keys {
        store.put(key, &Created::new("relu", 1).entry()).unwrap();
    }
    keys.sort_unstable();
    // A file without the name of an entry is none.
    fs::write(store.path(&keys[0]).with_extension("other"), "").unwrap();
    fs::write(store.path(&keys[0]).with_file_name("notes.kern"), "").unwrap();
    assert_eq!(store.keys(10), keys);
    assert_eq!(read_only(directory.path()).unwrap().keys(10), keys);
    assert_eq!(store.keys(3).len(), 3);
}

#[test]
fn a_restamped_entry_keeps_everything_else() {
    let (_dir, store) = fresh();
    let (key, made) = (key("relu"), Created::new("relu", 1));
    store.put(&key, &made.entry().cost(Duration::from_millis(1234))).unwrap();
    let before = hit(&store, &key);
    store.restamp(&before, 8).unwrap();
    let after = hit(&store, &key);
    made.assert_is(&after);
    assert_eq!((before.validation(), after.validation()), (7, 8));
    assert_eq!((after.cost(), after.created()), (Duration::from_millis(1234), before.created()));
}

/// A process that validates an entry again has read it earlier.
#[test]
fn a_stamp_never_restores_an_older_entry() {
    let (_dir, store) = fresh();
    let (key, old, new) = (key("relu"), Created::new("relu", 1), Created::new("relu", 2));
    store.put(&key, &old.entry()).unwrap();
    let read = hit(&store, &key);
    store.put_replacing(&key, &new.entry(), Overwrite::Always).unwrap();
    store.restamp(&read, 9).unwrap();
    new.assert_is(&hit(&store, &key));

    // While another process builds the entry, it is not stamped.
    let read = hit(&store, &key);
    let options = WaitOptions::new(&|| false).with_deadline(Instant::now());
    let LockOutcome::Acquired(lock) = store.lock(&key, options).unwrap() else {
        panic!("no process holds it")
    };
    let before = snapshot(&store.path(&key));
    store.restamp(&read, 9).unwrap();
    assert_eq!(snapshot(&store.path(&key)), before);
    drop(lock);
    store.restamp(&read, 9).unwrap();
    assert_eq!(hit(&store, &key).validation(), 9);
    new.assert_is(&hit(&store, &key));
}

#[test]
fn a_damaged_entry_is_replaced() {
    let (_dir, store) = fresh();
    let (key, made) = (key("relu"), Created::new("relu", 1));
    store.put(&key, &made.entry()).unwrap();
    fs::write(store.path(&key), "damaged").unwrap();
    let before = inode(&store.path(&key));
    assert_eq!(store.put(&key, &made.entry()).unwrap(), PutOutcome::Published);
    assert_ne!(inode(&store.path(&key)), before);
    made.assert_is(&hit(&store, &key));
}

#[test]
fn a_reader_sees_the_old_entry_or_the_new_one() {
    let (directory, store) = fresh();
    let key = key("relu");
    // Of different lengths, so that a mixture of the two could not pass for either.
    let versions: Vec<Created> = (0..5).map(|i| Created::sized("relu", i, 600 + 3000 * i)).collect();
    store.put(&key, &versions[0].entry()).unwrap();
    let (done, satisfied) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let readers = [(); 2].map(|()| {
            scope.spawn(|| {
                let store = open(directory.path());
                let mut seen = BTreeSet::new();
                while !done.load(Ordering::Relaxed) {
                    let entry = hit(&store, &key);
                    let length = entry.member("object").map_or(0, <[u8]>::len);
                    let version = (length - 600) / 3000;
                    versions[version].assert_is(&entry);
                    if seen.insert(version) && seen.len() == 2 {
                        satisfied.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        });
        let began = Instant::now();
        for i in 0.. {
            store.put_replacing(&key, &versions[i % 5].entry(), Overwrite::Always).unwrap();
            let is_enough = i >= 400 || began.elapsed() > Duration::from_secs(3);
            // Each reader has seen two versions, or failed.
            let is_over = satisfied.load(Ordering::Relaxed) == 2 || readers.iter().any(|it| it.is_finished());
            if is_enough && is_over {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_put_that_fails_leaves_nothing() {
    let (directory, store) = fresh();
    let (key, made) = (key("relu"), Created::new("relu", 1));
    let shard = store.path(&key).parent().map(Path::to_owned).unwrap();
    store.put(&key, &made.entry()).unwrap();
    // A file takes the directory's place: in a store that knew the directory, and in one that did not.
    let quarantined = directory.path().join("aside");
    fs::rename(&shard, &quarantined).unwrap();
    fs::write(&shard, "in the way").unwrap();
    for store in [store.clone(), open(directory.path())] {
        assert!(matches!(miss(&store, &key), Miss::Io(_)));
        let error = store.put_replacing(&key, &made.entry(), Overwrite::Always).unwrap_err();
        assert!(matches!(&error, StoreError::NotADirectory { path } if *path == shard), "{error:?}");
        assert!(names(&store.dir().join("tmp")).is_empty());
        assert_eq!(fs::read(&shard).unwrap(), b"in the way");
    }
    fs::remove_file(&shard).unwrap();
    fs::rename(&quarantined, &shard).unwrap();
    made.assert_is(&hit(&store, &key));

    // A directory, which no rename replaces.
    let other = crate::common::key("other");
    fs::create_dir(place(&store, &other)).unwrap();
    assert!(store.put(&other, &made.entry()).is_err());
    assert!(names(&store.dir().join("tmp")).is_empty());
}

#[test]
fn an_entry_beyond_the_bounds_is_refused() {
    let (_dir, store) = fresh();
    let key = key("relu");
    let many = (0..65).fold(EntryBuilder::new(0), |entry, _| entry.eager("n", b"1"));
    let error = store.put(&key, &many).unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { members: 65, bytes: 130 }), "{error:?}");
    assert!(matches!(miss(&store, &key), Miss::Absent));
}

#[test]
fn a_store_for_reading_writes_nothing() {
    let (directory, writer) = fresh();
    let (there, damaged, absent) = (key("there"), key("damaged"), key("absent"));
    writer.put(&there, &Created::new("there", 0).entry()).unwrap();
    fs::write(place(&writer, &damaged), "damaged").unwrap();
    let Miss::Damaged(judged) = miss(&writer, &damaged) else { panic!("it is damaged") };
    let held = crate::common::lock(&writer, &absent);
    let before = snapshot(directory.path());

    let store = read_only(directory.path()).unwrap();
    assert!(!store.is_writable());
    Created::new("there", 0).assert_is(&hit(&store, &there));
    assert!(matches!(miss(&store, &damaged), Miss::Damaged(_)));
    assert!(matches!(miss(&store, &absent), Miss::Absent));
    for replace in [Overwrite::Never, Overwrite::Always] {
        let error = store.put_replacing(&there, &Created::new("there", 1).entry(), replace).unwrap_err();
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    }
    assert!(matches!(store.quarantine(&damaged, &judged, &held), Err(StoreError::ReadOnly { .. })));
    let options = WaitOptions::new(&|| false);
    assert!(matches!(store.lock(&absent, options), Ok(LockOutcome::Unsupported)));
    store.sync(&[there, absent]);
    // A target that does not exist yet.
    let other = Store::open(StoreConfig::new(directory.path()).with_access(Access::ReadOnly)).unwrap();
    assert!(matches!(other.target("Ascend310").unwrap().get(&there), Lookup::Miss(Miss::Absent)));
    assert_eq!(snapshot(directory.path()), before);
}

#[test]
fn a_store_for_reading_must_exist() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let error = read_only(&missing).unwrap_err();
    assert!(matches!(&error, StoreError::NoStore { path } if *path == missing), "{error:?}");
    assert!(error.to_string().contains("choose the directory of an existing store"), "{error}");
    assert!(!missing.exists());

    // A directory that is no store yet is an empty one, and stays as it is.
    let before = snapshot(directory.path());
    let store = read_only(directory.path()).unwrap();
    assert!(matches!(store.get(&key("relu")), Lookup::Miss(Miss::Absent)));
    assert_eq!(snapshot(directory.path()), before);
}

#[test]
fn many_open_a_fresh_root_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("deep/down/root");
    let barrier = Barrier::new(16);
    thread::scope(|scope| {
        for i in 0..16 {
            let (root, barrier) = (&root, &barrier);
            scope.spawn(move || {
                barrier.wait();
                let store = open(root);
                for j in 0..8 {
                    let name = format!("op_{j}");
                    store.put(&key(&name), &Created::new(&name, i).entry()).unwrap();
                    assert!(matches!(store.get(&key(&name)), Lookup::Hit(_)));
                }
            });
        }
    });
    let store = open(&root);
    // Each process made the directories of its entries.
    let used: BTreeSet<_> = (0..8).map(|j| key(&format!("op_{j}")).to_string()[..2].to_owned()).collect();
    assert_eq!(names(&store.dir().join("entries")).into_iter().collect::<BTreeSet<_>>(), used);
    assert!(names(&store.dir().join("tmp")).is_empty());
}

#[test]
fn another_version_is_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let v2 = directory.path().join("v2");
    fs::create_dir(&v2).unwrap();
    fs::write(v2.join("entry"), "of the future").unwrap();
    let before = snapshot(&v2);
    let store = open(directory.path());
    store.put(&key("relu"), &Created::new("relu", 0).entry()).unwrap();
    assert_eq!(names(directory.path()), ["op_cache.ini", "v1", "v2"]);
    assert_eq!(snapshot(&v2), before);
}
