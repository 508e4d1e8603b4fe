//! Forged entries, links that lead out of the store, and huge sizes are detected, not followed, and not
//! allocated.
//!
//! A process that may write to the store and knows its format can forge a consistent entry: so only files of
//! trusted users are used (`trust.rs`). Each forgery here has one error.

#![expect(clippy::disallowed_methods, reason = "these tests forge files")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::room::Watch;
use crate::common::{Created, TARGET, fresh, hit, key, lock, miss, names, open, place, snapshot, within};
use opkeep_digest::Digest;
use opkeep_fs::{FsCall, FsOp, Permit, Watcher};
use opkeep_store::{
    Access, Corruption, GcOptions, LockOutcome, Lookup, MAX_ENTRY_BYTES, Miss, Overwrite, Store, StoreConfig,
    StoreError, TargetStore, WaitOptions,
};
use opkeep_testkit::DirSnapshot;
use rustix::io::Errno;

/// The file of an entry, split into the documented parts.
#[derive(Clone)]
struct Forged {
    bytes: Vec<u8>,
}

impl Forged {
    fn of(store: &TargetStore, name: &str) -> Self {
        Self { bytes: fs::read(store.path(&key(name))).unwrap() }
    }

    fn prefix(&self) -> usize {
        u32::from_le_bytes(self.bytes[12..16].try_into().unwrap()) as usize
    }

    fn body(&self) -> &[u8] {
        &self.bytes[self.prefix()..]
    }

    fn set_body(&mut self, body: &[u8]) {
        let prefix = self.prefix();
        self.bytes.splice(prefix.., body.iter().copied());
    }

    fn set_key(&mut self, key: &Digest) {
        self.bytes[16..48].copy_from_slice(key.as_bytes());
    }

    /// Replaces one digest in the table.
    fn set_digest(&mut self, of: &[u8], new: &[u8]) {
        let (old, new) = (Digest::of(of), Digest::of(new));
        let at = self.bytes.windows(32).position(|window| window == old.as_bytes()).unwrap();
        assert!(at + 32 < self.prefix());
        self.bytes[at..at + 32].copy_from_slice(new.as_bytes());
    }

    /// Makes the prefix valid again.
    fn sign(&mut self) {
        let end = self.prefix() - 32;
        let digest = Digest::of(&self.bytes[..end]);
        self.bytes[end..end + 32].copy_from_slice(digest.as_bytes());
    }

    /// The reported damage if it is stored under the key of `name`.
    fn damage(&self, store: &TargetStore, name: &str) -> Corruption {
        fs::write(store.path(&key(name)), &self.bytes).unwrap();
        match miss(store, &key(name)) {
            Miss::Damaged(judged) => judged.corruption,
            other => panic!("expected damage, found {other:?}"),
        }
    }
}

/// Two entries whose bytes have the same positions.
fn two() -> (tempfile::TempDir, TargetStore) {
    let (directory, store) = fresh();
    for name in ["relu", "tanh"] {
        store.put(&key(name), &Created::new(name, 1).entry()).unwrap();
    }
    assert_eq!(Forged::of(&store, "relu").bytes.len(), Forged::of(&store, "tanh").bytes.len());
    (directory, store)
}

#[test]
fn the_forger_knows_the_format() {
    let (_dir, store) = two();
    let mut same = Forged::of(&store, "relu");
    same.sign();
    assert_eq!(same.bytes, Forged::of(&store, "relu").bytes);
    let body = same.body().to_owned();
    same.set_body(&body);
    assert_eq!(same.bytes, Forged::of(&store, "relu").bytes);
}

#[test]
fn a_valid_entry_under_another_key() {
    let (_dir, store) = two();
    let damage = Forged::of(&store, "tanh").damage(&store, "relu");
    assert_eq!(damage, Corruption::WrongKey { expected: key("relu"), found: key("tanh") });
}

/// The digest of the prefix covers the key, so either the one or the other is wrong.
#[test]
fn another_entry_with_this_key_in_its_prefix() {
    let (_dir, store) = two();
    let mut forged = Forged::of(&store, "tanh");
    forged.set_key(&key("relu"));
    assert!(matches!(forged.damage(&store, "relu"), Corruption::PrefixDigest { .. }));
    // Signed without the key of its file name.
    let mut forged = Forged::of(&store, "tanh");
    forged.set_key(&key("a guess"));
    forged.sign();
    let damage = forged.damage(&store, "relu");
    assert_eq!(damage, Corruption::WrongKey { expected: key("relu"), found: key("a guess") });
}

