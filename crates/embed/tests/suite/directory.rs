//! The directory in which a framework reads the files of a key.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opkeep_embed::{Digest, DirectoryError, FileContent, GroupDir};
use opkeep_fs::{Fs, FsCall, FsOp, Permit, Watcher};
use tempfile::TempDir;

const FILES: [(&str, &[u8]); 2] = [("add.json", b"{}"), ("add.cubin", b"\x7fELF kernel")];

struct Base(TempDir);

impl Base {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("cache")
    }

    fn dir(&self) -> GroupDir {
        GroupDir::new(self.path(), "KEY").unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path().join("KEY").join(name)
    }

    /// The file that was moved.
    fn moved(&self) -> PathBuf {
        let mut paths = fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().path());
        paths.find(|path| path.to_str().unwrap().contains("moved")).unwrap()
    }

    fn check(&self) {
        for (name, bytes) in FILES {
            assert!(fs::symlink_metadata(self.file(name)).unwrap().is_file(), "{name}");
            assert_eq!(fs::read(self.file(name)).unwrap(), bytes, "{name}");
        }
        let mut left = names_in(&self.path());
        left.retain(|name| *name != "KEY" && *name != temporary() && !name.contains("moved"));
        assert!(left.is_empty(), "{left:?}");
        let left = names_in(&self.temporary());
        assert!(left.is_empty(), "{left:?}");
    }

    /// The directory of the temporary files.
    fn temporary(&self) -> PathBuf {
        self.path().join(temporary())
    }
}

fn temporary() -> String {
    format!("tmp.opkeep-user-{}", rustix::process::geteuid().as_raw())
}

fn names_in(dir: &Path) -> BTreeSet<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn files_are_written_once() {
    let base = Base::new();
    assert_eq!(base.dir().place(FILES).unwrap(), 2);
    base.check();
    assert_eq!(base.dir().place(FILES).unwrap(), 0);
    assert_eq!(base.dir().read("add.cubin").unwrap(), FILES[1].1);
}

#[test]
fn every_damage_is_found_and_written_again() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 10] = [
        ("flipped", |path| {
            let mut bytes = fs::read(path).unwrap();
            bytes[3] ^= 1;
            fs::write(path, bytes).unwrap();
        }),
        ("cut", |path| fs::write(path, &FILES[1].1[..4]).unwrap()),
        ("longer", |path| fs::write(path, [FILES[1].1, b"x"].concat()).unwrap()),
        ("empty", |path| fs::write(path, b"").unwrap()),
        ("missing", |path| fs::remove_file(path).unwrap()),
        ("a link to the right bytes", |path| {
            fs::rename(path, path.with_extension("other")).unwrap();
            symlink(path.with_extension("other"), path).unwrap();
        }),
        ("a link to nothing", |path| {
            fs::remove_file(path).unwrap();
            symlink("/nonexistent", path).unwrap();
        }),
        ("an empty directory", |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        }),
        ("a directory with files", |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
            fs::write(path.join("file"), b"of a user").unwrap();
        }),
        ("writable by others", |path| set_mode(path, 0o646)),
    ];
    for (damage, damaged) in damages {
        let base = Base::new();
        base.dir().place(FILES).unwrap();
        damaged(&base.file("add.cubin"));
        assert_eq!(base.dir().place(FILES).unwrap(), 1, "{damage}");
        base.check();
        assert_eq!(fs::metadata(base.file("add.cubin")).unwrap().permissions().mode() & 0o022, 0);
        assert_eq!(base.dir().place(FILES).unwrap(), 0, "{damage}");
    }
}

