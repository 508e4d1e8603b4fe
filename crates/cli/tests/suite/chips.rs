//! Kernels for other chips than the target, and directories of CANN and its users.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::fs;
use std::path::Path;

use crate::common::{Place, Ran, SQUARE};
use opkeep_testkit::DirSnapshot;
use opkeep_testkit::ascend::{Chip, Kernel, Pair};
use opkeep_testkit::caches::{CachedKernelFiles, Rank, age, cann_kernel};
use serde_json::{Value, json};

/// The descriptor of a 910A, with the kernel of a 910B and its digest beside it.
fn other_chip(rank: &Rank) -> CachedKernelFiles {
    rank.square(1).compiled_for(Chip::Ascend910B)
}

/// A run in which rank 0 has one intact kernel, and one for another chip.
fn run() -> (Place, CachedKernelFiles) {
    let place = Place::new();
    let rank = Rank::new(0);
    rank.square(2).write(&rank.dir(&place.path("run"))).unwrap();
    let other = other_chip(&rank);
    other.write(&rank.dir(&place.path("run"))).unwrap();
    (place, other)
}

fn put(dir: &Path, pair: &Pair) {
    fs::create_dir_all(dir).unwrap();
    let [json, object] = pair.file_names();
    for (name, bytes) in [(json, &pair.json), (object, &pair.object)] {
        fs::write(dir.join(&name), bytes).unwrap();
        age(&dir.join(&name)).unwrap();
    }
}

#[track_caller]
fn checked(place: &Place, path: &str, code: i32, numbers: [u64; 3]) -> Value {
    let ran = place.run(&["verify", path, "--format", "json"]).ended_with(code);
    let json = ran.json();
    let found = ["checked", "valid", "refused"].map(|name| json[name].as_u64().unwrap());
    assert_eq!(found, numbers, "{path}: {json}");
    json
}

fn says(ran: &Ran, words: &[&str]) {
    for word in words {
        assert!(ran.stdout.contains(word), "expected `{word}`: {ran:?}");
    }
}

#[test]
fn verify_refuses_a_kernel_for_another_chip() {
    let (place, other) = run();
    let ran = place.run(&["verify", "run"]).ended_with(1);
    says(
        &ran,
        &[
            &format!("other chip  run/rank_0/kernel_meta/{}: the object is for Ascend 910B", other.stem),
            "(e_flags 0x930000), but its descriptor names Ascend910A",
            "2 kernels checked: 1 valid, 1 refused",
        ],
    );
    assert!(!ran.stdout.contains("opkeep repair"), "{ran:?}");
    let json = checked(&place, "run", 1, [2, 1, 1]);
    let cache = &json["caches"][0];
    assert_eq!((&cache["other_chip"], &cache["damaged"]), (&json!(1), &json!(0)), "{json}");
    let items = cache["items"].as_array().unwrap();
    let item = items.iter().find(|item| item["name"] == other.stem.as_str()).unwrap();
    assert_eq!((&item["state"], &item["effect"]), (&json!("other chip"), &json!("fails-later")), "{item}");

    // The same where its files are named, and in a directory that is no cache.
    let file = format!("run/rank_0/kernel_meta/{}.json", other.stem);
    for command in ["verify", "inspect"] {
        let json = place.run(&[command, &file, "--format", "json"]).ended_with(1).json();
        assert_eq!(json["files"][0]["findings"][0]["code"], "OPV031", "{json}");
    }
    other.write(&place.path("copied")).unwrap();
    checked(&place, "copied", 1, [1, 0, 1]);
}

#[test]
fn repair_does_not_move_a_kernel_for_another_chip() {
    let (place, other) = run();
    let before = DirSnapshot::of(&place.path("run")).unwrap();
    for force in [&[][..], &["--force"]] {
        let ran = place.run(&[&["repair", "run"], force].concat()).ended_with(1);
        says(&ran, &[&other.stem, "but its descriptor names Ascend910A: it is not damaged, so it stays"]);
    }
    let kernels = |dir: &DirSnapshot| {
        dir.files().map(Path::to_owned).filter(|path| !path.ends_with(".opkeep.lock")).collect::<Vec<_>>()
    };
    assert_eq!(kernels(&DirSnapshot::of(&place.path("run")).unwrap()), kernels(&before));
}

