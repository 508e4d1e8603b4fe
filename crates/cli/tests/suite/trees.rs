//! Trees of directories as users have them: links, directories in caches, strange names, very many files.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::fs;
use std::os::unix::fs::symlink;

use crate::common::{Place, SQUARE};
use opkeep_testkit::ascend::{Chip, Pair, fat_binary_of};
use opkeep_testkit::caches::{CachedKernelFiles, Rank, age, cann_kernel};
use serde_json::Value;

/// Writes a kernel, intact or with a truncated object, dated so long ago that it is not in progress.
fn put(place: &Place, directory: &str, kernel: &CachedKernelFiles, is_cut: bool) {
    let directory = place.path(directory);
    kernel.write(&directory).unwrap();
    let file = |suffix: &str| directory.join(format!("{}.{suffix}", kernel.stem));
    if is_cut {
        fs::write(file("o"), &kernel.object[..kernel.object.len() / 2]).unwrap();
    }
    for file in ["o", "json", "info"].map(file).iter().filter(|file| file.exists()) {
        age(file).unwrap();
    }
}

#[track_caller]
fn verified(place: &Place, args: &[&str], code: i32, numbers: [u64; 3]) -> Value {
    let json = place.run(&[&["verify", "--format", "json"], args].concat()).ended_with(code).json();
    let found = ["checked", "valid", "refused"].map(|name| json[name].as_u64().unwrap());
    assert_eq!(found, numbers, "{args:?}: {json}");
    json
}

/// Directories that frameworks create in a cache for another purpose, and others.
#[test]
fn pairs_in_any_directory_of_a_cache_are_judged() {
    let (one, other) = (cann_kernel("Ascend910B2", 1), cann_kernel("Ascend910B2", 2));
    let parts = ["tbe_prebuild_res", "akg", "tbe", "composite", "x"];
    let nested =
        ["tbe_prebuild_res/a/b", "akg/kernel_meta_1/kernel_meta", "tbe_prebuild_res/tbe_prebuild_res"];
    for cache in ["rank_0/kernel_meta", "akg_kernel_meta", "kernel_cache/Ascend910B2"] {
        for below in parts.iter().chain(&nested) {
            let directory = format!("run/{cache}/{below}");
            for is_cut in [false, true] {
                let place = Place::new();
                put(&place, &format!("run/{cache}"), &other, false);
                put(&place, &directory, &one, is_cut);
                let (code, refused) = (i32::from(is_cut), u64::from(is_cut));
                verified(&place, &["run"], code, [2, 2 - refused, refused]);
                verified(&place, &[&directory], code, [1, 1 - refused, refused]);
            }
        }
    }
}

/// A precompile is no kernel, and is not counted as another item.
#[test]
fn precompiles_are_no_kernels() {
    let place = Place::new();
    let rank = Rank::new(0);
    put(&place, "run/rank_0/kernel_meta", &rank.square(1), false);
    place.write("run/rank_0/kernel_meta/tbe_prebuild_res/a.json", "{\"op_pattern\": \"ElemWise\"}");
    let json = verified(&place, &["run"], 0, [1, 1, 0]);
    assert_eq!(json["passed_over_count"], 0, "{json}");
}

/// On clusters the directories of ranks are on other disks.
#[test]
fn links_to_directories_of_kernels_are_followed() {
    let ranks = [0, 1].map(Rank::new);
    type Link = fn(&Place);
    let links: [(&str, Link); 4] = [
        ("far/kernel_meta", |place| symlink("../far", place.path("run/rank_1")).unwrap()),
        ("far", |place| {
            fs::create_dir(place.path("run/rank_1")).unwrap();
            symlink(place.path("far"), place.path("run/rank_1/kernel_meta")).unwrap();
        }),
        ("far/rank_1/kernel_meta", |place| symlink("../far", place.path("run/latest")).unwrap()),
        ("far/any/pairs", |place| {
            symlink("../again", place.path("run/again")).unwrap();
            fs::create_dir(place.path("again")).unwrap();
            symlink(place.path("far/any"), place.path("again/latest")).unwrap();
        }),
    ];
    for (directory, link) in links {
        for is_cut in [false, true] {
            let place = Place::new();
            put(&place, "run/rank_0/kernel_meta", &ranks[0].square(1), false);
            put(&place, directory, &ranks[1].square(1), is_cut);
            link(&place);
            let (code, refused) = (i32::from(is_cut), u64::from(is_cut));
            verified(&place, &["run"], code, [2, 2 - refused, refused]);
            let ran = place.run(&["verify", "run"]).ended_with(code);
            assert!(!ran.stderr.contains("was not followed"), "{ran:?}");
            // The user names their target.
            verified(&place, &["--target", "Ascend910A", "run"], code, [2, 2 - refused, refused]);
        }
    }
    // A rank behind a link is compared with the others.
    let place = Place::new();
    for number in [1, 2] {
        put(&place, "run/rank_0/kernel_meta", &ranks[0].square(number), false);
    }
    put(&place, "far/kernel_meta", &ranks[1].square(1), false);
    symlink("../far", place.path("run/rank_1")).unwrap();
    let json = verified(&place, &["run"], 1, [3, 3, 0]);
    assert_eq!(json["ranks"][0]["ranks"][1]["lacks"].as_array().unwrap().len(), 1, "{json}");
}

