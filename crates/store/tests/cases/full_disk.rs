//! A disk without space, or that no process may write to: nothing is lost, and no stale file stays.

#![expect(clippy::disallowed_methods, reason = "these tests fill a disk")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{Created, hit, is_root, key, miss, names, open, trial, within};
use libtest_mimic::Trial;
use opkeep_store::{LockOutcome, Miss, Overwrite, PutOutcome, StoreError, WaitOptions};
use tempfile::TempDir;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_put_without_space_leaves_nothing", a_put_without_space).with_ignored_flag(!can_mount()),
        trial("a_damaged_entry_without_space", a_damaged_entry).with_ignored_flag(!can_mount()),
        trial("a_disk_that_is_read_only", a_disk_that_is_read_only).with_ignored_flag(!can_mount()),
    ]
}

/// A disk of 64 KiB in memory.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let directory = tempfile::tempdir().ok()?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k,mode=0700", "opkeep-test"]).arg(directory.path());
        let mounted = mount.stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
        mounted.success().then(|| Self(directory))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Fills the rest.
    fn fill(&self) {
        let mut file = fs::File::create(self.path().join("filler")).unwrap();
        while file.write(&[1; 1024]).is_ok_and(|n| n > 0) {}
    }

    fn remount(&self, how: &str) {
        let options = format!("remount,{how}");
        assert!(Command::new("mount").args(["-o", &options]).arg(self.path()).status().unwrap().success());
    }

    fn free(&self) {
        fs::remove_file(self.path().join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

fn can_mount() -> bool {
    is_root() && SmallDisk::mount().is_some()
}

fn a_put_without_space() {
    let disk = SmallDisk::mount().unwrap();
    let store = open(disk.path());
    let (old, new) = (Created::sized("relu", 0, 8_000), Created::sized("relu", 1, 60_000));
    store.put(&key("relu"), &old.entry()).unwrap();
    for name in ["relu", "other"] {
        let error = store.put_replacing(&key(name), &new.entry(), Overwrite::Always).unwrap_err();
        assert!(
            matches!(&error, StoreError::Io { action: "write", source, .. }
                if source.kind() == std::io::ErrorKind::StorageFull),
            "{error:?}"
        );
        assert!(names(&store.dir().join("tmp")).is_empty());
    }
    old.assert_is(&hit(&store, &key("relu")));
    assert!(matches!(miss(&store, &key("other")), Miss::Absent));

    // Without any space existing entries are still found, also by a store that is opened now.
    disk.fill();
    let again = open(disk.path());
    old.assert_is(&hit(&again, &key("relu")));
    assert!(again.put_replacing(&key("relu"), &Created::new("relu", 2).entry(), Overwrite::Always).is_err());
    old.assert_is(&hit(&again, &key("relu")));
    assert!(names(&store.dir().join("tmp")).is_empty());

    // With space again, no manual step is needed.
    disk.free();
    let small = Created::sized("relu", 3, 6_000);
    assert_eq!(
        again.put_replacing(&key("relu"), &small.entry(), Overwrite::Always).unwrap(),
        PutOutcome::Published
    );
    small.assert_is(&hit(&store, &key("relu")));
}

fn a_damaged_entry() {
    let disk = SmallDisk::mount().unwrap();
    let store = open(disk.path());
    let (key, made) = (key("relu"), Created::sized("relu", 0, 8_000));
    store.put(&key, &made.entry()).unwrap();
    fs::OpenOptions::new().write(true).open(store.path(&key)).unwrap().set_len(7_000).unwrap();
    disk.fill();
    let Miss::Damaged(judged) = miss(&store, &key) else { panic!("it is damaged") };
    // The lock may find no space either; that is an error, and no endless wait.
    if let LockOutcome::Acquired(lock) = within(&store, &key, Duration::from_secs(5)) {
        assert!(store.quarantine(&key, &judged, &lock).unwrap());
        assert!(matches!(miss(&store, &key), Miss::Absent));
        lock.release_with_failure("there is no space for this reason");
    }
    disk.free();
    store.put(&key, &made.entry()).unwrap();
    made.assert_is(&hit(&store, &key));
    assert!(matches!(within(&store, &key, Duration::from_secs(5)), LockOutcome::Acquired(_)));
}

/// The store is opened for writing. Existing entries are found; a put is an error after which a build can continue.
fn a_disk_that_is_read_only() {
    let disk = SmallDisk::mount().unwrap();
    let (key, made) = (key("relu"), Created::sized("relu", 0, 8_000));
    open(disk.path()).put(&key, &made.entry()).unwrap();
    disk.remount("ro");
    let store = open(disk.path());
    made.assert_is(&hit(&store, &key));
    assert_eq!(store.put(&key, &made.entry()).unwrap(), PutOutcome::Existing);
    let error = store.put_replacing(&key, &made.entry(), Overwrite::Always).unwrap_err();
    assert!(
        matches!(&error, StoreError::Io { source, .. }
            if source.kind() == std::io::ErrorKind::ReadOnlyFilesystem),
        "{error:?}"
    );
    let locked = store.lock(&key, WaitOptions::new(&|| false));
    assert!(matches!(locked, Err(StoreError::Io { .. })), "{locked:?}");
    made.assert_is(&hit(&store, &key));
    disk.remount("rw");
    store.put_replacing(&key, &made.entry(), Overwrite::Always).unwrap();
}
