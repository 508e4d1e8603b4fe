//! Changed bytes on the disk are never a hit, and always quarantined and built again.

#![expect(clippy::disallowed_methods, reason = "these tests damage files")]

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::Barrier;

use crate::common::{Created, fresh, hit, inode, key, lock, miss, names, place};
use opkeep_digest::Digest;
use opkeep_store::{
    Corruption, DamagedEntry, Lookup, Miss, Overwrite, PutOutcome, Store, StoreConfig, StoreError,
    TargetStore,
};

fn damaged(store: &TargetStore, key: &Digest) -> DamagedEntry {
    match miss(store, key) {
        Miss::Damaged(judged) => judged,
        other => panic!("expected damage, found {other:?}"),
    }
}

/// Quarantines a damaged entry and puts it again, as a build does.
fn rebuild(store: &TargetStore, key: &Digest, made: &Created) {
    let judged = damaged(store, key);
    assert!(store.quarantine(key, &judged, &lock(store, key)).unwrap());
    assert!(matches!(miss(store, key), Miss::Absent));
    assert_eq!(store.put(key, &made.entry()).unwrap(), PutOutcome::Published);
    made.assert_is(&hit(store, key));
}

#[test]
fn any_changed_byte_is_a_miss() {
    let (_dir, store) = fresh();
    let (key, made) = (key("relu"), Created::new("relu", 0));
    store.put(&key, &made.entry()).unwrap();
    let path = store.path(&key);
    let bytes = fs::read(&path).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    for (at, byte) in bytes.iter().enumerate() {
        for mask in [0x01, 0x10, 0x80, 0xff] {
            file.write_all_at(&[byte ^ mask], at as u64).unwrap();
            let found = miss(&store, &key);
            assert!(matches!(found, Miss::Damaged(_)), "byte {at} ^ {mask:#x}: {found:?}");
        }
        file.write_all_at(&[*byte], at as u64).unwrap();
    }
    made.assert_is(&hit(&store, &key));

    for at in (0..bytes.len()).step_by(97) {
        let mut bad = bytes.clone();
        bad[at] ^= 0x20;
        fs::write(&path, bad).unwrap();
        rebuild(&store, &key, &made);
    }
}

#[test]
fn any_other_length_is_a_miss() {
    let (_dir, store) = fresh();
    let (key, made) = (key("relu"), Created::new("relu", 0));
    store.put(&key, &made.entry()).unwrap();
    let path = store.path(&key);
    let bytes = fs::read(&path).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    for length in (0..bytes.len()).rev() {
        file.set_len(length as u64).unwrap();
        let found = miss(&store, &key);
        assert!(matches!(found, Miss::Damaged(_)), "{length} bytes: {found:?}");
    }
    for more in [&b"\0"[..], b"x", &[0; 512], &bytes] {
        fs::write(&path, [&bytes, more].concat()).unwrap();
        assert!(
            matches!(damaged(&store, &key).corruption, Corruption::WrongLength { .. }),
            "{} more",
            more.len()
        );
    }
    // Holes in place of data: a possible state of an unsynced file after a power cut.
    for from in [0, 8, 80, bytes.len() / 2, bytes.len() - 1] {
        let mut holes = bytes.clone();
        holes[from..].fill(0);
        fs::write(&path, holes).unwrap();
        damaged(&store, &key);
    }
    rebuild(&store, &key, &made);
}

/// Larger than the limit: refused by its length alone, so the hole costs neither memory nor time.
#[test]
fn a_huge_file_is_damage() {
    let (_dir, store) = fresh();
    let (key, made) = (key("relu"), Created::new("relu", 0));
    store.put(&key, &made.entry()).unwrap();
    fs::OpenOptions::new().write(true).open(store.path(&key)).unwrap().set_len(1 << 40).unwrap();
    assert!(
        matches!(damaged(&store, &key).corruption, Corruption::TooLarge { bytes, .. } if bytes == 1 << 40)
    );
    rebuild(&store, &key, &made);
}

#[test]
fn an_entry_under_another_name_is_a_miss() {
    let (directory, store) = fresh();
    let (one, two) = (key("one"), key("two"));
    store.put(&one, &Created::new("one", 0).entry()).unwrap();
    fs::copy(store.path(&one), place(&store, &two)).unwrap();
    assert_eq!(damaged(&store, &two).corruption, Corruption::WrongKey { expected: two, found: one });
    rebuild(&store, &two, &Created::new("two", 0));

    // Two valid entries are swapped.
    let (bytes_one, bytes_two) = (fs::read(store.path(&one)).unwrap(), fs::read(store.path(&two)).unwrap());
    fs::write(store.path(&one), bytes_two).unwrap();
    fs::write(store.path(&two), bytes_one).unwrap();
    assert!(matches!(damaged(&store, &one).corruption, Corruption::WrongKey { .. }));
    assert!(matches!(damaged(&store, &two).corruption, Corruption::WrongKey { .. }));
    rebuild(&store, &one, &Created::new("one", 0));
    rebuild(&store, &two, &Created::new("two", 0));

    // An entry of another target has another key, since the target is in the key; and it is not found under its own, either.
    let other = Store::open(StoreConfig::new(directory.path())).unwrap().target("Ascend910B1").unwrap();
    let three = key("three");
    other.put(&three, &Created::new("three", 0).entry()).unwrap();
    assert!(matches!(miss(&store, &three), Miss::Absent));
    fs::copy(other.path(&three), store.path(&one)).unwrap();
    assert_eq!(damaged(&store, &one).corruption, Corruption::WrongKey { expected: one, found: three });
}

