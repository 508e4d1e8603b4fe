//! The faulty disk keeps its promises: tested with publishers that are so small that their faults are obvious.

#![expect(clippy::disallowed_methods, reason = "these publishers write files themselves")]

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use opkeep_fs::{FsCall, FsOp, Permit, Watcher};
use opkeep_testkit::DirSnapshot;
use opkeep_testkit::fault::{Fault, FaultyDisk};
use rustix::io::Errno;

const OLD: &[u8] = b"what was there";
const NEW: &[u8] = b"what is published instead of it";

/// Files below a directory; each access is announced to the disk as in the store.
struct Files {
    root: PathBuf,
    disk: Arc<FaultyDisk>,
}

impl Files {
    fn may(&self, op: FsOp, name: &str, to: Option<&str>, bytes: usize) -> io::Result<(PathBuf, usize)> {
        let (path, to) = (self.root.join(name), to.map(|to| self.root.join(to)));
        match self.disk.before(&FsCall { op, path: &path, to: to.as_deref(), bytes }) {
            Permit::Go => Ok((path, bytes)),
            Permit::Fail(error) => Err(error),
            Permit::Short(bytes) => Ok((path, bytes)),
        }
    }

    fn create(&self, name: &str) -> io::Result<File> {
        let (path, _) = self.may(FsOp::Create, name, None, 0)?;
        OpenOptions::new().write(true).create_new(true).open(path)
    }

    fn open_to_write(&self, name: &str) -> io::Result<File> {
        let (path, _) = self.may(FsOp::OpenLock, name, None, 0)?;
        OpenOptions::new().write(true).create(true).truncate(false).open(path)
    }

    fn write(&self, mut file: &File, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (_, so_many) = self.may(FsOp::Write, name, None, bytes.len())?;
        file.write_all(&bytes[..so_many])?;
        if so_many < bytes.len() { Err(Errno::NOSPC.into()) } else { Ok(()) }
    }

    fn sync(&self, file: &File, name: &str) -> io::Result<()> {
        self.may(FsOp::SyncData, name, None, 0)?;
        file.sync_data()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (path, _) = self.may(FsOp::Rename, from, Some(to), 0)?;
        fs::rename(path, self.root.join(to))
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        let (path, _) = self.may(FsOp::Link, from, Some(to), 0)?;
        fs::hard_link(path, self.root.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let (path, _) = self.may(FsOp::Remove, name, None, 0)?;
        fs::remove_file(path)
    }

    fn create_dir(&self, name: &str) -> io::Result<()> {
        let (path, _) = self.may(FsOp::CreateDir, name, None, 0)?;
        fs::create_dir(path)
    }

    fn sync_dir(&self, name: &str) -> io::Result<()> {
        let (path, _) = self.may(FsOp::SyncDir, name, None, 0)?;
        File::open(path)?.sync_all()
    }
}

type Publisher = fn(&Files) -> io::Result<()>;

/// The correct order.
fn publish(files: &Files) -> io::Result<()> {
    let temp = files.create("tmp/new")?;
    files.write(&temp, "tmp/new", NEW)?;
    files.sync(&temp, "tmp/new")?;
    files.rename("tmp/new", "entries/x")?;
    files.sync_dir("entries")
}

/// The bytes may reach the disk long after the name.
fn publish_without_sync(files: &Files) -> io::Result<()> {
    let temp = files.create("tmp/new")?;
    files.write(&temp, "tmp/new", NEW)?;
    files.rename("tmp/new", "entries/x")?;
    files.sync_dir("entries")
}

/// The bytes become durable only after the name.
fn publish_before_sync(files: &Files) -> io::Result<()> {
    let temp = files.create("tmp/new")?;
    files.write(&temp, "tmp/new", NEW)?;
    files.rename("tmp/new", "entries/x")?;
    files.sync(&temp, "tmp/new")?;
    files.sync_dir("entries")
}

fn publish_in_place(files: &Files) -> io::Result<()> {
    let file = files.open_to_write("entries/x")?;
    files.write(&file, "entries/x", NEW)?;
    files.sync(&file, "entries/x")
}

fn publish_by_removing_first(files: &Files) -> io::Result<()> {
    let temp = files.create("tmp/new")?;
    files.write(&temp, "tmp/new", NEW)?;
    files.sync(&temp, "tmp/new")?;
    files.remove("entries/x")?;
    files.rename("tmp/new", "entries/x")
}

fn publish_by_link(files: &Files) -> io::Result<()> {
    let temp = files.create("tmp/new")?;
    files.write(&temp, "tmp/new", NEW)?;
    files.link("tmp/new", "entries/y")?;
    files.remove("tmp/new")
}

/// The same name twice; the second name remains if the first is undone.
fn publish_twice(files: &Files) -> io::Result<()> {
    for (temp, bytes) in [("tmp/first", OLD), ("tmp/second", NEW)] {
        let file = files.create(temp)?;
        files.write(&file, temp, bytes)?;
        files.sync(&file, temp)?;
        files.rename(temp, "entries/y")?;
    }
    Ok(())
}

fn publish_into_a_new_dir(files: &Files) -> io::Result<()> {
    files.create_dir("entries/new")?;
    let file = files.create("entries/new/y")?;
    files.write(&file, "entries/new/y", NEW)?;
    files.sync(&file, "entries/new/y")
}

/// The files for a publisher: an old `entries/x`, and an empty `tmp`.
struct Bench {
    _dir: tempfile::TempDir,
    files: Files,
    before: DirSnapshot,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_owned();
        fs::create_dir(root.join("tmp")).unwrap();
        fs::create_dir(root.join("entries")).unwrap();
        fs::write(root.join("entries/x"), OLD).unwrap();
        let before = DirSnapshot::of(&root).unwrap();
        Self { files: Files { disk: FaultyDisk::new(&root), root }, before, _dir: dir }
    }

