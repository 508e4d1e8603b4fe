//! A build replaces or withdraws an outdated kernel of ours beside files of a framework. At each of its calls to the file
//! system, the call fails, the process is killed, or another program writes. Afterwards:
//!
//! - no byte that another program wrote is lost;
//! - no framework finds an outdated kernel of ours, unless the process was killed or the error says so;
//! - the next build heals the directory.
//!
//! Usually a part of the calls is tested, chosen by `OPKEEP_MUTATION_SEEDS`; `cargo xtask soak` tests all, with all errors.

#![expect(clippy::disallowed_methods, reason = "tests write as other programs do")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use opkeep_framework_cache::restore::{RestoreOptions, newest, quarantines, restore};
use opkeep_fs::{FsCall, FsOp, Permit, Watcher};
use opkeep_kernel_meta::{ViewError, ViewReport};
use opkeep_testkit::fault::{Fault, FaultyDisk};
use opkeep_testkit::is_turn;
use rustix::io::Errno;

use crate::scene::{KEEPERS, Keeper, STARTS, Scene, Start, contents, extended, newer, stem};

/// Runs `test` in each scene, for a build of the second version, and for a withdrawal. Returns the sum of its results.
fn in_each_scene(mut test: impl FnMut(&Scene, usize, &str) -> usize) -> usize {
    let mut sum = 0;
    for (start, keeper) in STARTS.into_iter().flat_map(|start| KEEPERS.map(|keeper| (start, keeper))) {
        for (is_lost, version) in [(false, 2), (false, 0), (true, 2), (true, 0)] {
            // Without the manifest, the store knows whole kernels only, and no adopted one as such.
            if is_lost && !matches!(start, Start::Ours | Start::Extended | Start::LinkedInfo) {
                continue;
            }
            let scene = Scene::new(start, keeper, is_lost);
            let when =
                format!("{start:?}, quarantine {keeper:?}, manifest lost: {is_lost}, version {version}");
            sum += test(&scene, version, &when);
        }
    }
    sum
}

fn is_long() -> bool {
    std::env::var_os("OPKEEP_SOAK_SECONDS").is_some()
}

/// Asserts that none of `precious` is lost.
#[track_caller]
fn assert_kept(scene: &Scene, precious: &[Vec<u8>], when: &str) {
    let contents = contents(scene.root());
    for bytes in precious {
        assert!(contents.contains(bytes), "{when}: {} is lost", String::from_utf8_lossy(bytes));
    }
}

/// Asserts that no outdated kernel is found after a build that ended with `result`.
#[track_caller]
fn assert_none_outdated(scene: &Scene, version: usize, result: &Result<ViewReport, ViewError>, when: &str) {
    let is_named = match result {
        Err(ViewError::Outdated { path, .. }) => path.starts_with(scene.dir()),
        _ => false,
    };
    assert!(is_named || !scene.finds_outdated(version), "{when}: an outdated kernel is found: {result:?}");
}

/// Builds once more, without faults.
#[track_caller]
fn assert_heals(scene: &Scene, version: usize, precious: &[Vec<u8>], when: &str) -> ViewReport {
    let healed = scene.build(version, None).unwrap();
    assert_kept(scene, precious, when);
    assert!(!scene.finds_outdated(version), "{when}: the next build leaves it: {healed:?}");
    healed
}

#[test]
fn no_outdated_kernel_of_ours_stays_under_its_name() {
    let scenes = in_each_scene(|scene, version, when| {
        let result = scene.build(version, None);
        assert!(!scene.finds_outdated(version), "{when}: {result:?}");
        let report = result.unwrap();
        assert_kept(scene, &scene.precious, when);
        assert_eq!(!report.left.is_empty(), version > 0 && scene.is_taken(), "{when}: {report:?}");
        assert!(scene.is_taken() || scene.is_current(version), "{when}: {report:?}");
        if version == 0 && !scene.is_taken() && !when.contains("DamagedObject") {
            assert_eq!(report.removed, 1, "{when}: {report:?}");
        }
        1
    });
    assert!(scenes > 60, "{scenes}");
}

/// The names of displaced files of outdated kernels.
fn outdated(scene: &Scene) -> Vec<PathBuf> {
    let files = fs::read_dir(scene.dir()).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.to_string_lossy().ends_with(".outdated")).collect()
}

/// Replaces the first version, to which MindSpore makes this addition. There is no quarantine.
fn replace_extended(scene: &Scene, addition: &str) {
    scene.build(1, None).unwrap();
    let json = fs::read(scene.path("json")).unwrap();
    fs::write(scene.path("json"), extended(&json, addition)).unwrap();
    assert_eq!(scene.build(2, None).unwrap().displaced.len(), 1);
}

