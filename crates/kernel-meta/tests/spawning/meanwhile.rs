//! Another program writes a kernel's files while a build, or an undo, is at them: between any two changes.
#![expect(clippy::disallowed_methods, reason = "tests write as another program does")]

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use opbuild_kernel_meta::quarantine::{Kept as Unrestored, UndoOptions, Undone, newest, quarantines, undo};
use opbuild_kernel_meta::{ViewReport, Withdrawn};
use opbuild_testkit::ascend::Chip;
use opbuild_testkit::caches::{Kept, Rank};
use tempfile::TempDir;

use crate::common::owned::{Ours, kernels, view};

/// A directory of one kernel.
struct Scene {
    base: TempDir,
    theirs: Kept,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { base: tempfile::tempdir().unwrap(), theirs: Rank::new(0).square(1) };
        fs::create_dir_all(scene.path("o").parent().unwrap()).unwrap();
        scene
    }

    fn path(&self, suffix: &str) -> PathBuf {
        self.base.path().join(format!("rank_0/kernel_meta/{}.{suffix}", self.theirs.stem))
    }

    fn read(&self, suffix: &str) -> Option<Vec<u8>> {
        fs::read(self.path(suffix)).ok()
    }

    fn ours(&self, version: u32) -> Ours {
        Ours::of(Chip::Ascend910, &self.theirs, version)
    }

    /// Builds a version, in place of anything; `watch` is called before each change.
    fn build(&self, version: u32, watch: impl Fn() + Send + Sync + 'static) -> ViewReport {
        let view = view(self.base.path()).with_replace(true).watched(move |_| watch());
        view.materialise(&[self.ours(version).files()]).unwrap()
    }

    fn undo(&self, watch: &dyn Fn()) -> Undone {
        let found = newest(quarantines(self.base.path()).unwrap());
        assert_eq!(found.len(), 1);
        undo(&found[0], &UndoOptions { dry_run: false, observe: &|_| watch() }).unwrap()
    }

    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        kernels(self.path("o").parent().unwrap())
    }

    /// Fails if a description stands beside another kernel's object.
    fn is_no_mixture(&self, when: &str) {
        let (object, json) = (self.read("o"), self.read("json"));
        let ours = [1, 2].map(|version| self.ours(version).files).map(|[object, json, _]| (object, json));
        let theirs = (self.theirs.object.clone(), self.theirs.json.clone());
        for (own, description) in ours.into_iter().chain([theirs]) {
            let is_described = json.as_ref() == Some(&description);
            assert!(!is_described || object.is_none() || object == Some(own), "{when}");
        }
    }
}

/// Another program that writes one file at a certain call, if its name is free.
struct Racer {
    path: PathBuf,
    bytes: Vec<u8>,
    at: usize,
    calls: AtomicUsize,
    wrote: AtomicBool,
}

impl Racer {
    fn new(path: PathBuf, bytes: &[u8], at: usize) -> Arc<Self> {
        let (calls, wrote) = (AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Self { path, bytes: bytes.to_vec(), at, calls, wrote })
    }