    fn root(&self) -> &Path {
        &self.files.root
    }

    /// The calls of a publisher without a fault.
    fn calls(&self, publisher: Publisher) -> Vec<FsOp> {
        self.before.restore(self.root()).unwrap();
        self.files.disk.disarm();
        publisher(&self.files).unwrap();
        self.files.disk.calls()
    }

    /// The possible contents of `name` if the power fails before the call number `at`; the first is 1.
    fn after_power_cut(&self, publisher: Publisher, at: usize, name: &str) -> BTreeSet<Found> {
        self.before.restore(self.root()).unwrap();
        self.files.disk.arm(at, Fault::Death);
        let ended = publisher(&self.files);
        assert_eq!(ended.is_err(), self.files.disk.has_sprung());
        let dead = DirSnapshot::of(self.root()).unwrap();
        let losses = self.files.disk.losses();
        losses
            .iter()
            .map(|loss| {
                // All files are new: losses must not depend on the identity of files.
                DirSnapshot::default().restore(self.root()).unwrap();
                dead.restore(self.root()).unwrap();
                loss.apply().unwrap();
                Found::at(&self.root().join(name))
            })
            .collect()
    }

    /// The same for a power cut before any call.
    fn after_any_power_cut(&self, publisher: Publisher, name: &str) -> BTreeSet<Found> {
        let calls = self.calls(publisher).len();
        (1..=calls + 1).flat_map(|at| self.after_power_cut(publisher, at, name)).collect()
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    Nothing,
    Old,
    New,
    Empty,
    Half,
    Garbage,
}

use Found::{Empty, Garbage, Half, New, Nothing, Old};

impl Found {
    fn at(path: &Path) -> Self {
        match fs::read(path).as_deref() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Nothing,
            Err(error) => panic!("{error}"),
            Ok(OLD) => Old,
            Ok(NEW) => New,
            Ok([]) => Empty,
            Ok(bytes) if NEW.starts_with(bytes) && bytes.len() == NEW.len() / 2 => Half,
            Ok(bytes) if bytes.len() == NEW.len() => Garbage,
            Ok(other) => panic!("{}", other.escape_ascii()),
        }
    }
}

