//! A table of accidents to caches: each one damages intact caches of genuine and of generated kernels, is
//! found, repaired, and undone byte for byte.
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests break caches by hand")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::Place;
use libtest_mimic::Trial;
use opkeep_testkit::caches::{Rank, age, cann_kernel};
use opkeep_testkit::{DirSnapshot, corpus};
use serde_json::Value;

/// An accident to a cache whose kernels have these stems. Returns the stems of the damaged kernels.
type Accident = fn(&Path, &[String]) -> Vec<String>;

const ACCIDENTS: &[(&str, Accident)] = &[
    ("a .json that is cut off", truncated_json),
    ("a .json of no length", empty_json),
    ("the .json of another kernel", json_of_another),
    ("objects that were swapped", swapped_objects),
    ("half of a rank deleted", half_deleted),
    ("a writer that was killed", killed_while_writing),
    ("an object that is cut off", truncated_object),
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (name, accident) in ACCIDENTS {
        for (whose, make) in [("mindspore", mindspore as fn(&Path)), ("cann", cann)] {
            let title = format!("{name}, in {whose}'s cache of made kernels");
            trials.push(Trial::test(title, move || {
                in_memory_of(make, *accident);
                Ok(())
            }));
        }
        let title = format!("{name}, in caches of genuine kernels");
        trials.push(match corpus::directory() {
            Some(_) => Trial::test(title, move || {
                in_memory_of(genuine_of_mindspore, *accident);
                in_memory_of(genuine_of_cann, *accident);
                Ok(())
            }),
            None => corpus::absent(title),
        });
    }
    let full = Trial::test("a disk that is full", || {
        a_full_disk();
        Ok(())
    });
    trials.push(full.with_ignored_flag(!can_mount()));
    trials
}

/// Two ranks of MindSpore with the same kernels.
fn mindspore(base: &Path) {
    for rank in [Rank::new(0), Rank::new(1)] {
        (1..=6).for_each(|elements| rank.square(elements).write(&rank.dir(base)).unwrap());
    }
}

fn cann(base: &Path) {
    let dir = base.join("kernel_cache/Ascend910B2");
    (1..=6).for_each(|number| cann_kernel("Ascend910B2", number).write(&dir).unwrap());
}

fn genuine_of_mindspore(base: &Path) {
    ["rank_0", "rank_1"].iter().for_each(|rank| genuine(&base.join(rank).join("kernel_meta"), ""));
}

fn genuine_of_cann(base: &Path) {
    genuine(&base.join("kernel_cache/Ascend910B2"), "te_");
}

/// Copies the corpus's kernels for one family of chips to `dir`, under the names that they state, after `prefix`: CANN
/// has only names in its cache that begin with `te_`.
fn genuine(dir: &Path, prefix: &str) {
    fs::create_dir_all(dir).unwrap();
    let root = corpus::directory().unwrap();
    let parts = ["mindspore/wheel270-ascend/ascend910b", "cann"];
    for object in parts.iter().flat_map(|part| corpus::files_ending(&root.join(part), &["o"]).unwrap()) {
        let json = fs::read(object.with_extension("json")).unwrap();
        let said: Value = serde_json::from_slice(&json).unwrap();
        let stated = said["binFileName"].as_str().unwrap();
        let name = format!("{prefix}{stated}");
        let text = String::from_utf8(json).unwrap();
        let json = text.replacen(&format!("\"{stated}\""), &format!("\"{name}\""), 1).into_bytes();
        for (suffix, bytes) in [("json", &json), ("o", &fs::read(&object).unwrap())] {
            let path = dir.join(format!("{name}.{suffix}"));
            fs::write(&path, bytes).unwrap();
            age(&path).unwrap();
        }
    }
}

fn json(dir: &Path, stem: &str) -> PathBuf {
    dir.join(format!("{stem}.json"))
}

