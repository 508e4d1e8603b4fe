//! Files under temporary names.
#![expect(clippy::disallowed_methods, reason = "these tests look at what the calls did")]

use std::fs;
use std::os::unix::fs::MetadataExt;
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
        assert_eq!(fs::read_dir(place).unwrap().count(), 2);
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