#[test]
fn displaced_files_of_outdated_kernels_go_to_quarantine_once_it_takes_them() {
    let mut scene = Scene::new(Start::Ours, Keeper::None, false);
    ["one", "two"].into_iter().for_each(|addition| replace_extended(&scene, addition));
    let before: Vec<Vec<u8>> = outdated(&scene).iter().map(|path| fs::read(path).unwrap()).collect();
    scene.keeper = Keeper::Blocked;
    fs::write(scene.dir().with_extension("opkeep-quarantine"), "in the way").unwrap();
    scene.build(2, None).unwrap();
    assert_eq!(outdated(&scene).len(), 2);
    fs::remove_file(scene.dir().with_extension("opkeep-quarantine")).unwrap();
    let report = scene.build(2, None).unwrap();
    assert!(report.quarantine.is_some() && outdated(&scene).is_empty(), "{report:?}");
    assert_kept(&scene, &before, "quarantined");
    // An undo restores them, and no reader finds them then.
    let [run] = &newest(quarantines(scene.root()).unwrap())[..] else { panic!("one run") };
    let restored = restore(run, &RestoreOptions::new(false)).unwrap();
    assert_eq!(outdated(&scene).len(), 2, "{restored:?}");
    assert!(scene.is_current(2));
    assert_kept(&scene, &before, "restored");
}

#[test]
fn of_equal_displaced_files_of_outdated_kernels_one_stays() {
    let scene = Scene::new(Start::Ours, Keeper::None, false);
    ["one", "two", "one", "one"].into_iter().for_each(|addition| replace_extended(&scene, addition));
    let kept: Vec<Vec<u8>> = outdated(&scene).iter().map(|path| fs::read(path).unwrap()).collect();
    // A process may have a young file open.
    scene.build(2, None).unwrap();
    assert_eq!(outdated(&scene).len(), 4);
    for path in outdated(&scene) {
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        fs::File::open(path).unwrap().set_modified(hour_ago).unwrap();
    }
    scene.build(2, None).unwrap();
    assert_eq!(outdated(&scene).len(), 2);
    assert_kept(&scene, &kept, "of equal files");
}

#[test]
fn no_failed_call_leaves_an_outdated_kernel_under_its_name() {
    let errors: &[Errno] = if is_long() { &Fault::ERRORS } else { &[Errno::NOSPC] };
    let mut turn = 0;
    let tested = in_each_scene(|scene, version, when| {
        let disk = FaultyDisk::new(scene.root());
        scene.build(version, Some(disk.clone())).unwrap();
        let calls = disk.calls();
        let mut tested = 0;
        for (at, op) in (1..).zip(calls) {
            for error in errors {
                turn += 1;
                if !is_long() && !is_turn(turn, 24) {
                    continue;
                }
                let when = format!("{when}, {op:?} number {at} fails with {error:?}");
                scene.restore();
                disk.arm(at, Fault::Error(*error));
                let result = scene.build(version, Some(disk.clone()));
                assert_kept(scene, &scene.precious, &when);
                if has_begun(&disk.calls(), &result) {
                    assert_none_outdated(scene, version, &result, &when);
                }
                let healed = assert_heals(scene, version, &scene.precious, &when);
                assert!(scene.is_taken() || scene.is_current(version), "{when}: {healed:?}");
                tested += 1;
            }
        }
        tested
    });
    assert!(tested > 100, "{tested}");
}

/// Returns whether the build had the directory and its lock, and read the manifest.
fn has_begun(calls: &[FsOp], result: &Result<ViewReport, ViewError>) -> bool {
    let manifest = |path: &Path| path.ends_with(".opkeep-manifest");
    let is_unread = match result {
        Err(
            ViewError::Io { action: "read", path, .. } | ViewError::NotWritable { action: "read", path, .. },
        ) => manifest(path),
        Err(ViewError::NoSpace { action: "read", path, .. }) => manifest(path),
        _ => false,
    };
    calls.contains(&FsOp::List) && !is_unread
}

#[test]
fn no_killed_build_keeps_the_next_from_removing_an_outdated_kernel() {
    let mut turn = 0;
    let tested = in_each_scene(|scene, version, when| {
        let disk = FaultyDisk::new(scene.root());
        scene.build(version, Some(disk.clone())).unwrap();
        let calls = disk.calls();
        let mut tested = 0;
        for (at, op) in (1..).zip(calls) {
            for fault in [Fault::Death, Fault::DeathWithin] {
                turn += usize::from(Fault::all_for(op).contains(&fault));
                if !Fault::all_for(op).contains(&fault) || !is_long() && !is_turn(turn, 24) {
                    continue;
                }
                let when = format!("{when}, {fault:?} at {op:?} number {at}");
                scene.restore();
                disk.arm(at, fault);
                let _ = scene.build(version, Some(disk.clone()));
                assert_kept(scene, &scene.precious, &when);
                let healed = assert_heals(scene, version, &scene.precious, &when);
                assert!(scene.is_taken() || scene.is_current(version), "{when}: {healed:?}");
                tested += 1;
            }
        }
        tested
    });
    assert!(tested > 100, "{tested}");
}

