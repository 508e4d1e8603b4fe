//! Foreign directories that look like a store: no command writes to them, and a search creates none.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::fs;

use crate::common::{Place, SQUARE, files, square_of};
use opkeep_testkit::DirSnapshot;
use opkeep_testkit::caches::{Rank, age};
use serde_json::json;

fn host() -> String {
    format!("cpu-{}", std::env::consts::ARCH)
}

/// Layouts of other programs, by the files in `cache`.
fn layouts() -> Vec<Vec<String>> {
    let key = "ab".repeat(32);
    let host = host();
    let with = |files: &[&str]| files.iter().map(|file| format!("v1/{file}")).collect();
    vec![
        with(&["api/index.html"]),
        with(&["notes.txt"]),
        with(&["api/entries/one.json", "api/tmp/x", "api/locks/y", "api/quarantine/z"]),
        with(&[&format!("{host}/index.html")]),
        with(&[&format!("{host}/entries/ab/{key}.kern")]),
        with(&[&format!("{host}/entries/ab/{key}.kern"), &format!("{host}/size"), &format!("{host}/stats")]),
        with(&[&format!("{host}/STORE.TAG"), "STORE.TAG"]),
        [with(&["api/entries/x"]), vec!["CACHEDIR.TAG".to_owned(), "op_cache.ini".to_owned()]].concat(),
    ]
}

#[test]
fn a_directory_of_another_program_is_no_store() {
    for layout in layouts() {
        let place = Place::new();
        for file in &layout {
            age(&place.write(&format!("cache/{file}"), "another program's")).unwrap();
        }
        let before = DirSnapshot::of(&place.path("cache")).unwrap();
        for command in [
            &["clear"][..],
            &["clear", "--dry-run"],
            &["gc", "--older-than", "1s"],
            &["gc", "--max-size", "1"],
            &["repair"],
            &["stats", "--zero"],
            &["verify"],
        ] {
            let ran = place.run(command).ended_with(2).says("is not a store's: opkeep did not make it");
            assert_eq!(ran.stderr.lines().count(), 2, "an error, and what to do: {ran:?}");
            assert_eq!(DirSnapshot::of(&place.path("cache")).unwrap(), before, "{command:?} {layout:?}");
        }
        let build = ["build", SQUARE, "--no-kernel-meta"];
        place.run(&build).ended_with(0).says("building without the store").says("no STORE.TAG");
        for mode in ["read-only", "force"] {
            let mode = ["--op_compiler_cache_mode", mode];
            assert!(place.run(&[&build[..], &mode].concat()).code.is_some());
        }
        assert_eq!(DirSnapshot::of(&place.path("cache")).unwrap(), before, "{layout:?}");
        // It is not judged as a store if it is named, either.
        for command in ["verify", "repair"] {
            assert_ne!(place.run(&[command, "cache"]).code, Some(0), "{command}");
        }
        assert_eq!(DirSnapshot::of(&place.path("cache")).unwrap(), before, "{layout:?}");
    }
}

#[test]
fn a_foreign_directory_beside_targets_is_not_changed() {
    for layout in ["entries/ab/x.kern", "index.html", "size"] {
        let place = Place::new();
        place.run(&["build", SQUARE, "--no-kernel-meta"]).ended_with(0);
        let foreign = place.write(&format!("cache/v1/cpu-theirs/{layout}"), "another program's");
        age(&foreign).unwrap();
        let before = DirSnapshot::of(&place.path("cache/v1/cpu-theirs")).unwrap();
        for command in
            [&["verify"][..], &["repair"], &["stats"], &["gc"], &["clear", "--dry-run"], &["clear"]]
        {
            let ran = place.run(&[command, &["--format", "json"]].concat()).ended_with(0);
            let ran = ran.says("v1/cpu-theirs` is not a store's");
            let json = ran.json();
            let store = if *command == ["verify"] { &json["stores"][0] } else { &json };
            assert_eq!(store["targets"].as_array().unwrap().len(), 1, "{ran:?}");
            assert_eq!(ran.json()["warnings"].as_array().unwrap().len(), 1, "{ran:?}");
        }
        assert!(place.entries().iter().all(|entry| *entry == foreign), "ours is cleared");
        assert_eq!(DirSnapshot::of(&place.path("cache/v1/cpu-theirs")).unwrap(), before);
    }
}

/// A build for a target of this name continues without a store, and warns once.
#[test]
fn a_target_of_another_program_is_not_filled() {
    let place = Place::new();
    let other = place.write("other.info", square_of(9));
    place.run(&["build", SQUARE, "--no-kernel-meta"]).ended_with(0);
    let target = place.path("cache/v1").join(host());
    fs::rename(&target, place.path("moved")).unwrap();
    place.write(&format!("cache/v1/{}/entries/README", host()), "another program's");
    let before = DirSnapshot::of(&place.path("cache")).unwrap();
    let ran = place.run(&["build", other.to_str().unwrap(), "--no-kernel-meta"]).ended_with(0);
    assert_eq!(ran.says("building without the store").stderr.matches("is not a store's").count(), 1);
    assert_eq!(DirSnapshot::of(&place.path("cache")).unwrap(), before);
}

