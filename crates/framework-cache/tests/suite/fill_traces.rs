//! Fills of almost empty ranks, the owners of files, and the waiting time of a framework.
#![expect(clippy::disallowed_methods, reason = "tests break caches by hand")]

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::common::broken::{Repair, scan_all};
use opkeep_framework_cache::fill::{DeviceMap, FillOptions, FillReport, ScannedCache, fill};
use opkeep_framework_cache::quarantine::{QuarantineProgress, RunId};
use opkeep_framework_cache::restore::{RestoreOptions, newest, quarantines, restore};
use opkeep_testkit::DirSnapshot;
use opkeep_testkit::caches::{Rank, age};

fn repair_and_fill(base: &Path, dry_run: bool, map: &str, before: &dyn Fn()) -> FillReport {
    let surveys = scan_all(base);
    let repair = Repair { dry_run, ..Repair::new() };
    let reports: Vec<_> = surveys.iter().map(|scan| repair.repair(scan).unwrap()).collect();
    let cache = |(scan, report)| -> ScannedCache<'_> {
        let report: &opkeep_framework_cache::quarantine::QuarantineReport = report;
        ScannedCache { scan, moved: &report.moved }
    };
    let caches: Vec<_> = surveys.iter().zip(&reports).map(cache).collect();
    let devices = DeviceMap::parse(map).unwrap();
    let (run, progress) = (RunId::now(), |_, _| before());
    let mut options = FillOptions::new(&run, &devices);
    (options.dry_run, options.progress) = (dry_run, &progress);
    fill(&caches, &options)
}

/// Two ranks with this many kernels; rank 1, on device 5, lacks all objects.
fn half_lost(base: &Path, kernels: u32) -> Rank {
    let lost = Rank { device: 5, ..Rank::new(1) };
    for elements in 1..=kernels {
        Rank::new(0).square(elements).write(&Rank::new(0).dir(base)).unwrap();
        lost.square(elements).write(&lost.dir(base)).unwrap();
        fs::remove_file(path(base, &lost, elements, "o")).unwrap();
    }
    lost
}

fn path(base: &Path, rank: &Rank, elements: u32, suffix: &str) -> PathBuf {
    rank.dir(base).join(format!("{}.{suffix}", rank.square(elements).stem))
}

#[test]
fn quarantined_files_show_the_target_of_a_rank() {
    for steps in ["at once", "one after the other", "dry", "lost since"] {
        let base = tempfile::tempdir().unwrap();
        let lost = half_lost(base.path(), 3);
        for elements in 1..=3 {
            let info = path(base.path(), &lost, elements, "info");
            let text = fs::read_to_string(&info).unwrap();
            fs::write(&info, text.replace("Ascend910A", "Ascend310P3")).unwrap();
            age(&info).unwrap();
        }
        if ["one after the other", "lost since"].contains(&steps) {
            Repair::new().repair_all(base.path());
        }
        if steps == "lost since" {
            fs::remove_dir_all(lost.dir(base.path())).unwrap();
        }
        let report = repair_and_fill(base.path(), steps == "dry", "1=5", &|| {});
        assert!(report.filled.is_empty() && report.unfilled.len() == 3, "{steps}: {report:?}");
        assert!(
            report.unfilled.iter().all(|one| one.reason.to_string().contains("Ascend310P3")),
            "{steps}: {report:?}"
        );
    }
}

#[test]
fn quarantined_files_of_earlier_runs_show_the_device_of_a_rank() {
    let base = tempfile::tempdir().unwrap();
    let lost = half_lost(base.path(), 3);
    Repair::new().repair_all(base.path());
    let report = repair_and_fill(base.path(), false, "", &|| {});
    assert!(report.unfilled.is_empty() && report.filled.len() == 3, "{report:?}");
    assert!((1..=3).all(|elements| path(base.path(), &lost, elements, "json").exists()));
}

#[test]
fn files_of_an_administrator_belong_to_the_owner() {
    let base = tempfile::tempdir().unwrap();
    let lost = half_lost(base.path(), 2);
    for dir in [base.path(), &base.path().join("rank_1"), &lost.dir(base.path())] {
        if chown(dir, Some(65534), Some(65534)).is_err() {
            // Only administrators can do what is tested here.
            return;
        }
    }
    let report = repair_and_fill(base.path(), false, "3=7", &|| {});
    assert_eq!(report.filled.len(), 4, "{report:?}");
    let owner = |path: &Path| {
        let found = fs::symlink_metadata(path).unwrap();
        assert_eq!((found.uid(), found.gid()), (65534, 65534), "{}", path.display());
    };
    for suffix in ["json", "o", "info"] {
        owner(&path(base.path(), &lost, 1, suffix));
    }
    let quarantine = base.path().join("rank_1/kernel_meta.opkeep-quarantine");
    let run = fs::read_dir(&quarantine).unwrap().next().unwrap().unwrap().path();
    let made = ["rank_3", "rank_3/kernel_meta", "rank_1/kernel_meta/.opkeep.lock"];
    made.iter().for_each(|name| owner(&base.path().join(name)));
    [&quarantine, &run, &run.join(".opkeep-journal")].iter().for_each(|path| owner(path));
}

