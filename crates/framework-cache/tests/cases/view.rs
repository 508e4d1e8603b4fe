//! A build, and its undo, that is killed at any change to a directory of kernels. The test binary runs itself as the
//! other process.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, SystemTime};

use crate::CHILD;
use crate::common::owned::{OwnKernel, all_bytes, extended, kernels, view};
use libtest_mimic::Trial;
use opkeep_framework_cache::restore::{RestoreOptions, newest, quarantines, restore};
use opkeep_kernel_meta::{KernelFileKind, KernelFiles, View, ViewReport};
use opkeep_testkit::ascend::Chip;
use opkeep_testkit::at_each_change;
use opkeep_testkit::caches::{CachedKernelFiles, Rank};

/// Runs this program as the other process.
pub(crate) fn other_process(arguments: &[String]) {
    let (base, step) = (Path::new(&arguments[0]), arguments[1].parse().unwrap());
    match arguments[2].as_str() {
        "undo" => undo_newest(base, &dies_at(step)),
        how => child(base, step, how),
    }
}

pub(crate) fn trials() -> Vec<Trial> {
    let test = |name: &str, body: fn()| {
        Trial::test(name, move || {
            body();
            Ok(())
        })
    };
    vec![
        test("a_build_that_is_killed_loses_nothing_and_knows_its_own", || killed("build")),
        test("a_replacement_that_is_killed_loses_nothing_and_knows_its_own", || killed("replace")),
        test("an_undo_removes_no_kernel_that_a_framework_wrote", framework_after_a_kill),
        test("own_kernels_stay_own_after_a_kill", own_kernels_after_a_kill),
        test("a_build_that_is_killed_is_undone_exactly", || killed_and_undone("build")),
        test("a_replacement_that_is_killed_is_undone_exactly", || killed_and_undone("replace")),
        test("kernels_of_a_killed_build_are_removed_when_superseded", superseded_after_a_kill),
        test("a_killed_debug_build_makes_no_release_its_own", debug_after_a_kill),
        test("a_killed_undo_can_be_repeated", a_killed_undo_can_be_repeated),
    ]
}

/// The kernels of a framework, each in another state.
fn foreign() -> &'static [CachedKernelFiles] {
    static THEIRS: LazyLock<Vec<CachedKernelFiles>> =
        LazyLock::new(|| (1..=10).map(|elements| Rank::new(0).square(elements)).collect());
    &THEIRS
}

/// Own kernels of a version from 1 to 4, with the framework's names. The fifth and the tenth are the same in all.
fn own(version: u32) -> Vec<OwnKernel> {
    static OURS: [OnceLock<Vec<OwnKernel>>; 4] = [const { OnceLock::new() }; 4];
    let of = |(at, foreign): (usize, &CachedKernelFiles)| {
        OwnKernel::of(Chip::Ascend910, foreign, if [4, 9].contains(&at) { 2 } else { version })
    };
    OURS[version as usize - 1].get_or_init(|| foreign().iter().enumerate().map(of).collect()).clone()
}

fn place(view: &View, kernels: &[OwnKernel]) -> ViewReport {
    let files: Vec<KernelFiles<'_>> = kernels.iter().map(OwnKernel::files).collect();
    view.materialise(&files).unwrap()
}