#[test]
fn import_skips_a_kernel_for_another_chip() {
    let (place, other) = run();
    let ran = place.run(&["import", "run", "--format", "json"]).ended_with(1);
    let json = ran.json();
    assert_eq!((&json["imported"], &json["passed_over"]["other-chip"]), (&json!(1), &json!(1)), "{json}");
    let not = &json["caches"][0]["not_imported"][0];
    assert_eq!((&not["name"], &not["reason"]), (&json!(other.stem), &json!("other-chip")), "{json}");
    assert_eq!(place.entries().len(), 1);
}

/// A kernel for the host that a build placed on request is valid, but no other rank is filled with it.
#[test]
fn kernels_that_a_build_placed_are_valid_and_not_copied() {
    let place = Place::new();
    place.run(&["build", SQUARE]).ended_with(0);
    place.run(&["verify", "rank_0"]).ended_with(0);
    fs::create_dir_all(place.path("rank_1/kernel_meta")).unwrap();
    let ran = place.run(&["repair", "--fill", "--device-map", "0=2,1=3", "."]).ended_with(1);
    says(&ran, &["is no kernel for Ascend910A, which its descriptor names: `e_machine` of the object"]);
    assert!(fs::read_dir(place.path("rank_1/kernel_meta")).unwrap().next().is_none());
    // If it is judged as a framework's kernel, it is for another machine.
    fs::remove_file(place.path("rank_0/kernel_meta/.opkeep-manifest")).unwrap();
    checked(&place, "rank_0", 1, [1, 0, 1]);
    checked(&place, "rank_0/kernel_meta/square_12484080525657478220_2.json", 1, [1, 0, 1]);
}

/// Directories that CANN creates while it compiles, and directories in which packages are built.
#[test]
fn directories_of_compilers_are_searched() {
    for dir in [
        "kernel_meta/kernel_meta_4711/kernel_meta",
        "kernel_meta/kernel_meta_a/kernel_meta/kernel_meta_b/kernel_meta",
        "kernel_meta_Add_5f0e/kernel_meta",
        "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/kernel_meta",
        "p/build_out/kernel/ascend910b/square",
        "p/build_out/op_kernel/binary/ascend910b/bin/square",
        "p/_CPack_Packages/Linux/External/x.run/packages/vendors/v/op_impl/ai_core/tbe/kernel/ascend910b/square",
        "just/some/pairs",
        "kernel_meta/just/some/pairs",
    ] {
        let place = Place::new();
        let dir = place.path("top").join(dir);
        let mut kernel = cann_kernel("Ascend910B2", 1);
        kernel.write(&dir).unwrap();
        checked(&place, "top", 0, [1, 1, 0]);
        kernel.object.truncate(kernel.object.len() / 2);
        kernel.write(&dir).unwrap();
        checked(&place, "top", 1, [1, 0, 1]);
        kernel.object.clear();
        kernel.write(&dir).unwrap();
        let ran = place.run(&["verify", "top"]).ended_with(1);
        let (empty, digest) = (ran.stdout.find("an empty file"), ran.stdout.find("OPV005"));
        assert!(empty.is_some() && empty < digest, "{ran:?}");
    }
}

/// A description that no compiler writes and every loader accepts causes a warning, in a cache and by itself.
#[test]
fn odd_descriptions_are_warned_of_in_caches_too() {
    type Change = fn(&mut serde_json::Map<String, Value>);
    let changes: [(&str, Change); 7] = [
        ("OPV018", |fields| drop(fields.insert("kernelName".into(), "other".into()))),
        ("OPV018", |fields| drop(fields.remove("kernelName"))),
        ("OPV019", |fields| drop(fields.insert("coreType".into(), "QuantumCore".into()))),
        ("OPV056", |fields| drop(fields.remove("blockDim"))),
        ("OPV056", |fields| drop(fields.remove("workspace"))),
        ("OPV056", |fields| {
            fields.remove("coreType");
            fields.remove("core_type");
        }),
        ("OPV008", |fields| drop(fields.insert("magic".into(), "RT_DEV_BINARY_MAGIC_ELF".into()))),
    ];
    for (code, change) in changes {
        let place = Place::new();
        let pair = Kernel::new(Chip::Ascend910B, "Add_69cf").build();
        let dir = place.path("opp/op_impl/ai_core/tbe/kernel/ascend910b/add");
        put(&dir, &pair.clone().with_fields(change));
        put(&dir, &Kernel::new(Chip::Ascend910B, "Sub_12ab").build());
        let ran = place.run(&["verify", "opp"]).ended_with(0);
        says(&ran, &["warning     opp/op_impl", code]);
        let json = checked(&place, "opp", 0, [2, 2, 0]);
        let items = json["caches"][0]["items"].as_array().unwrap();
        assert_eq!(items.len(), 1, "{json}");
        let notes = items[0]["notes"].to_string();
        assert!(notes.contains(code), "{code}: {notes}");
        let file = dir.join("Add_69cf.json");
        let ran = place.run(&["verify", file.to_str().unwrap()]).ended_with(0);
        says(&ran, &["  warning  ", code]);
    }
}

