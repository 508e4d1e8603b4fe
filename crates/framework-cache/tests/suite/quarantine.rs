//! Damaged items are quarantined, nothing else is, and all of them can be restored.
#![expect(clippy::disallowed_methods, reason = "tests break caches by hand")]

use std::cell::{Cell, RefCell};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::broken::{Repair, Torn, age_all, broken_caches, findings, look_at_all};
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
fn everything_comes_back_byte_for_byte() {
    let base = tempfile::tempdir().unwrap();
    broken_caches(base.path());
    let before = DirSnapshot::of(base.path()).unwrap();
    let wrong = findings(base.path());
    assert_eq!(wrong, 2 * 7 + 2 + 5, "the test itself");

    let dry: usize = Repair { dry_run: true, ..Repair::new() }
        .mend_all(base.path())
        .iter()
        .map(|aside| aside.moved.len())
        .sum();
    assert_eq!(DirSnapshot::of(base.path()).unwrap(), before, "a dry run changes nothing");

    let mended = Repair::new().mend_all(base.path());
    assert!(mended.iter().all(|aside| aside.skipped.is_empty()), "{mended:?}");
    assert_eq!((mended.iter().map(|aside| aside.moved.len()).sum::<usize>(), dry), (wrong, wrong));
    assert_eq!(findings(base.path()), 0);
    for quarantine in mended.iter().filter_map(|aside| aside.quarantine.as_ref()) {
        assert_eq!(fs::metadata(quarantine).unwrap().permissions().mode() & 0o7777, 0o750);
    }
    let after = DirSnapshot::of(base.path()).unwrap();
    let still = |name: &str| after.paths().any(|path| path.ends_with(name));
    assert!(still("rank_0/kernel_meta/link.json") && still("kernel_meta/README") && still("x_loc.json"));

    // A second one has nothing to do and leaves no trace.
    assert!(Repair::new().mend_all(base.path()).iter().all(|aside| aside.moved.is_empty()));
    assert_eq!(DirSnapshot::of(base.path()).unwrap(), after);

    let undone = undo_newest(base.path());
    assert_eq!(undone.len(), 4);
    assert!(undone.iter().all(|one| one.unrestored.is_empty() && one.removed), "{undone:?}");
    assert_eq!(DirSnapshot::of(base.path()).unwrap(), before);
}

#[test]
fn runs_are_undone_the_newest_first() {
    let torn = Torn::new();
    let before = DirSnapshot::of(torn.base.path()).unwrap();
    assert_eq!(torn.mend_while(&|_| {}).moved.len(), 1);
    let between = DirSnapshot::of(torn.base.path()).unwrap();
    let other = Rank::new(0).square(3);
    other.write(&torn.folder()).unwrap();
    fs::remove_file(torn.folder().join(format!("{}.json", other.stem))).unwrap();
    assert_eq!(torn.mend_while(&|_| {}).moved[0].name, other.stem);
    assert_eq!(quarantines(torn.base.path()).unwrap().len(), 2);

    undo_newest(&torn.folder());
    for suffix in ["o", "info"] {
        fs::remove_file(torn.folder().join(format!("{}.{suffix}", other.stem))).unwrap();
    }
    assert_eq!(DirSnapshot::of(torn.base.path()).unwrap(), between);
    // A run may be named.
    let run = quarantines(torn.base.path()).unwrap().pop().unwrap();
    assert_eq!(quarantines(&run.path()).unwrap(), [run]);
    undo_newest(torn.base.path());
    assert_eq!(DirSnapshot::of(torn.base.path()).unwrap(), before);
    assert!(quarantines(torn.base.path()).unwrap().is_empty());
}