#[test]
fn the_bytes_of_another_kernel_under_the_table_of_this_one() {
    let (_dir, store) = two();
    let (mut forged, other) = (Forged::of(&store, "relu"), Forged::of(&store, "tanh"));
    forged.set_body(other.body());
    let damage = forged.damage(&store, "relu");
    assert!(matches!(&damage, Corruption::MemberDigest { name, .. } if name == "json"), "{damage:?}");
}

/// The table has the digests of the bytes, and the prefix that of the table.
#[test]
fn the_bytes_of_another_kernel_with_an_adjusted_table() {
    let (_dir, store) = two();
    let (real, other) = (hit(&store, &key("relu")), hit(&store, &key("tanh")));
    let (mut forged, source) = (Forged::of(&store, "relu"), Forged::of(&store, "tanh"));
    forged.set_body(source.body());
    for name in ["json", "object", "info"] {
        let bytes = |entry: &opkeep_store::Entry| entry.lazy_member(name).unwrap().unwrap().to_vec();
        forged.set_digest(&bytes(&real), &bytes(&other));
    }
    let damage = forged.damage(&store, "relu");
    assert!(matches!(damage, Corruption::PrefixDigest { .. }), "{damage:?}");
    // Signed, but for the bytes that no hit returns: their checksum stands in the prefix, too.
    forged.sign();
    let damage = forged.damage(&store, "relu");
    assert!(matches!(damage, Corruption::Checksum { .. }), "{damage:?}");
}

/// Also consistent ones: lengths that lead elsewhere.
#[test]
fn extra_bytes_before_between_and_after_members() {
    let (_dir, store) = two();
    let (real, other) = (Forged::of(&store, "relu"), Forged::of(&store, "tanh"));
    for at in [0, 16, 200] {
        let mut forged = real.clone();
        forged.bytes.splice(at..at, [0; 8]);
        forged.damage(&store, "relu");
    }
    let mut forged = real.clone();
    forged.set_body(&[real.body(), other.body()].concat());
    assert!(matches!(forged.damage(&store, "relu"), Corruption::WrongLength { .. }));
    for prefix in [0, 16, 47, u32::MAX, i32::MAX as u32, real.bytes.len() as u32] {
        let mut forged = real.clone();
        forged.bytes[12..16].copy_from_slice(&prefix.to_le_bytes());
        let damage = forged.damage(&store, "relu");
        assert!(
            matches!(damage, Corruption::WrongLength { .. } | Corruption::PrefixDigest { .. }),
            "{prefix}: {damage:?}"
        );
    }
}

/// Records the largest read.
#[derive(Default)]
struct MostRead(AtomicUsize);

impl Watcher for MostRead {
    fn before(&self, call: &FsCall<'_>) -> Permit {
        // The store's counters files are blocks of one length.
        let is_number_file = call.path.ends_with("size") || call.path.ends_with("stats");
        if call.op == FsOp::Read && !is_number_file {
            self.0.fetch_max(call.bytes, Ordering::Relaxed);
        }
        Permit::Go
    }
}

fn watched(directory: &Path) -> (Arc<MostRead>, TargetStore) {
    let most = Arc::new(MostRead::default());
    let config = StoreConfig::new(directory).with_watcher(most.clone());
    (most, Store::open(config).unwrap().target(TARGET).unwrap())
}

