//! The report of a restore is correct after any change in the quarantine.
#![expect(clippy::disallowed_methods, reason = "tests break caches by hand")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::broken::{Repair, Torn, age_all};
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
    let torn = Torn::new();
    let run = torn.mend_while(&|_| {}).quarantine.unwrap();
    let journal = run.join(".opkeep-journal");
    let text = fs::read_to_string(&journal).unwrap();
    let named: Vec<&str> = text.lines().filter(|line| !line.contains(".json\"")).collect();
    assert_eq!(named.len(), 3, "the test itself: {text}");
    fs::remove_file(&journal).unwrap();
    let undone = undo_newest(torn.base.path());
    assert!(undone.restored.is_empty() && !undone.removed && undone.unrestored.len() == 3, "{undone:?}");
    assert!(undone.unrestored[0].reason.contains("the journal does not list"), "{undone:?}");

    fs::write(&journal, named.join("\n")).unwrap();
    let undone = undo_newest(torn.base.path());
    assert_eq!((undone.restored.len(), undone.removed), (2, false), "{undone:?}");
    assert_eq!(undone.unrestored[0].file, format!("{}.json", torn.kernel.stem));
    assert!(run.join(&undone.unrestored[0].file).exists());
}

#[test]
fn a_directory_of_another_program_is_no_run() {
    let torn = Torn::new();
    let before = DirSnapshot::of(&torn.folder()).unwrap();
    let run = torn.mend_while(&|_| {}).quarantine.unwrap();
    let other = run.with_file_name("zzz");
    fs::create_dir(&other).unwrap();
    assert!(quarantines(&other).unwrap().is_empty());
    assert!(quarantines(&run.with_file_name("20260901T120000.000Z-1")).unwrap().is_empty());
    let undone = undo_newest(torn.base.path());
    assert!(undone.removed && undone.unrestored.is_empty(), "{undone:?}");
    assert!(DirSnapshot::of(&torn.folder()).unwrap() == before && other.exists());
}

/// A killed build left displaced files: the next build restores those of other kernels, an undo only those of its own.
#[test]
fn displaced_files_of_other_kernels_stay_displaced() {
    let torn = Torn::new();
    torn.mend_while(&|_| {});
    let displaced = |stem: &str| torn.folder().join(format!(".opkeep-old-1-1-{stem}.o.old"));
    fs::write(displaced("other"), "displaced").unwrap();
    fs::write(displaced(&torn.kernel.stem), "displaced").unwrap();
    let undone = undo_newest(torn.base.path());
    assert!(undone.unrestored[0].reason.contains("was written again since"), "{undone:?}");
    assert_eq!(fs::read(torn.path("o")).unwrap(), b"displaced");
    assert_eq!(fs::read(displaced("other")).unwrap(), b"displaced");
    assert!(!torn.folder().join("other.o").exists());
}

#[test]
fn files_that_are_already_restored_are_no_problem() {
    let torn = Torn::new();
    fs::create_dir(torn.folder().join("tbe_prebuild_res")).unwrap();
    fs::write(torn.folder().join("tbe_prebuild_res/a.json"), "{").unwrap();
    age_all(torn.base.path());
    let before = DirSnapshot::of(torn.base.path()).unwrap();
    assert_eq!(torn.mend_while(&|_| {}).moved.len(), 2);
    torn.put("json", &torn.kernel.json);
    assert_eq!(undo_newest(torn.base.path()).unrestored.len(), 3);
    fs::remove_file(torn.path("json")).unwrap();
    let undone = undo_newest(torn.base.path());
    assert!(undone.unrestored.is_empty() && undone.removed, "{undone:?}");
    assert_eq!(DirSnapshot::of(torn.base.path()).unwrap(), before);
}

#[test]
fn a_description_is_not_restored_beside_a_new_object() {
    let torn = Torn::new();
    let run = torn.mend_while(&|_| {}).quarantine.unwrap();
    let undone = undo_while(torn.base.path(), &|step| {
        if step == QuarantineProgress::Moving(0) {
            torn.put("o", b"made anew");
        }
    });
    assert!(undone.restored.is_empty() && undone.unrestored.len() == 3, "{undone:?}");
    assert!(!torn.path("json").exists());
    assert!(run.join(format!("{}.json", torn.kernel.stem)).exists());
    assert_eq!(fs::read(torn.path("o")).unwrap(), b"made anew");
}

#[test]
fn a_kernel_whose_object_is_a_link_is_not_taken_apart() {
    let torn = Torn::new();
    torn.put("json", &torn.kernel.json);
    let elsewhere = torn.base.path().join("shared.o");
    fs::rename(torn.path("o"), &elsewhere).unwrap();
    symlink(&elsewhere, torn.path("o")).unwrap();
    let before = DirSnapshot::of(torn.base.path()).unwrap();
    for force in [false, true] {
        let aside = Repair { force, ..Repair::new() }.mend_all(torn.base.path()).pop().unwrap();
        assert!(aside.moved.is_empty() && aside.skipped.len() == 1, "{aside:?}");
        assert!(
            matches!(&aside.skipped[0].cause, SkipCause::Unreadable { file, .. } if file.ends_with(".o")),
            "{aside:?}"
        );
    }
    assert_eq!(DirSnapshot::of(torn.base.path()).unwrap(), before);
}
