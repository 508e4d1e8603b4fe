//! Another program writes a kernel's files while a build, or an undo, is at them: between any two changes.
#![expect(clippy::disallowed_methods, reason = "tests write as another program does")]

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use opbuild_kernel_meta::quarantine::{Kept as Unrestored, UndoOptions, Undone, newest, quarantines, undo};
use opbuild_kernel_meta::{LeftKernel, LeftReason, ViewReport, Withdrawn};
use opbuild_testkit::ascend::Chip;
use opbuild_testkit::caches::{Kept, Rank};
use tempfile::TempDir;

use crate::common::owned::{Ours, all_bytes, extended, kernels, view};

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

    fn starting(start: Start) -> Self {
        let scene = Self::new();
        match start {
            Start::Nothing => {}
            Start::Theirs => scene.theirs.write(scene.path("o").parent().unwrap()).unwrap(),
            _ => drop(scene.build(1, || {})),
        }
        match start {
            Start::OursWithoutInfo => fs::remove_file(scene.path("info")).unwrap(),
            // Its own description is missing.
            Start::OursWithThatObject => {
                scene.build(2, || {});
                fs::remove_file(scene.path("json")).unwrap();
            }
            Start::ThatDescription => {
                scene.build(2, || {});
                fs::write(scene.path("json"), extended(&scene.ours(2).files[1])).unwrap();
                fs::remove_file(scene.path("o")).unwrap();
            }
            _ => {}
        }
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
        let [run] = &newest(quarantines(self.base.path()).unwrap())[..] else { panic!("one run") };
        undo(run, &UndoOptions { dry_run: false, observe: &|_| watch() }).unwrap()
    }

    fn precious(&self, start: Start) -> Vec<Vec<u8>> {
        match start {
            Start::Theirs => vec![self.theirs.object.clone(), self.theirs.json.clone()],
            Start::ThatDescription => vec![extended(&self.ours(2).files[1])],
            _ => Vec::new(),
        }
    }

    fn quarantine(&self) -> PathBuf {
        self.base.path().join("rank_0/kernel_meta.opbuild-quarantine")
    }

    /// Nothing can be quarantined from now on.
    fn block_quarantine(&self) {
        fs::write(self.quarantine(), "in the way").unwrap();
    }
    fn has(&self, bytes: &[u8]) -> bool {
        all_bytes(self.base.path()).iter().any(|(_, found)| found == bytes)
    }

    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        kernels(self.path("o").parent().unwrap())
    }

    /// Fails if a description stands beside another kernel's object, unless `racer` mixed them.
    fn is_no_mixture(&self, when: &str, racer: Option<&Racer>) {
        assert!(!self.is_mixture(racer), "{when}");
    }

    fn is_mixture(&self, racer: Option<&Racer>) -> bool {
        let (object, json) = (self.read("o"), self.read("json"));
        if racer.is_some_and(|racer| racer.left([&object, &json])) {
            return false;
        }
        let ours = [1, 2].map(|version| self.ours(version).files).map(|[object, json, _]| (object, json));
        let theirs = (self.theirs.object.clone(), self.theirs.json.clone());
        let (Some(object), Some(json)) = (object, json) else { return false };
        let is_described = |description: &Vec<u8>| json == *description || json == extended(description);
        json == b"{}"
            || ours.into_iter().chain([theirs]).any(|(own, json)| object != own && is_described(&json))
    }
}

/// How another program writes a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// If the name is free.
    Create,
    /// In place.
    Truncate,
    /// By another file that gets the name.
    Rename,
}

/// Another program that writes one file at a certain call.
struct Racer {
    path: PathBuf,
    bytes: Vec<u8>,
    way: Way,
    at: usize,
    calls: AtomicUsize,
    /// The object and the description after it wrote, once it did.
    wrote: Mutex<Option<[Option<Vec<u8>>; 2]>>,
}

