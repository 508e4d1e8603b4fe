//! A build that is killed at any change that it makes to a directory of kernels. The test binary runs itself as the other
//! process.
#![expect(clippy::disallowed_methods, reason = "tests look at what was done, and run themselves")]
#![expect(clippy::unwrap_used, reason = "these tests are functions without the attribute")]

mod common;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use common::owned::{Ours, all_bytes, view};
use libtest_mimic::{Arguments, Trial};
use opbuild_kernel_meta::quarantine::{UndoOptions, newest, quarantines, undo};
use opbuild_kernel_meta::{KernelFiles, View, ViewReport};
use opbuild_testkit::Folder;
use opbuild_testkit::ascend::Chip;
use opbuild_testkit::caches::{Kept, Rank};

const CHILD: &str = "--child";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|word| word == CHILD) {
        return child(Path::new(&arguments[2]), arguments[3].parse().unwrap(), &arguments[4]);
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
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit();
}

/// The kernels, each of which begins otherwise.
fn kept() -> Vec<Kept> {
    (1..=5).map(|elements| Rank::new(0).square(elements)).collect()
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

/// Of five kernels, nothing is there of the first, the second is ours, the third theirs, the fourth theirs and damaged,
/// and the fifth ours by its bytes.
fn begin(base: &Path) -> Vec<Vec<u8>> {
    let dir = base.join("rank_0/kernel_meta");
    place(&view(base), &ours(2)[4..]);
    fs::remove_file(dir.join(".opbuild-manifest")).unwrap();
    place(&view(base), &ours(1)[1..2]);
    let kept = kept();
    kept[2].write(&dir).unwrap();
    kept[3].write(&dir).unwrap();
    let torn = &kept[3].object[..200];
    fs::write(dir.join(format!("{}.o", kept[3].stem)), torn).unwrap();
    vec![kept[2].object.clone(), kept[2].json.clone(), torn.to_vec(), kept[3].json.clone()]
}

/// Builds the third version, and dies at the change with this number.
fn child(base: &Path, step: u64, how: &str) {
    let left = AtomicU64::new(step);
    let view = view(base).with_replace(how == "replace").watched(move |_| {
        if left.fetch_sub(1, Ordering::Relaxed) == 0 {
            let this = rustix::process::getpid();
            rustix::process::kill_process(this, rustix::process::Signal::KILL).unwrap();
        }
    });
    place(&view, &ours(3));
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
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.arg(CHILD).arg(base.path()).arg(step.to_string()).arg(how).stdin(Stdio::null());
        let ended = child.status().unwrap();
        if ended.success() {
            assert!(step > 20, "only {step} changes");
            return;
        }
        assert_eq!(ended.signal(), Some(9), "step {step}");
        for bytes in &precious {
            assert!(has(base.path(), bytes), "step {step}: {} bytes are lost", bytes.len());
        }
        // No description stands beside an object that is not its own, but for what was so before.
        for ours in ours(3).iter().chain(&ours(2)).chain(&ours(1)) {
            let file = |suffix: &str| fs::read(dir.join(format!("{}.{suffix}", ours.stem))).ok();
            if file("json").as_ref() == Some(&ours.files[1]) {
                assert_eq!(file("o").as_ref(), Some(&ours.files[0]), "step {step}: {}", ours.stem);
            }
        }
        // Another version takes the place of all that is ours: nothing of ours became foreign.
        let report = place(&view(base.path()).with_replace(how == "replace"), &ours(4));
        let left: Vec<&str> = report.left.iter().map(|left| left.stem.as_str()).collect();
        let third = &ours(4)[2];
        let others = |(at, ours): (usize, &Ours)| at == 2 || ours.is_in(&dir);
        assert!(ours(4).iter().enumerate().all(others), "step {step}: {report:?}");
        assert_eq!(left.is_empty(), third.is_in(&dir), "step {step}: {report:?}");
        assert_eq!(left.is_empty(), how == "replace", "step {step}: {report:?}");
        let names: Vec<_> = all_bytes(&dir).into_iter().map(|(path, _)| path).collect();
        let is_rest = |path: &std::path::PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with(".opbuild-old") || name.starts_with(".opbuild-tmp")
        };
        assert!(!names.iter().any(is_rest), "step {step}: {names:?}");
        for bytes in &precious {
            assert!(has(base.path(), bytes), "step {step}: {} bytes are lost afterwards", bytes.len());
        }
        undo_all(base.path(), &precious, step);
        step += 1;
    }
}

/// Undoes run by run, until nothing is left: then theirs are where they were.
fn undo_all(base: &Path, precious: &[Vec<u8>], step: u64) {
    let options = UndoOptions { dry_run: false, observe: &|_| {} };
    loop {
        let runs = newest(quarantines(base).unwrap());
        if runs.is_empty() {
            break;
        }
        for run in runs {
            let undone = undo(&run, &options).unwrap();
            assert!(
                undone.removed,
                "step {step}: {undone:?} {:?}",
                Folder::of(base).unwrap().paths().collect::<Vec<_>>()
            );
        }
    }
    let dir = base.join("rank_0/kernel_meta");
    for bytes in precious {
        assert!(has(&dir, bytes), "step {step}: {} bytes did not come back", bytes.len());
    }
}