#[test]
fn items_in_progress_need_force() {
    let torn = Torn::new();
    fs::write(torn.path("info"), "now").unwrap();
    let aside = torn.mend_while(&|_| {});
    assert!(
        matches!(aside.skipped[0].cause, SkipCause::InProgress(InUse::RecentlyWritten { .. })),
        "{aside:?}"
    );
    assert!(aside.moved.is_empty() && aside.quarantine.is_none());
    assert!(quarantines(torn.base.path()).unwrap().is_empty(), "nothing to move, nothing made");
    let aside = Repair { force: true, ..Repair::new() }.mend(&torn.look()).unwrap();
    assert_eq!(aside.moved[0].files.len(), 3);
    assert_eq!(torn.in_quarantine().len(), 3);
}

#[test]
fn items_that_changed_since_the_scan_stay() {
    type Change = fn(&Torn);
    let made_whole: Change = |torn| torn.replace("json", &torn.kernel.json);
    let rewritten: Change = |torn| fs::write(torn.path("json"), &torn.kernel.json).unwrap();
    let described: Change = |torn| torn.replace("info", b"{}");
    let gone: Change = |torn| fs::remove_file(torn.path("o")).unwrap();
    let link: Change = |torn| {
        fs::remove_file(torn.path("o")).unwrap();
        symlink("/etc/passwd", torn.path("o")).unwrap();
    };
    let folder: Change = |torn| {
        fs::remove_file(torn.path("json")).unwrap();
        fs::create_dir(torn.path("json")).unwrap();
    };
    for (at, change) in [made_whole, rewritten, described, gone, link, folder].into_iter().enumerate() {
        for when in [QuarantineProgress::Recorded, QuarantineProgress::Moving(0)] {
            let torn = Torn::new();
            let (changed, last) =
                (Cell::new(DirSnapshot::default()), Cell::new(QuarantineProgress::Recorded));
            let aside = torn.mend_while(&|step| {
                if step != QuarantineProgress::Checking {
                    last.set(step);
                }
                if step == when {
                    change(&torn);
                    changed.set(DirSnapshot::of(&torn.folder()).unwrap());
                }
            });
            assert!(matches!(aside.skipped[..], [_]), "{at} {when:?}: {aside:?}");
            assert!(
                matches!(aside.skipped[0].cause, SkipCause::Changed { .. } | SkipCause::Failed { .. }),
                "{at} {when:?}: {aside:?}"
            );
            assert!(aside.moved.is_empty() && aside.quarantine.is_none(), "{at} {when:?}: {aside:?}");
            assert_eq!(DirSnapshot::of(&torn.folder()).unwrap(), changed.take(), "{at} {when:?}");
            assert!(torn.in_quarantine().is_empty());
            // Nothing more is tried after that.
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
    let torn = Torn::new();
    let steps = RefCell::new(Vec::new());
    torn.mend_while(&|step| {
        steps.borrow_mut().push(step);
        if step == QuarantineProgress::Moved(0) {
            torn.replace("info", b"{}");
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
fn a_kernel_that_becomes_whole_while_it_is_moved_is_not_taken_apart() {
    // Of an object without a description, the description comes; of a description without an object, the object.
    for (missing, at) in [("json", 0), ("json", 1), ("o", 0), ("o", 1)] {
        let torn = Torn::new();
        torn.put("json", &torn.kernel.json);
        fs::remove_file(torn.path(missing)).unwrap();
        for when in
            [QuarantineProgress::Recorded, QuarantineProgress::Moving(at), QuarantineProgress::Moved(at)]
        {
            let bytes = if missing == "json" { &torn.kernel.json } else { &torn.kernel.object };
            let aside = torn.mend_while(&|step| {
                if step == when {
                    torn.put(missing, bytes);
                }
            });
            assert!(
                matches!(aside.skipped[0].cause, SkipCause::Changed { .. }),
                "{missing} {when:?}: {aside:?}"
            );
            assert!(
                aside.moved.is_empty() && torn.in_quarantine().is_empty(),
                "{missing} {when:?}: {aside:?}"
            );
            assert_eq!(findings(torn.base.path()), 0, "{missing} {when:?}");
            fs::remove_file(torn.path(missing)).unwrap();
        }
    }
}

#[test]
fn files_that_are_written_to_in_quarantine_are_restored() {
    for when in [QuarantineProgress::Moved(0), QuarantineProgress::Moved(2), QuarantineProgress::Checking] {
        let torn = Torn::new();
        // The process opened it before the move.
        let file = fs::File::options().write(true).open(torn.path("json")).unwrap();
        let aside = torn.mend_while(&|step| {
            if step == when {
                std::os::unix::fs::FileExt::write_all_at(&file, &torn.kernel.json, 0).unwrap();
            }
        });
        assert_eq!(aside.skipped[0].cause, SkipCause::Changed { file: format!("{}.json", torn.kernel.stem) });
        assert!(aside.moved.is_empty(), "{aside:?}");
        assert_eq!(fs::read(torn.path("json")).unwrap(), torn.kernel.json);
        assert_eq!(findings(torn.base.path()), 0);
    }
}

#[test]
fn files_that_cannot_be_restored_are_reported() {
    let torn = Torn::new();
    let file = fs::File::options().write(true).open(torn.path("json")).unwrap();
    let aside = torn.mend_while(&|step| {
        if step == QuarantineProgress::Checking {
            std::os::unix::fs::FileExt::write_all_at(&file, &torn.kernel.json, 0).unwrap();
            torn.put("json", b"another");
        }
    });
    let SkipCause::Displaced { file, path } = &aside.skipped[0].cause else { panic!("{aside:?}") };
    assert_eq!(
        (file, fs::read(path).unwrap()),
        (&format!("{}.json", torn.kernel.stem), torn.kernel.json.clone())
    );
    assert_eq!(aside.moved[0].files, ["json", "o"].map(|suffix| format!("{}.{suffix}", torn.kernel.stem)));
    assert_eq!(fs::read(torn.path("json")).unwrap(), b"another");
}

#[test]
fn no_whole_kernel_is_ever_taken_in_a_race() {
    let (mut replaced_first, mut moved_first) = (0, 0);
    for round in 0..80u32 {
        let torn = Torn::new();
        let scan = torn.look();
        let spin = AtomicU32::new(0);
        let (aside, _) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                while spin.load(Ordering::Relaxed) == 0 {
                    std::hint::spin_loop();
                }
                (0..round * 150).for_each(|_| std::hint::spin_loop());
                torn.replace("o", &torn.kernel.object);
                torn.replace("info", torn.kernel.info.as_ref().unwrap());
                torn.replace("json", &torn.kernel.json);
            });
            let observe = |step| {
                if step == QuarantineProgress::Recorded {
                    spin.store(1, Ordering::Relaxed);
                }
            };
            let aside = Repair { observe: &observe, ..Repair::new() }.mend(&scan).unwrap();
            (aside, writer.join().unwrap())
        });
        let whole =
            |suffix: &str, bytes: &[u8]| fs::read(torn.path(suffix)).is_ok_and(|found| found == bytes);
        assert!(whole("json", &torn.kernel.json) && whole("o", &torn.kernel.object), "{round}: {aside:?}");
        let taken = aside.moved.iter().map(|moved| moved.files.len()).sum::<usize>();
        let astray = aside.skipped.iter().any(|left| matches!(left.cause, SkipCause::Displaced { .. }));
        assert!(torn.in_quarantine().len() == taken || astray, "{round}: {aside:?}");
        let found =
            torn.in_quarantine().into_iter().filter(|path| path.extension().is_some_and(|e| e == "json"));
        for json in found {
            let bytes =
                fs::read(torn.base.path().join("rank_0/kernel_meta.opkeep-quarantine").join(json)).unwrap();
            assert!(
                bytes.len() == 100 || astray,
                "{round}: a whole description was taken and not told: {aside:?}"
            );
        }
        replaced_first += u32::from(aside.moved.is_empty());
        moved_first += u32::from(taken == 3);
    }
    assert!(replaced_first > 0 || moved_first > 0, "{replaced_first} {moved_first}");
}

#[test]
fn an_object_of_another_kernel_stays() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("kernel_cache/Ascend910B2");
    let kernel = cann_kernel("Ascend910B2", 1);
    kernel.write(&folder).unwrap();
    // The whole kernel is called otherwise than its object; of the one that has the object's name there is a rest.
    fs::rename(folder.join(format!("{}.json", kernel.stem)), folder.join("te_other.json")).unwrap();
    fs::write(folder.join(format!("{}.h", kernel.stem)), "header").unwrap();
    age_all(&folder);
    let aside = Repair::new().mend_all(base.path()).pop().unwrap();
    assert_eq!(aside.moved.len(), 1, "{aside:?}");
    assert_eq!(aside.moved[0].files, [format!("{}.h", kernel.stem)]);
    assert!(folder.join("te_other.json").exists());
    assert!(folder.join(format!("{}.o", kernel.stem)).exists());
    assert_eq!(findings(base.path()), 0);
}

#[test]
fn two_damaged_kernels_that_share_an_object_both_go() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("kernel_cache/Ascend910B2");
    let kernel = cann_kernel("Ascend910B2", 1);
    kernel.write(&folder).unwrap();
    fs::write(folder.join("te_other.json"), &kernel.json).unwrap();
    fs::write(folder.join(format!("{}.o", kernel.stem)), "no object").unwrap();
    age_all(&folder);
    let before = DirSnapshot::of(base.path()).unwrap();
    let aside = Repair::new().mend_all(base.path()).pop().unwrap();
    assert_eq!((aside.moved.len(), aside.skipped.len()), (2, 0), "{aside:?}");
    assert_eq!(findings(base.path()), 0);
    undo_newest(base.path());
    assert_eq!(DirSnapshot::of(base.path()).unwrap(), before);
}

