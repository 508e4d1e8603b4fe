//! Repairs that are killed, that find locks, or that cannot write. The test binary runs itself as the other process.

use std::cell::Cell;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::CHILD;
use crate::common::broken::{DamagedRank, Repair, age_all, broken_caches, findings, scan_all};
use libtest_mimic::Trial;
use opkeep_framework_cache::fill::{DeviceMap, FillOptions, FillReport, ScannedCache, fill};
use opkeep_framework_cache::quarantine::{QuarantineProgress, RepairError, RunId, SkipCause};
use opkeep_framework_cache::restore::{RestoreOptions, newest, quarantines, restore};
use opkeep_framework_cache::scan::InUse;
use opkeep_testkit::caches::{Rank, cann_kernel};
use opkeep_testkit::{DirSnapshot, fork};
use rustix::fs::{FlockOperation, fcntl_lock, flock};

/// Runs this program as the other process.
pub(crate) fn other_process(arguments: &[String]) {
    child(&arguments[0], Path::new(&arguments[1]), &arguments[2]);
}

pub(crate) fn trials() -> Vec<Trial> {
    let test = |name: &str, body: fn()| {
        Trial::test(name, move || {
            body();
            Ok(())
        })
    };
    vec![
        test("a_repair_that_is_killed_can_be_undone", a_repair_that_is_killed_can_be_undone),
        test("a_repair_that_is_killed_is_finished_by_another", a_repair_that_is_killed_is_finished),
        test("an_undo_that_is_killed_can_be_repeated", an_undo_that_is_killed_can_be_repeated),
        test("an_undo_of_a_fill_that_is_killed_can_be_repeated", an_undo_of_a_fill_that_is_killed),
        test("a_locked_cache_is_left_alone", a_locked_cache_is_not_repaired),
        test("a_killed_repair_with_a_child_leaves_no_lock", a_killed_repair_with_a_child),
        test("a_locked_kernel_is_left_alone", a_locked_kernel_is_not_repaired),
        test("a_rank_that_is_locked_is_not_filled", a_rank_that_is_locked_is_not_filled),
        test("files_that_were_opened_since_the_scan_stay", files_that_were_opened_since_the_scan_stay),
        test(
            "files_that_are_opened_during_the_move_are_restored",
            files_that_are_opened_during_the_move_are_restored,
        ),
        test("files_that_may_not_be_moved_are_reported", files_that_may_not_be_moved_are_reported)
            .with_ignored_flag(!is_root()),
        test("a_full_disk_leaves_all_as_it_was", a_full_disk).with_ignored_flag(!can_mount()),
        test("a_mount_point_is_left_as_it_was", a_mount_point).with_ignored_flag(!can_mount()),
    ]
}

/// The actions of the other process at `path`.
fn child(what: &str, path: &Path, how: &str) {
    match what {
        "repair" => {
            let step = dies_at(how);
            Repair { observe: &|_| step(), ..Repair::new() }.repair_all(path);
        }
        "repair-and-fork" => {
            let observe = |_: QuarantineProgress| {
                let child = fork(|| std::thread::sleep(std::time::Duration::from_secs(600)), false);
                println!("{}", child.id());
                dies_at("0")();
            };
            Repair { observe: &observe, ..Repair::new() }.repair_all(path);
        }
        "undo" => {
            let step = dies_at(how);
            undo_all(path, &step);
        }
        "lock" => {
            let file =
                fs::File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
            match how {
                "flock" => flock(&file, FlockOperation::LockExclusive).unwrap(),
                _ => fcntl_lock(&file, FlockOperation::LockExclusive).unwrap(),
            }
            println!("held");
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        }
        "mend" => {
            for scan in scan_all(path) {
                match Repair::new().repair(&scan) {
                    Ok(report) => {
                        report.moved.iter().for_each(|moved| println!("moved {}", moved.files.join(" ")));
                        report.skipped.iter().for_each(|left| println!("left {}", left.cause));
                    }
                    Err(error) => println!("error {error}"),
                }
            }
        }
        _ => panic!("{what}"),
    }
}

/// Kills this process at call `number`.
fn dies_at(number: &str) -> impl Fn() {
    let left = Cell::new(number.parse::<u32>().unwrap());
    move || {
        if left.get() == 0 {
            let this = rustix::process::getpid();
            rustix::process::kill_process(this, rustix::process::Signal::KILL).unwrap();
        }
        left.set(left.get() - 1);
    }
}