/// Two directories with copies in one: each file is written once, and the last one of a name is the copy.
#[test]
fn copies_are_second_names_of_the_last_files() {
    let base = Base::new();
    let dir = |name: &str| GroupDir::new(base.path(), name).unwrap().with_copies("KEY").unwrap();
    let (one, two) = (dir("KEY.one"), dir("KEY.two"));
    let other = [FILES[0], ("add.cubin", &b"\x7fELF another"[..])];
    let contents = FILES.map(|(name, bytes)| (name, FileContent::Bytes(bytes)));
    let id = |dir: &str, name: &str| {
        let found = fs::symlink_metadata(base.path().join(dir).join(name)).unwrap();
        (found.dev(), found.ino())
    };
    let in_copy = |dir: &str| FILES.map(|(name, _)| id(dir, name) == id("KEY", name));

    one.write("add.json", FILES[0].1).unwrap();
    assert!(!base.path().join("KEY").exists(), "a file alone has no copy");
    assert_eq!(one.place(FILES).unwrap(), 1);
    assert!(one.has(contents) && in_copy("KEY.one") == [true; 2]);
    assert_eq!(two.place(other).unwrap(), 2);
    assert!(!one.has(contents), "the copies are of the other directory");
    assert_eq!(in_copy("KEY.two"), [true; 2]);
    // The files themselves stay.
    assert_eq!(fs::read(base.path().join("KEY.one/add.cubin")).unwrap(), FILES[1].1);
    assert_eq!(one.place(FILES).unwrap(), 0);
    assert!(one.has(contents) && in_copy("KEY.one") == [true; 2]);

    // A copy that another program wrote is one as well, if it has the bytes.
    fs::remove_file(base.file("add.cubin")).unwrap();
    fs::write(base.file("add.cubin"), FILES[1].1).unwrap();
    assert!(one.has(contents));
    for damage in [&b"\x7fELF kernex"[..], b""] {
        fs::remove_file(base.file("add.cubin")).unwrap();
        fs::write(base.file("add.cubin"), damage).unwrap();
        assert!(!one.has(contents));
        assert_eq!(one.place(FILES).unwrap(), 0);
        assert!(one.has(contents));
    }
    // What is written into a copy is in the file, too.
    fs::write(base.file("add.cubin"), b"").unwrap();
    assert!(!one.has(contents));
    assert_eq!(one.place(FILES).unwrap(), 1);
    assert!(one.has(contents) && in_copy("KEY.one") == [true; 2]);
    fs::remove_dir_all(base.path().join("KEY")).unwrap();
    symlink("/tmp", base.path().join("KEY")).unwrap();
    assert!(!one.has(contents));
    one.place(FILES).unwrap();
    assert!(one.has(contents));
    assert!(names_in(&base.temporary()).is_empty());
}

/// Where the file system has no second names, a copy is a file of its own.
#[test]
fn without_second_names_copies_are_written() {
    struct NoLinks;
    impl Watcher for NoLinks {
        fn before(&self, call: &FsCall<'_>) -> Permit {
            match call.op {
                FsOp::Link => Permit::Fail(io::ErrorKind::PermissionDenied.into()),
                _ => Permit::Go,
            }
        }
    }
    let base = Base::new();
    let dir = GroupDir::new(base.path(), "KEY.one").unwrap().with_copies("KEY").unwrap();
    let dir = dir.with_fs(Fs::new().with_watcher(Arc::new(NoLinks)));
    let contents = FILES.map(|(name, bytes)| (name, FileContent::Bytes(bytes)));
    assert_eq!(dir.place(FILES).unwrap(), 2);
    assert!(dir.has(contents));
    fs::write(base.file("add.cubin"), b"damaged").unwrap();
    assert!(!dir.has(contents));
    assert_eq!(dir.place(FILES).unwrap(), 0);
    assert!(dir.has(contents));
}

/// Files that should have known digests: every changed byte of every file is found, and nothing is written.
#[test]
fn every_changed_byte_is_found_by_its_digest() {
    let large = vec![7; 200 << 10];
    let files = [FILES[0], FILES[1], ("add.ptx", &large[..])];
    let digests = files.map(|(_, bytes)| Digest::of(bytes));
    let contents = || {
        let content = |(bytes, digest)| FileContent::Digest(<[u8]>::len(bytes) as u64, digest);
        files.iter().zip(&digests).map(move |((name, bytes), digest)| (*name, content((bytes, digest))))
    };
    let base = Base::new();
    assert!(!base.dir().has(contents()));
    assert!(!base.path().exists());
    base.dir().place(files).unwrap();
    assert!(base.dir().has(contents()));
    for (name, bytes) in files {
        for at in (0..bytes.len()).step_by(1 + bytes.len() / 20) {
            let mut bad = bytes.to_vec();
            bad[at] ^= 1;
            fs::write(base.file(name), &bad).unwrap();
            assert!(!base.dir().has(contents()), "{name}: byte {at}");
            assert_eq!(fs::read(base.file(name)).unwrap(), bad);
        }
        for other in [&bytes[1..], &[bytes, b"x"].concat()] {
            fs::write(base.file(name), other).unwrap();
            assert!(!base.dir().has(contents()), "{name}");
        }
        fs::write(base.file(name), bytes).unwrap();
        assert!(base.dir().has(contents()));
    }
    set_mode(&base.file("add.cubin"), 0o646);
    assert!(!base.dir().has(contents()), "writable by others");
    assert!(!base.dir().has([("../KEY/add.json", FileContent::Bytes(FILES[0].1))]));
}

