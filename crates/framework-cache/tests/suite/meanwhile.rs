//! Another program writes a kernel's files between any two changes of a build or an undo.

#![expect(clippy::disallowed_methods, reason = "tests make and damage caches by hand")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use opkeep_framework_cache::restore::{UnrestoredFile, quarantines};
use opkeep_fs::FsOp;
use opkeep_testkit::ascend::Chip;
use opkeep_testkit::at_each_change;
use opkeep_testkit::caches::Rank;

use crate::common::broken::{Repair, age_all};
use crate::common::owned::{OwnKernel, extended, view};
use crate::scene::{Operation, Racer, STARTS, Scene, Start, Way};

/// The files that another program writes while the second version is built.
const BESIDE_A_BUILD: [(&str, Way, Operation); 12] = [
    ("o", Way::Create, Operation::Foreign),
    ("o", Way::Truncate, Operation::Foreign),
    ("o", Way::Rename, Operation::Foreign),
    ("o", Way::Create, Operation::OwnKernel(2)),
    ("o", Way::Rename, Operation::OwnKernel(2)),
    ("json", Way::Create, Operation::OwnKernel(1)),
    ("json", Way::Create, Operation::OwnKernel(2)),
    ("json", Way::Create, Operation::Foreign),
    ("json", Way::Create, Operation::Nonsense),
    ("json", Way::Rename, Operation::Foreign),
    ("json", Way::Truncate, Operation::Extended(1)),
    ("info", Way::Create, Operation::Nonsense),
];

#[test]
fn no_build_mixes_its_kernel_with_concurrent_writes() {
    let (mut left, mut displaced) = (0, 0);
    for start in STARTS {
        for (suffix, way, what) in BESIDE_A_BUILD {
            for at in 0.. {
                let scene = Arc::new(Scene::starting(start));
                let racer = Racer::new(scene.path(suffix), &what.bytes(&scene, suffix), way, at);
                let when = format!("{start:?}, {suffix} of {what:?} by {way:?} before call {at}");
                let seen = Arc::new(AtomicUsize::new(0));
                let (called, reader, count) = (Arc::clone(&racer), Arc::clone(&scene), Arc::clone(&seen));
                let report = scene.build(2, move || {
                    called.call();
                    // One change may have been decided before the other program wrote; there are two calls to each.
                    let is_seen = called.is_past(3) && reader.is_mixture(Some(&called));
                    count.fetch_add(usize::from(is_seen), Ordering::Relaxed);
                });
                assert_eq!(seen.load(Ordering::Relaxed), 0, "{when}: a reader finds a mixture");
                let own = [1, 2].map(|version| scene.own(version).files).concat();
                let is_ours =
                    |name: &String| own.contains(&fs::read(scene.path("o").with_file_name(name)).unwrap());
                let foreign: Vec<String> = scene.displaced().into_iter().filter(|it| !is_ours(it)).collect();
                assert!(
                    report
                        .displaced
                        .iter()
                        .all(|it| foreign.contains(it) || matches!(what, Operation::OwnKernel(_))),
                    "{when}: {report:?}"
                );
                assert!(foreign.iter().all(|it| report.displaced.contains(it)), "{when}: {report:?}");
                displaced += foreign.len();
                scene.is_no_mixture(&when, Some(&racer));
                let wrote = match what {
                    // An outdated description loses its name, also if it was extended meanwhile.
                    Operation::Extended(_) => racer.wrote.lock().unwrap().is_some(),
                    _ => racer.wrote(&when),
                };
                if wrote && !report.left.is_empty() {
                    left += 1;
                    let found = [scene.read("o"), scene.read("json")];
                    let [object, json, _] = scene.own(2).files;
                    let is_there = found == [Some(object), Some(json)];
                    assert!(
                        !is_there || what == Operation::OwnKernel(2),
                        "{when}: it is there, and called left"
                    );
                    if start == Start::OwnWithoutInfo && suffix == "info" {
                        assert_eq!(found, [None, None], "{when}: the outdated kernel is found");
                    }
                }
                // No copy is kept of files that are equal to an own kernel.
                let is_equal = match what {
                    Operation::OwnKernel(1) => matches!(start, Start::OwnKernel | Start::OwnWithoutInfo),
                    Operation::OwnKernel(2)
                        if matches!(start, Start::OwnWithThatObject | Start::ThatDescription) =>
                    {
                        true
                    }
                    Operation::OwnKernel(2) => report.left.is_empty(),
                    _ => false,
                };
                view(scene.base.path()).materialise(&[scene.own(3).files()]).unwrap();
                assert!(!wrote || is_equal || scene.has(&racer.bytes), "{when}: the next build loses it");
                let is_overwritten = wrote && way != Way::Create;
                let precious = scene.precious(start);
                assert!(
                    is_overwritten || precious.iter().all(|it| scene.has(it)),
                    "{when}: {start:?} is lost"
                );
                if !racer.is_past(0) {
                    break;
                }
            }
        }
    }
    assert!(left > 60 && displaced > 4, "{left} {displaced}");
}

