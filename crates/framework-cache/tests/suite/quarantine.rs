//! Only damaged items are quarantined, and all of them can be restored.
#![expect(clippy::disallowed_methods, reason = "tests break caches by hand")]

use std::cell::{Cell, RefCell};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::broken::{DamagedRank, Repair, age_all, broken_caches, findings, scan_all};
use opkeep_framework_cache::quarantine::{QuarantineProgress, RepairError, SkipCause};
use opkeep_framework_cache::restore::{RestoreOptions, RestoreReport, newest, quarantines, restore};
use opkeep_framework_cache::scan::{InUse, ItemKind};
use opkeep_testkit::DirSnapshot;
use opkeep_testkit::caches::{Rank, cann_kernel};
use serde_json::json;

fn undo_newest(base: &Path) -> Vec<RestoreReport> {
    let options = RestoreOptions::new(false);
    newest(quarantines(base).unwrap()).iter().map(|one| restore(one, &options).unwrap()).collect()
}

#[test]
fn all_files_are_restored_byte_for_byte() {
    let base = tempfile::tempdir().unwrap();
    broken_caches(base.path());
    let before = DirSnapshot::of(base.path()).unwrap();
    let wrong = findings(base.path());
    assert_eq!(wrong, 2 * 7 + 2 + 5, "the test itself");

    let dry: usize = Repair { dry_run: true, ..Repair::new() }
        .repair_all(base.path())
        .iter()
        .map(|report| report.moved.len())
        .sum();
    assert_eq!(DirSnapshot::of(base.path()).unwrap(), before, "a dry run changes nothing");

    let mended = Repair::new().repair_all(base.path());
    assert!(mended.iter().all(|report| report.skipped.is_empty()), "{mended:?}");
    assert_eq!((mended.iter().map(|report| report.moved.len()).sum::<usize>(), dry), (wrong, wrong));
    assert_eq!(findings(base.path()), 0);
    for quarantine in mended.iter().filter_map(|report| report.quarantine.as_ref()) {
        assert_eq!(fs::metadata(quarantine).unwrap().permissions().mode() & 0o7777, 0o750);
    }
    let after = DirSnapshot::of(base.path()).unwrap();
    let still = |name: &str| after.paths().any(|path| path.ends_with(name));
    assert!(still("rank_0/kernel_meta/link.json") && still("kernel_meta/README") && still("x_loc.json"));

    // A second one has nothing to do and leaves no trace.
    assert!(Repair::new().repair_all(base.path()).iter().all(|report| report.moved.is_empty()));
    assert_eq!(DirSnapshot::of(base.path()).unwrap(), after);

    let undone = undo_newest(base.path());
    assert_eq!(undone.len(), 4);
    assert!(undone.iter().all(|one| one.unrestored.is_empty() && one.removed), "{undone:?}");
    assert_eq!(DirSnapshot::of(base.path()).unwrap(), before);
}

#[test]
fn runs_are_undone_from_the_newest_on() {
    let damaged = DamagedRank::new();
    let before = DirSnapshot::of(damaged.base.path()).unwrap();
    assert_eq!(damaged.repair_while(&|_| {}).moved.len(), 1);
    let between = DirSnapshot::of(damaged.base.path()).unwrap();
    let other = Rank::new(0).square(3);
    other.write(&damaged.dir()).unwrap();
    fs::remove_file(damaged.dir().join(format!("{}.json", other.stem))).unwrap();
    assert_eq!(damaged.repair_while(&|_| {}).moved[0].name, other.stem);
    assert_eq!(quarantines(damaged.base.path()).unwrap().len(), 2);

    undo_newest(&damaged.dir());
    for suffix in ["o", "info"] {
        fs::remove_file(damaged.dir().join(format!("{}.{suffix}", other.stem))).unwrap();
    }
    assert_eq!(DirSnapshot::of(damaged.base.path()).unwrap(), between);
    // A run may be named.
    let run = quarantines(damaged.base.path()).unwrap().pop().unwrap();
    assert_eq!(quarantines(&run.path()).unwrap(), [run]);
    undo_newest(damaged.base.path());
    assert_eq!(DirSnapshot::of(damaged.base.path()).unwrap(), before);
    assert!(quarantines(damaged.base.path()).unwrap().is_empty());
}