#[test]
fn a_damaged_entry_is_quarantined_with_the_reason() {
    let (_dir, store) = fresh();
    let (key, made) = (key("relu"), Created::new("relu", 0));
    store.put(&key, &made.entry()).unwrap();
    fs::write(store.path(&key), "not an entry, but long enough").unwrap();
    let judged = damaged(&store, &key);
    assert!(store.quarantine(&key, &judged, &lock(&store, &key)).unwrap());
    let quarantined = store.dir().join("quarantine");
    let found = names(&quarantined);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with(&format!("{key}-")) && found[0].ends_with(".kern"), "{found:?}");
    assert_eq!(found[1], found[0].replace(".kern", ".reason"));
    assert_eq!(fs::read(quarantined.join(&found[0])).unwrap(), b"not an entry, but long enough");
    let reason = fs::read_to_string(quarantined.join(&found[1])).unwrap();
    assert_eq!(reason, format!("{}\n", judged.corruption));
    assert!(reason.contains("not a store entry"), "{reason}");

    // Judged once, removed since.
    assert!(!store.quarantine(&key, &judged, &lock(&store, &key)).unwrap());
    assert_eq!(names(&quarantined).len(), 2);
}

/// Many file systems reuse the inode of a replaced file for the next new one.
#[test]
fn a_valid_entry_is_never_quarantined() {
    let (_dir, store) = fresh();
    let (key, made) = (key("relu"), Created::new("relu", 1));
    for _ in 0..50 {
        fs::write(place(&store, &key), "damaged").unwrap();
        let judged = damaged(&store, &key);
        store.put(&key, &Created::new("relu", 0).entry()).unwrap();
        store.put_replacing(&key, &made.entry(), Overwrite::Always).unwrap();
        assert!(!store.quarantine(&key, &judged, &lock(&store, &key)).unwrap());
        made.assert_is(&hit(&store, &key));
    }
    assert!(names(&store.dir().join("quarantine")).is_empty());
}

/// A put needs no lock, so it may be between the quarantine's check of the path and its move.
#[test]
fn a_concurrently_put_entry_is_not_quarantined() {
    let (directory, store) = fresh();
    let (key, made) = (key("relu"), Created::new("relu", 0));
    store.put(&key, &made.entry()).unwrap();
    let (path, fresh) = (store.path(&key), directory.path().join("fresh"));
    let bytes = fs::read(&path).unwrap();
    let held = lock(&store, &key);
    let barrier = Barrier::new(2);
    const TIMES: usize = 1500;
    // Counted, and judged at the end: if one thread ended early, the other would wait.
    let mut lost = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for pause in 0..TIMES {
                fs::write(&fresh, &bytes).unwrap();
                barrier.wait();
                (0..pause % 300).for_each(|_| std::hint::spin_loop());
                fs::rename(&fresh, &path).unwrap();
                barrier.wait();
            }
        });
        for _ in 0..TIMES {
            fs::write(&path, "damaged").unwrap();
            let judged = damaged(&store, &key);
            barrier.wait();
            let moved = store.quarantine(&key, &judged, &held);
            barrier.wait();
            lost += usize::from(moved.is_err() || !matches!(store.get(&key), Lookup::Hit(_)));
        }
    });
    assert_eq!(lost, 0, "of {TIMES}");
}

fn trouble(store: &TargetStore, key: &Digest) -> String {
    match miss(store, key) {
        Miss::Io(StoreError::Io { path, source, .. }) => {
            assert_eq!(path, store.path(key));
            source.to_string()
        }
        other => panic!("expected trouble, found {other:?}"),
    }
}

#[test]
fn an_unreadable_entry_is_not_changed() {
    let (_dir, store) = fresh();
    let directory = key("a directory");
    fs::create_dir(place(&store, &directory)).unwrap();
    assert!(trouble(&store, &directory).contains("not a regular file"));
    // A put cannot replace it, and reports that.
    let error = store.put(&directory, &Created::new("a directory", 0).entry()).unwrap_err();
    assert!(matches!(error, StoreError::Io { action: "write", .. }), "{error:?}");
    assert!(store.path(&directory).is_dir());

    // No process writes to this pipe; opening it for reading would block for ever.
    let pipe = key("a pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, place(&store, &pipe), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let before = inode(&store.path(&pipe));
    assert!(trouble(&store, &pipe).contains("not a regular file"));
    assert_eq!(inode(&store.path(&pipe)), before);
    assert!(names(&store.dir().join("quarantine")).is_empty());
    assert!(names(&store.dir().join("tmp")).is_empty());
}

/// The first put creates a directory of entries, and the next one creates a lost one again.
#[test]
fn a_lost_entry_directory_is_created_again() {
    let (directory, store) = fresh();
    let (key, made) = (key("relu"), Created::new("relu", 0));
    let shard = store.path(&key).parent().map(Path::to_owned).unwrap();
    assert!(!shard.exists());
    assert!(matches!(miss(&store, &key), Miss::Absent));
    assert!(!shard.exists(), "a look-up writes nothing");
    store.put(&key, &made.entry()).unwrap();
    made.assert_is(&hit(&store, &key));
    // Also when the store had used the directory before.
    fs::remove_dir_all(&shard).unwrap();
    store.put(&key, &made.entry()).unwrap();
    made.assert_is(&hit(&crate::common::open(directory.path()), &key));
    assert_eq!(fs::metadata(store.path(&key)).unwrap().permissions().mode() & 0o777, 0o644);
}
