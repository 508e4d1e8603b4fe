//! Paths that a caller gave: links are followed.
#![expect(clippy::disallowed_methods, reason = "these tests look at what the calls did")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};

use opkeep_fs::{FileKind, Fs, TryLock};

#[test]
fn links_are_followed_but_where_the_link_is_asked_for() {
    let temp = tempfile::tempdir().unwrap();
    let (fs, file, link) = (Fs::new(), temp.path().join("file"), temp.path().join("link"));
    fs.write(&file, b"content").unwrap();
    symlink("file", &link).unwrap();
    assert!(fs.exists(&link) && fs.is_file(&link) && !fs.is_dir(&link));
    assert!(fs.is_dir(temp.path()) && fs.is_writable(temp.path()));
    assert_eq!(fs.metadata(&link).unwrap().len(), 7);
    assert!(fs.symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs.look(&link).unwrap().kind, FileKind::Link);
    assert_eq!(fs.read_link(&link).unwrap(), std::path::Path::new("file"));
    assert_eq!(fs.real_path(&link).unwrap(), fs.real_path(&file).unwrap());
    assert_eq!(fs.resolved(&temp.path().join("absent")), temp.path().join("absent"));
    assert_eq!(fs.read(&link, 7).unwrap(), b"content");
    assert!(fs.read(&link, 6).is_err(), "it is larger than the limit");
    assert_eq!(fs.read_text(&link, 7).unwrap(), "content");
    assert_eq!(fs.read_own(&file, 7).unwrap(), b"content");
    assert!(fs.read_own(&link, 7).is_err());
    assert!(fs.starts_with(&link, b"con") && !fs.starts_with(&link, b"Con"));
    let mut text = String::new();
    fs.open(&link).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), fs.open_file(&link).unwrap().1.len()), ("content", 7));
    assert!(fs.open_file(temp.path()).is_err());
    assert!(fs.open_beneath(temp.path(), "file".as_ref()).is_ok());
    assert!(fs.open_beneath(temp.path(), "link".as_ref()).is_err());
    assert!(!fs.is_program(&file));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(fs.is_program(&link));
}

#[test]
fn directories_are_made_and_listed() {
    let temp = tempfile::tempdir().unwrap();
    let (fs, below) = (Fs::new(), temp.path().join("a/b"));
    assert!(fs.create_dir(&below, 0o700).is_err());
    fs.create_dirs(&below, 0o700).unwrap();
    fs.create_dirs(&below, 0o700).unwrap();
    fs.create_dir(&below.join("c"), 0o700).unwrap();
    fs.write(&below.join("file"), b"1").unwrap();
    let mut names = fs.list(&below).unwrap();
    names.sort();
    assert_eq!(names, [("c".into(), FileKind::Dir), ("file".into(), FileKind::File)]);
    let stats = fs.list_stats(&below).unwrap();
    assert!(
        stats.len() == 2 && stats.iter().any(|(path, stat)| path.ends_with("file") && stat.state.len == 1)
    );
    assert_eq!(fs.open_dir(&below).unwrap().list().unwrap().len(), 2);
}

#[test]
fn a_file_is_replaced_at_once() {
    let temp = tempfile::tempdir().unwrap();
    let (fs, path, other) = (Fs::new(), temp.path().join("file"), temp.path().join("other"));
    fs.replace(&path, &[b"one ", b"two"], 0o640).unwrap();
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.len(), found.permissions().mode() & 0o777), (7, 0o640));
    fs.replace(&path, &[b"three"], 0o640).unwrap();
    fs.rename(&path, &other).unwrap();
    assert_eq!(fs::read(&other).unwrap(), b"three");
    assert_eq!(fs.list(temp.path()).unwrap().len(), 1, "nothing temporary is left");
    assert!(!Fs::is_temporary("file"));
    fs.remove(&other).unwrap();
    fs.remove(&other).unwrap();
}

/// An output that ends before it is published leaves what was there, and nothing else.
#[test]
fn an_output_has_its_name_when_it_is_complete() {
    let temp = tempfile::tempdir().unwrap();
    let (fs, path, link) = (Fs::new(), temp.path().join("file"), temp.path().join("link"));
    fs.write(&path, b"before").unwrap();
    let mut output = fs.output_file(&path, 0o640).unwrap();
    output.write_all(b"one ").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"before");
    drop(output);
    assert_eq!((fs::read(&path).unwrap(), fs.list(temp.path()).unwrap().len()), (b"before".to_vec(), 1));

    let mut output = fs.output_file(&path, 0o640).unwrap();
    output.write_all(b"one ").unwrap();
    output.write_all(b"two").unwrap();
    output.publish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"one two");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(fs.list(temp.path()).unwrap().len(), 1, "nothing temporary is left");

    // A link is replaced, not what it leads to. No directory is.
    symlink("file", &link).unwrap();
    fs.output_file(&link, 0o640).unwrap().publish().unwrap();
    assert_eq!((fs::read(&path).unwrap(), fs::read(&link).unwrap()), (b"one two".to_vec(), Vec::new()));
    assert!(fs.output_file(temp.path(), 0o640).is_err());
    assert!(fs.output_file("/dev/null".as_ref(), 0o640).is_err());
    assert!(fs.output_file(&temp.path().join("no/file"), 0o640).is_err());
    fs.unnamed_file(temp.path()).unwrap().write_all(b"spool").unwrap();
    assert_eq!(fs.list(temp.path()).unwrap().len(), 2);
}

#[test]
fn a_path_is_locked() {
    let temp = tempfile::tempdir().unwrap();
    let (fs, path) = (Fs::new(), temp.path().join("lock"));
    assert!(fs.open_lock(&path, None).is_err());
    let TryLock::Held(held) = fs.try_lock(&path, 0o600).unwrap() else { panic!() };
    assert!(matches!(fs.try_lock(&path, 0o600).unwrap(), TryLock::Busy(_)));
    drop(held);
    drop(fs.open_lock(&path, None).unwrap());
    let existing = fs.try_lock_existing(&path).unwrap();
    assert!(fs.try_lock_existing(&path).is_none() && fs.try_lock_existing(temp.path()).is_none());
    drop(existing);
    let new = temp.path().join("new");
    let created = fs.create_locked(&new, 0o600).unwrap();
    assert!(fs.create_locked(&new, 0o600).is_err() && fs.try_lock_existing(&new).is_none());
    drop(created);
    assert!(matches!(fs.try_lock(&path, 0o600).unwrap(), TryLock::Held(_)));
}
