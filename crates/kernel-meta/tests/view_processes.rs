//! A build that is killed at any change that it makes to a directory of kernels, and its undoing likewise. The test binary
//! runs itself as the other process.
#![expect(clippy::disallowed_methods, reason = "tests look at what was done, and run themselves")]
#![expect(clippy::unwrap_used, reason = "these tests are functions without the attribute")]

mod common;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use common::owned::{Ours, all_bytes, kernels, view};
use libtest_mimic::{Arguments, Trial};
use opbuild_kernel_meta::quarantine::{UndoOptions, newest, quarantines, undo};
use opbuild_kernel_meta::{KernelFiles, View, ViewReport};
use opbuild_testkit::ascend::Chip;
use opbuild_testkit::caches::{Kept, Rank};

const CHILD: &str = "--child";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|word| word == CHILD) {
        let (base, step) = (Path::new(&arguments[2]), arguments[3].parse().unwrap());
        return match arguments[4].as_str() {
            "undo" => undo_newest(base, &dies_at(step)),
            how => child(base, step, how),
        };
    }
    let test = |name: &str, body: fn()| {
        Trial::test(name, move || {
            body();
            Ok(())
        })
    };
    let tests = vec![
        test("a_build_that_is_killed_loses_nothing_and_knows_its_own", || killed("build")),
        test("a_replacement_that_is_killed_loses_nothing_and_knows_its_own", || killed("replace")),
        test("a_build_that_is_killed_is_undone_exactly", || killed_and_undone("build")),
        test("a_replacement_that_is_killed_is_undone_exactly", || killed_and_undone("replace")),
        test("an_undoing_that_is_killed_is_repeated", an_undoing_that_is_killed_is_repeated),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit();
}

/// The kernels, each of which begins otherwise.
fn kept() -> Vec<Kept> {
    (1..=9).map(|elements| Rank::new(0).square(elements)).collect()
}

/// The kernels of one version; the fifth is the same in all.
fn ours(version: u32) -> Vec<Ours> {
    let of = |(at, kept): (usize, &Kept)| Ours::of(Chip::Ascend910, kept, if at == 4 { 2 } else { version });
    kept().iter().enumerate().map(of).collect()
}

fn place(view: &View, kernels: &[Ours]) -> ViewReport {
    let files: Vec<KernelFiles<'_>> = kernels.iter().map(Ours::files).collect();
    view.materialise(&files).unwrap()
}

/// Nine kernels: the first is missing, the second ours, the third foreign, the fourth foreign and damaged, the fifth ours
/// by its bytes, the sixth ours with an object that was changed, the seventh foreign without an object, the eighth adopted by
/// an earlier build, the ninth ours with a description that MindSpore extended.
fn begin(base: &Path) -> Vec<Vec<u8>> {
    let dir = base.join("rank_0/kernel_meta");
    let [fifth, eighth] = [ours(2).swap_remove(4), ours(1).swap_remove(7)];
    place(&view(base), &[fifth, eighth]);
    fs::remove_file(dir.join(".opbuild-manifest")).unwrap();
    place(&view(base), &[1, 5, 7, 8].map(|at| ours(1).swap_remove(at)));
    let kept = kept();
    let mut changed = ours(1)[5].files[0].clone();
    *changed.last_mut().unwrap() ^= 1;
    fs::write(dir.join(format!("{}.o", kept[5].stem)), &changed).unwrap();
    fs::write(dir.join(format!("{}.json", kept[6].stem)), &kept[6].json).unwrap();
    kept[2].write(&dir).unwrap();
    kept[3].write(&dir).unwrap();
    let torn = &kept[3].object[..200];
    fs::write(dir.join(format!("{}.o", kept[3].stem)), torn).unwrap();
    let json = String::from_utf8(ours(1)[8].files[1].clone()).unwrap();
    let extended = json.replacen('{', r#"{"build_result": "{}", "#, 1).into_bytes();
    fs::write(dir.join(format!("{}.json", kept[8].stem)), &extended).unwrap();
    let [third, fourth, seventh] = [2, 3, 6].map(|at| kept[at].clone());
    vec![third.object, third.json, torn.to_vec(), fourth.json, changed, seventh.json, extended]
}

/// Calls that kill this process at the one with this number.
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
    let view = view(base).with_replace(how == "replace").watched(move |_| dies());
    place(&view, &ours(3));
}

/// Whether the other process did `how` to `base`, and was not killed at the change with this number.
fn other_process(base: &Path, step: u64, how: &str) -> bool {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.arg(CHILD).arg(base).arg(step.to_string()).arg(how).stdin(Stdio::null());
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
        if other_process(base.path(), step, how) {
            assert!(step > 20, "only {step} changes");
            return;
        }
        for bytes in &precious {
            assert!(has(base.path(), bytes), "step {step}: {} bytes are lost", bytes.len());
        }
        // No description stands beside an object that is not its own, but for what was so before.
        for ours in ours(3).iter().chain(&ours(2)).chain(&ours(1)) {
            let file = |suffix: &str| fs::read(dir.join(format!("{}.{suffix}", ours.stem))).ok();
            let object = file("o").unwrap_or_default();
            let is_own = object == ours.files[0] || precious.contains(&object);
            assert!(file("json").as_ref() != Some(&ours.files[1]) || is_own, "step {step}: {}", ours.stem);
        }
        // Another version takes the place of all that is ours: nothing of ours became foreign.
        let report = place(&view(base.path()).with_replace(how == "replace"), &ours(4));
        let left: Vec<&str> = report.left.iter().map(|left| left.stem.as_str()).collect();
        let third = &ours(4)[2];
        let others = |(at, ours): (usize, &Ours)| at == 2 || ours.is_in(&dir);
        assert!(ours(4).iter().enumerate().all(others), "step {step}: {report:?}");
        assert_eq!(left.is_empty(), third.is_in(&dir), "step {step}: {report:?}");
        assert_eq!(left.is_empty(), how == "replace", "step {step}: {report:?}");
        // What the killed build wrote is ours, also in place of what it adopted: no copy is kept.
        let is_kept = |ours: &Ours| has(base.path(), &ours.files[0]);
        assert!(!ours(3)[7..].iter().any(is_kept), "step {step}: {report:?}");
        let names: Vec<_> = all_bytes(&dir).into_iter().map(|(path, _)| path).collect();
        assert!(!names.iter().any(|name| is_rest(name)), "step {step}: {names:?}");
        for bytes in &precious {
            assert!(has(base.path(), bytes), "step {step}: {} bytes are lost afterwards", bytes.len());
        }
        undo_all(base.path(), &precious, step);
        step += 1;
    }
}