/// Ten kernels: the first is missing, the second own, the third foreign, the fourth foreign and damaged, the fifth own
/// by its bytes, the sixth own with a changed object, the seventh foreign without an object, the eighth adopted by
/// an earlier build, the ninth and the tenth own with a description that MindSpore extended, the tenth without an object.
fn begin(base: &Path) -> Vec<Vec<u8>> {
    let dir = base.join("rank_0/kernel_meta");
    let [fifth, eighth] = [own(2).swap_remove(4), own(1).swap_remove(7)];
    place(&view(base), &[fifth, eighth]);
    fs::remove_file(dir.join(".opkeep-manifest")).unwrap();
    place(&view(base), &[1, 5, 7, 8, 9].map(|at| own(1).swap_remove(at)));
    let foreign = foreign();
    let mut changed = own(1)[5].files[0].clone();
    *changed.last_mut().unwrap() ^= 1;
    fs::write(dir.join(format!("{}.o", foreign[5].stem)), &changed).unwrap();
    fs::write(dir.join(format!("{}.json", foreign[6].stem)), &foreign[6].json).unwrap();
    foreign[2].write(&dir).unwrap();
    foreign[3].write(&dir).unwrap();
    let damaged = &foreign[3].object[..200];
    fs::write(dir.join(format!("{}.o", foreign[3].stem)), damaged).unwrap();
    let [ninth, tenth] = [8, 9].map(|at| {
        let extended = extended(&own(1)[at].files[1]);
        fs::write(dir.join(format!("{}.json", foreign[at].stem)), &extended).unwrap();
        extended
    });
    fs::remove_file(dir.join(format!("{}.o", foreign[9].stem))).unwrap();
    let [third, fourth, seventh] = [2, 3, 6].map(|at| foreign[at].clone());
    vec![third.object, third.json, damaged.to_vec(), fourth.json, changed, seventh.json, tenth, ninth]
}

/// Returns a function that kills this process at call `step`.
fn dies_at(step: u64) -> impl Fn() {
    let left = AtomicU64::new(step);
    move || {
        if left.fetch_sub(1, Ordering::Relaxed) == 0 {
            let this = rustix::process::getpid();
            rustix::process::kill_process(this, rustix::process::Signal::KILL).unwrap();
        }
    }
}

/// Builds the third version, and dies at the change with this number.
fn child(base: &Path, step: u64, how: &str) {
    let dies = dies_at(step);
    let view = view(base).with_replace(how != "build").with_fs(at_each_change(move |_| dies()));
    let debug = how == "debug";
    place(&view, &own(3).into_iter().map(|own| OwnKernel { debug, ..own }).collect::<Vec<_>>());
}

/// Whether the other process did `how` to `base`, and was not killed at the change with this number.
fn run_other(base: &Path, step: u64, how: &str) -> bool {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([CHILD, "view"]).arg(base).arg(step.to_string()).arg(how).stdin(Stdio::null());
    let ended = child.status().unwrap();
    assert!(ended.success() || ended.signal() == Some(9), "step {step}: {ended}");
    ended.success()
}

fn has(base: &Path, bytes: &[u8]) -> bool {
    all_bytes(base).iter().any(|(_, found)| found == bytes)
}