/// A file of a user, where the directory of the key belongs, is moved and not removed; a link is removed, and not what it
/// refers to.
#[test]
fn a_file_in_the_way_of_the_directory_keeps_its_bytes() {
    let base = Base::new();
    fs::create_dir(base.path()).unwrap();
    fs::write(base.path().join("KEY"), b"of a user").unwrap();
    base.dir().place(FILES).unwrap();
    base.check();
    assert_eq!(fs::read(base.moved()).unwrap(), b"of a user");

    let base = Base::new();
    fs::create_dir(base.path()).unwrap();
    symlink(base.0.path(), base.path().join("KEY")).unwrap();
    base.dir().place(FILES).unwrap();
    base.check();
    assert!(!base.0.path().join("add.json").exists());
}

#[test]
fn a_directory_in_the_way_keeps_its_files() {
    let base = Base::new();
    fs::create_dir_all(base.file("add.json")).unwrap();
    fs::write(base.file("add.json").join("file"), b"of a user").unwrap();
    base.dir().place(FILES).unwrap();
    base.check();
    assert_eq!(fs::read(base.moved().join("file")).unwrap(), b"of a user");
}

#[test]
fn a_link_in_place_of_the_directory_is_not_followed() {
    let base = Base::new();
    let elsewhere = base.0.path().join("elsewhere");
    fs::create_dir_all(base.path()).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("add.json"), b"{}").unwrap();
    symlink(&elsewhere, base.path().join("KEY")).unwrap();
    base.dir().read("add.json").unwrap_err();
    assert_eq!(base.dir().place(FILES).unwrap(), 2);
    base.check();
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
}

#[test]
fn the_base_directory_may_be_a_link() {
    let base = Base::new();
    fs::create_dir(base.0.path().join("disk")).unwrap();
    symlink(base.0.path().join("disk"), base.path()).unwrap();
    base.dir().place(FILES).unwrap();
    base.check();
}

#[test]
fn directories_that_others_can_write_are_refused() {
    for (mode, is_trusted) in
        [(0o755, true), (0o775, false), (0o757, false), (0o1777, true), (0o2775, true), (0o2777, false)]
    {
        let base = Base::new();
        fs::create_dir(base.path()).unwrap();
        set_mode(&base.path(), mode);
        match base.dir().place(FILES) {
            Ok(_) if is_trusted => base.check(),
            Err(DirectoryError::Untrusted { help, .. }) if !is_trusted => {
                assert!(help.contains("chmod go-w"), "{help}");
            }
            other => panic!("mode {mode:o}: {other:?}"),
        }
    }
    for mode in [0o775, 0o757, 0o777] {
        let base = Base::new();
        base.dir().place(FILES).unwrap();
        set_mode(&base.path().join("KEY"), mode);
        let error = base.dir().place(FILES).unwrap_err();
        assert!(matches!(error, DirectoryError::Untrusted { .. }), "{error}");
        base.dir().read("add.json").unwrap_err();
    }
}

#[test]
fn a_directory_is_shared_with_a_group_by_its_mode() {
    let base = Base::new();
    fs::create_dir(base.path()).unwrap();
    set_mode(&base.path(), 0o2775);
    base.dir().place(FILES).unwrap();
    set_mode(&base.path().join("KEY"), 0o2775);
    set_mode(&base.file("add.json"), 0o664);
    assert_eq!(base.dir().place(FILES).unwrap(), 0);
    set_mode(&base.file("add.json"), 0o666);
    assert_eq!(base.dir().place(FILES).unwrap(), 1);
}