#[test]
fn operator_packages_are_left_alone() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("op_impl/ai_core/tbe/kernel/ascend910b/square");
    let kernel = cann_kernel("Ascend910B2", 1);
    kernel.write(&folder).unwrap();
    fs::write(folder.join(format!("{}.json", kernel.stem)), "").unwrap();
    age_all(&folder);
    let before = DirSnapshot::of(base.path()).unwrap();
    let aside = Repair { force: true, ..Repair::new() }.mend_all(base.path()).pop().unwrap();
    assert_eq!(aside.skipped[0].cause, SkipCause::Installed);
    assert_eq!(DirSnapshot::of(base.path()).unwrap(), before);
}

#[test]
fn new_files_are_not_replaced_by_a_restore() {
    let torn = Torn::new();
    let before = DirSnapshot::of(torn.base.path()).unwrap();
    torn.mend_while(&|_| {});
    torn.put("json", &torn.kernel.json);
    let undone = undo_newest(torn.base.path());
    assert!(
        undone[0].restored.is_empty() && !undone[0].removed,
        "a set is put back whole or not: {undone:?}"
    );
    assert_eq!(undone[0].unrestored.len(), 3);
    assert!(undone[0].unrestored[0].reason.contains("was written again since"), "{undone:?}");
    assert_eq!(fs::read(torn.path("json")).unwrap(), torn.kernel.json);

    fs::remove_file(torn.path("json")).unwrap();
    assert!(undo_newest(torn.base.path())[0].removed);
    assert_eq!(DirSnapshot::of(torn.base.path()).unwrap(), before);
}