fn killed(how: &str) {
    let mut step = 0;
    loop {
        let base = tempfile::tempdir().unwrap();
        let precious = begin(base.path());
        let dir = base.path().join("rank_0/kernel_meta");
        if run_other(base.path(), step, how) {
            assert!(step > 20, "only {step} changes");
            return;
        }
        for bytes in &precious {
            assert!(has(base.path(), bytes), "step {step}: {} bytes are lost", bytes.len());
        }
        // No description is beside another kernel's object, except where it was so before.
        for own in own(3).iter().chain(&own(2)).chain(&own(1)) {
            let file = |suffix: &str| fs::read(dir.join(format!("{}.{suffix}", own.stem))).ok();
            let object = file("o").unwrap_or_default();
            let is_own = object == own.files[0] || precious.contains(&object);
            assert!(file("json").as_ref() != Some(&own.files[1]) || is_own, "step {step}: {}", own.stem);
        }
        // The framework compiles the first kernel itself, to the same bytes.
        let first = &own(3)[0];
        let [object, json, _] =
            KernelFileKind::ALL.map(|part| dir.join(format!("{}{}", first.stem, part.suffix())));
        let list = fs::read_to_string(dir.join(".opkeep-manifest")).unwrap_or_default();
        let is_foreign = !object.exists() && list.contains(&first.stem);
        if is_foreign {
            fs::write(&object, &first.files[0]).unwrap();
            fs::write(&json, &first.files[1]).unwrap();
        }
        // MindSpore extends a description before the next build.
        let second = dir.join(format!("{}.json", own(1)[1].stem));
        if let Ok(json) = fs::read(&second) {
            fs::write(&second, extended(&json)).unwrap();
        }
        // Another version replaces all own kernels: no own file became foreign.
        let report = place(&view(base.path()).with_replace(how == "replace"), &own(4));
        let left: Vec<&str> = report.left.iter().map(|left| left.stem.as_str()).collect();
        let third = &own(4)[2];
        let is_extended = |own: &OwnKernel| {
            fs::read(dir.join(format!("{}.json", own.stem))).is_ok_and(|it| it == extended(&own.files[1]))
        };
        let others =
            |(at, own): (usize, &OwnKernel)| at == 2 || own.is_in(&dir) || at == 9 && is_extended(own);
        assert!(own(4).iter().enumerate().all(others), "step {step}: {report:?}");
        assert_eq!(left.is_empty(), third.is_in(&dir), "step {step}: {report:?}");
        assert_eq!(left.is_empty(), how == "replace", "step {step}: {report:?}");
        // The files of the killed build are own ones, also in place of adopted files: no copy is kept.
        let is_kept = |own: &OwnKernel| has(base.path(), &own.files[0]);
        assert!(!own(3)[7..9].iter().any(is_kept), "step {step}: {report:?}");
        assert_eq!(is_kept(first), is_foreign, "step {step}: {report:?}");
        let names: Vec<_> = all_bytes(&dir).into_iter().map(|(path, _)| path).collect();
        assert!(!names.iter().any(|name| is_rest(name)), "step {step}: {names:?}");
        for bytes in &precious {
            assert!(has(base.path(), bytes), "step {step}: {} bytes are lost afterwards", bytes.len());
        }
        undo_all(base.path(), &precious, step);
        step += 1;
    }
}

/// The files of the completely replaced kernels: the third on request, and from the fourth on all but the fifth.
fn replaced(base: &Path, how: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let stems: Vec<String> = foreign().iter().map(|foreign| foreign.stem.clone()).collect();
    let mut files = kernels(&base.join("rank_0/kernel_meta"));
    let is_of = |path: &Path, at: usize| path.file_stem().is_some_and(|stem| stem == stems[at].as_str());
    files.retain(|(path, _)| {
        [3, 5, 6, 7, 8].iter().any(|at| is_of(path, *at)) || how == "replace" && is_of(path, 2)
    });
    files.iter_mut().for_each(|(path, _)| *path = path.file_name().unwrap().into());
    files
}

/// The manifest's lines of the completely replaced own kernels.
fn lines(base: &Path) -> Vec<String> {
    let text = fs::read_to_string(base.join("rank_0/kernel_meta/.opkeep-manifest")).unwrap();
    let is_of = |line: &str| [5, 7, 8].iter().any(|at| line.starts_with(&foreign()[*at].stem));
    text.lines().filter(|line| is_of(line)).map(str::to_owned).collect()
}

fn is_rest(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    name.starts_with(".opkeep-old") || name.starts_with(".opkeep-tmp")
}

fn killed_and_undone(how: &str) {
    for step in 0.. {
        let base = tempfile::tempdir().unwrap();
        begin(base.path());
        let before = (replaced(base.path(), how), lines(base.path()));
        let is_whole = run_other(base.path(), step, how);
        // Nothing is moved before there is a journal.
        let runs = quarantines(base.path()).unwrap();
        let is_undone = runs.iter().any(|run| run.path().join(".opkeep-journal").exists());
        undo_newest(base.path(), &|| {});
        assert_eq!(replaced(base.path(), how), before.0, "step {step}");
        assert!(lines(base.path()) == before.1 || !is_undone, "step {step}");
        assert!(quarantines(base.path()).unwrap().is_empty(), "step {step}");
        // No description of an own kernel, which is not undone, is beside another version's object.
        let dir = base.path().join("rank_0/kernel_meta");
        let file = |stem: &str, suffix: &str| fs::read(dir.join(format!("{stem}.{suffix}"))).ok();
        for own in [3, 1].into_iter().flat_map(|version| [0, 1, 7].map(|at| own(version).swap_remove(at))) {
            let is_described = file(&own.stem, "json").as_ref() == Some(&own.files[1]);
            let is_own = file(&own.stem, "o").as_ref() == Some(&own.files[0]);
            assert!(!is_described || is_own, "step {step}: {}", own.stem);
        }
        if is_whole {
            return assert!(step > 20, "only {step} changes");
        }
    }
}