/// The act of another program.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    /// MindSpore rewrites the existing description in place.
    Extend,
    /// A file gets the name of the object, the description or the descriptor.
    Write(&'static str),
    /// The same in place of the bytes of an existing file.
    Truncate(&'static str),
    /// A framework writes a whole kernel.
    Kernel,
    /// A link takes the name of the descriptor.
    Link,
}

const ACTS: [Act; 9] = [
    Act::Extend,
    Act::Write("o"),
    Act::Write("json"),
    Act::Write("info"),
    Act::Truncate("o"),
    Act::Truncate("json"),
    Act::Truncate("info"),
    Act::Kernel,
    Act::Link,
];

impl Act {
    /// Does it in `dir`. Returns the bytes that were written.
    fn perform(self, dir: &Path) -> Vec<Vec<u8>> {
        let path = |suffix: &str| dir.join(format!("{}.{suffix}", stem()));
        let [object, json] = newer();
        let bytes = |suffix: &str| match suffix {
            "o" => object.to_vec(),
            "json" => json.to_vec(),
            _ => b"theirs".to_vec(),
        };
        let rename = |suffix: &str| {
            fs::write(dir.join("theirs.part"), bytes(suffix)).unwrap();
            fs::rename(dir.join("theirs.part"), path(suffix)).unwrap();
            bytes(suffix)
        };
        match self {
            Self::Extend => match fs::read(path("json")) {
                Ok(json) if !path("json").is_symlink() => {
                    let json = extended(&json, "meanwhile");
                    fs::write(path("json"), &json).unwrap();
                    vec![json]
                }
                _ => Vec::new(),
            },
            Self::Write(suffix) => vec![rename(suffix)],
            Self::Truncate(suffix) if path(suffix).exists() && !path(suffix).is_symlink() => {
                fs::write(path(suffix), bytes(suffix)).unwrap();
                vec![bytes(suffix)]
            }
            Self::Truncate(_) => Vec::new(),
            Self::Kernel => ["o", "json"].map(rename).into(),
            Self::Link => {
                let _ = fs::remove_file(path("info"));
                std::os::unix::fs::symlink("nowhere", path("info")).unwrap();
                Vec::new()
            }
        }
    }
}

/// Another program acts once, before the call with the number `at`.
struct Racer {
    dir: PathBuf,
    root: PathBuf,
    precious: Vec<Vec<u8>>,
    act: Act,
    at: usize,
    /// The number of calls, and all bytes after the act.
    state: Mutex<(usize, Option<Vec<Vec<u8>>>)>,
}

impl Racer {
    /// Returns the bytes of other programs that still exist after the act.
    fn kept(&self, written: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let contents = contents(&self.root);
        let precious = self.precious.iter().filter(|bytes| contents.contains(bytes)).cloned();
        precious.chain(written).collect()
    }
}

impl Watcher for Racer {
    fn before(&self, _: &FsCall<'_>) -> Permit {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        if state.0 == self.at {
            let written = self.act.perform(&self.dir);
            state.1 = Some(self.kept(written));
        }
        Permit::Go
    }
}

#[test]
fn no_write_of_another_program_meanwhile_is_lost_or_keeps_an_outdated_kernel() {
    let mut turn = 0;
    let tested = in_each_scene(|scene, version, when| {
        let disk = FaultyDisk::new(scene.root());
        scene.build(version, Some(disk.clone())).unwrap();
        let calls = disk.calls().len();
        let mut tested = 0;
        for (act, at) in ACTS.into_iter().flat_map(|act| (1..=calls).map(move |at| (act, at))) {
            turn += 1;
            if !is_long() && !is_turn(turn, 192) {
                continue;
            }
            scene.restore();
            let when = format!("{when}, {act:?} before call {at}");
            let (dir, root) = (scene.dir(), scene.root().to_owned());
            let (precious, state) = (scene.precious.clone(), Mutex::new((0, None)));
            let racer = Arc::new(Racer { dir, root, precious, act, at, state });
            let result = scene.build(version, Some(racer.clone()));
            let precious = racer.state.lock().unwrap().1.take();
            let precious = precious.unwrap_or_else(|| scene.precious.clone());
            assert_none_outdated(scene, version, &result, &when);
            assert_kept(scene, &precious, &when);
            assert_heals(scene, version, &precious, &when);
            tested += 1;
        }
        tested
    });
    assert!(tested > 100, "{tested}");
}