/// A file that a killed process left is removed when it is old. Other things stay, whatever their names are.
#[test]
fn only_old_temporary_files_are_removed() {
    let base = Base::new();
    base.dir().place(FILES).unwrap();
    let file = |name: &str, age: u64| {
        let file = File::create(base.temporary().join(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    };
    let (old, new) = (2 * 3600, 1800);
    file("new-1-0", old);
    file("new-1-1", new);
    for name in ["new-1", "new--1", "new-1-", "new-1-0.txt", "new-x-1", "own"] {
        file(name, old);
    }
    let elsewhere = base.0.path().join("elsewhere");
    fs::write(&elsewhere, b"of a user").unwrap();
    symlink(&elsewhere, base.temporary().join("new-2-0")).unwrap();
    fs::create_dir(base.temporary().join("new-3-0")).unwrap();
    let set_old = |path: &Path| {
        File::open(path).unwrap().set_modified(SystemTime::now() - Duration::from_secs(old)).unwrap();
    };
    set_old(&elsewhere);
    set_old(&base.temporary().join("new-3-0"));
    let mut left = names_in(&base.temporary());
    // Nothing is removed at a hit.
    assert_eq!(base.dir().place(FILES).unwrap(), 0);
    assert_eq!(names_in(&base.temporary()), left);
    base.dir().write("add.ptx", b"code").unwrap();
    assert!(left.remove("new-1-0"));
    assert_eq!(names_in(&base.temporary()), left);
    assert_eq!(fs::read(elsewhere).unwrap(), b"of a user");
}

#[test]
fn a_file_of_another_user_among_the_temporary_ones_stays() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let base = Base::new();
    base.dir().place(FILES).unwrap();
    let file = File::create(base.temporary().join("new-1-0")).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    std::os::unix::fs::fchown(&file, Some(65534), None).unwrap();
    base.dir().write("add.ptx", b"code").unwrap();
    assert!(base.temporary().join("new-1-0").exists());
    std::os::unix::fs::fchown(&file, Some(0), None).unwrap();
    base.dir().write("add.ptx", b"other code").unwrap();
    assert!(!base.temporary().join("new-1-0").exists());
}

#[test]
fn what_is_in_the_way_of_the_temporary_files_is_moved_or_refused() {
    let base = Base::new();
    fs::create_dir(base.path()).unwrap();
    fs::write(base.temporary(), b"of a user").unwrap();
    base.dir().place(FILES).unwrap();
    base.check();
    assert_eq!(fs::read(base.moved()).unwrap(), b"of a user");

    let base = Base::new();
    fs::create_dir_all(base.temporary()).unwrap();
    set_mode(&base.temporary(), 0o777);
    assert!(matches!(base.dir().place(FILES), Err(DirectoryError::Untrusted { .. })));

    let base = Base::new();
    fs::create_dir(base.path()).unwrap();
    symlink(base.0.path(), base.temporary()).unwrap();
    base.dir().place(FILES).unwrap();
    base.check();
}

#[test]
fn names_stay_in_the_directory() {
    let base = Base::new();
    for name in ["", ".", "..", "../x", "a/b", "a\0b"] {
        assert!(matches!(GroupDir::new(base.path(), name), Err(DirectoryError::Name { .. })), "{name:?}");
        assert!(matches!(base.dir().write(name, b"x"), Err(DirectoryError::Name { .. })), "{name:?}");
        assert!(matches!(base.dir().place([(name, &b"x"[..])]), Err(DirectoryError::Name { .. })));
        assert!(matches!(base.dir().read(name), Err(DirectoryError::Name { .. })), "{name:?}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_an_error() {
    let base = Base::new();
    base.dir().read("add.json").unwrap_err();
    base.dir().place(FILES).unwrap();
    base.dir().read("add.ptx").unwrap_err();
    fs::create_dir(base.file("add.ptx")).unwrap();
    assert!(matches!(base.dir().read("add.ptx"), Err(DirectoryError::NotAFile { .. })));
    symlink(base.file("add.json"), base.file("add.ttir")).unwrap();
    base.dir().read("add.ttir").unwrap_err();
    fs::remove_file(base.file("add.json")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, base.file("add.json"), rustix::fs::Mode::RWXU).unwrap();
    // A pipe does not block.
    assert!(matches!(base.dir().read("add.json"), Err(DirectoryError::NotAFile { .. })));
    assert_eq!(base.dir().place(FILES).unwrap(), 1);
    base.check();
}