fn object(dir: &Path, stem: &str) -> PathBuf {
    dir.join(format!("{stem}.o"))
}

fn truncated_json(dir: &Path, stems: &[String]) -> Vec<String> {
    let bytes = fs::read(json(dir, &stems[1])).unwrap();
    fs::write(json(dir, &stems[1]), &bytes[..bytes.len() * 2 / 3]).unwrap();
    vec![stems[1].clone()]
}

fn empty_json(dir: &Path, stems: &[String]) -> Vec<String> {
    File::create(json(dir, &stems[0])).unwrap();
    vec![stems[0].clone()]
}

fn json_of_another(dir: &Path, stems: &[String]) -> Vec<String> {
    fs::copy(json(dir, &stems[0]), json(dir, &stems[2])).unwrap();
    vec![stems[2].clone()]
}

fn swapped_objects(dir: &Path, stems: &[String]) -> Vec<String> {
    let [one, other] = [&stems[0], &stems[3]].map(|stem| object(dir, stem));
    let spare = dir.join("aside");
    fs::rename(&one, &spare).unwrap();
    fs::rename(&other, &one).unwrap();
    fs::rename(&spare, &other).unwrap();
    vec![stems[0].clone(), stems[3].clone()]
}

/// A user deletes every second file of a listing.
fn half_deleted(dir: &Path, stems: &[String]) -> Vec<String> {
    let mut hurt = BTreeSet::new();
    let mut files = crate::common::files(dir);
    files.sort();
    for file in files.iter().step_by(2) {
        fs::remove_file(file).unwrap();
        hurt.insert(file.file_stem().unwrap().to_str().unwrap().to_owned());
    }
    // Of some kernels no file that is read is missing, or all are missing.
    let is_intact = |stem: &String| json(dir, stem).exists() && object(dir, stem).exists();
    let is_gone = |stem: &String| {
        let info = dir.join(format!("{stem}.info"));
        ![json(dir, stem), object(dir, stem), info].iter().any(|path| path.exists())
    };
    stems.iter().filter(|stem| hurt.contains(*stem) && !is_intact(stem) && !is_gone(stem)).cloned().collect()
}

