//! The report of a restore is correct after any change in the quarantine.
#![expect(clippy::disallowed_methods, reason = "tests break caches by hand")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::broken::{DamagedRank, Repair, age_all};
use opkeep_framework_cache::quarantine::{QuarantineProgress, SkipCause};
use opkeep_framework_cache::restore::{RestoreOptions, RestoreReport, newest, quarantines, restore};
use opkeep_testkit::DirSnapshot;

fn undo_while(base: &Path, observe: &dyn Fn(QuarantineProgress)) -> RestoreReport {
    let found = newest(quarantines(base).unwrap());
    assert_eq!(found.len(), 1);
    restore(&found[0], &RestoreOptions::new(false).with_progress(observe)).unwrap()
}

fn undo_newest(base: &Path) -> RestoreReport {
    undo_while(base, &|_| {})
}

#[test]
fn files_that_the_journal_does_not_list_are_reported() {
    let damaged = DamagedRank::new();
    let run = damaged.repair_while(&|_| {}).quarantine.unwrap();
    let journal = run.join(".opkeep-journal");
    let text = fs::read_to_string(&journal).unwrap();
    let named: Vec<&str> = text.lines().filter(|line| !line.contains(".json\"")).collect();
    assert_eq!(named.len(), 3, "the test itself: {text}");
    fs::remove_file(&journal).unwrap();
    let undone = undo_newest(damaged.base.path());
    assert!(undone.restored.is_empty() && !undone.removed && undone.unrestored.len() == 3, "{undone:?}");
    assert!(undone.unrestored[0].reason.contains("the journal does not list"), "{undone:?}");

    fs::write(&journal, named.join("\n")).unwrap();
    let undone = undo_newest(damaged.base.path());
    assert_eq!((undone.restored.len(), undone.removed), (2, false), "{undone:?}");
    assert_eq!(undone.unrestored[0].file, format!("{}.json", damaged.kernel.stem));
    assert!(run.join(&undone.unrestored[0].file).exists());
}

#[test]
fn a_foreign_directory_is_no_run() {
    let damaged = DamagedRank::new();
    let before = DirSnapshot::of(&damaged.dir()).unwrap();
    let run = damaged.repair_while(&|_| {}).quarantine.unwrap();
    let other = run.with_file_name("zzz");
    fs::create_dir(&other).unwrap();
    assert!(quarantines(&other).unwrap().is_empty());
    assert!(quarantines(&run.with_file_name("20260901T120000.000Z-1")).unwrap().is_empty());
    let undone = undo_newest(damaged.base.path());
    assert!(undone.removed && undone.unrestored.is_empty(), "{undone:?}");
    assert!(DirSnapshot::of(&damaged.dir()).unwrap() == before && other.exists());
}

/// A killed build left displaced files: the next build restores those of other kernels, an undo only those of its own.
#[test]
fn displaced_files_of_other_kernels_stay_displaced() {
    let damaged = DamagedRank::new();
    damaged.repair_while(&|_| {});
    let displaced = |stem: &str| damaged.dir().join(format!(".opkeep-old-1-1-{stem}.o.old"));
    fs::write(displaced("other"), "displaced").unwrap();
    fs::write(displaced(&damaged.kernel.stem), "displaced").unwrap();
    let undone = undo_newest(damaged.base.path());
    assert!(undone.unrestored[0].reason.contains("was written again since"), "{undone:?}");
    assert_eq!(fs::read(damaged.path("o")).unwrap(), b"displaced");
    assert_eq!(fs::read(displaced("other")).unwrap(), b"displaced");
    assert!(!damaged.dir().join("other.o").exists());
}

#[test]
fn restored_files_are_no_problem() {
    let damaged = DamagedRank::new();
    fs::create_dir(damaged.dir().join("tbe_prebuild_res")).unwrap();
    fs::write(damaged.dir().join("tbe_prebuild_res/a.json"), "{").unwrap();
    age_all(damaged.base.path());
    let before = DirSnapshot::of(damaged.base.path()).unwrap();
    assert_eq!(damaged.repair_while(&|_| {}).moved.len(), 2);
    damaged.put("json", &damaged.kernel.json);
    assert_eq!(undo_newest(damaged.base.path()).unrestored.len(), 3);
    fs::remove_file(damaged.path("json")).unwrap();
    let undone = undo_newest(damaged.base.path());
    assert!(undone.unrestored.is_empty() && undone.removed, "{undone:?}");
    assert_eq!(DirSnapshot::of(damaged.base.path()).unwrap(), before);
}

#[test]
fn a_description_is_not_restored_beside_a_new_object() {
    let damaged = DamagedRank::new();
    let run = damaged.repair_while(&|_| {}).quarantine.unwrap();
    let undone = undo_while(damaged.base.path(), &|step| {
        if step == QuarantineProgress::Moving(0) {
            damaged.put("o", b"made anew");
        }
    });
    assert!(undone.restored.is_empty() && undone.unrestored.len() == 3, "{undone:?}");
    assert!(!damaged.path("json").exists());
    assert!(run.join(format!("{}.json", damaged.kernel.stem)).exists());
    assert_eq!(fs::read(damaged.path("o")).unwrap(), b"made anew");
}

#[test]
fn no_file_of_a_kernel_whose_object_is_a_link_is_moved() {
    let damaged = DamagedRank::new();
    damaged.put("json", &damaged.kernel.json);
    let elsewhere = damaged.base.path().join("shared.o");
    fs::rename(damaged.path("o"), &elsewhere).unwrap();
    symlink(&elsewhere, damaged.path("o")).unwrap();
    let before = DirSnapshot::of(damaged.base.path()).unwrap();
    for force in [false, true] {
        let report = Repair { force, ..Repair::new() }.repair_all(damaged.base.path()).pop().unwrap();
        assert!(report.moved.is_empty() && report.skipped.len() == 1, "{report:?}");
        assert!(
            matches!(&report.skipped[0].cause, SkipCause::Unreadable { file, .. } if file.ends_with(".o")),
            "{report:?}"
        );
    }
    assert_eq!(DirSnapshot::of(damaged.base.path()).unwrap(), before);
}
