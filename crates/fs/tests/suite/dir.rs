//! An open directory, and names in it.
#![expect(clippy::disallowed_methods, reason = "these tests look at what the calls did")]

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::symlink;

use opkeep_fs::{Dir, FileKind, FileRead, Volume};
use rustix::fs::Timespec;

#[test]
fn names_are_those_of_the_directory_that_was_opened() {
    let temp = tempfile::tempdir().unwrap();
    let (path, moved) = (temp.path().join("dir"), temp.path().join("moved"));
    fs::create_dir(&path).unwrap();
    let dir = Dir::open(&path).unwrap();
    fs::rename(&path, &moved).unwrap();
    fs::create_dir(&path).unwrap();
    dir.create_file("file", 0o600).unwrap();
    assert!(moved.join("file").exists() && !path.join("file").exists());
    fs::write(moved.join("file"), "its own").unwrap();
    fs::write(path.join("file"), "another's").unwrap();
    assert_eq!(io::read_to_string(dir.open_file("file").unwrap()).unwrap(), "its own");
    assert_eq!(dir.path(), path);
    assert_eq!(dir.try_clone().unwrap().stat().unwrap().state.id, dir.stat().unwrap().state.id);
}

#[test]
fn the_kind_of_a_name() {
    let temp = tempfile::tempdir().unwrap();
    let dir = Dir::open_quietly(temp.path()).unwrap();
    fs::write(temp.path().join("file"), "12345").unwrap();
    dir.create_dir("below", 0o700).unwrap();
    symlink("file", temp.path().join("link")).unwrap();
    let kind = |name: &str| dir.look(name).unwrap().kind;
    let kinds = ["file", "below", "link"].map(kind);
    assert_eq!(kinds, [FileKind::File, FileKind::Dir, FileKind::Link]);
    assert_eq!(dir.file_state("file").unwrap().len, 5);
    assert!(dir.file_state("link").is_none() && dir.file_state("absent").is_none());
    assert!(dir.is_file_or_link("link") && !dir.is_file_or_link("below"));
    assert!(dir.may_exist("link") && !dir.may_exist("absent"));

    let names = dir.list().unwrap();
    assert!(names.len() == 3 && !names.is_empty());
    let mut listed: Vec<_> = names.utf8().collect();
    listed.sort_unstable();
    assert_eq!(listed, ["below", "file", "link"]);
    let mut entries = dir.entries().unwrap();
    entries.sort();
    assert_eq!(entries.iter().map(|entry| entry.kind).collect::<Vec<_>>(), [kinds[1], kinds[0], kinds[2]]);
    assert_eq!(names.iter().count(), 3);
}

#[test]
fn no_link_is_followed() {
    let (temp, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = Dir::open(temp.path()).unwrap().quiet();
    fs::write(other.path().join("file"), "secret").unwrap();
    symlink(other.path(), temp.path().join("dir")).unwrap();
    symlink(other.path().join("file"), temp.path().join("file")).unwrap();
    assert!(dir.below("dir").is_err());
    assert!(dir.open_file("file").is_err() && dir.open_lock("file", Some(0o600)).is_err());
    assert!(matches!(dir.read("file", 100, &mut Vec::new()), FileRead::Link));
    dir.set_times("file", Timespec { tv_sec: 1, tv_nsec: 0 }).unwrap();
    assert_eq!(dir.look("file").unwrap().state.mtime, 1_000_000_000);
    dir.remove("file").unwrap();
    assert!(other.path().join("file").exists());
}

#[test]
fn files_are_read_completely_or_not_at_all() {
    let temp = tempfile::tempdir().unwrap();
    let dir = Dir::open(temp.path()).unwrap();
    dir.create_file("file", 0o600).unwrap().write_all(b"content").unwrap();
    dir.create_dir("below", 0o700).unwrap();
    let mut buffer = b"old".to_vec();
    let FileRead::Complete(state) = dir.read("file", 7, &mut buffer) else { panic!() };
    assert_eq!((state.len, &buffer[..]), (7, &b"content"[..]));
    assert!(matches!(dir.read("file", 6, &mut buffer), FileRead::TooLarge(_)));
    assert!(matches!(dir.read("absent", 6, &mut buffer), FileRead::Missing));
    assert!(matches!(dir.read("below", 6, &mut buffer), FileRead::NotAFile));
    assert_eq!(dir.read("absent", 6, &mut buffer).complete().unwrap(), None);
    assert_eq!(dir.read("file", 7, &mut buffer).complete().unwrap(), Some(state));
    let error = dir.read("file", 6, &mut buffer).complete().unwrap_err();
    assert!(error.to_string().contains("7 bytes"), "{error}");
}

#[test]
fn names_are_given_and_taken() {
    let temp = tempfile::tempdir().unwrap();
    let dir = Dir::open(temp.path()).unwrap();
    dir.create_dir("below", 0o700).unwrap();
    let below = dir.below("below").unwrap();
    dir.create_file("one", 0o600).unwrap();
    assert_eq!(dir.create_file("one", 0o600).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(dir.create_dir("one", 0o700).unwrap_err().kind(), ErrorKind::AlreadyExists);
    dir.link("one", &below, "two").unwrap();
    assert_eq!(dir.rename_new("one", &below, "two").unwrap_err().kind(), ErrorKind::AlreadyExists);
    dir.rename_new("one", &below, "three").unwrap();
    dir.open_lock("one", Some(0o600)).unwrap();
    dir.rename("one", &below, "three").unwrap();
    assert!(dir.open_lock("one", None).is_err());
    assert_ne!(below.look("two").unwrap().state.id, below.look("three").unwrap().state.id);
    assert_eq!(dir.remove_dir("below").unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    below.remove("two").unwrap();
    below.remove("three").unwrap();
    dir.remove_dir("below").unwrap();
    assert_eq!(dir.remove("below").unwrap_err().kind(), ErrorKind::NotFound);
    dir.sync().unwrap();
    // A file that already has the directory's owner stays unchanged.
    dir.give(dir.create_file("own", 0o600).unwrap());
}

/// The kind of each mounted file system, as far as it is known, is the one that the system lists.
#[test]
fn volumes_have_the_kinds_that_the_system_lists() {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut known = 0;
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let Ok(volume) = Dir::open(fields[1].as_ref()).and_then(|dir| Volume::of(&dir)) else { continue };
        let listed = match fields[2] {
            "ext2" | "ext3" => "ext4",
            "overlay" => "overlayfs",
            "devtmpfs" => "tmpfs",
            "nfs4" => "nfs",
            kind if kind.starts_with("fuse") => "fuse",
            kind => kind,
        };
        // Another one may be mounted above it.
        let is_last = mounts.lines().filter(|line| line.split(' ').nth(1) == Some(fields[1])).count() == 1;
        if let Some(kind) = volume.kind.filter(|_| is_last) {
            assert_eq!(kind, listed, "{line}");
            known += 1;
        }
    }
    assert!(known > 0, "{mounts}");
    let temp = tempfile::tempdir().unwrap();
    let volume = Volume::of(Dir::open(temp.path()).unwrap()).unwrap();
    assert!(volume.free_bytes > 0 && !volume.is_read_only, "{volume:?}");
}