/// A process that writes slowly, as over a network, is killed while it writes a `.json`.
fn killed_while_writing(dir: &Path, stems: &[String]) -> Vec<String> {
    let (target, source) = (json(dir, &stems[1]), dir.join("source"));
    fs::rename(&target, &source).unwrap();
    let slow = "head -c 150 \"$0\" > \"$1\"; while :; do sleep 0.05; done";
    let mut writer = Command::new("sh").arg("-c").arg(slow).arg(&source).arg(&target).spawn().unwrap();
    let began = Instant::now();
    while !fs::metadata(&target).is_ok_and(|found| found.len() == 150) {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is written");
        std::thread::sleep(Duration::from_millis(2));
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
    fs::remove_file(source).unwrap();
    vec![stems[1].clone()]
}

fn truncated_object(dir: &Path, stems: &[String]) -> Vec<String> {
    let path = object(dir, &stems[2]);
    let bytes = fs::metadata(&path).unwrap().len();
    File::options().write(true).open(&path).unwrap().set_len(bytes / 2).unwrap();
    vec![stems[2].clone()]
}

/// Applies an accident to the first cache below a base.
fn in_memory_of(make: fn(&Path), accident: Accident) {
    let place = Place::new();
    let base = place.path("run");
    make(&base);
    a_day_with(&place, &base, accident);
}

/// The kernels and other items below `base` that have a problem.
fn wrong(place: &Place, base: &Path) -> BTreeSet<String> {
    let base = base.to_str().unwrap();
    let json = place.run(&["verify", base, "--format", "json"]).json();
    let items =
        json["caches"].as_array().unwrap().iter().flat_map(|cache| cache["items"].as_array().unwrap());
    let is_wrong = |item: &&Value| item["state"] == "damaged" || item["state"] == "orphan";
    items.filter(is_wrong).map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

fn stems(dir: &Path) -> Vec<String> {
    let mut stems: Vec<String> = crate::common::files(dir)
        .iter()
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "o"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    stems.sort();
    stems
}

/// The directory that accidents damage.
fn damaged_dir(base: &Path) -> PathBuf {
    ["rank_1/kernel_meta", "kernel_cache/Ascend910B2"]
        .map(|name| base.join(name))
        .into_iter()
        .find(|it| it.exists())
        .unwrap()
}

/// Checks an intact cache, the accident, its repair and the undo of the repair.
fn a_day_with(place: &Place, base: &Path, accident: Accident) {
    let dir = damaged_dir(base);
    let named = base.to_str().unwrap();
    place.run(&["verify", named]).ended_with(0);
    assert_eq!(wrong(place, base), BTreeSet::new());
    let intact = DirSnapshot::of(&dir).unwrap();

    let stems = stems(&dir);
    let hurt: BTreeSet<String> = accident(&dir, &stems).into_iter().collect();
    crate::common::files(&dir).iter().for_each(|file| age(file).unwrap());
    assert!(!hurt.is_empty());
    let broken = DirSnapshot::of(base).unwrap();
    place.run(&["verify", named]).ended_with(1);
    assert_eq!(wrong(place, base), hurt);

    place.run(&["repair", named, "--dry-run"]).ended_with(0);
    assert!(DirSnapshot::of(base).unwrap() == broken, "a dry run changed something");
    place.run(&["repair", named]).ended_with(0);
    assert_eq!(wrong(place, base), BTreeSet::new());
    // Intact kernels are unchanged.
    let left = DirSnapshot::of(&dir).unwrap();
    let before: BTreeSet<&Path> = intact.files().collect();
    for stem in stems.iter().filter(|stem| !hurt.contains(*stem) && object(&dir, stem).exists()) {
        assert!(before.contains(Path::new(&format!("{stem}.o"))));
        assert!(json(&dir, stem).exists(), "{stem}");
    }
    assert!(left.files().all(|file| before.contains(file)));
    place.run(&["repair", named]).ended_with(0);

    place.run(&["repair", named, "--undo"]).ended_with(0);
    assert!(DirSnapshot::of(base).unwrap() == broken, "undoing left something else");
    assert_eq!(wrong(place, base), hurt);
}

/// A disk of 256 KiB in memory.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=256k", "opkeep-test"]).arg(at);
        let mounted = mount.stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
        mounted.success().then(|| Self(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn can_mount() -> bool {
    tempfile::tempdir().is_ok_and(|dir| SmallDisk::mount(dir.path()).is_some())
}

/// A framework writes kernels until the disk is full, and leaves the last ones incomplete.
fn a_full_disk() {
    let place = Place::new();
    let base = place.path("run");
    fs::create_dir(&base).unwrap();
    let _disk = SmallDisk::mount(&base).unwrap();
    mindspore(&base);
    let mut filler = File::create(base.join("filler")).unwrap();
    while filler.write(&[1; 512]).is_ok_and(|written| written > 0) {}
    let length = fs::metadata(base.join("filler")).unwrap().len();
    // Room for two pages.
    filler.set_len(length - 8192).unwrap();
    drop(filler);
    a_day_with(&place, &base, |dir, stems| {
        // Kernels are built again in place, as by compilers.
        let rebuilt: Vec<(String, Vec<u8>)> =
            stems.iter().map(|stem| (stem.clone(), fs::read(object(dir, stem)).unwrap())).collect();
        for (stem, bytes) in rebuilt {
            let twice = [bytes.clone(), vec![0; 6000]].concat();
            let written = File::create(object(dir, &stem)).and_then(|mut file| file.write_all(&twice));
            if let Err(error) = written {
                assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
            }
        }
        fs::remove_file(dir.join("../../filler")).unwrap();
        stems.to_vec()
    });
}