/// The files of the kernels that are replaced as a whole: the third on request, and from the fourth on all but the fifth.
fn replaced(base: &Path, how: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let stems: Vec<String> = kept().into_iter().map(|kept| kept.stem).collect();
    let mut files = kernels(&base.join("rank_0/kernel_meta"));
    let is_of = |path: &Path, at: usize| path.file_stem().is_some_and(|stem| stem == stems[at].as_str());
    files.retain(|(path, _)| {
        [3, 5, 6, 7, 8].iter().any(|at| is_of(path, *at)) || how == "replace" && is_of(path, 2)
    });
    files.iter_mut().for_each(|(path, _)| *path = path.file_name().unwrap().into());
    files
}

fn is_rest(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    name.starts_with(".opbuild-old") || name.starts_with(".opbuild-tmp")
}

fn killed_and_undone(how: &str) {
    for step in 0.. {
        let base = tempfile::tempdir().unwrap();
        begin(base.path());
        let before = replaced(base.path(), how);
        let is_whole = other_process(base.path(), step, how);
        undo_newest(base.path(), &|| {});
        assert_eq!(replaced(base.path(), how), before, "step {step}");
        assert!(quarantines(base.path()).unwrap().is_empty(), "step {step}");
        // Of ours, which are not undone, no description stands beside another version's object.
        let dir = base.path().join("rank_0/kernel_meta");
        let file = |stem: &str, suffix: &str| fs::read(dir.join(format!("{stem}.{suffix}"))).ok();
        for ours in [3, 1].into_iter().flat_map(|version| [0, 1, 7].map(|at| ours(version).swap_remove(at))) {
            let is_described = file(&ours.stem, "json").as_ref() == Some(&ours.files[1]);
            let is_own = file(&ours.stem, "o").as_ref() == Some(&ours.files[0]);
            assert!(!is_described || is_own, "step {step}: {}", ours.stem);
        }
        if is_whole {
            return assert!(step > 20, "only {step} changes");
        }
    }
}

fn an_undoing_that_is_killed_is_repeated() {
    for step in 0.. {
        let base = tempfile::tempdir().unwrap();
        begin(base.path());
        let before = replaced(base.path(), "replace");
        place(&view(base.path()).with_replace(true), &ours(3));
        assert_ne!(replaced(base.path(), "replace"), before);
        let is_whole = other_process(base.path(), step, "undo");
        undo_newest(base.path(), &|| {});
        assert_eq!(replaced(base.path(), "replace"), before, "step {step}");
        assert!(quarantines(base.path()).unwrap().is_empty(), "step {step}");
        // Nothing waits under another name for a build that would give it its name again.
        let names: Vec<_> = all_bytes(base.path()).into_iter().map(|(path, _)| path).collect();
        assert!(!names.iter().any(|name| is_rest(name)), "step {step}: {names:?}");
        if is_whole {
            return assert!(step > 20, "only {step} changes");
        }
    }
}

fn undo_newest(base: &Path, step: &dyn Fn()) {
    let options = UndoOptions { dry_run: false, observe: &|_| step() };
    for run in newest(quarantines(base).unwrap()) {
        undo(&run, &options).unwrap();
    }
}

/// Undoes run by run, the newest first: then all foreign files are restored. The ninth kernel's description stays in
/// quarantine if the killed build moved it alone, since the next build then replaced its object.
fn undo_all(base: &Path, precious: &[Vec<u8>], step: u64) {
    let options = UndoOptions { dry_run: false, observe: &|_| {} };
    let extended = format!("{}.json", kept()[8].stem);
    let mut kept = Vec::new();
    loop {
        let runs = newest(quarantines(base).unwrap());
        if runs.is_empty() || !kept.is_empty() {
            break;
        }
        for run in runs {
            let undone = undo(&run, &options).unwrap();
            assert!(undone.kept.iter().all(|kept| kept.file == extended), "step {step}: {undone:?}");
            assert_eq!(undone.removed, undone.kept.is_empty(), "step {step}: {undone:?}");
            kept.extend(undone.kept);
        }
    }
    let dir = base.join("rank_0/kernel_meta");
    let (extended, foreign) = precious.split_last().unwrap();
    for bytes in foreign {
        assert!(has(&dir, bytes), "step {step}: {} bytes were not restored", bytes.len());
    }
    assert!(has(if kept.is_empty() { &dir } else { base }, extended), "step {step}: the description is lost");
}
