//! A table of what happens to caches in the real world: each accident is done to whole caches of genuine and of made kernels,
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

/// What may happen to a cache, whose kernels have these stems; those that it happens to.
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

/// Two ranks of MindSpore's with the same kernels.
fn mindspore(base: &Path) {
    for rank in [Rank::new(0), Rank::new(1)] {
        (1..=6).for_each(|elements| rank.square(elements).write(&rank.dir(base)).unwrap());
    }
}

fn cann(base: &Path) {
    let folder = base.join("kernel_cache/Ascend910B2");
    (1..=6).for_each(|number| cann_kernel("Ascend910B2", number).write(&folder).unwrap());
}

fn genuine_of_mindspore(base: &Path) {
    ["rank_0", "rank_1"].iter().for_each(|rank| genuine(&base.join(rank).join("kernel_meta")));
}

fn genuine_of_cann(base: &Path) {
    genuine(&base.join("kernel_cache/Ascend910B2"));
}

/// Copies the corpus's kernels for one family of chips to `folder`, called as they call themselves.
fn genuine(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let root = corpus::directory().unwrap();
    let parts = ["mindspore/wheel270-ascend/ascend910b", "cann"];
    for object in parts.iter().flat_map(|part| corpus::files_ending(&root.join(part), &["o"]).unwrap()) {
        let json = fs::read(object.with_extension("json")).unwrap();
        let said: Value = serde_json::from_slice(&json).unwrap();
        let name = said["binFileName"].as_str().unwrap();
        for (suffix, bytes) in [("json", &json), ("o", &fs::read(&object).unwrap())] {
            let path = folder.join(format!("{name}.{suffix}"));
            fs::write(&path, bytes).unwrap();
            age(&path).unwrap();
        }
    }
}

fn json(folder: &Path, stem: &str) -> PathBuf {
    folder.join(format!("{stem}.json"))
}

fn object(folder: &Path, stem: &str) -> PathBuf {
    folder.join(format!("{stem}.o"))
}

fn truncated_json(folder: &Path, stems: &[String]) -> Vec<String> {
    let bytes = fs::read(json(folder, &stems[1])).unwrap();
    fs::write(json(folder, &stems[1]), &bytes[..bytes.len() * 2 / 3]).unwrap();
    vec![stems[1].clone()]
}

fn empty_json(folder: &Path, stems: &[String]) -> Vec<String> {
    File::create(json(folder, &stems[0])).unwrap();
    vec![stems[0].clone()]
}

fn json_of_another(folder: &Path, stems: &[String]) -> Vec<String> {
    fs::copy(json(folder, &stems[0]), json(folder, &stems[2])).unwrap();
    vec![stems[2].clone()]
}

fn swapped_objects(folder: &Path, stems: &[String]) -> Vec<String> {
    let [one, other] = [&stems[0], &stems[3]].map(|stem| object(folder, stem));
    let aside = folder.join("aside");
    fs::rename(&one, &aside).unwrap();
    fs::rename(&other, &one).unwrap();
    fs::rename(&aside, &other).unwrap();
    vec![stems[0].clone(), stems[3].clone()]
}

/// Somebody deletes every second file of those that a listing shows.
fn half_deleted(folder: &Path, stems: &[String]) -> Vec<String> {
    let mut hurt = BTreeSet::new();
    let mut files = crate::common::files(folder);
    files.sort();
    for file in files.iter().step_by(2) {
        fs::remove_file(file).unwrap();
        hurt.insert(file.file_stem().unwrap().to_str().unwrap().to_owned());
    }
    // Of some, nothing that anybody reads is gone, or nothing is left.
    let is_whole = |stem: &String| json(folder, stem).exists() && object(folder, stem).exists();
    let is_gone = |stem: &String| {
        let info = folder.join(format!("{stem}.info"));
        ![json(folder, stem), object(folder, stem), info].iter().any(|path| path.exists())
    };
    stems.iter().filter(|stem| hurt.contains(*stem) && !is_whole(stem) && !is_gone(stem)).cloned().collect()
}

