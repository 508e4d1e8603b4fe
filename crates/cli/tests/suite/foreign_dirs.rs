//! Foreign directories that look like a store are not changed; missing stores are not created.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::fs;

use crate::common::{Place, SQUARE, square_of};
use opkeep_testkit::DirSnapshot;
use opkeep_testkit::caches::age;

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
            let ran = place.run(command).ended_with(2).says("is not opkeep's: it has no STORE.TAG");
            assert_eq!(ran.stderr.lines().count(), 3, "an error, and two things to do: {ran:?}");
            assert_eq!(DirSnapshot::of(&place.path("cache")).unwrap(), before, "{command:?} {layout:?}");
        }
        let build = ["build", SQUARE, "--no-kernel-meta"];
        place.run(&build).ended_with(0).says("building without the store").says("no STORE.TAG");
        for mode in ["read-only", "force"] {
            let mode = ["--op_compiler_cache_mode", mode];
            assert!(place.run(&[&build[..], &mode].concat()).code.is_some());
        }
        assert_eq!(DirSnapshot::of(&place.path("cache")).unwrap(), before, "{layout:?}");
        // Named as an argument, it is no store, either.
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
            let ran = ran.says("v1/cpu-theirs` is not opkeep's");
            let json = ran.json();
            let store = if *command == ["verify"] { &json["stores"][0] } else { &json };
            assert_eq!(store["targets"].as_array().unwrap().len(), 1, "{ran:?}");
            assert_eq!(ran.json()["warnings"].as_array().unwrap().len(), 1, "{ran:?}");
        }
        assert!(place.entries().iter().all(|entry| *entry == foreign), "ours is cleared");
        assert_eq!(DirSnapshot::of(&place.path("cache/v1/cpu-theirs")).unwrap(), before);
    }
}

/// A build for such a target continues without the store, and warns once.
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
    assert_eq!(ran.says("building without the store").stderr.matches("is not opkeep's").count(), 1);
    assert_eq!(DirSnapshot::of(&place.path("cache")).unwrap(), before);
}

#[test]
fn no_command_creates_a_missing_store() {
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

/// A link, and a directory.
#[test]
fn a_link_or_directory_is_no_mark() {
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
        place.run(&["clear"]).ended_with(2).says("is not opkeep's");
    }
}

/// A foreign file in place of a directory that only writes need: hits are served, nothing is stored, and the file stays.
#[test]
fn a_foreign_file_in_place_of_a_directory_stops_writes_only() {
    for name in ["locks", "tmp", "quarantine"] {
        let place = Place::new();
        let build = ["build", SQUARE, "--no-kernel-meta", "--format", "json"];
        place.run(&build).ended_with(0);
        let path = place.path(&format!("cache/v1/{}/{name}", host()));
        fs::remove_dir_all(&path).unwrap();
        fs::write(&path, "a user's").unwrap();
        let other = place.write("other.info", square_of(7));
        let mixed = [&build[..], &[other.to_str().unwrap()]].concat();
        for _ in 0..2 {
            let ran = place.run(&mixed).ended_with(0).says(&path.display().to_string());
            assert_eq!((ran.count("reused"), ran.count("compiled")), (1, 1), "{name}: {ran:?}");
            assert_eq!(ran.json()["warnings"].as_array().unwrap().len(), 1, "{name}: {ran:?}");
            assert!(
                ran.stderr.contains("kernels are built and not kept: ") && ran.stderr.contains("\nhelp: "),
                "{ran:?}"
            );
        }
        let doctor = place.run(&["doctor", "--target", "cpu"]).ended_with(0);
        assert!(
            doctor.stdout.contains(&format!(
                "problem  store            kernels for {} are built and not kept: ",
                host()
            )),
            "{doctor:?}"
        );
        for command in [&["gc", "--max-size", "1"][..], &["repair"], &["verify"], &["clear"], &["stats"]] {
            assert!(place.run(command).code.is_some(), "{command:?}");
            assert_eq!(fs::read(&path).unwrap(), b"a user's", "{command:?}");
        }
    }
}