#[test]
fn items_in_progress_need_force() {
    let damaged = DamagedRank::new();
    fs::write(damaged.path("info"), "now").unwrap();
    let report = damaged.repair_while(&|_| {});
    assert!(
        matches!(report.skipped[0].cause, SkipCause::InProgress(InUse::RecentlyWritten { .. })),
        "{report:?}"
    );
    assert!(report.moved.is_empty() && report.quarantine.is_none());
    assert!(quarantines(damaged.base.path()).unwrap().is_empty(), "nothing to move, nothing made");
    let report = Repair { force: true, ..Repair::new() }.repair(&damaged.scan_of()).unwrap();
    assert_eq!(report.moved[0].files.len(), 3);
    assert_eq!(damaged.in_quarantine().len(), 3);
}

#[test]
fn items_that_changed_since_the_scan_stay() {
    type Change = fn(&DamagedRank);
    let completed: Change = |damaged| damaged.replace("json", &damaged.kernel.json);
    let rewritten: Change = |damaged| fs::write(damaged.path("json"), &damaged.kernel.json).unwrap();
    let described: Change = |damaged| damaged.replace("info", b"{}");
    let gone: Change = |damaged| fs::remove_file(damaged.path("o")).unwrap();
    let link: Change = |damaged| {
        fs::remove_file(damaged.path("o")).unwrap();
        symlink("/etc/passwd", damaged.path("o")).unwrap();
    };
    let dir: Change = |damaged| {
        fs::remove_file(damaged.path("json")).unwrap();
        fs::create_dir(damaged.path("json")).unwrap();
    };
    for (at, change) in [completed, rewritten, described, gone, link, dir].into_iter().enumerate() {
        for when in [QuarantineProgress::Recorded, QuarantineProgress::Moving(0)] {
            let damaged = DamagedRank::new();
            let (changed, last) =
                (Cell::new(DirSnapshot::default()), Cell::new(QuarantineProgress::Recorded));
            let report = damaged.repair_while(&|step| {
                if step != QuarantineProgress::Checking {
                    last.set(step);
                }
                if step == when {
                    change(&damaged);
                    changed.set(DirSnapshot::of(&damaged.dir()).unwrap());
                }
            });
            assert!(matches!(report.skipped[..], [_]), "{at} {when:?}: {report:?}");
            assert!(
                matches!(report.skipped[0].cause, SkipCause::Changed { .. } | SkipCause::Failed { .. }),
                "{at} {when:?}: {report:?}"
            );
            assert!(report.moved.is_empty() && report.quarantine.is_none(), "{at} {when:?}: {report:?}");
            assert_eq!(DirSnapshot::of(&damaged.dir()).unwrap(), changed.take(), "{at} {when:?}");
            assert!(damaged.in_quarantine().is_empty());
            // After that, no further item is moved.
            let is_first = at < 2 || at == 5;
            assert!(
                last.get() == when || when != QuarantineProgress::Recorded && !is_first,
                "{at} {when:?}: {:?}",
                last.get()
            );
        }
    }
}

#[test]
fn each_file_is_compared_right_before_it_is_moved() {
    let damaged = DamagedRank::new();
    let steps = RefCell::new(Vec::new());
    damaged.repair_while(&|step| {
        steps.borrow_mut().push(step);
        if step == QuarantineProgress::Moved(0) {
            damaged.replace("info", b"{}");
        }
    });
    assert_eq!(
        *steps.borrow(),
        [
            QuarantineProgress::Recorded,
            QuarantineProgress::Moving(0),
            QuarantineProgress::Moved(0),
            QuarantineProgress::Checking
        ]
    );
}

#[test]
fn a_kernel_that_is_completed_during_the_move_stays_complete() {
    // The missing file of the pair is written: the description or the object.
    for (missing, at) in [("json", 0), ("json", 1), ("o", 0), ("o", 1)] {
        let damaged = DamagedRank::new();
        damaged.put("json", &damaged.kernel.json);
        fs::remove_file(damaged.path(missing)).unwrap();
        for when in
            [QuarantineProgress::Recorded, QuarantineProgress::Moving(at), QuarantineProgress::Moved(at)]
        {
            let bytes = if missing == "json" { &damaged.kernel.json } else { &damaged.kernel.object };
            let report = damaged.repair_while(&|step| {
                if step == when {
                    damaged.put(missing, bytes);
                }
            });
            assert!(
                matches!(report.skipped[0].cause, SkipCause::Changed { .. }),
                "{missing} {when:?}: {report:?}"
            );
            assert!(
                report.moved.is_empty() && damaged.in_quarantine().is_empty(),
                "{missing} {when:?}: {report:?}"
            );
            assert_eq!(findings(damaged.base.path()), 0, "{missing} {when:?}");
            fs::remove_file(damaged.path(missing)).unwrap();
        }
    }
}

