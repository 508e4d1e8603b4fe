//! The store of an earlier version is read as that version read it, and is marked.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use crate::common::{Place, SQUARE, files};

const STORED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/stored");
/// The kernels of that store, by their keys.
const SQUARE_OF_3: &str = "658d317a0dfd2ac04182a02e69654551b794fe13791c4e063820045d530e8f63";
const SQUARE_OF_2: &str = "ebc809bba950d5156ef6b9106d8b1d4cc4035964d829266ca23ae318f339e683";

/// A place with a copy of that store.
fn place() -> Place {
    let place = Place::new();
    for file in files(Path::new(STORED)) {
        let inside = file.strip_prefix(STORED).unwrap();
        let copy = match inside.strip_prefix("store") {
            Ok(inside) => place.path("cache").join(inside),
            Err(_) => place.path("run").join(inside),
        };
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(file, copy).unwrap();
    }
    place
}

fn entry(place: &Place, key: &str) -> PathBuf {
    place.path("cache/v1/cpu-x86_64/entries").join(&key[..2]).join(format!("{key}.kern"))
}

#[test]
fn an_earlier_store_is_valid_and_counted_as_it_was() {
    let place = place();
    let json = place.run(&["verify", "--format", "json"]).ended_with(0).json();
    let targets = json["stores"][0]["targets"].as_array().unwrap();
    let count = |at: usize| (targets[at]["target"].as_str().unwrap(), targets[at]["valid"].as_u64().unwrap());
    assert_eq!([count(0), count(1)], [("Ascend910A", 1), ("cpu-x86_64", 2)]);
    assert!(targets.iter().all(|target| target["flaws"].as_array().unwrap().is_empty()), "{json}");
    assert_eq!(targets[1]["besides"].as_array().unwrap().len(), 2, "the quarantined entry, and why: {json}");

    let json = place.run(&["stats", "--format", "json"]).ended_with(0).json();
    let counted = &json["targets"][1]["statistics"];
    let names = ["hits", "absent", "puts", "compiles", "damaged", "quarantines"];
    assert_eq!(names.map(|name| counted[name].as_u64().unwrap()), [0, 3, 3, 3, 0, 1], "{json}");
    assert_eq!(json["targets"][0]["statistics"]["puts"], 1);
}

#[test]
fn a_repair_of_an_earlier_store_changes_no_entry() {
    let place = place();
    let json = place.run(&["repair", "--format", "json"]).ended_with(0).json();
    for target in json["targets"].as_array().unwrap() {
        assert_eq!(target["kernels"], target["whole"], "{json}");
        let is_harmless =
            |done: &serde_json::Value| done["kind"] == "missing-folder" || done["file"].is_null();
        assert!(target["done"].as_array().unwrap().iter().all(is_harmless), "{json}");
    }
    for key in [SQUARE_OF_3, SQUARE_OF_2] {
        let path = entry(&place, key);
        let path = path.to_str().unwrap();
        place.run(&["verify", path]).ended_with(0);
        let found = place.run(&["inspect", path, "--format", "json"]).ended_with(0).json();
        assert_eq!(found["files"][0]["fields"]["key"], key);
        let stored =
            Path::new(STORED).join("store").join(Path::new(path).strip_prefix(place.path("cache")).unwrap());
        assert_eq!(fs::read(path).unwrap(), fs::read(stored).unwrap());
    }
}

/// The compilers of two machines differ, so a build here may miss; the reason names the stored entry.
#[test]
fn a_miss_is_explained_by_an_earlier_entry() {
    let place = place();
    let json = place.run(&["explain", SQUARE, "--target", "cpu", "--format", "json"]).ended_with(0).json();
    let kernel = &json["kernels"][0];
    let is_hit = kernel["outcome"] == "hit" && kernel["key"] == SQUARE_OF_3;
    let nearest = &kernel["nearest"];
    let differs = |part: &str| nearest[part].as_array().is_some_and(|changes| !changes.is_empty());
    let is_nearest = nearest["name"] == "square_7317559369837390528" && !differs("job");
    assert!(is_hit || is_nearest && (differs("toolchain") || differs("spec")), "{json}");
}

/// Files in the manifest are own ones, and the journal restores the foreign kernel that the build replaced.
#[test]
fn an_earlier_directory_is_recognised_and_can_be_undone() {
    let place = place();
    // The journal knows the files by their times, which a checkout does not keep.
    for file in files(&place.path("run/kernels.opkeep-quarantine")) {
        let time = UNIX_EPOCH + Duration::from_nanos(1_795_481_878_519_643_611);
        fs::File::open(file).unwrap().set_modified(time).unwrap();
    }
    let ran = place.run(&["build", SQUARE, "--target", "cpu", "--kernel-meta", "run/kernels"]).ended_with(0);
    assert!(!ran.stderr.contains("left as it is"), "{ran:?}");
    let object = place.path("run/kernels/square_11387612731425293546_0.o");
    let ours = fs::read(&object).unwrap();
    let json = place.run(&["repair", "--undo", "run/kernels", "--format", "json"]).ended_with(0).json();
    assert_eq!(json["undone"][0]["restored"].as_array().unwrap().len(), 2, "{json}");
    assert_eq!(json["undone"][0]["left"].as_array().unwrap().len(), 0, "{json}");
    assert_ne!(fs::read(&object).unwrap(), ours);
    place.run(&["verify", "run/kernels"]).ended_with(0);
}

/// Stores of earlier versions have no mark: their counters file or their entries identify them.
#[test]
fn a_store_of_an_earlier_version_is_read_and_marked() {
    for lost in [&[][..], &["size"], &["size", "stats"], &["entries", "stats"]] {
        let place = Place::new();
        let build = |mode: &str| {
            let args =
                ["build", SQUARE, "--no-kernel-meta", "--format", "json", "--op_compiler_cache_mode", mode];
            place.run(&args).ended_with(0)
        };
        assert_eq!(build("enable").count("compiled"), 1);
        let (version, target) =
            (place.path("cache/v1"), place.path("cache/v1").join(format!("cpu-{}", std::env::consts::ARCH)));
        let marks = [version.join("STORE.TAG"), target.join("STORE.TAG")];
        let text = marks.each_ref().map(|mark| fs::read(mark).unwrap());
        let remove_marks = || {
            marks.iter().for_each(|mark| fs::remove_file(mark).unwrap());
            fs::remove_file(place.path("cache/CACHEDIR.TAG")).unwrap();
        };
        remove_marks();
        for name in lost {
            let path = target.join(name);
            if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
        }
        let outcome = if lost.contains(&"entries") { "compiled" } else { "reused" };
        assert_eq!(build("read-only").count(outcome), 1, "{lost:?}");
        place.run(&["verify"]).ended_with(0);
        assert!(!marks[0].exists() && !marks[1].exists(), "reading writes nothing");
        assert_eq!(build("enable").count(outcome), 1, "{lost:?}");
        assert_eq!(marks.each_ref().map(|mark| fs::read(mark).unwrap()), text);
        remove_marks();
        place.run(&["clear"]).ended_with(0);
        assert!(place.entries().is_empty());
    }
}