/// Another program writes an object that is equal to the own one, and a description of its own.
#[test]
fn no_build_removes_an_equal_object_of_another_program() {
    for way in [Way::Rename, Way::Truncate, Way::Again] {
        let mut left = 0;
        for at in 0.. {
            let scene = Scene::starting(Start::OwnKernel);
            let object = Racer::new(scene.path("o"), &Operation::OwnKernel(2).bytes(&scene, "o"), way, at);
            let json = Racer::new(scene.path("json"), &scene.foreign.json, Way::Rename, at);
            let racers = [Arc::clone(&object), Arc::clone(&json)];
            let report = scene.build(2, move || racers.iter().for_each(|racer| racer.call()));
            left += report.left.len();
            // The build may quarantine these files; it removes nothing.
            let wrote = object.wrote.lock().unwrap().is_some();
            let is_there = scene.has(&object.bytes) && scene.has(&json.bytes);
            assert!(!wrote || is_there, "{way:?} before call {at}");
            if !object.is_past(0) {
                break;
            }
        }
        assert!(left > 4, "{way:?}: {left}");
    }
}

/// Another program causes a build to stop, and writes the object while the build restores the old files.
#[test]
fn no_build_restores_a_description_beside_concurrent_writes() {
    let mut left = 0;
    for first in 0.. {
        let mut is_over = true;
        for second in first.. {
            let scene = Scene::starting(Start::OwnWithoutInfo);
            let info = Racer::new(scene.path("info"), b"{}", Way::Create, first);
            let object = Racer::new(scene.path("o"), &scene.foreign.object, Way::Rename, second);
            let racers = [Arc::clone(&info), Arc::clone(&object)];
            left += scene.build(2, move || racers.iter().for_each(|racer| racer.call())).left.len();
            scene.is_no_mixture(&format!("before calls {first} and {second}"), Some(&object));
            if !object.is_past(0) {
                break;
            }
            is_over = false;
        }
        if is_over {
            break;
        }
    }
    assert!(left > 40, "{left}");
}

fn is_displaced(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".opkeep-old-"))
}

/// A process that has the description open writes to it, also after the build displaced it.
#[test]
fn no_build_removes_writes_to_an_open_file() {
    let mut kept = 0;
    for at in 0.. {
        let scene = Arc::new(Scene::starting(Start::OwnKernel));
        let open = File::options().write(true).open(scene.path("json")).unwrap();
        let bytes = extended(&scene.read("json").unwrap());
        let (calls, is_linked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, linked) = (Arc::clone(&calls), Arc::clone(&is_linked));
        let (writer, written) = (Arc::clone(&scene), bytes.clone());
        scene.build_watched(2, move |call| {
            // Nothing can be done between the last look at a displaced file and its removal.
            let is_last = call.op == FsOp::Remove && is_displaced(call.path);
            if counted.fetch_add(1, Ordering::Relaxed) == at && !is_last {
                open.write_all_at(&written, 0).unwrap();
                linked.store(writer.has(&written), Ordering::Relaxed);
            }
        });
        // Bytes that are written to a deleted file are lost.
        let is_linked = is_linked.load(Ordering::Relaxed);
        assert!(!is_linked || scene.has(&bytes), "before call {at}");
        kept += usize::from(is_linked);
        if calls.load(Ordering::Relaxed) <= at {
            break;
        }
    }
    assert!(kept > 10, "{kept}");
}