#[test]
fn a_right_publisher_survives_any_power_cut() {
    let bench = Bench::new();
    assert_eq!(bench.after_any_power_cut(publish, "entries/x"), [Old, New].into());
    let calls = bench.calls(publish);
    assert_eq!(calls, [FsOp::Create, FsOp::Write, FsOp::SyncData, FsOp::Rename, FsOp::SyncDir]);
    // After the rename, it may or may not exist; after the directory's sync, it exists.
    assert_eq!(bench.after_power_cut(publish, 5, "entries/x"), [Old, New].into());
    assert_eq!(bench.after_power_cut(publish, 6, "entries/x"), [New].into());
    // The temporary file may exist as long as its removal, which is the rename, may be undone.
    assert_eq!(bench.after_power_cut(publish, 3, "tmp/new"), [Nothing, Empty, Half, Garbage, New].into());
    assert_eq!(bench.after_power_cut(publish, 4, "tmp/new"), [Nothing, New].into());
    assert_eq!(bench.after_power_cut(publish, 6, "tmp/new"), [Nothing].into());
}

#[test]
fn a_publisher_that_does_not_sync_is_caught() {
    let bench = Bench::new();
    let all = || [Old, New, Empty, Half, Garbage].into();
    assert_eq!(bench.after_any_power_cut(publish_without_sync, "entries/x"), all());
    assert_eq!(bench.after_any_power_cut(publish_before_sync, "entries/x"), all());
    // Even after all other calls.
    let end = bench.calls(publish_without_sync).len() + 1;
    assert_eq!(
        bench.after_power_cut(publish_without_sync, end, "entries/x"),
        [New, Empty, Half, Garbage].into()
    );
    let end = bench.calls(publish_before_sync).len() + 1;
    assert_eq!(bench.after_power_cut(publish_before_sync, end, "entries/x"), [New].into());
}

#[test]
fn a_publisher_that_leaves_a_gap_is_caught() {
    let bench = Bench::new();
    let found = bench.after_any_power_cut(publish_by_removing_first, "entries/x");
    assert_eq!(found, [Nothing, Old, New].into());
    assert!(bench.after_power_cut(publish_by_removing_first, 5, "entries/x").contains(&Old), "it comes back");
    // Garbage and its half keep the length.
    let found = bench.after_any_power_cut(publish_in_place, "entries/x");
    assert!(found.contains(&Empty) && found.contains(&Half), "{found:?}");
}

#[test]
fn a_second_name_is_lost_by_itself_and_torn_with_the_first() {
    let bench = Bench::new();
    let end = bench.calls(publish_by_link).len() + 1;
    let found = bench.after_power_cut(publish_by_link, end, "entries/y");
    assert_eq!(found, [Nothing, New, Empty, Half, Garbage].into());
    // If its removal is undone, the first name is back with the same bytes.
    let found = bench.after_power_cut(publish_by_link, end, "tmp/new");
    assert_eq!(found, [Nothing, New, Empty, Half, Garbage].into());
}

#[test]
fn later_changes_are_not_confused_with_earlier_ones() {
    let bench = Bench::new();
    let end = bench.calls(publish_twice).len() + 1;
    assert_eq!(bench.after_power_cut(publish_twice, end, "entries/y"), [Nothing, Old, New].into());
    assert_eq!(bench.after_power_cut(publish_twice, end, "tmp/first"), [Nothing, Old].into());
    assert_eq!(bench.after_power_cut(publish_twice, end, "tmp/second"), [Nothing, New].into());
}

#[test]
fn a_lost_directory_loses_its_content() {
    let bench = Bench::new();
    assert_eq!(bench.after_power_cut(publish_into_a_new_dir, 9, "entries/new/y"), [Nothing, New].into());
    bench.before.restore(bench.root()).unwrap();
    bench.files.disk.disarm();
    publish_into_a_new_dir(&bench.files).unwrap();
    let everything = DirSnapshot::of(bench.root()).unwrap();
    let mut lost = 0;
    for loss in bench.files.disk.losses() {
        everything.restore(bench.root()).unwrap();
        loss.apply().unwrap();
        lost += usize::from(!bench.root().join("entries/new").exists());
    }
    assert_eq!(lost, 2, "with the file in it lost before, and not");
}