/// A process that writes slowly, as over a network, is killed amid a `.json`.
fn killed_while_writing(folder: &Path, stems: &[String]) -> Vec<String> {
    let (target, source) = (json(folder, &stems[1]), folder.join("source"));
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

fn truncated_object(folder: &Path, stems: &[String]) -> Vec<String> {
    let path = object(folder, &stems[2]);
    let bytes = fs::metadata(&path).unwrap().len();
    File::options().write(true).open(&path).unwrap().set_len(bytes / 2).unwrap();
    vec![stems[2].clone()]
}

/// Does an accident to the first cache below a base.
fn in_memory_of(make: fn(&Path), accident: Accident) {
    let place = Place::new();
    let base = place.path("run");
    make(&base);
    a_day_with(&place, &base, accident);
}

/// The kernels and other things in which something is wrong, below `base`.
fn wrong(place: &Place, base: &Path) -> BTreeSet<String> {
    let base = base.to_str().unwrap();
    let json = place.run(&["verify", base, "--format", "json"]).json();
    let items =
        json["caches"].as_array().unwrap().iter().flat_map(|cache| cache["items"].as_array().unwrap());
    let is_wrong = |item: &&Value| item["state"] == "damaged" || item["state"] == "orphan";
    items.filter(is_wrong).map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

fn stems(folder: &Path) -> Vec<String> {
    let mut stems: Vec<String> = crate::common::files(folder)
        .iter()
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "o"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    stems.sort();
    stems
}

/// The folder that accidents happen in.
fn hurt_folder(base: &Path) -> PathBuf {
    ["rank_1/kernel_meta", "kernel_cache/Ascend910B2"]
        .map(|name| base.join(name))
        .into_iter()
        .find(|it| it.exists())
        .unwrap()
}

/// Whole at first; then the accident, found; repaired, and whole again but for what is gone; undone.
fn a_day_with(place: &Place, base: &Path, accident: Accident) {
    let folder = hurt_folder(base);
    let named = base.to_str().unwrap();
    place.run(&["verify", named]).ended_with(0);
    assert_eq!(wrong(place, base), BTreeSet::new());
    let whole = DirSnapshot::of(&folder).unwrap();

    let stems = stems(&folder);
    let hurt: BTreeSet<String> = accident(&folder, &stems).into_iter().collect();
    crate::common::files(&folder).iter().for_each(|file| age(file).unwrap());
    assert!(!hurt.is_empty());
    let broken = DirSnapshot::of(base).unwrap();
    place.run(&["verify", named]).ended_with(1);
    assert_eq!(wrong(place, base), hurt);

    place.run(&["repair", named, "--dry-run"]).ended_with(0);
    assert!(DirSnapshot::of(base).unwrap() == broken, "a dry run changed something");
    place.run(&["repair", named]).ended_with(0);
    assert_eq!(wrong(place, base), BTreeSet::new());
    // What was whole is there, as it was.
    let left = DirSnapshot::of(&folder).unwrap();
    let before: BTreeSet<&Path> = whole.files().collect();
    for stem in stems.iter().filter(|stem| !hurt.contains(*stem) && object(&folder, stem).exists()) {
        assert!(before.contains(Path::new(&format!("{stem}.o"))));
        assert!(json(&folder, stem).exists(), "{stem}");
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
    tempfile::tempdir().is_ok_and(|folder| SmallDisk::mount(folder.path()).is_some())
}

/// A framework goes on writing kernels until there is no space, and leaves what it got to.
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
    a_day_with(&place, &base, |folder, stems| {
        // Kernels are built again, in place, as compilers write them.
        let rebuilt: Vec<(String, Vec<u8>)> =
            stems.iter().map(|stem| (stem.clone(), fs::read(object(folder, stem)).unwrap())).collect();
        for (stem, bytes) in rebuilt {
            let twice = [bytes.clone(), vec![0; 6000]].concat();
            let written = File::create(object(folder, &stem)).and_then(|mut file| file.write_all(&twice));
            if let Err(error) = written {
                assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
            }
        }
        fs::remove_file(folder.join("../../filler")).unwrap();
        stems.to_vec()
    });
}