fn undo_all(base: &Path, step: &dyn Fn()) {
    let progress = |_| step();
    let options = RestoreOptions::new(false).with_progress(&progress);
    for one in newest(quarantines(base).unwrap()) {
        restore(&one, &options).unwrap();
    }
}

fn command(what: &str, path: &Path, how: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([CHILD, "repair", what]).arg(path).arg(how).stdin(Stdio::null());
    command
}

/// A smaller set of broken caches than all, since it is repaired for each step.
fn some_broken(base: &Path) {
    let rank = Rank::new(0);
    let kernels: Vec<_> = (1..=3).map(|elements| rank.square(elements)).collect();
    kernels.iter().for_each(|kernel| kernel.write(&rank.dir(base)).unwrap());
    let path = |at: usize, suffix: &str| rank.dir(base).join(format!("{}.{suffix}", kernels[at].stem));
    fs::write(path(0, "json"), "{").unwrap();
    fs::remove_file(path(1, "json")).unwrap();
    fs::create_dir(rank.dir(base).join("tbe_prebuild_res")).unwrap();
    fs::write(rank.dir(base).join("tbe_prebuild_res/a.json"), "").unwrap();
    let dir = base.join("kernel_cache/Ascend910B2");
    let kernel = cann_kernel("Ascend910B2", 1);
    kernel.write(&dir).unwrap();
    fs::write(dir.join(format!("{}.json", kernel.stem)), "").unwrap();
    fs::write(dir.join(format!("{}.lock", kernel.stem)), "").unwrap();
    age_all(base);
}

/// Runs `what` in processes that are killed at each of its steps, and `then` after each.
fn killed_at_each_step(what: &str, prepare: impl Fn(&Path), then: impl Fn(&Path, &DirSnapshot)) {
    let mut kills = 0;
    loop {
        let base = tempfile::tempdir().unwrap();
        some_broken(base.path());
        let before = DirSnapshot::of(base.path()).unwrap();
        prepare(base.path());
        let status = command(what, base.path(), &kills.to_string()).status().unwrap();
        then(base.path(), &before);
        if status.success() {
            break;
        }
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
        kills += 1;
    }
    // Two steps for each of nine files, and more.
    assert!(kills >= 18, "{kills}");
}

fn a_repair_that_is_killed_can_be_undone() {
    let nothing = |_: &Path| {};
    killed_at_each_step("repair", nothing, |base, before| {
        // It may have begun with one cache only.
        while !quarantines(base).unwrap().is_empty() {
            undo_all(base, &|| {});
        }
        assert_eq!(DirSnapshot::of(base).unwrap(), *before);
    });
}

fn a_repair_that_is_killed_is_finished() {
    let nothing = |_: &Path| {};
    killed_at_each_step("repair", nothing, |base, before| {
        let again = Repair::new().repair_all(base);
        assert!(again.iter().all(|report| report.skipped.is_empty()), "{again:?}");
        assert_eq!(findings(base), 0);
        for _ in 0..2 {
            undo_all(base, &|| {});
        }
        assert_eq!(DirSnapshot::of(base).unwrap(), *before);
    });
}

fn an_undo_that_is_killed_can_be_repeated() {
    let repair = |base: &Path| drop(Repair::new().repair_all(base));
    killed_at_each_step("undo", repair, |base, before| {
        if !quarantines(base).unwrap().is_empty() {
            undo_all(base, &|| {});
        }
        assert_eq!(DirSnapshot::of(base).unwrap(), *before);
    });
}

fn an_undo_of_a_fill_that_is_killed() {
    for kills in 0.. {
        let base = tempfile::tempdir().unwrap();
        let ranks = [0, 1].map(Rank::new);
        (1..=3).for_each(|elements| ranks[0].square(elements).write(&ranks[0].dir(base.path())).unwrap());
        ranks[1].square(1).write(&ranks[1].dir(base.path())).unwrap();
        let before = DirSnapshot::of(base.path()).unwrap();
        let report = fill_all(base.path());
        assert_eq!(report.filled.len(), 2, "{report:?}");
        let status = command("undo", base.path(), &kills.to_string()).status().unwrap();
        undo_all(base.path(), &|| {});
        assert_eq!(DirSnapshot::of(base.path()).unwrap(), before, "{kills}");
        if status.success() {
            // Three steps for each of six files.
            return assert!(kills >= 18, "{kills}");
        }
    }
}