#[test]
fn a_framework_that_starts_during_a_fill_waits_only_for_a_batch() {
    const KERNELS: u32 = 200;
    let base = tempfile::tempdir().unwrap();
    let lost = half_lost(base.path(), KERNELS);
    let lock = lost.dir(base.path()).join("file.lock");
    File::create(&lock).unwrap();
    let dir = lost.dir(base.path());
    let there = || {
        let files = fs::read_dir(&dir).unwrap().map(|file| file.unwrap().path());
        files.filter(|file| file.extension().is_some_and(|suffix| suffix == "json")).count()
    };
    thread::scope(|scope| {
        let (begin, began) = std::sync::mpsc::channel();
        let framework = scope.spawn(move || {
            began.recv().unwrap();
            let file = File::options().read(true).write(true).open(&lock).unwrap();
            // Once the lock is held, as MindSpore waits for it.
            while file.try_lock().is_ok() {
                file.unlock().unwrap();
                thread::sleep(Duration::from_micros(100));
            }
            assert!(matches!(file.try_lock(), Err(TryLockError::WouldBlock) | Ok(())));
            file.lock().unwrap();
            there()
        });
        let report = repair_and_fill(base.path(), false, "", &|| begin.send(()).unwrap());
        let seen = framework.join().unwrap();
        assert!(seen > 0 && seen < KERNELS as usize, "{seen}");
        assert!(report.filled.len() >= seen, "{report:?}");
    });
}

/// Filled kernels are removed, with the directories and the lock that were created for them, and quarantined files are
/// restored.
#[test]
fn an_undo_removes_filled_kernels() {
    let base = tempfile::tempdir().unwrap();
    half_lost(base.path(), 70);
    // Rank 2 is only in the map.
    let before = DirSnapshot::of(base.path()).unwrap();
    for dry in [true, false] {
        let surveys = scan_all(base.path());
        let run = RunId::now();
        let reports: Vec<_> = surveys
            .iter()
            .map(|scan| Repair { run: run.clone(), ..Repair::new() }.repair(scan).unwrap())
            .collect();
        let caches: Vec<_> = surveys
            .iter()
            .zip(&reports)
            .map(|(scan, report)| ScannedCache { scan, moved: &report.moved })
            .collect();
        let devices = DeviceMap::parse("2=7").unwrap();
        let options = FillOptions::new(&run, &devices);
        assert_eq!(fill(&caches, &options).filled.len(), 2 * 70);
        assert!(base.path().join("rank_2/kernel_meta/.opkeep.lock").exists());
        let filled = DirSnapshot::of(base.path()).unwrap();
        let found = newest(quarantines(base.path()).unwrap());
        if dry {
            let options = RestoreOptions::new(true);
            let undone: Vec<_> = found.iter().map(|run| restore(run, &options).unwrap()).collect();
            assert_eq!(undone.iter().map(|it| it.deleted.len()).sum::<usize>(), 2 * 70 * 3);
            assert_eq!(DirSnapshot::of(base.path()).unwrap(), filled);
        }
        let options = RestoreOptions::new(false);
        for run in &found {
            let undone = restore(run, &options).unwrap();
            assert!(undone.removed && undone.unrestored.is_empty(), "{undone:?}");
        }
        assert_eq!(DirSnapshot::of(base.path()).unwrap(), before);
    }
}

/// A framework extends or rewrites a description during the undo of a fill: its object stays with it.
#[test]
fn files_that_are_written_during_the_undo_of_a_fill_stay() {
    for is_extended in [true, false] {
        let base = tempfile::tempdir().unwrap();
        let lost = half_lost(base.path(), 1);
        repair_and_fill(base.path(), false, "", &|| {});
        let (json, object) = (path(base.path(), &lost, 1, "json"), path(base.path(), &lost, 1, "o"));
        let mut bytes = fs::read(&json).unwrap();
        bytes.extend(is_extended.then_some(b'\n'));
        let observe = |step| {
            if step == QuarantineProgress::Moving(0) {
                fs::remove_file(&json).unwrap();
                fs::write(&json, &bytes).unwrap();
            }
        };
        let run = newest(quarantines(base.path()).unwrap()).remove(0);
        let undone = restore(&run, &RestoreOptions::new(false).with_progress(&observe)).unwrap();
        assert!(!undone.removed && undone.unrestored.len() == 3 && undone.deleted.is_empty(), "{undone:?}");
        assert!(fs::read(&json).unwrap() == bytes && object.exists());
    }
}

/// Files that a framework wrote since stay, even with the same bytes; the other ones are removed.
#[test]
fn files_that_were_written_after_a_fill_stay() {
    for end in ["\n", ""] {
        for suffix in ["json", "o", "info"] {
            let base = tempfile::tempdir().unwrap();
            let lost = half_lost(base.path(), 2);
            repair_and_fill(base.path(), false, "", &|| {});
            let (written, other) = (path(base.path(), &lost, 1, suffix), path(base.path(), &lost, 2, "json"));
            let mut bytes = fs::read(&written).unwrap();
            bytes.extend(end.bytes());
            fs::remove_file(&written).unwrap();
            fs::write(&written, &bytes).unwrap();
            let run = newest(quarantines(base.path()).unwrap()).remove(0);
            for dry_run in [true, false, false] {
                let undone = restore(&run, &RestoreOptions::new(dry_run)).unwrap();
                assert!(!undone.removed && undone.unrestored.len() == 3, "{undone:?}");
                assert!(undone.unrestored[0].reason.contains("changed since"), "{undone:?}");
                assert_eq!(fs::read(&written).unwrap(), bytes);
                assert!(other.exists() == dry_run && path(base.path(), &lost, 1, "o").exists());
            }
        }
    }
}