#[test]
fn files_that_changed_in_quarantine_are_not_restored() {
    let torn = Torn::new();
    let aside = torn.mend_while(&|_| {});
    let json = aside.quarantine.unwrap().join(format!("{}.json", torn.kernel.stem));
    fs::write(json, "changed").unwrap();
    let undone = undo_newest(torn.base.path()).pop().unwrap();
    assert!(undone.unrestored.iter().any(|kept| kept.reason.contains("changed since")), "{undone:?}");
    assert!(!torn.path("json").exists() && !undone.removed);
}

/// Its description was lost or changed in quarantine, and another one is in the directory.
#[test]
fn an_object_is_not_restored_beside_another_description() {
    for is_lost in [false, true] {
        let torn = Torn::new();
        let run = torn.mend_while(&|_| {}).quarantine.unwrap();
        let json = run.join(format!("{}.json", torn.kernel.stem));
        if is_lost { fs::remove_file(json) } else { fs::write(json, "changed") }.unwrap();
        torn.put("json", b"{}");
        let undone = undo_newest(torn.base.path()).pop().unwrap();
        assert!(
            undone.unrestored.iter().any(|kept| kept.reason.contains("written again since")),
            "{undone:?}"
        );
        assert!(!torn.path("o").exists() && run.join(format!("{}.o", torn.kernel.stem)).exists());
    }
}

