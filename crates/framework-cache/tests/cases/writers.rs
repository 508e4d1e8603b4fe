//! Concurrent writers, killed writers, and full disks. The test binary runs itself as the other process.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::CHILD;
use crate::common::{TestKernel, all, assert_consistent, names, open_view, temps, try_state};
use libtest_mimic::Trial;
use opkeep_digest::Digest;
use opkeep_kernel_meta::ViewError;

/// Runs this program as the other process.
pub(crate) fn other_process(arguments: &[String]) {
    child(Path::new(&arguments[0]), &arguments[1], arguments[2].parse().unwrap());
}

pub(crate) fn trials() -> Vec<Trial> {
    let test = |name: &str, body: fn()| {
        Trial::test(name, move || {
            body();
            Ok(())
        })
    };
    vec![
        test("a_killed_writer_leaves_a_consistent_directory", a_killed_writer_leaves_a_consistent_directory),
        test("processes_that_write_at_once_leave_a_consistent_directory", processes_that_write_at_once),
        test("threads_that_write_at_once_leave_a_consistent_directory", threads_that_write_at_once),
        test("a_lock_that_is_held_is_waited_for", a_lock_that_is_held_is_waited_for),
        test("a_directory_deleted_under_a_waiter_is_created_again", a_directory_deleted_under_a_waiter),
        test("a_lock_that_stays_held_is_an_error_that_names_it", a_lock_that_stays_held),
        test("a_full_disk_leaves_a_consistent_directory", a_full_disk).with_ignored_flag(!can_mount()),
    ]
}

/// Five kernels of which each version differs, and one that is always the same.
fn network(version: usize) -> Vec<TestKernel> {
    let mut kernels: Vec<TestKernel> =
        (0..5).map(|i| TestKernel::sized(&format!("op_{i}"), version, 20_000)).collect();
    kernels.push(TestKernel::new("constant", 0));
    kernels
}

/// Writes as the other process, `once` or `forever`.
fn child(base: &Path, how: &str, seed: usize) {
    let view = open_view(base, "0").unwrap();
    let rounds = if how == "forever" { usize::MAX } else { 1 };
    let began = Instant::now();
    // If the parent is killed, this process must end by itself.
    for round in (0..rounds).take_while(|_| began.elapsed() < Duration::from_secs(60)) {
        let report = view.materialise(&all(&network(seed + round % 7))).unwrap();
        assert!(report.locked);
    }
}

/// The other process, which is killed on drop.
struct Writer(Child);

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(base: &Path, how: &str, seed: usize) -> Writer {
    let program = std::env::current_exe().unwrap();
    let mut child = Command::new(program);
    child.args([CHILD, "writers", base.to_str().unwrap(), how, &seed.to_string()]);
    Writer(child.stdin(Stdio::null()).spawn().unwrap())
}

/// Reads a kernel as a framework does, during writes. Returns whether it existed and did not change meanwhile.
fn scan_of(dir: &Path, stem: &str) -> bool {
    let path = dir.join(format!("{stem}.json"));
    let before = try_state(&path);
    let (json, object) = (fs::read(&path), fs::read(dir.join(format!("{stem}.o"))));
    // Replaced meanwhile, the two need not belong together.
    if before.is_none() || try_state(&path) != before {
        return false;
    }
    let json = json.unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let object = object.unwrap_or_else(|error| panic!("{stem}.json is there, {stem}.o is not: {error}"));
    assert_eq!(json["sha256"], Digest::of(&object).to_string(), "{stem}");
    true
}

fn a_killed_writer_leaves_a_consistent_directory() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("rank_0/kernel_meta");
    let (mut looks, mut damaged) = (0, 0);
    for round in 0..12u64 {
        let writer = spawn(base.path(), "forever", 1);
        let began = Instant::now();
        while !dir.join("op_4.json").exists() {
            assert!(began.elapsed() < Duration::from_secs(30), "the writer does not write");
            sleep(Duration::from_millis(1));
        }
        let until = Instant::now() + Duration::from_micros(15_000 + round * 7_919);
        while Instant::now() < until {
            looks += usize::from(scan_of(&dir, "op_2"));
        }
        drop(writer);
        damaged += usize::from(assert_consistent(&dir) < 6 || !temps(&dir).is_empty());

        // The next build needs no manual step and leaves nothing behind.
        let kernels = network(100);
        open_view(base.path(), "0").unwrap().materialise(&all(&kernels)).unwrap();
        kernels.iter().for_each(|kernel| kernel.assert_in(&dir));
        assert_eq!(names(&dir).len(), 6 * 3 + 2, "{:?}", names(&dir));
    }
    assert!(looks > 0, "no look succeeded, so nothing was tested");
    assert!(damaged > 0, "no writer died while it wrote, so nothing was tested");
}

fn processes_that_write_at_once() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("rank_0/kernel_meta");
    for round in 0..50 {
        let writers: Vec<Writer> = (0..2).map(|i| spawn(base.path(), "once", round * 2 + i)).collect();
        for mut writer in writers {
            assert!(writer.0.wait().unwrap().success());
        }
        assert_eq!(assert_consistent(&dir), 6);
        assert!(temps(&dir).is_empty());
    }
}

