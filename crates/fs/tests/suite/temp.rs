//! Files under temporary names.
#![expect(clippy::disallowed_methods, reason = "these tests look at what the calls did")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::Duration;

use opkeep_fs::{Dir, Fs, TempDir, TempFile, cannot_rename_new, remove_temporaries, unique_name};

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

/// The directory in which the other process of the next test works.
const PLACE: &str = "OPKEEP_TEST_PLACE";

/// A process ends while its threads have temporary files, so no destructor runs.
#[test]
fn what_threads_still_have_is_removed_at_the_end_of_a_program() {
    if let Some(place) = std::env::var_os(PLACE) {
        let place = Path::new(&place);
        let dir = TempDir::create_in(place, "opkeep-test-").unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let dropped = TempDir::create_in(place, "opkeep-test-").unwrap();
        let file = Fs::new().output_file(&place.join("page"), 0o600).unwrap();
        drop(dropped);
        // The file has no name, or on some file systems a temporary one.
        assert!(fs::read_dir(place).unwrap().count() <= 2);
        std::mem::forget((dir, file));
        return remove_temporaries(Duration::from_secs(20));
    }
    let place = tempfile::tempdir().unwrap();
    let test = "temp::what_threads_still_have_is_removed_at_the_end_of_a_program";
    let mut program = std::process::Command::new(std::env::current_exe().unwrap());
    let ended = program.args(["--exact", test]).env(PLACE, place.path()).output().unwrap();
    assert!(
        ended.status.success() && String::from_utf8_lossy(&ended.stdout).contains("1 passed"),
        "{ended:?}"
    );
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

/// A kill in the middle of a write leaves what was there, and nothing beside it.
#[test]
fn a_kill_leaves_nothing_of_a_file_that_was_being_written() {
    if let Some(place) = std::env::var_os(PLACE) {
        let mut file = Fs::new().output_file(&Path::new(&place).join("page"), 0o600).unwrap();
        file.write_all(b"half of a pa").unwrap();
        return rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
            .unwrap();
    }
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("page"), "before").unwrap();
    let test = "temp::a_kill_leaves_nothing_of_a_file_that_was_being_written";
    let mut program = std::process::Command::new(std::env::current_exe().unwrap());
    let ended = program.args(["--exact", test]).env(PLACE, place.path()).output().unwrap();
    assert_eq!(ended.status.signal(), Some(9), "{ended:?}");
    assert_eq!(fs::read(place.path().join("page")).unwrap(), b"before");
    // Some file systems have no files without a name.
    let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR;
    let can_be_unnamed = rustix::fs::open(place.path(), flags, rustix::fs::Mode::RUSR).is_ok();
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), if can_be_unnamed { 1 } else { 2 });
}