/// A library that a description names is as good as an object.
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
        let aside = Repair::new().mend(&look_at_all(base.path()).remove(0)).unwrap();
        assert_eq!(aside.moved[0].files, ["a.json", "a.so"], "{aside:?}");
        if is_changed {
            fs::write(aside.quarantine.unwrap().join("a.so"), "changed").unwrap();
        }
        fs::write(&library, "another library").unwrap();
        let undone = undo_newest(base.path()).pop().unwrap();
        assert!(!json.exists() && undone.unrestored.len() == 2, "{undone:?}");
        fs::remove_file(&library).unwrap();
        assert_eq!(undo_newest(base.path()).pop().unwrap().removed, !is_changed);
        assert_eq!((json.exists(), library.exists()), (!is_changed, !is_changed));
    }
}

/// An object or a library that was not there when the description was judged is another kernel's.
#[test]
fn a_description_that_stood_alone_is_not_restored_beside_an_object() {
    for suffix in ["o", "so", "ptx"] {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("akg_kernel_meta");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("a.json"), "{\"torn").unwrap();
        age_all(&dir);
        assert_eq!(
            Repair::new().mend(&look_at_all(base.path()).remove(0)).unwrap().moved[0].files,
            ["a.json"]
        );
        fs::write(dir.join(format!("a.{suffix}")), "another").unwrap();
        let undone = undo_newest(base.path()).pop().unwrap();
        assert!(!dir.join("a.json").exists() && undone.unrestored.len() == 1, "{suffix}: {undone:?}");
    }
}

/// A damaged description bears the name of an object that an intact kernel needs: repair leaves that, and so does undo.
#[test]
fn a_description_returns_beside_an_object_that_stayed() {
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
    let mend = || Repair::new().mend(&look_at_all(base.path()).remove(0)).unwrap();
    assert_eq!(mend().moved[0].files, ["te_b.json"]);
    let undone = undo_newest(base.path()).pop().unwrap();
    assert!(undone.removed && undone.unrestored.is_empty(), "{undone:?}");
    assert_eq!(DirSnapshot::of(base.path()).unwrap(), before);
    // Not beside another one.
    mend();
    fs::write(dir.join("te_b.o"), "another").unwrap();
    let undone = undo_newest(base.path()).pop().unwrap();
    assert!(undone.unrestored[0].reason.contains("remove this file"), "{undone:?}");
    assert!(!dir.join("te_b.json").exists());
}

#[test]
fn an_undo_does_not_replace_an_unreadable_manifest() {
    let torn = Torn::new();
    torn.mend_while(&|_| {});
    fs::create_dir(torn.folder().join(".opkeep-manifest")).unwrap();
    let options = RestoreOptions::new(false);
    let run = newest(quarantines(torn.base.path()).unwrap()).remove(0);
    let error = restore(&run, &options).unwrap_err().to_string();
    assert!(error.contains(".opkeep-manifest") && !torn.path("o").exists(), "{error}");
}