#[test]
fn the_dead_do_nothing_more() {
    let bench = Bench::new();
    for at in 1..=bench.calls(publish).len() {
        bench.before.restore(bench.root()).unwrap();
        bench.files.disk.arm(at, Fault::Death);
        publish(&bench.files).unwrap_err();
        let dead = DirSnapshot::of(bench.root()).unwrap();
        assert!(bench.files.remove("entries/x").is_err());
        assert!(bench.files.create("tmp/more").is_err());
        assert_eq!(DirSnapshot::of(bench.root()).unwrap(), dead);
        assert_eq!(bench.files.disk.calls().len(), at, "what the dead ask does not count");
        bench.files.disk.disarm();
        bench.files.remove("entries/x").unwrap();
    }
}

#[test]
fn each_error_meets_the_call_that_it_is_meant_for() {
    let bench = Bench::new();
    for at in 1..=5 {
        for error in Fault::ERRORS {
            bench.before.restore(bench.root()).unwrap();
            bench.files.disk.arm(at, Fault::Error(error));
            let found = publish(&bench.files).unwrap_err();
            assert_eq!(Errno::from_io_error(&found), Some(error));
            assert_eq!(bench.files.disk.calls().len(), at);
            // Only this one changes.
            bench.files.remove("entries/x").unwrap();
        }
    }
}

#[test]
fn half_of_a_write_arrives() {
    let bench = Bench::new();
    for fault in [Fault::Short, Fault::DeathWithin] {
        bench.before.restore(bench.root()).unwrap();
        bench.files.disk.arm(2, fault);
        publish(&bench.files).unwrap_err();
        assert_eq!(Found::at(&bench.root().join("tmp/new")), Half);
        assert_eq!(bench.files.remove("tmp/new").is_err(), fault.is_death());
    }
    assert!(Fault::all_for(FsOp::Write).contains(&Fault::DeathWithin));
    assert!(Fault::all_for(FsOp::Read).contains(&Fault::Short));
    assert_eq!(Fault::all_for(FsOp::Rename).len(), Fault::ERRORS.len() + 1);
}

#[test]
fn another_process_comes_first() {
    let bench = Bench::new();
    let came = Arc::new(AtomicBool::new(false));
    let (entry, flag) = (bench.root().join("entries/x"), Arc::clone(&came));
    bench.files.disk.interrupt(4, move || {
        assert_eq!(Found::at(&entry), Old);
        fs::remove_file(&entry).unwrap();
        flag.store(true, Ordering::Relaxed);
    });
    publish(&bench.files).unwrap();
    assert!(came.load(Ordering::Relaxed) && bench.files.disk.has_sprung());
    assert_eq!(Found::at(&bench.root().join("entries/x")), New);
}

/// After a failed sync, the data may still be lost.
#[test]
fn a_sync_that_failed_makes_nothing_safe() {
    let bench = Bench::new();
    bench.files.disk.arm(3, Fault::Error(Errno::IO));
    publish(&bench.files).unwrap_err();
    assert_eq!(bench.files.disk.losses().len(), 2 * 4, "the new name or not, its bytes in four ways");
    assert_eq!(bench.files.disk.at_risk().len(), 2);
    // Calls elsewhere do not concern this disk.
    let elsewhere = tempfile::tempdir().unwrap();
    bench.files.disk.disarm();
    let path = elsewhere.path().join("file");
    bench.files.disk.before(&FsCall { op: FsOp::Create, path: &path, to: None, bytes: 0 });
    fs::write(&path, "").unwrap();
    assert!(bench.files.disk.losses().is_empty() && bench.files.disk.at_risk().is_empty());
}
