//! Locks on open files.
#![expect(clippy::disallowed_methods, reason = "these tests look at what the calls did")]

use std::fs;

use opkeep_fs::{FileLock, Fs, TryLock, has_no_locks, is_out_of_files, max_open_files};
use rustix::io::Errno;

#[test]
fn one_writer_or_several_readers() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("lock");
    let open = || Fs::new().open_lock(&path, Some(0o600)).unwrap();
    let TryLock::Held(one) = FileLock::try_shared(open()).unwrap() else { panic!() };
    let TryLock::Held(two) = FileLock::try_shared(open()).unwrap() else { panic!() };
    assert!(matches!(FileLock::try_exclusive(open()).unwrap(), TryLock::Busy(_)));
    drop((one, two));
    let TryLock::Held(writer) = FileLock::try_exclusive(open()).unwrap() else { panic!() };
    assert!(matches!(FileLock::try_shared(open()).unwrap(), TryLock::Busy(_)));
    assert!(writer.is_own() && writer.is_at(&path) && writer.file().unwrap().metadata().unwrap().is_file());
    fs::remove_file(&path).unwrap();
    assert!(!writer.is_at(&path));
    drop(open());
    assert!(!writer.is_at(&path), "another file has the name now");
}

#[test]
fn limits_of_the_system_are_known() {
    assert!(max_open_files() > 0);
    let (out, none) = (Errno::MFILE.into(), Errno::NOLCK.into());
    assert!(is_out_of_files(&out) && !is_out_of_files(&none));
    assert!(has_no_locks(&none) && !has_no_locks(&out));
}