    fn call(&self) {
        if self.calls.fetch_add(1, Ordering::Relaxed) == self.at
            && let Ok(mut file) = File::create_new(&self.path)
        {
            file.write_all(&self.bytes).unwrap();
            self.wrote.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it wrote. What it wrote is still there.
    fn wrote(&self, when: &str) -> bool {
        let wrote = self.wrote.load(Ordering::Relaxed);
        assert!(!wrote || fs::read(&self.path).is_ok_and(|found| found == self.bytes), "{when}: it is lost");
        wrote
    }

    fn is_over(&self) -> bool {
        self.calls.load(Ordering::Relaxed) <= self.at
    }
}

/// What is in the directory before the build.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Start {
    Nothing,
    Ours,
    OursWithoutInfo,
    Theirs,
}

#[test]
fn no_build_mixes_its_kernel_with_what_is_written_meanwhile() {
    let mut left = 0;
    for start in [Start::Nothing, Start::Ours, Start::OursWithoutInfo, Start::Theirs] {
        for (part, suffix) in ["o", "json", "info"].into_iter().enumerate() {
            for at in 0.. {
                let scene = Scene::new();
                match start {
                    Start::Nothing => {}
                    Start::Theirs => scene.theirs.write(scene.path("o").parent().unwrap()).unwrap(),
                    Start::Ours | Start::OursWithoutInfo => drop(scene.build(1, || {})),
                }
                if start == Start::OursWithoutInfo {
                    fs::remove_file(scene.path("info")).unwrap();
                }
                let first = scene.ours(1).files;
                let bytes = match suffix {
                    "o" => &scene.theirs.object,
                    "json" => &first[part][..],
                    _ => b"{}",
                };
                let racer = Racer::new(scene.path(suffix), bytes, at);
                let when = format!("{start:?}, {suffix} before call {at}");
                let called = Arc::clone(&racer);
                let report = scene.build(2, move || called.call());
                scene.is_no_mixture(&when);
                if racer.wrote(&when) && !report.left.is_empty() {
                    left += 1;
                    let ours = [scene.read("o"), scene.read("json")];
                    let [object, json, _] = scene.ours(2).files;
                    assert!(ours != [Some(object), Some(json)], "{when}: it is there, and called left");
                    if start == Start::OursWithoutInfo && suffix == "info" {
                        let [object, json, _] = scene.ours(1).files;
                        assert_eq!(ours, [Some(object), Some(json)], "{when}: the old kernel is lost");
                    }
                }
                if racer.is_over() {
                    break;
                }
            }
        }
    }
    assert!(left > 20, "{left}");
}

#[test]
fn no_undo_mixes_what_it_restores_with_what_is_written_meanwhile() {
    let mut kept = 0;
    for (part, suffix) in ["o", "json"].into_iter().enumerate() {
        for at in 0.. {
            let scene = Scene::new();
            scene.theirs.write(scene.path("o").parent().unwrap()).unwrap();
            let before = scene.files();
            scene.build(1, || {});
            let racer = Racer::new(scene.path(suffix), &scene.ours(2).files[part], at);
            let when = format!("{suffix} before call {at}");
            let undone = scene.undo(&|| racer.call());
            scene.is_no_mixture(&when);
            let wrote = racer.wrote(&when);
            assert_eq!(wrote, !undone.removed, "{when}: {undone:?}");
            if wrote {
                kept += 1;
                let helps = |kept: &Unrestored| kept.why.contains("move the new one away");
                assert!(undone.kept.iter().any(helps), "{undone:?}");
                fs::remove_file(scene.path(suffix)).unwrap();
                assert!(scene.undo(&|| {}).removed, "{when}");
            }
            assert_eq!(scene.files(), before, "{when}");
            if racer.is_over() {
                break;
            }
        }
    }
    assert!(kept > 4, "{kept}");
}

/// Each line of the journal is damaged or missing by itself.
#[test]
fn no_undo_with_a_damaged_journal_mixes_kernels() {
    for (line, is_removed) in (1..).flat_map(|line| [(line, false), (line, true)]) {
        let scene = Scene::new();
        scene.theirs.write(scene.path("o").parent().unwrap()).unwrap();
        scene.build(1, || {});
        let [run] = &quarantines(scene.base.path()).unwrap()[..] else { panic!("one run") };
        let journal = run.path().join(".opbuild-journal");
        let mut lines: Vec<String> =
            fs::read_to_string(&journal).unwrap().lines().map(str::to_owned).collect();
        if line >= lines.len() {
            return assert!(line > 2, "{lines:?}");
        }
        lines[line] = if is_removed { String::new() } else { lines[line].replace("\"set\"", "\"sXt\"") };
        fs::write(&journal, lines.join("\n")).unwrap();
        scene.undo(&|| {});
        scene.is_no_mixture(&format!("line {line}"));
    }
}

/// A description is not restored beside the object that took its own object's place, also where the manifest is lost.
#[test]
fn a_displaced_description_stays_with_its_object() {
    let scene = Scene::new();
    scene.build(2, || {});
    for (suffix, bytes) in ["o", "json"].into_iter().zip(&scene.ours(1).files) {
        let name = format!(".opbuild-old-1-{suffix}-{}.{suffix}.old", scene.theirs.stem);
        let name = name.replace("-o-", "-1-").replace("-json-", "-2-");
        fs::write(scene.path(suffix).with_file_name(name), bytes).unwrap();
    }
    fs::remove_file(scene.path("json")).unwrap();
    fs::remove_file(scene.path("info").with_file_name(".opbuild-manifest")).unwrap();
    let other = Ours::of(Chip::Ascend910, &Rank::new(0).square(2), 1);
    view(scene.base.path()).materialise(&[other.files()]).unwrap();
    scene.is_no_mixture("settled");
}

/// A kernel of ours that is withdrawn is quarantined if MindSpore extended its description.
#[test]
fn an_extended_kernel_is_withdrawn_with_a_copy() {
    let scene = Scene::new();
    scene.build(1, || {});
    let json = String::from_utf8(scene.read("json").unwrap()).unwrap();
    let extended = json.replacen('{', r#"{"build_result": "{}", "#, 1);
    fs::write(scene.path("json"), &extended).unwrap();
    let withdrawn = Withdrawn { stem: &scene.theirs.stem, unless: None };
    assert_eq!(view(scene.base.path()).replace(&[], &[withdrawn]).unwrap().removed, 1);
    assert_eq!((scene.read("o"), scene.read("json")), (None, None));
    assert!(scene.undo(&|| {}).removed);
    assert_eq!(scene.read("json").unwrap(), extended.as_bytes());
}

/// Another program replaces the object while the build has displaced the description, or is about to.
#[test]
fn no_old_description_is_restored_beside_another_object() {
    for at in 0..3 {
        let scene = Scene::new();
        scene.build(1, || {});
        let (path, bytes, calls) = (scene.path("o"), scene.theirs.object.clone(), AtomicUsize::new(0));
        let report = scene.build(2, move || {
            if calls.fetch_add(1, Ordering::Relaxed) == at + 2 {
                fs::write(&path, &bytes).unwrap();
            }
        });
        if scene.read("o").as_ref() == Some(&scene.theirs.object) {
            assert_eq!(report.left.len(), 1, "{at}");
            scene.is_no_mixture(&format!("call {at}"));
        }
    }
}