#[test]
fn files_that_change_in_quarantine_are_restored() {
    for when in [QuarantineProgress::Moved(0), QuarantineProgress::Moved(2), QuarantineProgress::Checking] {
        let damaged = DamagedRank::new();
        // The process opened it before the move.
        let file = fs::File::options().write(true).open(damaged.path("json")).unwrap();
        let report = damaged.repair_while(&|step| {
            if step == when {
                std::os::unix::fs::FileExt::write_all_at(&file, &damaged.kernel.json, 0).unwrap();
            }
        });
        assert_eq!(
            report.skipped[0].cause,
            SkipCause::Changed { file: format!("{}.json", damaged.kernel.stem) }
        );
        assert!(report.moved.is_empty(), "{report:?}");
        assert_eq!(fs::read(damaged.path("json")).unwrap(), damaged.kernel.json);
        assert_eq!(findings(damaged.base.path()), 0);
    }
}

#[test]
fn files_that_cannot_be_restored_are_reported() {
    let damaged = DamagedRank::new();
    let file = fs::File::options().write(true).open(damaged.path("json")).unwrap();
    let report = damaged.repair_while(&|step| {
        if step == QuarantineProgress::Checking {
            std::os::unix::fs::FileExt::write_all_at(&file, &damaged.kernel.json, 0).unwrap();
            damaged.put("json", b"another");
        }
    });
    let SkipCause::Displaced { file, path } = &report.skipped[0].cause else { panic!("{report:?}") };
    assert_eq!(
        (file, fs::read(path).unwrap()),
        (&format!("{}.json", damaged.kernel.stem), damaged.kernel.json.clone())
    );
    assert_eq!(
        report.moved[0].files,
        ["json", "o"].map(|suffix| format!("{}.{suffix}", damaged.kernel.stem))
    );
    assert_eq!(fs::read(damaged.path("json")).unwrap(), b"another");
}

#[test]
fn no_intact_kernel_is_quarantined_in_a_race() {
    let (mut replaced_first, mut moved_first) = (0, 0);
    for round in 0..80u32 {
        let damaged = DamagedRank::new();
        let scan = damaged.scan_of();
        let spin = AtomicU32::new(0);
        let (report, _) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                while spin.load(Ordering::Relaxed) == 0 {
                    std::hint::spin_loop();
                }
                (0..round * 150).for_each(|_| std::hint::spin_loop());
                damaged.replace("o", &damaged.kernel.object);
                damaged.replace("info", damaged.kernel.info.as_ref().unwrap());
                damaged.replace("json", &damaged.kernel.json);
            });
            let observe = |step| {
                if step == QuarantineProgress::Recorded {
                    spin.store(1, Ordering::Relaxed);
                }
            };
            let report = Repair { observe: &observe, ..Repair::new() }.repair(&scan).unwrap();
            (report, writer.join().unwrap())
        });
        let intact =
            |suffix: &str, bytes: &[u8]| fs::read(damaged.path(suffix)).is_ok_and(|found| found == bytes);
        assert!(
            intact("json", &damaged.kernel.json) && intact("o", &damaged.kernel.object),
            "{round}: {report:?}"
        );
        let taken = report.moved.iter().map(|moved| moved.files.len()).sum::<usize>();
        let astray = report.skipped.iter().any(|left| matches!(left.cause, SkipCause::Displaced { .. }));
        assert!(damaged.in_quarantine().len() == taken || astray, "{round}: {report:?}");
        let found =
            damaged.in_quarantine().into_iter().filter(|path| path.extension().is_some_and(|e| e == "json"));
        for json in found {
            let bytes = fs::read(damaged.base.path().join("rank_0/kernel_meta.opkeep-quarantine").join(json))
                .unwrap();
            assert!(
                bytes.len() == 100 || astray,
                "{round}: a whole description was taken and not told: {report:?}"
            );
        }
        replaced_first += u32::from(report.moved.is_empty());
        moved_first += u32::from(taken == 3);
    }
    assert!(replaced_first > 0 || moved_first > 0, "{replaced_first} {moved_first}");
}