/// A superseded kernel stays as long as its successor cannot be written.
#[test]
fn a_superseded_kernel_stays_until_its_successor_is_written() {
    let scene = Scene::starting(Start::OwnKernel);
    let other = OwnKernel::of(Chip::Ascend910, &Rank::new(0).square(2), 2);
    let successor = OwnKernel { slot: scene.own(1).slot, ..other };
    let path = scene.path("o").with_file_name(format!("{}.json", successor.stem));
    let racer = Racer::new(path, b"{}", Way::Create, 6);
    let called = Arc::clone(&racer);
    let report = view(scene.base.path()).with_fs(at_each_change(move |_| called.call()));
    let report = report.materialise(&[successor.files()]).unwrap();
    assert!(racer.wrote("the test itself") && report.left.len() == 1, "{report:?}");
    for (path, _) in scene.files() {
        let hours_ago = SystemTime::now() - Duration::from_secs(7200);
        File::open(path).unwrap().set_modified(hours_ago).unwrap();
    }
    let third = OwnKernel::of(Chip::Ascend910, &Rank::new(0).square(3), 1);
    assert_eq!(view(scene.base.path()).materialise(&[third.files()]).unwrap().removed, 0);
    assert!(scene.read("o").is_some() && scene.read("json").is_some());
}

/// The files that another program writes while a build of the first version is undone.
const BESIDE_AN_UNDO: [(&str, Way, Operation); 6] = [
    ("o", Way::Create, Operation::OwnKernel(2)),
    ("o", Way::Truncate, Operation::OwnKernel(2)),
    ("o", Way::Rename, Operation::OwnKernel(2)),
    ("json", Way::Create, Operation::OwnKernel(2)),
    ("json", Way::Rename, Operation::OwnKernel(2)),
    ("json", Way::Truncate, Operation::Extended(1)),
];

#[test]
fn no_undo_mixes_restored_files_with_concurrent_writes() {
    let mut kept = 0;
    for (suffix, way, what) in BESIDE_AN_UNDO {
        for at in 0.. {
            let scene = Scene::starting(Start::Foreign);
            let before = scene.files();
            scene.build(1, || {});
            let racer = Racer::new(scene.path(suffix), &what.bytes(&scene, suffix), way, at);
            let when = format!("{suffix} of {what:?} by {way:?} before call {at}");
            let undone = scene.restore(&|| racer.call());
            scene.is_no_mixture(&when, Some(&racer));
            let wrote = racer.wrote(&when);
            if way == Way::Create {
                assert_eq!(wrote, !undone.removed, "{when}: {undone:?}");
                if wrote {
                    kept += 1;
                    let helps = |kept: &UnrestoredFile| kept.reason.contains("move the new one away");
                    assert!(undone.unrestored.iter().any(helps), "{undone:?}");
                    fs::remove_file(scene.path(suffix)).unwrap();
                    assert!(scene.restore(&|| {}).removed, "{when}");
                }
                assert_eq!(scene.files(), before, "{when}");
            }
            if way == Way::Truncate && suffix == "json" && wrote {
                let left = racer.wrote.lock().unwrap().clone().unwrap();
                assert_eq!(scene.read("o"), left[0], "{when}: its object is lost");
            }
            if !racer.is_past(0) {
                break;
            }
        }
    }
    assert!(kept > 4, "{kept}");
}

/// The build replaced one file of a kernel and wrote the other: another program writes that one while the first is restored.
#[test]
fn no_undo_restores_one_file_beside_concurrent_writes() {
    for other in ["o", "json"] {
        let mut kept = 0;
        for at in 0.. {
            let scene = Scene::starting(Start::Foreign);
            fs::remove_file(scene.path(other)).unwrap();
            let before = scene.files();
            scene.build(1, || {});
            let racer =
                Racer::new(scene.path(other), &Operation::OwnKernel(2).bytes(&scene, other), Way::Create, at);
            let when = format!("{other} before call {at}");
            let undone = scene.restore(&|| racer.call());
            scene.is_no_mixture(&when, Some(&racer));
            let wrote = racer.wrote(&when);
            assert_eq!(undone.removed, !wrote, "{when}: {undone:?}");
            if wrote {
                kept += 1;
                fs::remove_file(scene.path(other)).unwrap();
                assert!(scene.restore(&|| {}).removed, "{when}");
            }
            assert_eq!(scene.files(), before, "{when}");
            if !racer.is_past(0) {
                break;
            }
        }
        assert!(kept > 2, "{other}: {kept}");
    }
}

