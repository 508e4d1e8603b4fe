//! Files under temporary names.
#![expect(clippy::disallowed_methods, reason = "these tests look at what the calls did")]

use std::fs;
use std::os::unix::fs::MetadataExt;

use opkeep_fs::{Dir, TempFile, cannot_rename_new, unique_name};

#[test]
fn it_has_its_name_when_it_is_complete() {
    let temp = tempfile::tempdir().unwrap();
    let dir = Dir::open(temp.path()).unwrap();
    let mut file = TempFile::create(&dir, "new-", 0o600).unwrap();
    assert!(file.name().starts_with("new-") && file.path() == temp.path().join(file.name()));
    file.write(b"one ").unwrap();
    file.write(b"two").unwrap();
    file.set_mode(0o644).unwrap();
    file.sync().unwrap();
    assert!(file.file().is_some() && file.state().unwrap().len == 7);
    file.close();
    assert!(file.file().is_none());
    file.publish(&dir, "file").unwrap();
    let found = fs::metadata(temp.path().join("file")).unwrap();
    assert_eq!((found.len(), found.mode() & 0o777, dir.list().unwrap().len()), (7, 0o644, 1));
}

#[test]
fn it_is_removed_unless_it_is_published() {
    let temp = tempfile::tempdir().unwrap();
    let dir = Dir::open(temp.path()).unwrap();
    drop(TempFile::create(&dir, "new-", 0o600).unwrap());
    assert!(dir.list().unwrap().is_empty());
    assert!(TempFile::create(&dir, "new-", 0o600).unwrap().publish_new(&dir, "file").unwrap());
    assert!(!TempFile::create(&dir, "new-", 0o600).unwrap().publish_new(&dir, "file").unwrap());
    assert!(!TempFile::create(&dir, "new-", 0o600).unwrap().publish_new_here("file").unwrap());
    assert!(TempFile::create(&dir, "new-", 0o600).unwrap().publish_new_here("other").unwrap());
    assert_eq!(dir.list().unwrap().len(), 2);
}

#[test]
fn names_are_unique() {
    assert_ne!(unique_name("new-"), unique_name("new-"));
    assert!(unique_name("new-").starts_with(&format!("new-{}-", std::process::id())));
    let error = |errno: rustix::io::Errno| errno.into();
    assert!(cannot_rename_new(&error(rustix::io::Errno::INVAL)));
    assert!(!cannot_rename_new(&error(rustix::io::Errno::EXIST)));
}