#[test]
fn an_object_of_another_kernel_stays() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("kernel_cache/Ascend910B2");
    let kernel = cann_kernel("Ascend910B2", 1);
    kernel.write(&dir).unwrap();
    // The intact kernel has another name than its object; a damaged kernel has the object's name.
    fs::rename(dir.join(format!("{}.json", kernel.stem)), dir.join("te_other.json")).unwrap();
    fs::write(dir.join(format!("{}.h", kernel.stem)), "header").unwrap();
    age_all(&dir);
    let report = Repair::new().repair_all(base.path()).pop().unwrap();
    assert_eq!(report.moved.len(), 1, "{report:?}");
    assert_eq!(report.moved[0].files, [format!("{}.h", kernel.stem)]);
    assert!(dir.join("te_other.json").exists());
    assert!(dir.join(format!("{}.o", kernel.stem)).exists());
    assert_eq!(findings(base.path()), 0);
}

#[test]
fn two_damaged_kernels_with_one_object_are_both_quarantined() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("kernel_cache/Ascend910B2");
    let kernel = cann_kernel("Ascend910B2", 1);
    kernel.write(&dir).unwrap();
    fs::write(dir.join("te_other.json"), &kernel.json).unwrap();
    fs::write(dir.join(format!("{}.o", kernel.stem)), "no object").unwrap();
    age_all(&dir);
    let before = DirSnapshot::of(base.path()).unwrap();
    let report = Repair::new().repair_all(base.path()).pop().unwrap();
    assert_eq!((report.moved.len(), report.skipped.len()), (2, 0), "{report:?}");
    assert_eq!(findings(base.path()), 0);
    undo_newest(base.path());
    assert_eq!(DirSnapshot::of(base.path()).unwrap(), before);
}

#[test]
fn operator_packages_are_not_changed() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("op_impl/ai_core/tbe/kernel/ascend910b/square");
    let kernel = cann_kernel("Ascend910B2", 1);
    kernel.write(&dir).unwrap();
    fs::write(dir.join(format!("{}.json", kernel.stem)), "").unwrap();
    age_all(&dir);
    let before = DirSnapshot::of(base.path()).unwrap();
    let report = Repair { force: true, ..Repair::new() }.repair_all(base.path()).pop().unwrap();
    assert_eq!(report.skipped[0].cause, SkipCause::Installed);
    assert_eq!(DirSnapshot::of(base.path()).unwrap(), before);
}

#[test]
fn new_files_are_not_replaced_by_a_restore() {
    let damaged = DamagedRank::new();
    let before = DirSnapshot::of(damaged.base.path()).unwrap();
    damaged.repair_while(&|_| {});
    damaged.put("json", &damaged.kernel.json);
    let undone = undo_newest(damaged.base.path());
    assert!(
        undone[0].restored.is_empty() && !undone[0].removed,
        "a set is put back whole or not: {undone:?}"
    );
    assert_eq!(undone[0].unrestored.len(), 3);
    assert!(undone[0].unrestored[0].reason.contains("was written again since"), "{undone:?}");
    assert_eq!(fs::read(damaged.path("json")).unwrap(), damaged.kernel.json);

    fs::remove_file(damaged.path("json")).unwrap();
    assert!(undo_newest(damaged.base.path())[0].removed);
    assert_eq!(DirSnapshot::of(damaged.base.path()).unwrap(), before);
}

#[test]
fn files_that_changed_in_quarantine_are_not_restored() {
    let damaged = DamagedRank::new();
    let report = damaged.repair_while(&|_| {});
    let json = report.quarantine.unwrap().join(format!("{}.json", damaged.kernel.stem));
    fs::write(json, "changed").unwrap();
    let undone = undo_newest(damaged.base.path()).pop().unwrap();
    assert!(undone.unrestored.iter().any(|kept| kept.reason.contains("changed since")), "{undone:?}");
    assert!(!damaged.path("json").exists() && !undone.removed);
}