/// No copy is kept of own kernels that a killed build was about to replace, also if other kernels are built first: of
/// the second, and of a description whose object is missing.
fn own_kernels_after_a_kill() {
    for step in 0.. {
        let base = tempfile::tempdir().unwrap();
        begin(base.path());
        let dir = base.path().join("rank_0/kernel_meta");
        let sixth = &own(3)[5];
        fs::remove_file(dir.join(format!("{}.o", sixth.stem))).unwrap();
        place(&view(base.path()), std::slice::from_ref(sixth));
        fs::remove_file(dir.join(format!("{}.o", sixth.stem))).unwrap();
        let is_whole = run_other(base.path(), step, "build");
        place(&view(base.path()), &[OwnKernel::of(Chip::Ascend910, &Rank::new(0).square(101), 1)]);
        place(&view(base.path()), &[1, 5].map(|at| own(4).swap_remove(at)));
        for bytes in own(1)[1].files[..2].iter().chain(&own(3)[1].files[..2]).chain(&sixth.files[..2]) {
            assert!(!has(base.path(), bytes), "step {step}: {} bytes are kept", bytes.len());
        }
        if is_whole {
            return assert!(step > 20, "only {step} changes");
        }
    }
}

/// A framework compiles the third kernel to the bytes that a killed build was about to write: no undo removes them, and no
/// build, also if the killed one displaced them.
fn framework_after_a_kill() {
    let (mut displaced, mut written) = (0, 0);
    for step in 0.. {
        let base = tempfile::tempdir().unwrap();
        begin(base.path());
        run_other(base.path(), step, "replace");
        let third = &own(3)[2];
        let dir = base.path().join("rank_0/kernel_meta");
        if !dir.join(format!("{}.o", third.stem)).exists() {
            fs::write(dir.join(format!(".opkeep-old-1-1-{}.o.old", third.stem)), &third.files[0]).unwrap();
            place(&view(base.path()), &[OwnKernel::of(Chip::Ascend910, &Rank::new(0).square(101), 1)]);
            assert!(has(&dir, &third.files[0]), "step {step}");
            displaced += 1;
        }
        let base = tempfile::tempdir().unwrap();
        begin(base.path());
        let is_whole = run_other(base.path(), step, "replace");
        let dir = base.path().join("rank_0/kernel_meta");
        let path = |part: KernelFileKind| dir.join(format!("{}{}", third.stem, part.suffix()));
        let is_free = [KernelFileKind::Object, KernelFileKind::Json].iter().all(|part| !path(*part).exists());
        if is_free {
            for part in [KernelFileKind::Object, KernelFileKind::Json] {
                fs::write(path(part), &third.files[part as usize]).unwrap();
            }
            undo_newest(base.path(), &|| {});
            assert!(third.is_in(&dir), "step {step}");
            written += 1;
        }
        if is_whole {
            return assert!(written > 3 && displaced > 3, "{written}, {displaced}");
        }
    }
}

/// The eighth kernel's slot goes to another kernel: its files go, too, if the killed build wrote them, and stay if they
/// were adopted.
fn superseded_after_a_kill() {
    let (mut removed, mut left) = (0, 0);
    for step in 0.. {
        let base = tempfile::tempdir().unwrap();
        begin(base.path());
        let is_whole = run_other(base.path(), step, "build");
        let dir = base.path().join("rank_0/kernel_meta");
        // The next build finds out what the killed one wrote.
        place(&view(base.path()), &[OwnKernel::of(Chip::Ascend910, &Rank::new(0).square(101), 1)]);
        let [old, new] = [1, 3].map(|version| own(version).swap_remove(7));
        let (is_old, is_new) = (old.is_in(&dir), new.is_in(&dir));
        for (path, _) in kernels(&dir) {
            let hours_ago = SystemTime::now() - Duration::from_secs(7200);
            fs::File::open(path).unwrap().set_modified(hours_ago).unwrap();
        }
        let other = OwnKernel::of(Chip::Ascend910, &Rank::new(0).square(100), 1);
        place(&view(base.path()), &[OwnKernel { slot: new.slot.clone(), ..other }]);
        assert!(!new.is_in(&dir), "step {step}");
        assert_eq!(old.is_in(&dir), is_old, "step {step}");
        (removed, left) = (removed + usize::from(is_new), left + usize::from(is_old));
        if is_whole {
            return assert!(removed > 1 && left > 1, "{removed} removed, {left} left");
        }
    }
}