#[test]
fn no_memory_is_reserved_beyond_the_length_of_the_file() {
    let (directory, store) = two();
    let (most, reader) = watched(directory.path());
    let length = Forged::of(&store, "relu").bytes.len();
    // Huge numbers at each position, in a consistent entry.
    let prefix = Forged::of(&store, "relu").prefix();
    for at in (48..prefix - 32).step_by(4) {
        let mut forged = Forged::of(&store, "relu");
        forged.bytes[at..at + 4].fill(0xff);
        forged.sign();
        fs::write(store.path(&key("relu")), &forged.bytes).unwrap();
        match reader.get(&key("relu")) {
            // The time and the stamp may be anything.
            Lookup::Hit(entry) => assert_eq!(entry.file_bytes(), length as u64),
            Lookup::Miss(Miss::Damaged(_)) => {}
            Lookup::Miss(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(most.0.load(Ordering::Relaxed), length);
    fs::OpenOptions::new()
        .write(true)
        .open(store.path(&key("relu")))
        .unwrap()
        .set_len(MAX_ENTRY_BYTES + 1)
        .unwrap();
    assert!(matches!(reader.get(&key("relu")), Lookup::Miss(Miss::Damaged(_))));
    assert_eq!(most.0.load(Ordering::Relaxed), length, "nothing of it was read");
}

#[test]
fn no_memory_is_reserved_for_a_huge_reason() {
    let (directory, store) = fresh();
    let (most, waiter) = watched(directory.path());
    let path = store.dir().join("locks").join(key("relu").to_string());
    let held = lock(&store, &key("relu"));
    let outcome = std::thread::scope(|scope| {
        let (waits, waiting) = std::sync::mpsc::channel();
        let waiter = scope.spawn(move || {
            let say = || waits.send(()).unwrap();
            let options = WaitOptions::new(&|| false).with_on_wait(&say);
            waiter.lock(&key("relu"), options).unwrap()
        });
        waiting.recv().unwrap();
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        fs::write(&path, "failed: ").unwrap();
        file.set_len(1 << 40).unwrap();
        drop(held);
        waiter.join().unwrap()
    });
    let LockOutcome::HolderFailed(reason) = outcome else { panic!("{outcome:?}") };
    assert!(reason.len() < 1 << 17);
    assert!((1..1 << 17).contains(&most.0.load(Ordering::Relaxed)));
}

/// Each directory of a store that is open becomes a link to one outside, where the same names are. Then all
/// operations of a build run.
#[test]
fn a_directory_that_becomes_a_link_is_not_followed() {
    let dirs = ["tmp", "locks", "quarantine", "entries/shard"];
    for below in dirs {
        let (directory, store) = fresh();
        let outside = tempfile::tempdir().unwrap();
        let (there, gone) = (key("there"), key("gone"));
        store.put(&there, &Created::new("there", 1).entry()).unwrap();
        fs::write(place(&store, &gone), "damaged").unwrap();
        let Miss::Damaged(judged) = miss(&store, &gone) else { panic!("it is damaged") };
        let held = lock(&store, &gone);
        let path = match below {
            "entries/shard" => store.path(&gone).parent().unwrap().to_owned(),
            below => store.dir().join(below),
        };
        let elsewhere = outside.path().join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        fs::write(elsewhere.join(key("precious").to_string()), "precious").unwrap();
        symlink(&elsewhere, &path).unwrap();
        let before = snapshot(&elsewhere);

        let check = |outcome: Result<(), StoreError>, uses: &[&str]| match outcome {
            Err(StoreError::NotADirectory { path: found }) => assert_eq!(found, path),
            other => assert!(!uses.contains(&below), "{below}: {other:?}"),
        };
        check(store.quarantine(&gone, &judged, &held).map(drop), &["quarantine", "entries/shard"]);
        for replace in [Overwrite::Never, Overwrite::Always] {
            let put = store.put_replacing(&gone, &Created::new("gone", 2).entry(), replace);
            check(put.map(drop), &["tmp", "entries/shard"]);
        }
        let options = WaitOptions::new(&|| false);
        check(store.lock(&key("precious"), options).map(drop), &["locks"]);
        store.sync(&[there, gone]);
        store.keys(100);
        let _ = (store.get(&there), store.get(&gone), store.get(&key("precious")));
        assert_eq!(snapshot(&elsewhere), before, "{below}");

        // If it is opened now, the target is refused; each of the 256 directories is checked when it is used.
        let opened = Store::open(StoreConfig::new(directory.path())).and_then(|store| store.target(TARGET));
        assert_eq!(opened.is_err(), below != "entries/shard");
        assert_eq!(snapshot(&elsewhere), before, "{below}");
        drop(held);
    }
}

/// The same for parent directories: they are not checked at each use, and still no link is followed.
#[test]
fn a_link_further_up_is_not_followed() {
    for below in ["v1", "v1/cpu-x86_64", "v1/cpu-x86_64/entries"] {
        let (directory, store) = fresh();
        let outside = tempfile::tempdir().unwrap();
        let (there, gone) = (key("there"), key("gone"));
        store.put(&there, &Created::new("there", 1).entry()).unwrap();
        hit(&store, &there);
        fs::write(place(&store, &gone), "damaged").unwrap();
        let Miss::Damaged(judged) = miss(&store, &gone) else { panic!("it is damaged") };
        let held = lock(&store, &gone);
        let (path, elsewhere) = (directory.path().join(below), outside.path().join("elsewhere"));
        fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        let before = snapshot(&elsewhere);

        for key in [there, key("never asked for")] {
            let found = miss(&store, &key);
            assert!(matches!(found, Miss::Untrusted(StoreError::NotADirectory { .. })), "{below}: {found:?}");
            for replace in [Overwrite::Never, Overwrite::Always] {
                let error = store.put_replacing(&key, &Created::new("x", 2).entry(), replace).unwrap_err();
                assert!(matches!(error, StoreError::NotADirectory { .. }), "{below}: {error:?}");
            }
        }
        let moved = store.quarantine(&gone, &judged, &held);
        assert!(matches!(moved, Err(StoreError::NotADirectory { .. })), "{below}: {moved:?}");
        if below != "v1/cpu-x86_64/entries" {
            let options = WaitOptions::new(&|| false);
            let locked = store.lock(&key("precious"), options).map(drop);
            assert!(matches!(locked, Err(StoreError::NotADirectory { .. })), "{below}: {locked:?}");
            assert_eq!(snapshot(&elsewhere), before, "{below}");
        }
        assert_eq!(store.keys(100), [], "{below}");
        store.sync(&[there, gone]);
        let everything = GcOptions::default().with_older_than(Duration::ZERO);
        assert!(store.gc(&everything).map_or(0, |report| report.removed.total().files) == 0, "{below}");
        assert_eq!(snapshot(&elsewhere), before, "{below}");
        drop(held);
    }
}

/// Kernels before 5.6, and some containers: look-ups do not detect links above an entry's directory, but all others.
#[test]
fn no_write_follows_a_link_on_an_old_kernel() {
    for refusal in [Errno::NOSYS, Errno::PERM] {
        let (directory, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let asked = AtomicUsize::new(0);
        let refuse = move |call: &FsCall<'_>| match call.op {
            FsOp::OpenDir if asked.fetch_add(1, Ordering::Relaxed) == 0 => Permit::Fail(refusal.into()),
            _ => Permit::Go,
        };
        let config = StoreConfig::new(directory.path()).with_watcher(Arc::new(Watch(refuse)));
        let store = Store::open(config).unwrap().target(TARGET).unwrap();
        let (key, made) = (key("relu"), Created::new("relu", 1));
        store.put(&key, &made.entry()).unwrap();
        drop(lock(&store, &key));
        made.assert_is(&hit(&store, &key));
        let shard = store.path(&key).parent().unwrap().to_owned();
        for place in shard.ancestors().take(4) {
            let elsewhere = outside.path().join("elsewhere");
            fs::rename(place, &elsewhere).unwrap();
            symlink(&elsewhere, place).unwrap();
            let before = snapshot(&elsewhere);
            let error = store.put_replacing(&key, &made.entry(), Overwrite::Always).unwrap_err();
            assert!(matches!(error, StoreError::NotADirectory { .. }), "{error:?}");
            let everything = GcOptions::default().with_older_than(Duration::ZERO);
            let removed = store.gc(&everything).map_or(0, |report| report.removed.entries.files);
            assert!((removed, snapshot(&elsewhere)) == (0, before), "{}", place.display());
            fs::remove_file(place).unwrap();
            fs::rename(&elsewhere, place).unwrap();
        }
    }
}

/// Between the check of a directory and its use another process may replace it by a link.
#[test]
fn a_link_created_between_check_and_use_is_not_followed() {
    for op in [FsOp::Rename, FsOp::Remove, FsOp::Create, FsOp::Look] {
        let (directory, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (root, elsewhere) = (directory.path().to_owned(), outside.path().to_owned());
        let armed = Arc::new(AtomicUsize::new(0));
        let (arm, swapped) = (Arc::clone(&armed), root.join("swapped"));
        let swap = move |call: &FsCall<'_>| {
            let place = call.path.parent().filter(|parent| parent.ends_with("tmp"));
            if let Some(place) = place.filter(|_| call.op == op)
                && arm.compare_exchange(1, 2, Ordering::SeqCst, Ordering::SeqCst).is_ok()
            {
                // The file that is about to be changed is outside, too.
                let name = call.path.file_name().unwrap();
                fs::write(elsewhere.join(name), "somebody's").unwrap();
                fs::rename(place, &swapped).unwrap();
                symlink(&elsewhere, place).unwrap();
            }
            Permit::Go
        };
        let config = StoreConfig::new(&root).with_watcher(Arc::new(Watch(swap)));
        let store = Store::open(config).unwrap().target(TARGET).unwrap();
        let (key, made) = (key("relu"), Created::new("relu", 1));
        store.put(&key, &made.entry()).unwrap();
        armed.store(1, Ordering::SeqCst);
        let everything = GcOptions::default().with_older_than(Duration::ZERO);
        let _ = store.gc(&everything);
        let _ = store.put_replacing(&key, &Created::new("relu", 2).entry(), Overwrite::Always);
        assert_eq!(armed.load(Ordering::SeqCst), 2, "{op:?} never came");
        let left: Vec<_> = fs::read_dir(outside.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left.len(), 1, "{op:?}: {left:?}");
        assert_eq!(fs::read_to_string(&left[0]).unwrap(), "somebody's", "{op:?}");
    }
}

/// Another process deletes the cache while a build runs.
#[test]
fn deleted_directories_are_created_again() {
    let (_dir, store) = fresh();
    for name in ["tmp", "locks", "quarantine", "entries"] {
        let (key, made) = (key(name), Created::new(name, 1));
        fs::remove_dir_all(store.dir().join(name)).unwrap();
        if name == "entries" {
            fs::create_dir(store.dir().join(name)).unwrap();
        }
        let held = lock(&store, &key);
        store.put(&key, &made.entry()).unwrap();
        made.assert_is(&hit(&store, &key));
        fs::write(store.path(&key), "damaged").unwrap();
        let Miss::Damaged(judged) = miss(&store, &key) else { panic!("it is damaged") };
        assert!(store.quarantine(&key, &judged, &held).unwrap());
    }
    assert!(matches!(within(&store, &key("tmp"), Duration::ZERO), LockOutcome::Acquired(_)));
}

/// Neither by a process that creates no store, nor below a root that is shared with other users than the first one was.
#[test]
fn a_removed_store_is_created_again() {
    let (dir, store) = fresh();
    let (key, made) = (key("relu"), Created::new("relu", 1));
    let existing = StoreConfig::new(dir.path()).with_access(Access::Existing);
    let existing = Store::open(existing).unwrap().target(TARGET).unwrap();
    fs::remove_dir_all(dir.path()).unwrap();
    existing.put(&key, &made.entry()).unwrap_err();
    assert!(!dir.path().exists());
    let held = lock(&store, &key);
    store.put(&key, &made.entry()).unwrap();
    made.assert_is(&hit(&existing, &key));
    assert!(matches!(within(&existing, &key, Duration::ZERO), LockOutcome::TimedOut));
    drop(held);
    assert!(opkeep_store::is_store(dir.path()));
    fs::remove_dir_all(dir.path()).unwrap();
    fs::create_dir(dir.path()).unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o2770)).unwrap();
    store.put(&key, &made.entry()).unwrap_err();
    assert_eq!(names(dir.path()), [""; 0]);
}

/// Byte for byte, whatever is done to this version; also if the future one looks like this one.
#[test]
fn a_future_version_is_not_changed() {
    let (directory, store) = two();
    drop(store);
    let root = directory.path();
    let future = DirSnapshot::of(&root.join("v1")).unwrap();
    for name in ["v2", "v10", "v0", "V1"] {
        future.restore(&root.join(name)).unwrap();
        fs::write(root.join(name).join("format"), "of the future").unwrap();
    }
    let before: Vec<_> = ["v2", "v10", "v0", "V1"].iter().map(|name| snapshot(&root.join(name))).collect();
    let store = open(root);
    store.put_replacing(&key("relu"), &Created::new("relu", 2).entry(), Overwrite::Always).unwrap();
    fs::write(store.path(&key("tanh")), "damaged").unwrap();
    let Miss::Damaged(judged) = miss(&store, &key("tanh")) else { panic!("it is damaged") };
    store.quarantine(&key("tanh"), &judged, &lock(&store, &key("tanh"))).unwrap();
    store.sync(&[key("relu")]);
    let everything = GcOptions::default().with_older_than(Duration::ZERO);
    assert_eq!(store.gc(&everything).unwrap().removed.entries.files, 1);
    let after: Vec<_> = ["v2", "v10", "v0", "V1"].iter().map(|name| snapshot(&root.join(name))).collect();
    assert_eq!(after, before);
    assert!(names(root).contains(&"v2".to_owned()));
}