/// Its description was lost or changed in quarantine, and another one is in the directory.
#[test]
fn an_object_is_not_restored_beside_another_description() {
    for is_lost in [false, true] {
        let damaged = DamagedRank::new();
        let run = damaged.repair_while(&|_| {}).quarantine.unwrap();
        let json = run.join(format!("{}.json", damaged.kernel.stem));
        if is_lost { fs::remove_file(json) } else { fs::write(json, "changed") }.unwrap();
        damaged.put("json", b"{}");
        let undone = undo_newest(damaged.base.path()).pop().unwrap();
        assert!(
            undone.unrestored.iter().any(|kept| kept.reason.contains("written again since")),
            "{undone:?}"
        );
        assert!(!damaged.path("o").exists() && run.join(format!("{}.o", damaged.kernel.stem)).exists());
    }
}

/// A library that a description names is treated like an object.
#[test]
fn a_description_is_not_restored_beside_another_library() {
    for is_changed in [false, true] {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("akg_kernel_meta");
        fs::create_dir_all(&dir).unwrap();
        let [json, library] = ["a.json", "a.so"].map(|name| dir.join(name));
        fs::write(&json, "{\"torn").unwrap();
        fs::write(&library, "library").unwrap();
        age_all(&dir);
        let report = Repair::new().repair(&scan_all(base.path()).remove(0)).unwrap();
        assert_eq!(report.moved[0].files, ["a.json", "a.so"], "{report:?}");
        if is_changed {
            fs::write(report.quarantine.unwrap().join("a.so"), "changed").unwrap();
        }
        fs::write(&library, "another library").unwrap();
        let undone = undo_newest(base.path()).pop().unwrap();
        assert!(!json.exists() && undone.unrestored.len() == 2, "{undone:?}");
        fs::remove_file(&library).unwrap();
        assert_eq!(undo_newest(base.path()).pop().unwrap().removed, !is_changed);
        assert_eq!((json.exists(), library.exists()), (!is_changed, !is_changed));
    }
}

/// An object or a library that is newer than the scan of the description belongs to another kernel.
#[test]
fn a_description_without_an_object_is_not_restored_beside_one() {
    for suffix in ["o", "so", "ptx"] {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("akg_kernel_meta");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("a.json"), "{\"torn").unwrap();
        age_all(&dir);
        assert_eq!(
            Repair::new().repair(&scan_all(base.path()).remove(0)).unwrap().moved[0].files,
            ["a.json"]
        );
        fs::write(dir.join(format!("a.{suffix}")), "another").unwrap();
        let undone = undo_newest(base.path()).pop().unwrap();
        assert!(!dir.join("a.json").exists() && undone.unrestored.len() == 1, "{suffix}: {undone:?}");
    }
}

/// A damaged description has the name of an object that an intact kernel needs: repair and undo do not move the object.
#[test]
fn a_description_is_restored_beside_an_object_that_stayed() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("kernel_cache/Ascend910B2");
    fs::create_dir_all(&dir).unwrap();
    let kernel = cann_kernel("Ascend910B2", 1);
    let text = String::from_utf8(kernel.json.clone()).unwrap();
    let named = format!("\"binFileName\": \"{}\"", kernel.stem);
    assert!(text.contains(&named), "the test itself");
    fs::write(dir.join("te_a.json"), text.replace(&named, "\"binFileName\": \"te_b\"")).unwrap();
    fs::write(dir.join("te_b.o"), &kernel.object).unwrap();
    fs::write(dir.join("te_b.json"), "{\"torn").unwrap();
    age_all(&dir);
    let before = DirSnapshot::of(base.path()).unwrap();
    let repair = || Repair::new().repair(&scan_all(base.path()).remove(0)).unwrap();
    assert_eq!(repair().moved[0].files, ["te_b.json"]);
    let undone = undo_newest(base.path()).pop().unwrap();
    assert!(undone.removed && undone.unrestored.is_empty(), "{undone:?}");
    assert_eq!(DirSnapshot::of(base.path()).unwrap(), before);
    // Not beside another one.
    repair();
    fs::write(dir.join("te_b.o"), "another").unwrap();
    let undone = undo_newest(base.path()).pop().unwrap();
    assert!(undone.unrestored[0].reason.contains("remove this file"), "{undone:?}");
    assert!(!dir.join("te_b.json").exists());
}

#[test]
fn an_undo_does_not_replace_an_unreadable_manifest() {
    let damaged = DamagedRank::new();
    damaged.repair_while(&|_| {});
    fs::create_dir(damaged.dir().join(".opkeep-manifest")).unwrap();
    let options = RestoreOptions::new(false);
    let run = newest(quarantines(damaged.base.path()).unwrap()).remove(0);
    let error = restore(&run, &options).unwrap_err().to_string();
    assert!(error.contains(".opkeep-manifest") && !damaged.path("o").exists(), "{error}");
}