impl Racer {
    fn new(path: PathBuf, bytes: &[u8], way: Way, at: usize) -> Arc<Self> {
        let (calls, wrote) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Self { path, bytes: bytes.to_vec(), way, at, calls, wrote })
    }

    fn call(&self) {
        if self.calls.fetch_add(1, Ordering::Relaxed) != self.at {
            return;
        }
        match self.way {
            Way::Create => match File::create_new(&self.path) {
                Ok(mut file) => file.write_all(&self.bytes).unwrap(),
                Err(_) => return,
            },
            Way::Truncate if !self.path.exists() => return,
            Way::Truncate => fs::write(&self.path, &self.bytes).unwrap(),
            Way::Rename => {
                let other = self.path.with_extension("other");
                fs::write(&other, &self.bytes).unwrap();
                fs::rename(other, &self.path).unwrap();
            }
        }
        let found = ["o", "json"].map(|suffix| fs::read(self.path.with_extension(suffix)).ok());
        *self.wrote.lock().unwrap() = Some(found);
    }

    /// Whether it wrote. What it wrote is still in the directory.
    fn wrote(&self, when: &str) -> bool {
        let wrote = self.wrote.lock().unwrap().is_some();
        assert!(!wrote || fs::read(&self.path).is_ok_and(|found| found == self.bytes), "{when}: it is lost");
        wrote
    }

    /// Whether these are the object and the description that it left: then the mixture is its own.
    fn left(&self, found: [&Option<Vec<u8>>; 2]) -> bool {
        self.wrote.lock().unwrap().as_ref().is_some_and(|left| left.each_ref() == found)
    }

    /// Whether this many calls came after the one at which it writes.
    fn is_past(&self, calls: usize) -> bool {
        self.calls.load(Ordering::Relaxed) > self.at + calls
    }
}

/// What is in the directory before the build.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Start {
    Nothing,
    Ours,
    OursWithoutInfo,
    /// Its object is that of the next version, too.
    OursWithThatObject,
    /// Its description is that of the next version, extended, and its object is missing.
    ThatDescription,
    Theirs,
}

const STARTS: [Start; 6] = [
    Start::Nothing,
    Start::Ours,
    Start::OursWithoutInfo,
    Start::OursWithThatObject,
    Start::ThatDescription,
    Start::Theirs,
];

/// What another program writes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Theirs,
    Ours(u32),
    Extended(u32),
    Nonsense,
}

impl What {
    fn bytes(self, scene: &Scene, suffix: &str) -> Vec<u8> {
        let ours = |version| {
            let [object, json, info] = scene.ours(version).files;
            match suffix {
                "o" => object,
                "json" => json,
                _ => info,
            }
        };
        match self {
            Self::Theirs if suffix == "o" => scene.theirs.object.clone(),
            Self::Theirs => scene.theirs.json.clone(),
            Self::Ours(version) => ours(version),
            Self::Extended(version) => extended(&ours(version)),
            Self::Nonsense => b"{}".to_vec(),
        }
    }
}

/// The files that another program writes while the second version is built.
const BESIDE_A_BUILD: [(&str, Way, What); 12] = [
    ("o", Way::Create, What::Theirs),
    ("o", Way::Truncate, What::Theirs),
    ("o", Way::Rename, What::Theirs),
    ("o", Way::Create, What::Ours(2)),
    ("o", Way::Rename, What::Ours(2)),
    ("json", Way::Create, What::Ours(1)),
    ("json", Way::Create, What::Ours(2)),
    ("json", Way::Create, What::Theirs),
    ("json", Way::Create, What::Nonsense),
    ("json", Way::Rename, What::Theirs),
    ("json", Way::Truncate, What::Extended(1)),
    ("info", Way::Create, What::Nonsense),
];

#[test]
fn no_build_mixes_its_kernel_with_what_is_written_meanwhile() {
    let mut left = 0;
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
                    // One change may have been decided before the other program wrote.
                    let is_seen = called.is_past(2) && reader.is_mixture(Some(&called));
                    count.fetch_add(usize::from(is_seen), Ordering::Relaxed);
                });
                assert_eq!(seen.load(Ordering::Relaxed), 0, "{when}: a reader finds a mixture");
                scene.is_no_mixture(&when, Some(&racer));
                let wrote = racer.wrote(&when);
                if wrote && !report.left.is_empty() {
                    left += 1;
                    let found = [scene.read("o"), scene.read("json")];
                    let [object, json, _] = scene.ours(2).files;
                    let is_there = found == [Some(object), Some(json)];
                    assert!(!is_there || what == What::Ours(2), "{when}: it is there, and called left");
                    if start == Start::OursWithoutInfo && suffix == "info" {
                        let [object, json, _] = scene.ours(1).files;
                        assert_eq!(found, [Some(object), Some(json)], "{when}: the old kernel is lost");
                    }
                }
                // Of what is equal to a kernel that we wrote there, no copy is kept.
                let is_equal = match what {
                    What::Ours(1) => matches!(start, Start::Ours | Start::OursWithoutInfo),
                    What::Ours(2) if matches!(start, Start::OursWithThatObject | Start::ThatDescription) => {
                        true
                    }
                    What::Ours(2) => report.left.is_empty(),
                    _ => false,
                };
                view(scene.base.path()).materialise(&[scene.ours(3).files()]).unwrap();
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
    assert!(left > 60, "{left}");
}