#[test]
fn a_journal_cannot_make_undo_write_elsewhere() {
    let torn = Torn::new();
    let aside = torn.mend_while(&|_| {});
    let journal = aside.quarantine.as_ref().unwrap().join(".opkeep-journal");
    let text = fs::read_to_string(&journal).unwrap();
    let name = format!("{}.json", torn.kernel.stem);
    let evil = |file: &str| text.replace(&json!(name).to_string(), &json!(file).to_string());
    for file in [&format!("../{name}"), "/tmp/x", ".."] {
        assert_ne!(evil(file), text);
        fs::write(&journal, evil(file)).unwrap();
        let undone = undo_newest(torn.base.path()).pop().unwrap();
        assert!(
            undone.unrestored.iter().any(|kept| kept.reason.contains("journal is damaged")),
            "{undone:?}"
        );
        assert!(!torn.base.path().join("rank_0").join(&name).exists());
        assert!(aside.quarantine.as_ref().unwrap().join(&name).exists() && !undone.removed);
    }
    fs::write(&journal, &text).unwrap();
    assert!(undo_newest(torn.base.path()).pop().unwrap().removed);
}

#[test]
fn a_run_that_never_began_is_cleared_away() {
    let torn = Torn::new();
    let before = DirSnapshot::of(torn.base.path()).unwrap();
    let run = torn.base.path().join("rank_0/kernel_meta.opkeep-quarantine/20260901T120000.000Z-1");
    fs::create_dir_all(&run).unwrap();
    fs::write(run.join(".opkeep-journal.new"), "{\"opkeep_quar").unwrap();
    let undone = undo_newest(torn.base.path()).pop().unwrap();
    assert!(undone.removed && undone.restored.is_empty());
    assert_eq!(DirSnapshot::of(torn.base.path()).unwrap(), before);
}

#[test]
fn links_in_place_of_directories_are_not_followed() {
    let (torn, elsewhere) = (Torn::new(), tempfile::tempdir().unwrap());
    // In place of the quarantine.
    let quarantine = torn.base.path().join("rank_0/kernel_meta.opkeep-quarantine");
    symlink(elsewhere.path(), &quarantine).unwrap();
    let error = Repair::new().mend(&torn.look()).unwrap_err();
    assert!(error.to_string().contains("kernel_meta.opkeep-quarantine"), "{error}");
    assert!(torn.path("json").exists() && DirSnapshot::of(elsewhere.path()).unwrap().paths().count() == 1);
    fs::remove_file(&quarantine).unwrap();
    // In place of a folder of the cache, since it was judged.
    let prebuilt = torn.folder().join("tbe_prebuild_res");
    fs::create_dir(&prebuilt).unwrap();
    fs::write(prebuilt.join("a.json"), "").unwrap();
    age_all(&prebuilt);
    let scan = torn.look();
    fs::rename(&prebuilt, elsewhere.path().join("moved")).unwrap();
    symlink(elsewhere.path().join("moved"), &prebuilt).unwrap();
    let aside = Repair::new().mend(&scan).unwrap();
    assert!(aside.skipped.iter().any(|left| left.kind == ItemKind::Precompile), "{aside:?}");
    assert!(elsewhere.path().join("moved/a.json").exists());
    // A lock that is a link is nobody's business of ours.
    fs::remove_file(&prebuilt).unwrap();
    torn.put("json", b"");
    symlink(elsewhere.path().join("lock"), torn.folder().join("file.lock")).unwrap();
    let error = Repair::new().mend(&torn.look()).unwrap_err();
    assert!(
        matches!(&error, RepairError::UnreadableLock { lock, .. } if lock.ends_with("file.lock")),
        "{error:?}"
    );
}

#[test]
fn one_place_that_fails_does_not_keep_the_rest() {
    let base = tempfile::tempdir().unwrap();
    broken_caches(base.path());
    fs::write(base.path().join("rank_0/kernel_meta.opkeep-quarantine"), "in the way").unwrap();
    let results: Vec<_> = look_at_all(base.path()).iter().map(|scan| Repair::new().mend(scan)).collect();
    assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1);
    assert_eq!(findings(base.path()), 7);
}
