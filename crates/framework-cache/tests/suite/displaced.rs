//! Displaced files are restored where they fit, and no foreign file is lost where they do not.

#![expect(clippy::disallowed_methods, reason = "tests make and damage caches by hand")]

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use opkeep_framework_cache::restore::{RestoreOptions, newest, quarantines, restore};
use opkeep_kernel_meta::{LeftKernel, LeftReason, RetiredKernel};
use opkeep_testkit::ascend::Chip;
use opkeep_testkit::caches::Rank;

use crate::common::owned::{OwnKernel, extended, view};
use crate::scene::{Operation, Scene, Start};

/// A description that a dead process displaced is not restored beside an object that it does not describe, whatever is
/// known of it.
#[test]
fn a_displaced_description_stays_with_its_object() {
    let cases = [false, true].into_iter().flat_map(|is_lost| [1, 2].map(|first| (is_lost, first)));
    for ((is_lost, first), is_extended) in cases.flat_map(|case| [false, true].map(|it| (case, it))) {
        let when = format!("manifest lost: {is_lost}, displaced from {first}, extended: {is_extended}");
        let scene = Scene::new();
        scene.build(2, || {});
        let [object, json, _] = scene.own(1).files;
        let json = if is_extended { extended(&json) } else { json };
        for (number, suffix, bytes) in [(1, "o", &object), (2, "json", &json)].into_iter().skip(first - 1) {
            let name = format!(".opkeep-old-1-{number}-{}.{suffix}.old", scene.foreign.stem);
            fs::write(scene.path(suffix).with_file_name(name), bytes).unwrap();
        }
        fs::remove_file(scene.path("json")).unwrap();
        if is_lost {
            fs::remove_file(scene.path("info").with_file_name(".opkeep-manifest")).unwrap();
        }
        let other = OwnKernel::of(Chip::Ascend910, &Rank::new(0).square(2), 1);
        view(scene.base.path()).materialise(&[other.files()]).unwrap();
        assert_eq!(scene.read("o").as_ref(), Some(&scene.own(2).files[0]), "{when}");
        assert_eq!(scene.read("json"), None, "{when}");
        // Files that are not known as own ones are never removed.
        assert!(scene.has(&json), "{when}");
    }
}

/// It is restored beside its own object, and where there is none.
#[test]
fn a_displaced_description_is_restored_beside_its_object() {
    for has_object in [false, true] {
        let scene = Scene::new();
        scene.build(1, || {});
        let extended = extended(&scene.read("json").unwrap());
        let name = format!(".opkeep-old-1-1-{}.json.old", scene.foreign.stem);
        fs::write(scene.path("json").with_file_name(name), &extended).unwrap();
        fs::remove_file(scene.path("json")).unwrap();
        if !has_object {
            fs::remove_file(scene.path("o")).unwrap();
        }
        let other = OwnKernel::of(Chip::Ascend910, &Rank::new(0).square(2), 1);
        view(scene.base.path()).materialise(&[other.files()]).unwrap();
        assert_eq!(scene.read("json"), Some(extended), "{has_object}");
    }
}

/// An undo, and its dry run, first restores the files that a killed build displaced.
#[test]
fn a_dry_run_predicts_the_undo_of_a_killed_build() {
    let (other, own) = (Operation::OwnKernel(2), Operation::OwnKernel(1));
    for (suffix, what) in [("o", other), ("json", other), ("o", own)] {
        let scene = Scene::starting(Start::Foreign);
        scene.build(1, || {});
        ["json", "o", "info"].into_iter().for_each(|suffix| fs::remove_file(scene.path(suffix)).unwrap());
        let name = format!(".opkeep-old-1-1-{}.{suffix}.old", scene.foreign.stem);
        fs::write(scene.path(suffix).with_file_name(name), what.bytes(&scene, suffix)).unwrap();
        let [planned, done] = [true, false].map(|dry_run| {
            let [run] = &newest(quarantines(scene.base.path()).unwrap())[..] else { panic!("one run") };
            restore(run, &RestoreOptions::new(dry_run)).unwrap()
        });
        let (when, is_kept) = (format!("{suffix} of {what:?}"), what != own);
        assert_eq!((planned.restored, &planned.unrestored), (done.restored, &done.unrestored), "{when}");
        assert_eq!((!done.unrestored.is_empty(), done.removed), (is_kept, !is_kept), "{when}");
    }
}

/// A kernel of ours that is withdrawn is quarantined if MindSpore extended its description. If it cannot be, no reader finds
/// it, and the description stays displaced for good.
#[test]
fn an_extended_kernel_is_quarantined_or_displaced_when_it_is_withdrawn() {
    for is_blocked in [false, true] {
        let scene = Scene::new();
        scene.build(1, || {});
        let extended = extended(&scene.read("json").unwrap());
        fs::write(scene.path("json"), &extended).unwrap();
        if is_blocked {
            scene.block_quarantine();
        }
        for removed in [1, 0] {
            let withdrawn = RetiredKernel { stem: &scene.foreign.stem, keep: None };
            let report = view(scene.base.path()).replace(&[], &[withdrawn]).unwrap();
            assert_eq!((report.removed, report.left.len()), (removed, 0), "{report:?}");
            assert_eq!((scene.read("o"), scene.read("json")), (None, None));
            assert!(scene.has(&extended), "{report:?}");
            assert_eq!(scene.displaced().len(), usize::from(is_blocked));
        }
        if !is_blocked {
            assert!(scene.restore(&|| {}).removed);
            assert_eq!(scene.read("json"), Some(extended));
        }
    }
}

/// An outdated kernel of ours is replaced, though a process has its description open, which MindSpore extended; what the
/// process writes is kept.
#[test]
fn an_extended_kernel_that_a_process_has_open_is_replaced() {
    let scene = Scene::new();
    view(scene.base.path()).materialise(&[scene.own(1).files()]).unwrap();
    let extended = extended(&scene.read("json").unwrap());
    fs::write(scene.path("json"), &extended).unwrap();
    let open = fs::OpenOptions::new().append(true).open(scene.path("json")).unwrap();
    let mut holder = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::from(open)).spawn().unwrap();
    let report = view(scene.base.path()).materialise(&[scene.own(2).files()]).unwrap();
    holder.stdin.take().unwrap().write_all(b" \n").unwrap();
    assert!(holder.wait().unwrap().success());
    let [object, json, _] = scene.own(2).files;
    assert_eq!((scene.read("o"), scene.read("json")), (Some(object), Some(json)), "{report:?}");
    assert!(scene.has(&[&extended[..], b" \n"].concat()), "{report:?}");
}

/// MindSpore's additions to a description stay if its damaged object cannot be quarantined.
#[test]
fn an_extended_description_is_not_removed() {
    let scene = Scene::new();
    scene.build(1, || {});
    let extended = extended(&scene.read("json").unwrap());
    fs::write(scene.path("json"), &extended).unwrap();
    let object = scene.read("o").unwrap();
    fs::write(scene.path("o"), &object[..99]).unwrap();
    scene.block_quarantine();
    let report = view(scene.base.path()).materialise(&[scene.own(1).files()]).unwrap();
    assert!(
        matches!(report.left[..], [LeftKernel { reason: LeftReason::NotQuarantined { .. }, .. }]),
        "{report:?}"
    );
    assert_eq!(scene.read("json"), Some(extended));
}