/// Another program writes an object that is equal to ours, and a description of its own.
#[test]
fn no_build_removes_an_equal_object_of_another_program() {
    let mut left = 0;
    for at in 0.. {
        let scene = Scene::starting(Start::Ours);
        let object = Racer::new(scene.path("o"), &What::Ours(2).bytes(&scene, "o"), Way::Rename, at);
        let json = Racer::new(scene.path("json"), &scene.theirs.json, Way::Rename, at);
        let racers = [Arc::clone(&object), Arc::clone(&json)];
        let report = scene.build(2, move || racers.iter().for_each(|racer| racer.call()));
        left += report.left.len();
        // The build may quarantine what it finds; it removes nothing.
        let wrote = object.wrote.lock().unwrap().is_some();
        assert!(!wrote || scene.has(&object.bytes) && scene.has(&json.bytes), "before call {at}");
        if !object.is_past(0) {
            break;
        }
    }
    assert!(left > 4, "{left}");
}

/// Another program has a build give up, and writes the object while the build restores what was there.
#[test]
fn no_build_restores_a_description_beside_what_is_written_meanwhile() {
    let mut left = 0;
    for first in 0.. {
        let mut is_over = true;
        for second in first.. {
            let scene = Scene::starting(Start::OursWithoutInfo);
            let info = Racer::new(scene.path("info"), b"{}", Way::Create, first);
            let object = Racer::new(scene.path("o"), &scene.theirs.object, Way::Rename, second);
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

/// A process that has the description open writes to it, also after the build displaced it.
#[test]
fn no_build_removes_what_is_written_to_an_open_file() {
    let mut kept = 0;
    for at in 0.. {
        let scene = Arc::new(Scene::starting(Start::Ours));
        let open = File::options().write(true).open(scene.path("json")).unwrap();
        let bytes = extended(&scene.read("json").unwrap());
        let (calls, is_linked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, linked) = (Arc::clone(&calls), Arc::clone(&is_linked));
        let (writer, written) = (Arc::clone(&scene), bytes.clone());
        scene.build(2, move || {
            if counted.fetch_add(1, Ordering::Relaxed) == at {
                open.write_all_at(&written, 0).unwrap();
                linked.store(writer.has(&written), Ordering::Relaxed);
            }
        });
        // What is written to a file without a name is lost.
        let is_linked = is_linked.load(Ordering::Relaxed);
        assert!(!is_linked || scene.has(&bytes), "before call {at}");
        kept += usize::from(is_linked);
        if calls.load(Ordering::Relaxed) <= at {
            break;
        }
    }
    assert!(kept > 10, "{kept}");
}

/// A kernel whose place another one takes stays as long as that one cannot be written.
#[test]
fn a_superseded_kernel_stays_until_its_successor_is_written() {
    let scene = Scene::starting(Start::Ours);
    let other = Ours::of(Chip::Ascend910, &Rank::new(0).square(2), 2);
    let successor = Ours { slot: scene.ours(1).slot, ..other };
    let path = scene.path("o").with_file_name(format!("{}.json", successor.stem));
    let racer = Racer::new(path, b"{}", Way::Create, 6);
    let called = Arc::clone(&racer);
    let report = view(scene.base.path()).watched(move |_| called.call());
    let report = report.materialise(&[successor.files()]).unwrap();
    assert!(racer.wrote("the test itself") && report.left.len() == 1, "{report:?}");
    for (path, _) in scene.files() {
        let hours_ago = SystemTime::now() - Duration::from_secs(7200);
        File::open(path).unwrap().set_modified(hours_ago).unwrap();
    }
    let third = Ours::of(Chip::Ascend910, &Rank::new(0).square(3), 1);
    assert_eq!(view(scene.base.path()).materialise(&[third.files()]).unwrap().removed, 0);
    assert!(scene.read("o").is_some() && scene.read("json").is_some());
}

/// The files that another program writes while a build of the first version is undone.
const BESIDE_AN_UNDO: [(&str, Way, What); 6] = [
    ("o", Way::Create, What::Ours(2)),
    ("o", Way::Truncate, What::Ours(2)),
    ("o", Way::Rename, What::Ours(2)),
    ("json", Way::Create, What::Ours(2)),
    ("json", Way::Rename, What::Ours(2)),
    ("json", Way::Truncate, What::Extended(1)),
];

#[test]
fn no_undo_mixes_what_it_restores_with_what_is_written_meanwhile() {
    let mut kept = 0;
    for (suffix, way, what) in BESIDE_AN_UNDO {
        for at in 0.. {
            let scene = Scene::starting(Start::Theirs);
            let before = scene.files();
            scene.build(1, || {});
            let racer = Racer::new(scene.path(suffix), &what.bytes(&scene, suffix), way, at);
            let when = format!("{suffix} of {what:?} by {way:?} before call {at}");
            let undone = scene.undo(&|| racer.call());
            scene.is_no_mixture(&when, Some(&racer));
            let wrote = racer.wrote(&when);
            if way == Way::Create {
                assert_eq!(wrote, !undone.removed, "{when}: {undone:?}");
                if wrote {
                    kept += 1;
                    let helps = |kept: &Unrestored| kept.why.contains("move the new one away");
                    assert!(undone.kept.iter().any(helps), "{undone:?}");
                    fs::remove_file(scene.path(suffix)).unwrap();
                    assert!(scene.undo(&|| {}).removed, "{when}");
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

/// Each line of the journal is damaged or missing by itself.
#[test]
fn no_undo_with_a_damaged_journal_mixes_kernels() {
    for (line, is_removed) in (1..).flat_map(|line| [(line, false), (line, true)]) {
        let scene = Scene::starting(Start::Theirs);
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
        scene.is_no_mixture(&format!("line {line}"), None);
    }
}

/// An object of which the journal lost the description is not restored beside one that is written meanwhile, and the other
/// way round.
#[test]
fn no_undo_with_a_damaged_journal_mixes_what_is_written_meanwhile() {
    let mut raced = 0;
    for (suffix, other) in [("o", "json"), ("json", "o")] {
        for at in 0.. {
            let scene = Scene::starting(Start::Theirs);
            let theirs = if other == "o" { &scene.theirs.object } else { &scene.theirs.json };
            scene.build(1, || {});
            let [run] = &quarantines(scene.base.path()).unwrap()[..] else { panic!("one run") };
            let journal = run.path().join(".opbuild-journal");
            let text = fs::read_to_string(&journal).unwrap();
            let name = format!("{}.{suffix}\"", scene.theirs.stem);
            let lines = text.lines().filter(|line| !line.contains(&name));
            fs::write(&journal, lines.collect::<Vec<_>>().join("\n")).unwrap();
            // Then the kernel's other file is all that the undo knows.
            fs::remove_file(scene.path(suffix)).unwrap();
            fs::remove_file(run.path().join(format!("{}.{suffix}", scene.theirs.stem))).unwrap();
            let [object, json, _] = scene.ours(2).files;
            let bytes = if suffix == "o" { object } else { json };
            let racer = Racer::new(scene.path(suffix), &bytes, Way::Create, at);
            let when = format!("{suffix} before call {at}");
            scene.undo(&|| racer.call());
            let is_restored = scene.read(other).is_some_and(|it| it == *theirs);
            assert_eq!(racer.wrote(&when), !is_restored, "{when}");
            raced += usize::from(!is_restored);
            if !racer.is_past(0) {
                break;
            }
        }
    }
    assert!(raced > 4, "{raced}");
}

/// A description that a dead process displaced is not restored beside an object that it does not describe, whatever is
/// known of it.
#[test]
fn a_displaced_description_stays_with_its_object() {
    let cases = [false, true].into_iter().flat_map(|is_lost| [1, 2].map(|first| (is_lost, first)));
    for ((is_lost, first), is_extended) in cases.flat_map(|case| [false, true].map(|it| (case, it))) {
        let when = format!("manifest lost: {is_lost}, displaced from {first}, extended: {is_extended}");
        let scene = Scene::new();
        scene.build(2, || {});
        let [object, json, _] = scene.ours(1).files;
        let json = if is_extended { extended(&json) } else { json };
        for (number, suffix, bytes) in [(1, "o", &object), (2, "json", &json)].into_iter().skip(first - 1) {
            let name = format!(".opbuild-old-1-{number}-{}.{suffix}.old", scene.theirs.stem);
            fs::write(scene.path(suffix).with_file_name(name), bytes).unwrap();
        }
        fs::remove_file(scene.path("json")).unwrap();
        if is_lost {
            fs::remove_file(scene.path("info").with_file_name(".opbuild-manifest")).unwrap();
        }
        let other = Ours::of(Chip::Ascend910, &Rank::new(0).square(2), 1);
        view(scene.base.path()).materialise(&[other.files()]).unwrap();
        assert_eq!(scene.read("o").as_ref(), Some(&scene.ours(2).files[0]), "{when}");
        assert_eq!(scene.read("json"), None, "{when}");
        // What is not known to be ours is never removed.
        assert!(scene.has(&json), "{when}");
    }
}

/// It is restored beside its own object, and where there is none.
#[test]
fn a_displaced_description_returns_to_its_object() {
    for has_object in [false, true] {
        let scene = Scene::new();
        scene.build(1, || {});
        let extended = extended(&scene.read("json").unwrap());
        let name = format!(".opbuild-old-1-1-{}.json.old", scene.theirs.stem);
        fs::write(scene.path("json").with_file_name(name), &extended).unwrap();
        fs::remove_file(scene.path("json")).unwrap();
        if !has_object {
            fs::remove_file(scene.path("o")).unwrap();
        }
        let other = Ours::of(Chip::Ascend910, &Rank::new(0).square(2), 1);
        view(scene.base.path()).materialise(&[other.files()]).unwrap();
        assert_eq!(scene.read("json"), Some(extended), "{has_object}");
    }
}

/// A kernel of ours that is withdrawn is quarantined if MindSpore extended its description. If it cannot be, the kernel
/// stays, that is reported, and a later call finds it.
#[test]
fn an_extended_kernel_is_withdrawn_with_a_copy() {
    let scene = Scene::new();
    scene.build(1, || {});
    let extended = extended(&scene.read("json").unwrap());
    fs::write(scene.path("json"), &extended).unwrap();
    let withdraw = || {
        let withdrawn = Withdrawn { stem: &scene.theirs.stem, unless: None };
        view(scene.base.path()).replace(&[], &[withdrawn]).unwrap()
    };
    let before = scene.files();
    scene.block_quarantine();
    for _ in 0..2 {
        let report = withdraw();
        assert!(
            matches!(report.left[..], [LeftKernel { why: LeftReason::NotKept { .. }, .. }]),
            "{report:?}"
        );
        assert_eq!((report.removed, scene.files()), (0, before.clone()));
    }
    fs::remove_file(scene.quarantine()).unwrap();
    assert_eq!(withdraw().removed, 1);
    assert_eq!((scene.read("o"), scene.read("json")), (None, None));
    assert!(scene.undo(&|| {}).removed);
    assert_eq!(scene.read("json"), Some(extended));
}

/// What MindSpore added to a description stays where its damaged object cannot be quarantined.
#[test]
fn an_extended_description_is_not_removed() {
    let scene = Scene::new();
    scene.build(1, || {});
    let extended = extended(&scene.read("json").unwrap());
    fs::write(scene.path("json"), &extended).unwrap();
    let object = scene.read("o").unwrap();
    fs::write(scene.path("o"), &object[..99]).unwrap();
    scene.block_quarantine();
    let report = view(scene.base.path()).materialise(&[scene.ours(1).files()]).unwrap();
    assert!(matches!(report.left[..], [LeftKernel { why: LeftReason::NotKept { .. }, .. }]), "{report:?}");
    assert_eq!(scene.read("json"), Some(extended));
}