#[test]
fn a_search_for_a_store_creates_none() {
    for root in ["missing", "empty", "project", "with_empty_v1"] {
        let place = Place::new();
        fs::create_dir(place.path("empty")).unwrap();
        place.write("project/main.rs", "fn main() {}");
        fs::create_dir_all(place.path("with_empty_v1/v1")).unwrap();
        let before = DirSnapshot::of(&place.path("")).unwrap();
        for command in [
            &["clear"][..],
            &["gc"],
            &["gc", "--max-size", "1"],
            &["stats", "--zero"],
            &["clear", "--dry-run"],
            &["repair"],
        ] {
            let ran = place.run(&[command, &["--op_compiler_cache_dir", root]].concat());
            // A named store must exist.
            let ran = ran.ended_with(2);
            assert!(ran.stderr.contains("there is no store at"), "{command:?} {ran:?}");
            assert_eq!(DirSnapshot::of(&place.path("")).unwrap(), before, "{command:?} {root}");
            assert!(place.path("with_empty_v1/v1").read_dir().unwrap().next().is_none());
            assert!(
                place.path("empty").read_dir().unwrap().next().is_none() && !place.path("missing").exists()
            );
        }
    }
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
        let (version, target) = (place.path("cache/v1"), place.path("cache/v1").join(host()));
        let marks = [version.join("STORE.TAG"), target.join("STORE.TAG")];
        let text = marks.each_ref().map(|mark| fs::read(mark).unwrap());
        let earlier = || {
            marks.iter().for_each(|mark| fs::remove_file(mark).unwrap());
            fs::remove_file(place.path("cache/CACHEDIR.TAG")).unwrap();
        };
        earlier();
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
        earlier();
        place.run(&["clear"]).ended_with(0);
        assert!(place.entries().is_empty());
    }
}

/// Two forms that are no mark.
#[test]
fn only_a_file_marks() {
    let place = Place::new();
    place.run(&["build", SQUARE, "--no-kernel-meta"]).ended_with(0);
    let mark = place.path("cache/v1/STORE.TAG");
    for make in [
        |path: &std::path::Path| std::os::unix::fs::symlink("../../cache/v1/real", path).unwrap(),
        |path: &std::path::Path| fs::create_dir(path).unwrap(),
    ] {
        let place = Place::new();
        fs::create_dir_all(place.path("cache/v1/api")).unwrap();
        fs::copy(&mark, place.path("cache/v1/real")).unwrap();
        make(&place.path("cache/v1/STORE.TAG"));
        place.run(&["clear"]).ended_with(2).says("is not a store's");
    }
}

/// The same as `verify` reports.
#[test]
fn repair_repairs_a_store_and_the_caches_beside_it() {
    let place = Place::new();
    let build = ["build", SQUARE, "--no-kernel-meta", "--op_compiler_cache_dir", "project"];
    place.run(&build).ended_with(0);
    let rank = Rank::new(0);
    let (intact, damaged) = (rank.square(1), rank.square(2));
    let dir = rank.dir(&place.path("project"));
    intact.write(&dir).unwrap();
    damaged.write(&dir).unwrap();
    let object = dir.join(format!("{}.o", damaged.stem));
    fs::write(&object, &damaged.object[..9]).unwrap();
    age(&object).unwrap();
    let entry = files(&place.path("project/v1"))
        .into_iter()
        .find(|path| path.extension().is_some_and(|e| e == "kern"))
        .unwrap();
    let mut bytes = fs::read(&entry).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&entry, bytes).unwrap();
    place.run(&["verify", "project"]).ended_with(1);

    let dry = place.run(&["repair", "--dry-run", "project", "--format", "json"]).ended_with(0).json();
    assert_eq!((dry["caches"][0]["kernels"].as_u64(), &dry["left"]), (Some(2), &json!(0)), "{dry}");
    assert_eq!(dry["store"]["targets"][0]["done"][0]["what"], "set-aside", "{dry}");
    let ran = place.run(&["repair", "project"]).ended_with(0);
    assert!(
        !entry.exists() && !object.exists() && dir.join(format!("{}.o", intact.stem)).exists(),
        "{ran:?}"
    );
    place.run(&["verify", "project"]).ended_with(0);
    place.run(&["repair", "--undo", "project"]).ended_with(0);
    assert!(object.exists() && !entry.exists());
    place.run(&["repair", "--fill", "project"]).says("the store there is left as it is");
}
