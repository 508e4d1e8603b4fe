//! The directory in which a framework reads the files of a key.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use opkeep_embed::{Digest, DirectoryError, FileContent, GroupDir};
use opkeep_fs::{Fs, FsCall, FsOp, Permit, Watcher};
use tempfile::TempDir;

pub(crate) const FILES: [(&str, &[u8]); 2] = [("add.json", b"{}"), ("add.cubin", b"\x7fELF kernel")];

pub(crate) struct Base(TempDir);

impl Base {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("cache")
    }

    fn dir(&self) -> GroupDir {
        GroupDir::new(self.path(), "KEY").unwrap()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
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

    pub(crate) fn check_copies(&self) {
        for (name, bytes) in FILES {
            assert_eq!(fs::read(self.file(name)).unwrap(), bytes, "{name}");
        }
        assert!(names_in(&self.temporary()).is_empty());
    }

    /// The directory of the temporary files.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.path().join(temporary())
    }
}

fn temporary() -> String {
    format!("tmp.opkeep-user-{}", rustix::process::geteuid().as_raw())
}

pub(crate) fn names_in(dir: &Path) -> BTreeSet<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
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
    let old = 2 * 3600;
    let random = "0123456789abcdef";
    let name = |process: u32, number: u32| format!("new-{random}-{process}-{number}");
    file(&name(1, 0), old);
    let others = ["new-1-0", "new--1-0", "new-0123456789abcde-1-0", "new-0123456789abcdeF-1-0", "own"];
    let of_random = ["", "-", "-1", "--1", "-1-", "-1-0.txt", "-x-1", "-1-0-1"];
    let others =
        others.map(String::from).into_iter().chain(of_random.map(|end| format!("new-{random}{end}")));
    others.for_each(|name| file(&name, old));
    let elsewhere = base.0.path().join("elsewhere");
    fs::write(&elsewhere, b"of a user").unwrap();
    symlink(&elsewhere, base.temporary().join(name(2, 0))).unwrap();
    fs::create_dir(base.temporary().join(name(3, 0))).unwrap();
    // Another process may be about to rename a link to an old file.
    fs::hard_link(&elsewhere, base.temporary().join(name(4, 0))).unwrap();
    let mut left = names_in(&base.temporary());
    // Nothing is removed at a hit.
    assert_eq!(base.dir().place(FILES).unwrap(), 0);
    assert_eq!(names_in(&base.temporary()), left);
    base.dir().write("add.ptx", b"code").unwrap();
    assert_eq!(names_in(&base.temporary()), left);
    base.dir().with_fs(hours_later()).write("add.ttir", b"code").unwrap();
    assert!(left.remove(&name(1, 0)) && left.remove(&name(4, 0)));
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
    let left = base.temporary().join("new-0123456789abcdef-1-0");
    let file = File::create(&left).unwrap();
    std::os::unix::fs::fchown(&file, Some(65534), None).unwrap();
    base.dir().with_fs(hours_later()).write("add.ptx", b"code").unwrap();
    assert!(left.exists());
    std::os::unix::fs::fchown(&file, Some(0), None).unwrap();
    base.dir().with_fs(hours_later()).write("add.ptx", b"other code").unwrap();
    assert!(!left.exists());
}

/// A file system whose clock is two hours ahead once a temporary file is written.
fn hours_later() -> Fs {
    let created = Mutex::new(PathBuf::new());
    watched(move |call| {
        match call.op {
            FsOp::Create => *created.lock().unwrap() = call.path.to_owned(),
            FsOp::List => {
                let file = File::open(&*created.lock().unwrap()).unwrap();
                file.set_modified(SystemTime::now() + Duration::from_secs(2 * 3600)).unwrap();
            }
            _ => {}
        }
        Permit::Go
    })
}

pub(crate) fn watched(before: impl Fn(&FsCall<'_>) -> Permit + Send + Sync + 'static) -> Fs {
    struct Watched<F>(F);
    impl<F: Fn(&FsCall<'_>) -> Permit + Send + Sync> Watcher for Watched<F> {
        fn before(&self, call: &FsCall<'_>) -> Permit {
            (self.0)(call)
        }
    }
    Fs::new().with_watcher(Arc::new(Watched(before)))
}

pub(crate) fn with_copies(base: &Base, name: &str) -> GroupDir {
    GroupDir::new(base.path(), name).unwrap().with_copies("KEY").unwrap()
}

/// Processes of other hosts and containers may have the same numbers.
#[test]
fn names_of_temporary_and_moved_files_are_random() {
    let names = Arc::new(Mutex::new(BTreeSet::new()));
    let random = |name: &str, prefix: &str| {
        let (random, rest) = name.strip_prefix(prefix).unwrap().split_at(16);
        assert!(random.bytes().all(|digit| digit.is_ascii_hexdigit()), "{name}");
        assert!(rest.starts_with(&format!("-{}-", std::process::id())), "{name}");
        random.to_owned()
    };
    for _ in 0..2 {
        let base = Base::new();
        fs::create_dir(base.path()).unwrap();
        fs::write(base.path().join("KEY"), b"of a user").unwrap();
        let created = Arc::clone(&names);
        let dir = with_copies(&base, "KEY.one").with_fs(watched(move |call| {
            let path = match call.op {
                FsOp::Create => Some(call.path),
                FsOp::Link => call.to,
                _ => None,
            };
            let name = path.and_then(|path| path.file_name()?.to_str()).map(|name| random(name, "new-"));
            assert!(name.is_none_or(|name| created.lock().unwrap().insert(name)));
            Permit::Go
        }));
        dir.place(FILES).unwrap();
        let moved = base.moved();
        let moved = random(moved.file_name().unwrap().to_str().unwrap(), "tmp.opkeep-moved-");
        assert!(names.lock().unwrap().insert(moved));
    }
    assert_eq!(names.lock().unwrap().len(), 2 * (FILES.len() * 2 + 1));
}

/// What another process gives the name of a file while this one publishes it is not taken for its file.
#[test]
fn a_file_that_another_process_replaces_at_once_is_written_again() {
    for (times, is_written) in [(1, true), (2, true), (100, false)] {
        let base = Base::new();
        base.dir().write("add.ttir", b"code").unwrap();
        let state = Mutex::new((false, 0));
        let other = base.0.path().join("other");
        let dir = base.dir().with_fs(watched(move |call| {
            let mut state = state.lock().unwrap();
            let is_renamed = call.op == FsOp::Rename;
            if state.0 && state.1 < times {
                fs::write(&other, b"of another process").unwrap();
                fs::rename(&other, call.path.parent().unwrap().join("add.json")).unwrap();
                state.1 += 1;
            }
            state.0 = is_renamed;
            Permit::Go
        }));
        let written = dir.write("add.json", b"{}");
        assert_eq!(written.is_ok(), is_written, "{written:?}");
        assert_eq!(fs::read(base.file("add.json")).unwrap() == b"{}", is_written);
        assert!(names_in(&base.temporary()).is_empty());
    }
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