fn fill_all(base: &Path) -> FillReport {
    let surveys = scan_all(base);
    let caches: Vec<_> = surveys.iter().map(|scan| ScannedCache { scan, moved: &[] }).collect();
    fill(&caches, &FillOptions::new(&RunId::now(), &DeviceMap::default()))
}

/// Another process that holds a lock, until this is dropped.
struct Holder(Child);

impl Holder {
    fn of(path: &Path, how: &str) -> Self {
        let mut child = command("lock", path, how);
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The child was forked while the locks were held, and runs on.
fn a_killed_repair_with_a_child() {
    let base = tempfile::tempdir().unwrap();
    some_broken(base.path());
    let rank = base.path().join("rank_0/kernel_meta");
    fs::write(rank.join("file.lock"), "").unwrap();
    let mut repair = command("repair-and-fork", base.path(), "");
    let mut repair = repair.stdout(Stdio::piped()).spawn().unwrap();
    let mut number = String::new();
    BufReader::new(repair.stdout.take().unwrap()).read_line(&mut number).unwrap();
    repair.wait().unwrap();
    let mended: Vec<_> = scan_all(base.path()).iter().map(|scan| Repair::new().repair(scan)).collect();
    let child = rustix::process::Pid::from_raw(number.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
    assert!(mended.iter().all(Result::is_ok), "{mended:?}");
}

fn a_locked_cache_is_not_repaired() {
    let base = tempfile::tempdir().unwrap();
    broken_caches(base.path());
    let rank = base.path().join("rank_0/kernel_meta");
    for (lock, how) in [
        (rank.join("file.lock"), "flock"),
        (rank.join(".opkeep.lock"), "flock"),
        (base.path().join("kernel_cache/Ascend910B2/op_cache_file_del.lock"), "record"),
        (base.path().join("akg_kernel_meta/kernel_build_tmp.key"), "record"),
        (base.path().join("akg_kernel_meta/akg_build_tmp.key"), "record"),
    ] {
        let scan = || {
            let surveys = scan_all(base.path()).into_iter();
            surveys.filter(|scan| lock.starts_with(&scan.cache.path)).last().unwrap()
        };
        let holder = Holder::of(&lock, how);
        let before = DirSnapshot::of(base.path()).unwrap();
        let repair = Repair { force: true, ..Repair::new() };
        for dry_run in [false, true] {
            let error = Repair { dry_run, run: repair.run.clone(), ..repair }.repair(&scan()).unwrap_err();
            assert!(matches!(&error, RepairError::Locked { lock: said } if *said == lock), "{error:?}");
            assert!(error.to_string().contains("nothing was changed"), "{error}");
        }
        assert_eq!(DirSnapshot::of(base.path()).unwrap(), before);
        drop(holder);
        let mended = repair.repair(&scan()).unwrap();
        assert!(mended.skipped.is_empty() && !mended.moved.is_empty(), "{mended:?}");

        // A restore fails for the same locks.
        let run = newest(quarantines(base.path()).unwrap()).pop().unwrap();
        let holder = Holder::of(&lock, how);
        let options = RestoreOptions::new(false);
        assert!(matches!(restore(&run, &options), Err(RepairError::Locked { .. })));
        drop(holder);
        assert!(restore(&run, &options).unwrap().removed);
        assert_eq!(DirSnapshot::of(base.path()).unwrap(), before);
    }
}

fn a_locked_kernel_is_not_repaired() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("kernel_cache/Ascend910B2");
    let kernels: Vec<_> = (0..3).map(|number| cann_kernel("Ascend910B2", number)).collect();
    for kernel in &kernels {
        kernel.write(&dir).unwrap();
        fs::write(dir.join(format!("{}.json", kernel.stem)), "").unwrap();
    }
    let lock = |at: usize| dir.join(format!("{}.lock", kernels[at].stem));
    fs::write(lock(0), "").unwrap();
    fs::write(lock(2), "").unwrap();
    age_all(base.path());

    // One lock is held during the scan; two are taken after it, one of them without an earlier lock file.
    let first = Holder::of(&lock(0), "record");
    let scan = scan_all(base.path()).pop().unwrap();
    let others = [1, 2].map(|at| Holder::of(&lock(at), "record"));
    let report = Repair { force: true, ..Repair::new() }.repair(&scan).unwrap();
    assert!(report.moved.is_empty() && report.skipped.len() == 3, "{report:?}");
    assert!(
        report
            .skipped
            .iter()
            .all(|left| matches!(left.cause, SkipCause::Lock(_) | SkipCause::InProgress(InUse::Locked)))
    );
    assert!(kernels.iter().all(|kernel| dir.join(format!("{}.o", kernel.stem)).exists()));
    drop(others);
    drop(first);
    let report = Repair { force: true, ..Repair::new() }.repair_all(base.path()).pop().unwrap();
    assert_eq!((report.moved.len(), report.skipped.len()), (3, 0), "{report:?}");
    assert!((0..3).all(|at| !lock(at).exists()), "their locks are dead now");

    // A restore of a kernel whose lock a writer holds.
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("kernel_cache/Ascend910B2");
    kernels[0].write(&dir).unwrap();
    fs::write(dir.join(format!("{}.json", kernels[0].stem)), "").unwrap();
    age_all(base.path());
    Repair::new().repair_all(base.path());
    let holder = Holder::of(&dir.join(format!("{}.lock", kernels[0].stem)), "record");
    let options = RestoreOptions::new(false);
    let undone = restore(&quarantines(base.path()).unwrap()[0], &options).unwrap();
    assert!(
        undone.restored.is_empty() && undone.unrestored[0].reason.contains("held by another"),
        "{undone:?}"
    );
    drop(holder);
    assert!(restore(&quarantines(base.path()).unwrap()[0], &options).unwrap().removed);
}

fn a_rank_that_is_locked_is_not_filled() {
    let base = tempfile::tempdir().unwrap();
    let ranks = [0, 1].map(Rank::new);
    ranks[0].square(1).write(&ranks[0].dir(base.path())).unwrap();
    ranks[0].square(2).write(&ranks[0].dir(base.path())).unwrap();
    ranks[1].square(2).write(&ranks[1].dir(base.path())).unwrap();
    for lock in ["file.lock", ".opkeep.lock"] {
        let holder = Holder::of(&ranks[1].dir(base.path()).join(lock), "flock");
        let before = DirSnapshot::of(base.path()).unwrap();
        let report = fill_all(base.path());
        assert!(report.filled.is_empty() && report.unfilled.len() == 1, "{report:?}");
        assert!(report.unfilled[0].reason.to_string().contains(lock), "{report:?}");
        drop(holder);
        let left = DirSnapshot::of(base.path()).unwrap();
        assert_eq!(
            left.files().filter(|path| !path.ends_with(".opkeep.lock")).count(),
            before.files().count() - usize::from(lock == ".opkeep.lock")
        );
    }
}

fn files_that_were_opened_since_the_scan_stay() {
    let damaged = DamagedRank::new();
    let scan = damaged.scan_of();
    let file = fs::File::open(damaged.path("o")).unwrap();
    let mut child = Command::new("sleep").arg("60").stdin(file).spawn().unwrap();
    let nothing = |step| panic!("{step:?}");
    let report = Repair { observe: &nothing, ..Repair::new() }.repair(&scan).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(report.skipped[0].cause, SkipCause::InProgress(InUse::Open { process: child.id() }));
    assert!(report.moved.is_empty() && damaged.in_quarantine().is_empty());
}

fn files_that_are_opened_during_the_move_are_restored() {
    let damaged = DamagedRank::new();
    let before = DirSnapshot::of(damaged.base.path()).unwrap();
    let child = Cell::new(None);
    let report = damaged.repair_while(&|step| {
        if step == QuarantineProgress::Moving(0) {
            let file = fs::File::open(damaged.path("json")).unwrap();
            child.set(Some(Command::new("sleep").arg("60").stdin(file).spawn().unwrap()));
        }
    });
    let mut child = child.take().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(report.skipped[0].cause, SkipCause::InProgress(InUse::Open { process: child.id() }));
    assert_eq!(DirSnapshot::of(damaged.base.path()).unwrap(), before);
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs this program as a child, as a user without files.
fn as_other_user(what: &str, path: &Path, how: &str) -> std::process::Output {
    // Other users may lack access to its directory.
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = dir.path().join("child");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut command = Command::new(program);
    command.args([CHILD, "repair", what]).arg(path).arg(how).stdin(Stdio::null()).current_dir("/");
    command.uid(65534).gid(65534).output().unwrap()
}

/// The output of a repair by another user, who may not write everywhere.
fn repaired_by_other_user(base: &Path) -> String {
    let output = as_other_user("mend", base, "");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn files_that_may_not_be_moved_are_reported() {
    let base = tempfile::tempdir().unwrap();
    let open = |path: &Path, mode| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    open(base.path(), 0o755);
    some_broken(base.path());
    let rank = base.path().join("rank_0");
    let before = DirSnapshot::of(&rank).unwrap();
    for (path, mode) in [(&*rank, 0o755), (&*rank.join("kernel_meta"), 0o777)] {
        open(path, mode);
    }
    // The quarantine cannot be made.
    let said = repaired_by_other_user(&rank);
    assert!(
        said.contains("error cannot create the directory") && said.contains("nothing was changed"),
        "{said}"
    );
    assert!(said.contains("kernel_meta.opkeep-quarantine"), "{said}");
    // An unreadable quarantine is not reported as a missing one.
    Repair::new().repair_all(&rank);
    let undone = as_other_user("undo", &rank, "9");
    let said = String::from_utf8_lossy(&undone.stderr);
    assert!(
        !undone.status.success() && said.contains("kernel_meta.opkeep-quarantine`: Permission"),
        "{said}"
    );
    undo_all(&rank, &|| {});
    // One directory of it is unreadable: the rest is restored.
    open(&rank, 0o777);
    open(&rank.join("kernel_meta/tbe_prebuild_res"), 0o755);
    let said = repaired_by_other_user(&rank);
    assert!(said.contains("left `a.json` could not be moved: Permission denied"), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("moved ")).count(), 2, "{said}");
    undo_all(&rank, &|| {});
    for (path, mode) in [(&*rank, 0o755), (&*rank.join("kernel_meta"), 0o755)] {
        open(path, mode);
    }
    assert_eq!(DirSnapshot::of(&rank).unwrap(), before);
}

/// A file system of 64 KiB, for as long as it lives.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(at: &'a Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(at);
        let mounted = mount.stdout(Stdio::null()).stderr(Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(at))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

fn can_mount() -> bool {
    let dir = tempfile::tempdir().unwrap();
    SmallDisk::mount(dir.path()).is_some()
}

fn a_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mount(dir.path()).unwrap();
    let rank = Rank::new(0);
    for elements in 1..=2 {
        let kernel = rank.square(elements);
        kernel.write(&rank.dir(disk.0)).unwrap();
        fs::write(rank.dir(disk.0).join(format!("{}.json", kernel.stem)), "").unwrap();
    }
    age_all(disk.0);
    let filler = fs::File::create(disk.0.join("filler")).unwrap();
    while std::io::Write::write(&mut &filler, &[0; 4096]).is_ok_and(|n| n > 0) {}
    let before = DirSnapshot::of(disk.0).unwrap();
    let scan = scan_all(disk.0).pop().unwrap();
    let error = Repair::new().repair(&scan).unwrap_err();
    assert!(matches!(error, RepairError::NoSpace { .. }), "{error:?}");
    assert!(error.to_string().contains("free some space"), "{error}");
    assert_eq!(DirSnapshot::of(disk.0).unwrap(), before);
    drop(filler);
    fs::remove_file(disk.0.join("filler")).unwrap();
    assert_eq!(Repair::new().repair(&scan).unwrap().moved.len(), 2);
}

fn a_mount_point() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("rank_0/kernel_meta");
    fs::create_dir_all(&dir).unwrap();
    let disk = SmallDisk::mount(&dir).unwrap();
    let kernel = Rank::new(0).square(1);
    kernel.write(&dir).unwrap();
    fs::write(dir.join(format!("{}.json", kernel.stem)), "").unwrap();
    age_all(&dir);
    let before = DirSnapshot::of(base.path()).unwrap();
    let error = Repair::new().repair(&scan_all(base.path()).pop().unwrap()).unwrap_err();
    assert!(matches!(&error, RepairError::MountPoint { path } if path.ends_with("kernel_meta")), "{error:?}");
    assert_eq!(DirSnapshot::of(base.path()).unwrap(), before);
    drop(disk);
}
