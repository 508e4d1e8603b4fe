//! The undo of a build restores the state before it: each state of a kernel's files, built over and undone.

#![expect(clippy::disallowed_methods, reason = "tests make and damage caches by hand")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::common::owned::{OwnKernel, all_bytes, extended, view};
use opkeep_digest::Digest;
use opkeep_framework_cache::restore::{RestoreOptions, RestoreReport, newest, quarantines, restore};
use opkeep_kernel_meta::KernelFileKind;
use opkeep_kernel_meta::ViewReport;
use opkeep_testkit::ascend::Chip;
use opkeep_testkit::caches::{CachedKernelFiles, Rank};
use tempfile::TempDir;

const CHIP: Chip = Chip::Ascend910B;

/// The state of a file before the build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Is {
    Absent,
    /// The bytes that the build writes.
    Right,
    /// The bytes of an earlier build.
    Old,
    /// The bytes of an earlier build, changed since: the description as a framework changes it.
    Changed,
    /// The bytes that the build writes, with a framework's additions to a description.
    Extended,
    /// A framework's file.
    Foreign,
    DamagedRank,
}

const ALL: [Is; 6] = [Is::Absent, Is::Right, Is::Old, Is::Changed, Is::Foreign, Is::DamagedRank];
const OF_JSON: [Is; 7] =
    [Is::Absent, Is::Right, Is::Old, Is::Changed, Is::Extended, Is::Foreign, Is::DamagedRank];

/// The bytes of one part in each state.
fn bytes(part: KernelFileKind, is: Is, foreign: &CachedKernelFiles) -> Option<Vec<u8>> {
    let own = |version| OwnKernel::of(CHIP, foreign, version).files[part as usize].clone();
    let foreign = || match part {
        KernelFileKind::Object => foreign.object.clone(),
        KernelFileKind::Json => foreign.json.clone(),
        KernelFileKind::Info => [foreign.info.clone().unwrap(), b" \n".to_vec()].concat(),
    };
    Some(match is {
        Is::Absent => return None,
        Is::Right => own(2),
        Is::Old => own(1),
        Is::Changed if part == KernelFileKind::Json => extended(&own(1)),
        Is::Extended => extended(&own(2)),
        Is::Changed => {
            let mut bytes = own(1);
            *bytes.last_mut().unwrap() ^= 1;
            bytes
        }
        Is::Foreign => foreign(),
        Is::DamagedRank => foreign()[..20].to_vec(),
    })
}

type Image = BTreeMap<PathBuf, (Option<SystemTime>, Digest)>;

/// Each file with its time, without the lock of builds and the time of the manifest.
fn image(base: &Path) -> Image {
    let mut image = Image::new();
    for (path, bytes) in all_bytes(base) {
        let name = path.file_name().unwrap().to_string_lossy();
        let time = (name != ".opkeep-manifest").then(|| fs::metadata(&path).unwrap().modified().unwrap());
        if name != ".opkeep.lock" {
            image.insert(path.strip_prefix(base).unwrap().to_owned(), (time, Digest::of(&bytes)));
        }
    }
    image
}

/// A directory of one kernel in some state.
struct Scene {
    base: TempDir,
    foreign: CachedKernelFiles,
}

impl Scene {
    fn new([object, json, info]: [Is; 3], recorded: u32) -> Self {
        let foreign = Rank { soc: CHIP.soc(), ..Rank::new(0) }.square(1);
        let scene = Self { base: tempfile::tempdir().unwrap(), foreign };
        let hour = SystemTime::now() - Duration::from_secs(3600);
        fs::create_dir_all(scene.dir()).unwrap();
        if recorded > 0 {
            scene.build(recorded, false);
        }
        for (part, is) in
            [(KernelFileKind::Object, object), (KernelFileKind::Json, json), (KernelFileKind::Info, info)]
        {
            let path = scene.dir().join(format!("{}{}", scene.foreign.stem, part.suffix()));
            match bytes(part, is, &scene.foreign) {
                None => fs::remove_file(&path).unwrap_or_default(),
                // It keeps its time.
                Some(bytes) if fs::read(&path).is_ok_and(|found| found == bytes) => {}
                Some(bytes) => {
                    fs::write(&path, bytes).unwrap();
                    File::open(&path).unwrap().set_times(FileTimes::new().set_modified(hour)).unwrap();
                }
            }
        }
        scene
    }