fn threads_that_write_at_once() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("rank_0/kernel_meta");
    for round in 0..50 {
        let start = Barrier::new(4);
        thread::scope(|scope| {
            for i in 0..4 {
                let (start, base) = (&start, base.path());
                scope.spawn(move || {
                    // Two write the same, two write different kernels under the same names, and each writes one of its own.
                    let mut kernels = network(round * 4 + i.max(1));
                    kernels.push(TestKernel::new(&format!("own_{i}"), round));
                    let view = open_view(base, "0").unwrap();
                    start.wait();
                    let report = view.materialise(&all(&kernels)).unwrap();
                    assert_eq!(report.written + report.intact, 7);
                });
            }
        });
        assert_eq!(assert_consistent(&dir), 6 + 4);
        for i in 0..4 {
            TestKernel::new(&format!("own_{i}"), round).assert_in(&dir);
        }
        assert!(temps(&dir).is_empty());
    }
}

fn a_lock_that_is_held_is_waited_for() {
    let base = tempfile::tempdir().unwrap();
    let view = open_view(base.path(), "0").unwrap();
    let holder = fs::File::options().write(true).open(view.dir().join(".opkeep.lock")).unwrap();
    holder.lock().unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| view.materialise(&all(&network(1))).unwrap());
        sleep(Duration::from_millis(100));
        assert!(!waiter.is_finished());
        assert!(!view.dir().join("op_0.o").exists());
        drop(holder);
        assert_eq!(waiter.join().unwrap().written, 6);
    });
}

fn a_directory_deleted_under_a_waiter() {
    let base = tempfile::tempdir().unwrap();
    let view = open_view(base.path(), "0").unwrap();
    let holder = fs::File::options().write(true).open(view.dir().join(".opkeep.lock")).unwrap();
    holder.lock().unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| view.materialise(&all(&network(1))).unwrap());
        sleep(Duration::from_millis(100));
        // The waiter gets the lock of a deleted directory.
        fs::remove_dir_all(base.path().join("rank_0")).unwrap();
        drop(holder);
        assert_eq!(waiter.join().unwrap().written, 6);
    });
    network(1).iter().for_each(|kernel| kernel.assert_in(view.dir()));
}

fn a_lock_that_stays_held() {
    let base = tempfile::tempdir().unwrap();
    let view = open_view(base.path(), "0").unwrap().with_lock_timeout(Duration::from_millis(50));
    let lock = view.dir().join(".opkeep.lock");
    let holder = fs::File::options().write(true).open(&lock).unwrap();
    holder.lock().unwrap();
    let began = Instant::now();
    let error = view.materialise(&all(&network(1))).unwrap_err();
    assert!(began.elapsed() >= Duration::from_millis(50) && began.elapsed() < Duration::from_secs(5));
    assert!(matches!(&error, ViewError::Locked { path, .. } if *path == lock), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(lock.to_str().unwrap()) && text.contains("wait for that build"), "{text}");
    drop(holder);
    assert_eq!(view.materialise(&all(&network(1))).unwrap().written, 6);
}

/// A file system of 64 KiB, for as long as it lives.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(dir.path());
        let mounted = mount.stdout(Stdio::null()).stderr(Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

fn can_mount() -> bool {
    SmallDisk::mount().is_some()
}

fn a_full_disk() {
    let disk = SmallDisk::mount().unwrap();
    let view = open_view(disk.path(), "0").unwrap();
    let dir = view.dir().to_owned();
    let [small, large] =
        [8_000, 30_000].map(|bytes| [1, 2].map(|i| TestKernel::sized(&format!("op_{i}"), bytes, bytes)));
    view.materialise(&all(&small)).unwrap();

    // The new kernels do not fit beside the outdated ones, which no reader finds any more.
    let error = view.materialise(&all(&large)).unwrap_err();
    assert!(matches!(&error, ViewError::NoSpace { path, .. } if path.starts_with(&dir)), "{error:?}");
    assert!(error.to_string().contains("free some space"), "{error}");
    assert_eq!(assert_consistent(&dir), 0);
    assert!(temps(&dir).is_empty(), "{:?}", temps(&dir));

    // A damaged kernel cannot be restored, so its description is removed.
    view.materialise(&all(&small)).unwrap();
    fs::write(dir.join("op_1.o"), "torn").unwrap();
    fs::write(disk.path().join("filler"), vec![0; 24_000]).unwrap();
    assert!(matches!(view.materialise(&all(&small)), Err(ViewError::NoSpace { .. })));
    assert_eq!(assert_consistent(&dir), 1);
    assert!(!dir.join("op_1.json").exists());
    assert!(temps(&dir).is_empty(), "{:?}", temps(&dir));

    // With space again, the next build needs no manual step.
    fs::remove_file(disk.path().join("filler")).unwrap();
    view.materialise(&all(&small)).unwrap();
    small.iter().for_each(|kernel| kernel.assert_in(&dir));

    // A complete view stays valid without any space.
    let filler = fs::File::create(disk.path().join("filler")).unwrap();
    while std::io::Write::write(&mut &filler, &[0; 4096]).is_ok_and(|n| n > 0) {}
    let report = view.materialise(&all(&small)).unwrap();
    assert_eq!((report.written, report.intact), (0, 2));
}