/// Compilers for hosts leave their objects in the same trees.
#[test]
fn objects_of_other_programs_are_no_kernels() {
    let place = Place::new();
    let host = opkeep_testkit::elf::host_object(&["main"], "");
    place.write("p/CMakeFiles/x.dir/main.cpp.o", &host);
    place.write("p/CMakeFiles/x.dir/broken.o", "!<arch>");
    place.write("p/compile_commands.json", "[{\"file\": \"main.cpp\"}]");
    place.write("p/settings.json", "{\"a\": // comment");
    place.run(&["verify", "p"]).ended_with(2).says("there is no kernel file in `p`");
    put(&place.path("p/kernel/ascend310b/add"), &Kernel::new(Chip::Ascend310B, "Add_1e04").build());
    checked(&place, "p", 0, [1, 1, 0]);
    // An object for Ascend is a kernel wherever it lies.
    place.write("p/lib/alone.o", Kernel::new(Chip::Ascend310P, "Alone_1").build().object);
    checked(&place, "p", 0, [2, 2, 0]);
}

#[test]
fn a_path_without_a_kernel_is_an_error() {
    let place = Place::new();
    for dir in ["empty", "cache/kernel_meta", "cache/rank_0/kernel_meta", "atc/kernel_cache/Ascend910B2"] {
        fs::create_dir_all(place.path(dir)).unwrap();
        for path in [dir, dir.split('/').next().unwrap()] {
            let says = format!("there is no kernel file in `{path}`");
            let ran = place.run(&["verify", path, "--format", "json"]).ended_with(2).says(&says);
            assert_eq!(ran.json()["unusable"], 1, "{ran:?}");
        }
    }
    // The other named paths are checked.
    cann_kernel("Ascend910B2", 1).write(&place.path("full/kernel_cache/Ascend910B2")).unwrap();
    let json = place.run(&["verify", "full", "empty", "full", "--format", "json"]).ended_with(2).json();
    assert_eq!((&json["checked"], &json["valid"], &json["unusable"]), (&json!(1), &json!(1), &json!(1)));
}

/// Pseudo file systems are never entered, however they are reached.
#[test]
fn pseudo_file_systems_are_not_entered() {
    let place = Place::new();
    let ran = place.run(&["verify", "/proc", "/sys/kernel", "--format", "json"]).ended_with(2);
    assert_eq!(ran.json()["unusable"], 2, "{ran:?}");
    assert!(!ran.stderr.contains("/proc/"), "{ran:?}");
}

/// Names that no toolkit has.
const UNKNOWN: [&str; 5] = ["Ascend910B9", "Ascend910C", "AscendXYZ", "310P3", ""];

/// A rank's directory with kernels for these chips; all descriptors name `soc`.
fn rank_naming(place: &Place, soc: &'static str, chips: &[Chip]) -> Vec<CachedKernelFiles> {
    let rank = Rank { soc, ..Rank::new(0) };
    let kernel = |(number, chip): (u32, &Chip)| {
        let kernel = rank.square(number).compiled_for(*chip);
        kernel.write(&rank.dir(&place.path("run"))).unwrap();
        kernel
    };
    (1..).zip(chips).map(kernel).collect()
}