#[test]
fn a_journal_cannot_make_undo_write_elsewhere() {
    let damaged = DamagedRank::new();
    let report = damaged.repair_while(&|_| {});
    let journal = report.quarantine.as_ref().unwrap().join(".opkeep-journal");
    let text = fs::read_to_string(&journal).unwrap();
    let name = format!("{}.json", damaged.kernel.stem);
    let evil = |file: &str| text.replace(&json!(name).to_string(), &json!(file).to_string());
    for file in [&format!("../{name}"), "/tmp/x", ".."] {
        assert_ne!(evil(file), text);
        fs::write(&journal, evil(file)).unwrap();
        let undone = undo_newest(damaged.base.path()).pop().unwrap();
        assert!(
            undone.unrestored.iter().any(|kept| kept.reason.contains("journal is damaged")),
            "{undone:?}"
        );
        assert!(!damaged.base.path().join("rank_0").join(&name).exists());
        assert!(report.quarantine.as_ref().unwrap().join(&name).exists() && !undone.removed);
    }
    fs::write(&journal, &text).unwrap();
    assert!(undo_newest(damaged.base.path()).pop().unwrap().removed);
}

#[test]
fn a_run_that_never_began_is_removed() {
    let damaged = DamagedRank::new();
    let before = DirSnapshot::of(damaged.base.path()).unwrap();
    let run = damaged.base.path().join("rank_0/kernel_meta.opkeep-quarantine/20260901T120000.000Z-1");
    fs::create_dir_all(&run).unwrap();
    fs::write(run.join(".opkeep-journal.new"), "{\"opkeep_quar").unwrap();
    let undone = undo_newest(damaged.base.path()).pop().unwrap();
    assert!(undone.removed && undone.restored.is_empty());
    assert_eq!(DirSnapshot::of(damaged.base.path()).unwrap(), before);
}

#[test]
fn links_in_place_of_directories_are_not_followed() {
    let (damaged, elsewhere) = (DamagedRank::new(), tempfile::tempdir().unwrap());
    // In place of the quarantine.
    let quarantine = damaged.base.path().join("rank_0/kernel_meta.opkeep-quarantine");
    symlink(elsewhere.path(), &quarantine).unwrap();
    let error = Repair::new().repair(&damaged.scan_of()).unwrap_err();
    assert!(error.to_string().contains("kernel_meta.opkeep-quarantine"), "{error}");
    assert!(damaged.path("json").exists() && DirSnapshot::of(elsewhere.path()).unwrap().paths().count() == 1);
    fs::remove_file(&quarantine).unwrap();
    // In place of a directory of the cache, since the scan.
    let prebuilt = damaged.dir().join("tbe_prebuild_res");
    fs::create_dir(&prebuilt).unwrap();
    fs::write(prebuilt.join("a.json"), "").unwrap();
    age_all(&prebuilt);
    let scan = damaged.scan_of();
    fs::rename(&prebuilt, elsewhere.path().join("moved")).unwrap();
    symlink(elsewhere.path().join("moved"), &prebuilt).unwrap();
    let report = Repair::new().repair(&scan).unwrap();
    assert!(report.skipped.iter().any(|left| left.kind == ItemKind::Precompile), "{report:?}");
    assert!(elsewhere.path().join("moved/a.json").exists());
    // A lock that is a link is not touched.
    fs::remove_file(&prebuilt).unwrap();
    damaged.put("json", b"");
    symlink(elsewhere.path().join("lock"), damaged.dir().join("file.lock")).unwrap();
    let error = Repair::new().repair(&damaged.scan_of()).unwrap_err();
    assert!(
        matches!(&error, RepairError::UnreadableLock { lock, .. } if lock.ends_with("file.lock")),
        "{error:?}"
    );
}

#[test]
fn an_error_in_one_directory_does_not_prevent_the_rest() {
    let base = tempfile::tempdir().unwrap();
    broken_caches(base.path());
    fs::write(base.path().join("rank_0/kernel_meta.opkeep-quarantine"), "in the way").unwrap();
    let results: Vec<_> = scan_all(base.path()).iter().map(|scan| Repair::new().repair(scan)).collect();
    assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1);
    assert_eq!(findings(base.path()), 7);
}