#[test]
fn links_lead_to_each_directory_once_and_never_above() {
    let place = Place::new();
    let rank = Rank::new(0);
    put(&place, "run/rank_0/kernel_meta", &rank.square(1), false);
    put(&place, "beside/rank_0/kernel_meta", &rank.square(2), true);
    let link = |to: &str, name: &str| symlink(to, place.path(name)).unwrap();
    link("rank_0", "run/rank_1");
    link("../rank_0", "run/rank_0/again");
    link(".", "run/here");
    link("loop", "run/loop");
    link("nowhere", "run/gone");
    link("/proc", "run/proc");
    link("/proc/self", "run/self");
    verified(&place, &["run"], 0, [1, 1, 0]);
    verified(&place, &["run", "./run", "run/rank_1/kernel_meta"], 0, [1, 1, 0]);
    put(&place, "pairs/a", &rank.square(4), false);
    link("a", "pairs/b");
    verified(&place, &["pairs", "pairs/b", "./pairs"], 0, [1, 1, 0]);
    // The parent directory was not named.
    link("..", "run/up");
    let ran = place.run(&["verify", "run"]).ended_with(0).says("`run/up` is a link to a directory above");
    assert!(ran.stdout.contains("1 kernel checked: 1 valid"), "{ran:?}");
    // A directory with the name of a cache that cannot be judged is a problem.
    for (to, says) in
        [("nowhere", "No such file"), ("..", "above what was named"), ("/", "above what was named")]
    {
        link(to, "run/rank_2");
        let ran = place.run(&["verify", "run"]).ended_with(2).says("run/rank_2").says(says);
        assert!(ran.stdout.contains("1 kernel checked: 1 valid"), "{ran:?}");
        fs::remove_file(place.path("run/rank_2")).unwrap();
    }
    // Quarantined files are not judged through a link, either.
    put(&place, "run/rank_0/kernel_meta.opkeep-quarantine/1", &rank.square(3), true);
    link("rank_0/kernel_meta.opkeep-quarantine/1", "run/old");
    verified(&place, &["run"], 0, [1, 1, 0]);
}

/// Repair changes nothing behind a link, and reports the skipped link.
#[test]
fn repair_follows_no_link() {
    let place = Place::new();
    let ranks = [0, 1].map(Rank::new);
    put(&place, "run/rank_0/kernel_meta", &ranks[0].square(1), false);
    put(&place, "far/kernel_meta", &ranks[1].square(1), true);
    symlink("../far", place.path("run/rank_1")).unwrap();
    let before = crate::common::files(&place.path("far"));
    let ran = place.run(&["repair", "run"]).ended_with(1);
    assert!(ran.stdout.contains("run/rank_1") || ran.stderr.contains("run/rank_1"), "{ran:?}");
    assert_eq!(crate::common::files(&place.path("far")), before);
    place.run(&["repair", "run/rank_1"]).ended_with(0);
    assert_ne!(crate::common::files(&place.path("far")), before);
}

/// Names are judged by the directory, whatever characters they have.
#[test]
fn kernels_with_strange_names_are_judged_as_all_others() {
    for name in ["a\nb", "a b", "\u{202e}a", "$(id)", "a'b", "-n", "é"] {
        for is_cut in [false, true] {
            let place = Place::new();
            let kernel = CachedKernelFiles { stem: name.to_owned(), ..Rank::new(0).square(1) };
            put(&place, "run/rank_0/kernel_meta", &kernel, is_cut);
            let (code, refused) = (i32::from(is_cut), u64::from(is_cut));
            verified(&place, &["run"], code, [1, 1 - refused, refused]);
            if is_cut {
                place.run(&["repair", "run"]).ended_with(0);
                verified(&place, &["run"], 2, [0, 0, 0]);
                place.run(&["repair", "--undo", "run"]).ended_with(0);
                verified(&place, &["run"], 1, [1, 0, 1]);
            }
        }
    }
    // A name that leads to another directory is reported.
    let place = Place::new();
    let kernel = cann_kernel("Ascend910B2", 1);
    let mut json: Value = serde_json::from_slice(&kernel.json).unwrap();
    json["binFileName"] = "../a\nb".into();
    let kernel = CachedKernelFiles { json: serde_json::to_vec(&json).unwrap(), ..kernel };
    put(&place, "run/kernel_cache/Ascend910B2", &kernel, false);
    let ran = place.run(&["verify", "run"]).ended_with(1);
    assert!(ran.stdout.contains("names `../a\\nb`: such a name may leave the directory"), "{ran:?}");
}