#[test]
fn kernels_for_an_unknown_chip_cannot_be_judged() {
    for soc in UNKNOWN {
        let place = Place::new();
        let kernels = rank_naming(&place, soc, &[Chip::Ascend910B, Chip::Ascend910B]);
        let ran = place.run(&["verify", "run"]).ended_with(0);
        says(&ran, &[&format!("cannot be judged: unknown chip `{soc}` (and 1 more)")]);
        let json = checked(&place, "run", 0, [2, 2, 0]);
        let notes: Vec<&Value> =
            json["caches"][0]["items"].as_array().unwrap().iter().map(|item| &item["notes"]).collect();
        assert_eq!(notes.len(), 2, "{json}");
        // By themselves, they are valid for some chip and not for this one.
        for directory in ["run/rank_0/kernel_meta", "copied"] {
            kernels[0].write(&place.path("copied")).unwrap();
            let ran = place.run(&["verify", &format!("{directory}/{}.json", kernels[0].stem)]).ended_with(0);
            says(&ran, &["for Ascend\n", "OPV032", &format!("unknown chip `{soc}`")]);
        }
        // A kernel that differs from the others in its chip is still an error.
        let place = Place::new();
        let odd =
            rank_naming(&place, soc, &[Chip::Ascend910B, Chip::Ascend910B, Chip::Ascend910]).pop().unwrap();
        let ran = place.run(&["verify", "run"]).ended_with(1);
        says(
            &ran,
            &[
                &format!("other chip  run/rank_0/kernel_meta/{}", odd.stem),
                "2 for Ascend 910B",
                "unknown chip",
            ],
        );
        checked(&place, "run", 1, [3, 2, 1]);
    }
}

/// A chip that CANN compiles for, and of which no object was ever seen.
#[test]
fn kernels_for_a_chip_without_samples_cannot_be_judged() {
    let place = Place::new();
    rank_naming(&place, "Ascend310", &[Chip::Ascend910]);
    let ran = place.run(&["verify", "run"]).ended_with(0);
    says(&ran, &["cannot be judged: no object for `Ascend310` was available"]);
}

#[test]
fn a_kernel_for_an_unknown_chip_is_neither_imported_nor_copied() {
    for soc in UNKNOWN {
        let place = Place::new();
        rank_naming(&place, soc, &[Chip::Ascend910]);
        let ran = place.run(&["import", "run", "--format", "json"]);
        let json = ran.json();
        assert_eq!(json["imported"], 0, "{json}");
        let not = &json["caches"][0]["not_imported"][0];
        if soc.starts_with("Ascend") {
            assert_eq!((ran.code, &not["reason"]), (Some(2), &json!("unknown-chip")), "{json}");
            assert!(not.to_string().contains("cannot be judged: unknown chip"), "{not}");
        }
        assert!(place.entries().is_empty());
        fs::create_dir_all(place.path("run/rank_1/kernel_meta")).unwrap();
        let ran = place.run(&["repair", "--fill", "--device-map", "0=0,1=1", "run"]).ended_with(1);
        says(&ran, &[&format!("cannot be judged: unknown chip `{soc}`")]);
        assert!(fs::read_dir(place.path("run/rank_1/kernel_meta")).unwrap().next().is_none());
    }
}

#[test]
fn nothing_is_valid_for_a_chip_that_is_not_known() {
    let place = Place::new();
    let kernel = cann_kernel("Ascend910B2", 1);
    for soc in UNKNOWN {
        let cache = format!("c/kernel_cache/{soc}");
        if soc.starts_with("Ascend") {
            kernel.write(&place.path(&cache)).unwrap();
            let ran = place.run(&["verify", &cache]).ended_with(0);
            says(&ran, &[&format!("cannot be judged: unknown chip `{soc}`")]);
        }
        kernel.write(&place.path("pair")).unwrap();
        let file = format!("pair/{}.json", kernel.stem);
        let ran = place.run(&["verify", "--target", soc, &file]).ended_with(2);
        let ran = ran.says(&format!("the target `{soc}` is not known"));
        assert!(!ran.stdout.contains("valid"), "{ran:?}");
    }
    // A kernel of a store is judged by the name of its target.
    let rank = Rank { soc: "Ascend910B2", ..Rank::new(0) };
    rank.square(1).write(&rank.dir(&place.path("run"))).unwrap();
    place.run(&["import", "run"]).ended_with(0);
    fs::rename(place.path("cache/v1/Ascend910B2"), place.path("cache/v1/Ascend910B9")).unwrap();
    let ran = place.run(&["verify"]);
    says(&ran, &["kernels of Ascend910B9", "cannot be judged: unknown chip `Ascend910B9`"]);
    let ran = place.run(&["verify", place.entries()[0].to_str().unwrap()]);
    assert!(!ran.stdout.contains("for Ascend910B9\n") && ran.stdout.contains("OPV032"), "{ran:?}");
}