/// A release that a debug build was about to replace on request is not replaced by one without.
fn debug_after_a_kill() {
    let mut left = 0;
    for step in 0.. {
        let base = tempfile::tempdir().unwrap();
        begin(base.path());
        let is_whole = run_other(base.path(), step, "debug");
        let dir = base.path().join("rank_0/kernel_meta");
        for at in [1, 7] {
            let [release, next] = [1, 4].map(|version| own(version).swap_remove(at));
            let is_there = release.is_in(&dir);
            let report = place(&view(base.path()), &[OwnKernel { debug: true, ..next }]);
            assert_eq!(release.is_in(&dir), is_there, "step {step}: {report:?}");
            assert_eq!(report.left.len(), usize::from(is_there), "step {step}: {report:?}");
            left += usize::from(is_there);
        }
        if is_whole {
            return assert!(left > 4, "{left}");
        }
    }
}

fn a_killed_undo_can_be_repeated() {
    for step in 0.. {
        let base = tempfile::tempdir().unwrap();
        begin(base.path());
        let before = replaced(base.path(), "replace");
        place(&view(base.path()).with_replace(true), &own(3));
        assert_ne!(replaced(base.path(), "replace"), before);
        let is_whole = run_other(base.path(), step, "undo");
        undo_newest(base.path(), &|| {});
        assert_eq!(replaced(base.path(), "replace"), before, "step {step}");
        assert!(quarantines(base.path()).unwrap().is_empty(), "step {step}");
        // No displaced file is left for a build to restore.
        let names: Vec<_> = all_bytes(base.path()).into_iter().map(|(path, _)| path).collect();
        assert!(!names.iter().any(|name| is_rest(name)), "step {step}: {names:?}");
        if is_whole {
            return assert!(step > 20, "only {step} changes");
        }
    }
}

fn undo_newest(base: &Path, step: &dyn Fn()) {
    let progress = |_| step();
    let options = RestoreOptions::new(false).with_progress(&progress);
    for run in newest(quarantines(base).unwrap()) {
        restore(&run, &options).unwrap();
    }
}

/// Undoes run by run, the newest first: then all foreign files are restored. The ninth kernel's description stays in
/// quarantine if the killed build moved it alone, since the next build then replaced its object.
fn undo_all(base: &Path, precious: &[Vec<u8>], step: u64) {
    let options = RestoreOptions::new(false);
    let extended = format!("{}.json", foreign()[8].stem);
    let mut kept = Vec::new();
    loop {
        let runs = newest(quarantines(base).unwrap());
        if runs.is_empty() || !kept.is_empty() {
            break;
        }
        for run in runs {
            let undone = restore(&run, &options).unwrap();
            assert!(undone.unrestored.iter().all(|kept| kept.file == extended), "step {step}: {undone:?}");
            assert_eq!(undone.removed, undone.unrestored.is_empty(), "step {step}: {undone:?}");
            kept.extend(undone.unrestored);
        }
    }
    let dir = base.join("rank_0/kernel_meta");
    let (extended, foreign) = precious.split_last().unwrap();
    for bytes in foreign {
        assert!(has(&dir, bytes), "step {step}: {} bytes were not restored", bytes.len());
    }
    assert!(has(if kept.is_empty() { &dir } else { base }, extended), "step {step}: the description is lost");
}