#[test]
fn a_command_that_is_proposed_can_be_typed() {
    let place = Place::new();
    put(&place, "it's a\nrun/rank_0/kernel_meta", &Rank::new(0).square(1), true);
    let ran = place.run(&["verify", "it's a\nrun"]).ended_with(1);
    let line = ran.stdout.lines().find_map(|line| line.strip_prefix("`opkeep repair ")).unwrap();
    let args = line.rsplit_once("` quarantines").unwrap().0;
    let mut bash = std::process::Command::new("bash");
    bash.args(["-c", &format!("exec '{}' repair {args}", env!("CARGO_BIN_EXE_opkeep"))]);
    bash.current_dir(place.dir.path());
    assert_eq!(crate::common::ran(&mut bash).code, Some(0), "{args}");
}

/// A named path without kernels is an error, as a store or as a cache.
#[test]
fn a_named_store_that_is_missing_is_an_error() {
    let place = Place::new();
    fs::create_dir(place.path("empty")).unwrap();
    let commands: [&[&str]; 7] = [
        &["verify"],
        &["stats"],
        &["stats", "--zero"],
        &["gc"],
        &["gc", "--dry-run"],
        &["clear"],
        &["repair"],
    ];
    for command in commands {
        for missing in ["missing", "empty", "missing/deeper"] {
            for flag in ["--cache-dir", "--op_compiler_cache_dir"] {
                let args = [command, &[flag, missing]].concat();
                place.run(&args).ended_with(2).says("there is no store at").says(missing);
                let json = place.run(&[&args[..], &["--format", "json"]].concat()).ended_with(2).json();
                assert!(json.to_string().contains("there is no store at"), "{args:?}: {json}");
            }
        }
        assert!(!place.path("missing").exists() && crate::common::files(&place.path("empty")).is_empty());
        // The first build creates the default store.
        let ran = place.run(command).ended_with(0);
        assert!(ran.stdout.contains("there is no store at"), "{ran:?}");
    }
    place.run(&["build", SQUARE, "--cache-dir", "made"]).ended_with(0);
    for command in commands {
        place.run(&[command, &["--cache-dir", "made"]].concat()).ended_with(0);
    }
}

#[test]
fn skipped_files_are_counted_and_some_are_named() {
    let place = Place::new();
    place.run(&["build", SQUARE]).ended_with(0);
    for number in 0..1000 {
        place.write(&format!("rank_0/notes/{number}.json"), "{}");
    }
    for args in [&["rank_0"][..], &["--target", "cpu", "rank_0"]] {
        let json = verified(&place, args, 0, [1, 1, 0]);
        assert_eq!(json["passed_over_count"], 1000, "{json}");
        assert_eq!(json["passed_over"].as_array().unwrap().len(), 100, "{json}");
        let ran = place.run(&[&["verify"], args].concat()).ended_with(0);
        assert!(ran.stdout.contains("1000 files of other kinds skipped"), "{ran:?}");
    }
}

/// A fat binary is launched by the object that fits the shape: any of them may be for another chip.
#[test]
fn every_object_of_a_fat_binary_is_compared_with_its_chip() {
    use Chip::{Ascend310B, Ascend910B};
    for (chips, refused) in [
        ([Ascend910B; 2], 0),
        ([Ascend910B, Ascend310B], 1),
        ([Ascend310B, Ascend910B], 1),
        ([Ascend310B; 2], 1),
    ] {
        let pair = fat_binary_of("Tile_1", chips);
        let place = Place::new();
        write(&place, "kernel_cache/Ascend910B2", &pair);
        verified(&place, &["kernel_cache"], refused, [1, 1 - refused as u64, refused as u64]);
        // A descriptor states the chip, in a cache and elsewhere.
        let info = Rank { soc: "Ascend910B2", ..Rank::new(0) }.square(1).info.unwrap();
        for directory in ["rank_0/kernel_meta", "copied"] {
            write(&place, directory, &pair);
            place.write(&format!("{directory}/Tile_1.info"), &info);
            verified(&place, &[directory], refused, [1, 1 - refused as u64, refused as u64]);
        }
        // The other kernels of the directory state it.
        for number in 1..=3 {
            put(&place, "rank_1/kernel_meta", &cann_kernel("Ascend910B2", number), false);
        }
        write(&place, "rank_1/kernel_meta", &pair);
        verified(&place, &["rank_1"], refused, [4, 4 - refused as u64, refused as u64]);
    }
}

fn write(place: &Place, directory: &str, pair: &Pair) {
    for (name, bytes) in pair.file_names().iter().zip([&pair.json, &pair.object]) {
        age(&place.write(&format!("{directory}/{name}"), bytes)).unwrap();
    }
}

#[test]
fn no_walk_enters_a_pseudo_file_system() {
    for (command, args) in
        [("verify", &["--target", "cpu"][..]), ("verify", &[]), ("build", &[]), ("explain", &[])]
    {
        for path in ["/proc", "/proc/self", "/proc/self/../sys", "/sys"] {
            let place = Place::new();
            let ran = place.run(&[&[command], args, &[path]].concat()).ended_with(2);
            assert!(ran.stderr.contains("pseudo file system"), "{ran:?}");
        }
    }
}