    fn dir(&self) -> PathBuf {
        self.base.path().join("rank_0/kernel_meta")
    }

    fn build(&self, version: u32, replace: bool) -> ViewReport {
        let build = OwnKernel::of(CHIP, &self.foreign, version);
        let report = view(self.base.path()).with_replace(replace).materialise(&[build.files()]).unwrap();
        // A framework's addition to the description stays.
        let object = fs::read(self.dir().join(format!("{}.o", self.foreign.stem)));
        assert!(report.written == 0 || object.is_ok_and(|found| found == build.files[0]), "{report:?}");
        report
    }

    fn image(&self) -> Image {
        image(self.base.path())
    }

    fn restore(&self) -> Vec<RestoreReport> {
        let options = RestoreOptions::new(false);
        let runs = newest(quarantines(self.base.path()).unwrap());
        runs.iter().map(|run| restore(run, &options).unwrap()).collect()
    }
}

fn states() -> impl Iterator<Item = ([Is; 3], u32, bool)> {
    let pairs = ALL.iter().flat_map(|object| OF_JSON.map(|json| (*object, json)));
    let files = pairs.flat_map(|(object, json)| ALL.map(|info| [object, json, info]));
    let how = [(0, false), (0, true), (1, false), (1, true), (2, false), (2, true)];
    files.flat_map(move |files| how.map(|(recorded, replace)| (files, recorded, replace)))
}

#[test]
fn each_state_is_restored() {
    let mut undone_states = BTreeSet::new();
    for (files, recorded, replace) in states() {
        let state = format!("{files:?}, recorded {recorded}, replace {replace}");
        let scene = Scene::new(files, recorded);
        let before = scene.image();
        if scene.build(2, replace).quarantine.is_none() {
            continue;
        }
        for undone in scene.restore() {
            assert!(undone.removed && undone.unrestored.is_empty(), "{state}: {undone:?}");
        }
        assert_eq!(scene.image(), before, "{state}");
        undone_states.insert((files, recorded, replace));
    }
    // A foreign kernel, and a damaged own one.
    assert!(undone_states.contains(&([Is::Foreign; 3], 0, true)));
    for replace in [true, false] {
        assert!(undone_states.contains(&([Is::Changed, Is::Right, Is::Right], 2, replace)));
        assert!(undone_states.contains(&([Is::DamagedRank, Is::Old, Is::Old], 1, replace)));
    }
    assert!(undone_states.len() > 400, "{}", undone_states.len());
}

/// Undoing the first of two builds, or both, leaves a state from before or after one of them, and no mixture.
#[test]
fn a_second_build_is_not_mixed_with_restored_files() {
    let files = |image: &Image| -> Vec<(PathBuf, Digest)> {
        let named = image.iter().filter(|(path, _)| {
            let path = path.to_string_lossy();
            !path.contains(".opkeep-")
        });
        named.map(|(path, (_, digest))| (path.clone(), *digest)).collect()
    };
    let (mut back, mut unfilled) = (0, 0);
    // A fifth of the states, since each is built twice.
    for (files_before, recorded, replace) in states().step_by(5) {
        let state = format!("{files_before:?}, recorded {recorded}, replace {replace}");
        let scene = Scene::new(files_before, recorded);
        let mut intact = vec![files(&scene.image())];
        if scene.build(2, replace).quarantine.is_none() {
            continue;
        }
        intact.push(files(&scene.image()));
        scene.build(3, replace);
        intact.push(files(&scene.image()));
        for _ in 0..2 {
            scene.restore();
            let now = files(&scene.image());
            assert!(intact.contains(&now), "{state}: {now:?} is none of {intact:?}");
        }
        let is_back = files(&scene.image()) == intact[0];
        assert_eq!(is_back, quarantines(scene.base.path()).unwrap().is_empty(), "{state}");
        back += u32::from(is_back);
        unfilled += u32::from(!is_back);
    }
    assert!(back > 100 && unfilled > 5, "{back} came back, {unfilled} did not");
}