/// A repair quarantined a kernel, and its description is lost there: another program writes one while the object is restored.
#[test]
fn no_undo_of_a_repair_restores_an_object_beside_concurrent_writes() {
    let mut kept = 0;
    for at in 0.. {
        let scene = Scene::starting(Start::Foreign);
        fs::write(scene.path("o"), &scene.foreign.object[..99]).unwrap();
        age_all(scene.path("o").parent().unwrap());
        let moved = Repair::new().repair_all(scene.base.path());
        assert_eq!(moved[0].moved.len(), 1, "{moved:?}");
        let runs = quarantines(scene.base.path()).unwrap();
        let name = scene.path("json");
        fs::remove_file(runs[0].path().join(name.file_name().unwrap())).unwrap();
        let racer =
            Racer::new(scene.path("json"), &Operation::OwnKernel(2).bytes(&scene, "json"), Way::Create, at);
        scene.restore(&|| racer.call());
        let when = format!("before call {at}");
        let wrote = racer.wrote(&when);
        let is_beside = scene.read("o").is_some() && scene.read("json").is_some();
        let last = [scene.read("o"), scene.read("json")];
        assert!(!is_beside || racer.left(last.each_ref()), "{when}: the object stands beside it");
        kept += usize::from(wrote);
        if !racer.is_past(0) {
            break;
        }
    }
    assert!(kept > 0);
}

/// One program replaces an own file, and another one writes a file of that name after the undo displaced it.
#[test]
fn an_undo_reports_files_that_stay_displaced() {
    let mut displaced = 0;
    for at in 0.. {
        let scene = Scene::starting(Start::Foreign);
        scene.build(1, || {});
        let first =
            Racer::new(scene.path("json"), &Operation::OwnKernel(2).bytes(&scene, "json"), Way::Rename, at);
        let second = Racer::new(scene.path("json"), b"{}", Way::Create, at + 1);
        let undone = scene.restore(&|| [&first, &second].into_iter().for_each(|racer| racer.call()));
        let is_reported = |name: &String| undone.unrestored.iter().any(|kept| kept.file == *name);
        assert!(scene.displaced().iter().all(is_reported) && !undone.removed, "before call {at}: {undone:?}");
        assert!(scene.has(&first.bytes), "before call {at}: it is lost");
        displaced += scene.displaced().len();
        if !second.is_past(0) {
            break;
        }
    }
    assert!(displaced > 0);
}

/// Each line of the journal is damaged or missing by itself.
#[test]
fn no_undo_with_a_damaged_journal_mixes_kernels() {
    for (line, is_removed) in (1..).flat_map(|line| [(line, false), (line, true)]) {
        let scene = Scene::starting(Start::Foreign);
        scene.build(1, || {});
        let [run] = &quarantines(scene.base.path()).unwrap()[..] else { panic!("one run") };
        let journal = run.path().join(".opkeep-journal");
        let mut lines: Vec<String> =
            fs::read_to_string(&journal).unwrap().lines().map(str::to_owned).collect();
        if line >= lines.len() {
            return assert!(line > 2, "{lines:?}");
        }
        lines[line] = if is_removed { String::new() } else { lines[line].replace("\"set\"", "\"sXt\"") };
        fs::write(&journal, lines.join("\n")).unwrap();
        scene.restore(&|| {});
        scene.is_no_mixture(&format!("line {line}"), None);
    }
}

/// An object of which the journal lost the description is not restored beside one that is written meanwhile, and the other
/// way round.
#[test]
fn no_undo_with_a_damaged_journal_mixes_concurrent_writes() {
    let mut raced = 0;
    for (suffix, other) in [("o", "json"), ("json", "o")] {
        for at in 0.. {
            let scene = Scene::starting(Start::Foreign);
            let foreign = if other == "o" { &scene.foreign.object } else { &scene.foreign.json };
            scene.build(1, || {});
            let [run] = &quarantines(scene.base.path()).unwrap()[..] else { panic!("one run") };
            let journal = run.path().join(".opkeep-journal");
            let text = fs::read_to_string(&journal).unwrap();
            let name = format!("{}.{suffix}\"", scene.foreign.stem);
            let lines = text.lines().filter(|line| !line.contains(&name));
            fs::write(&journal, lines.collect::<Vec<_>>().join("\n")).unwrap();
            // Then the undo knows only the kernel's other file.
            fs::remove_file(scene.path(suffix)).unwrap();
            fs::remove_file(run.path().join(format!("{}.{suffix}", scene.foreign.stem))).unwrap();
            let [object, json, _] = scene.own(2).files;
            let bytes = if suffix == "o" { object } else { json };
            let racer = Racer::new(scene.path(suffix), &bytes, Way::Create, at);
            let when = format!("{suffix} before call {at}");
            scene.restore(&|| racer.call());
            let is_restored = scene.read(other).is_some_and(|it| it == *foreign);
            assert_eq!(racer.wrote(&when), !is_restored, "{when}");
            raced += usize::from(!is_restored);
            if !racer.is_past(0) {
                break;
            }
        }
    }
    assert!(raced > 4, "{raced}");
}
