//! Paths below a root that must not be left.
#![expect(clippy::disallowed_methods, reason = "these tests look at what the calls did")]

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;

use opkeep_fs::{RootedFs, TryLock};
use tempfile::TempDir;

/// A root that is entered, and its real path.
fn entered() -> (TempDir, PathBuf, RootedFs) {
    let temp = tempfile::tempdir().unwrap();
    let mut fs = RootedFs::new(None, None).quiet(false);
    let root = fs.real_path(temp.path()).unwrap();
    fs.enter(&root).unwrap();
    (temp, root, fs)
}

#[test]
fn a_link_below_the_root_leads_nowhere() {
    let (_temp, root, fs) = entered();
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("file"), "secret").unwrap();
    symlink(other.path(), root.join("dir")).unwrap();
    let path = root.join("dir/file");
    assert!(fs.open(&path).is_err() && fs.open_lock(&path, Some(0o600)).is_err());
    assert!(fs.open_dir(&root.join("dir")).is_err() && fs.look(&path).is_err());
    assert!(fs.remove(&path).is_err() && fs.rename(&path, &root.join("mine")).is_err());
    assert!(fs.create_dir(&root.join("dir/below"), 0o700).is_err());
    assert!(fs.link(&path, &root.join("mine")).is_err() && fs.id_at(&path).is_none());
    assert_eq!(fs.read_link(&root.join("dir")).unwrap(), other.path());
    assert_eq!(fs::read(other.path().join("file")).unwrap(), b"secret");
    // The link itself can be looked at, and removed.
    assert!(fs.look(&root.join("dir")).is_ok());
    fs.remove(&root.join("dir")).unwrap();
    fs.remove(&root.join("dir")).unwrap();
}

#[test]
fn files_are_written_and_read() {
    let (_temp, root, fs) = entered();
    let path = root.join("file");
    let file = fs.open_to_change(&path, Some(0o600)).unwrap();
    fs.write(&file, &path, b"one ").unwrap();
    fs.write(&file, &path, b"two").unwrap();
    fs.write_start(&file, &path, b"ONE").unwrap();
    fs.sync_data(&file, &path).unwrap();
    assert_eq!(fs.read_start(&file, &path, 5).unwrap(), b"ONE t");
    let mut bytes = Vec::with_capacity(7);
    fs.read(&fs.open(&path).unwrap(), &path, 7, &mut bytes).unwrap();
    assert_eq!(bytes, b"ONE two");
    fs.set_length(&file, &path, 3).unwrap();
    fs.set_mode(&file, &path, 0o640).unwrap();
    let stat = fs.stat(&file, &path).unwrap();
    assert_eq!((stat.state.len, stat.mode & 0o777), (3, 0o640));
    assert_eq!((fs.id_at(&path), fs.look(&path).unwrap()), (Some(stat.state.id), stat));
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    fs.touch(&file, &path).unwrap();
    assert!(fs.stat(&file, &path).unwrap().state.mtime > 0);
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    fs.touch_in(&fs.open_dir(&root).unwrap(), "file").unwrap();
    assert!(fs.stat(&file, &path).unwrap().state.mtime > 0);
}

#[test]
fn names_are_given_and_taken() {
    let (_temp, root, fs) = entered();
    let [one, two, below] = ["one", "two", "below"].map(|name| root.join(name));
    fs.create_dir(&below, 0o700).unwrap();
    let dir = fs.open_dir(&below).unwrap();
    fs.set_dir_mode(&dir, 0o750).unwrap();
    assert_eq!(fs::metadata(&below).unwrap().mode() & 0o777, 0o750);
    let temp = fs.temp_file(&below, "new-").unwrap();
    temp.write(b"content").unwrap();
    temp.publish(&dir, "file").unwrap();
    fs.link(&below.join("file"), &one).unwrap();
    assert!(fs.rename_new(&below.join("file"), &one).is_err());
    fs.rename_new(&below.join("file"), &two).unwrap();
    fs.rename(&one, &two).unwrap();
    let mut content = String::new();
    let mut file: File = fs.open(&two).unwrap();
    file.rewind().unwrap();
    file.read_to_string(&mut content).unwrap();
    assert_eq!(content, "content");
    fs.remove_dir(&below).unwrap();
    assert!(!below.exists());
}

#[test]
fn a_lock_excludes_others() {
    let (_temp, root, fs) = entered();
    let path = root.join("lock");
    let open = || fs.open_lock(&path, Some(0o600)).unwrap();
    let TryLock::Held(held) = fs.try_lock(open(), &path).unwrap() else { panic!() };
    assert!(matches!(fs.try_lock(open(), &path).unwrap(), TryLock::Busy(_)));
    drop(held);
    assert!(matches!(fs.try_lock(open(), &path).unwrap(), TryLock::Held(_)));
}
