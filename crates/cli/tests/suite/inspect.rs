//! `opkeep inspect` of models and directories.
#![expect(clippy::disallowed_methods, reason = "tests make files")]

use std::fs;

use opkeep_testkit::caches::{Rank, age, cann_kernel};
use serde_json::json;

use crate::common::{Place, SQUARE, square_of};

const LENET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/networks/lenet/model.onnx");

#[test]
fn a_model_is_described_and_its_kernels_are_counted() {
    let place = Place::new();
    let text = place.run(&["inspect", LENET]).ended_with(0);
    let text = text.prints(": ONNX model\n").prints("operator sets").prints("operator Conv");
    let json = place.run(&["inspect", LENET, "--format", "json"]).ended_with(0).json();
    let model = &json["files"][0]["model"];
    assert_eq!(model["open_dims"], json!([]));
    // No compiler ran, and nothing was stored; a build compiles as many kernels.
    assert!(!place.path("cache").exists());
    let built =
        place.run(&["build", LENET, "--target", "cpu", "--no-kernel-meta", "--format", "json"]).json();
    assert_eq!(model["build"]["kernels"], built["compiled"], "{text:?}");
    let nodes: u64 =
        model["operators"].as_array().unwrap().iter().map(|one| one["count"].as_u64().unwrap()).sum();
    assert_eq!(model["nodes"], nodes);
}

#[test]
fn open_dimensions_are_named_and_can_be_given() {
    let place = Place::new();
    place.write("open.onnx", super::options::open_network());
    let open = place.run(&["inspect", "open.onnx"]).ended_with(0);
    open.prints("open dimension batch")
        .prints("not known: kernels are made for fixed shapes")
        .prints("--dim batch=SIZE");
    let sized = place.run(&["inspect", "open.onnx", "--dim", "batch=2"]).ended_with(0);
    sized.prints("built for cpu").prints("1 different kernel");
    place.run(&["inspect", "open.onnx", "--dim", "bach=2"]).ended_with(2).says("help: did you mean `batch`?");
    place
        .run(&["inspect", "open.onnx", "--target", "abacus", "--dim", "batch=2"])
        .ended_with(2)
        .says("abacus");
    place.write("torn.onnx", "torn");
    place.run(&["inspect", "torn.onnx"]).ended_with(2).says("is not an ONNX model");
}

#[test]
fn a_directory_is_named_counted_and_has_a_next_step() {
    let place = Place::new();
    place.run(&["build", SQUARE, "--target", "cpu"]).ended_with(0);
    let rank = Rank::new(1);
    (1..=2).for_each(|elements| rank.square(elements).write(&rank.dir(&place.path("run"))).unwrap());
    let damaged = rank.dir(&place.path("run")).join(format!("{}.json", rank.square(1).stem));
    fs::write(&damaged, "").unwrap();
    age(&damaged).unwrap();
    cann_kernel("Ascend910B2", 1).write(&place.path("run/kernel_cache/Ascend910B2")).unwrap();

    let json = place.run(&["inspect", "run", "cache", "--format", "json"]).ended_with(0).json();
    let found: Vec<_> = json["files"].as_array().unwrap().iter().map(|file| &file["directory"]).collect();
    let what: Vec<_> = found.iter().map(|dir| (&dir["what"], &dir["kernels"])).collect();
    assert_eq!(
        what,
        [(&json!("cann"), &json!(1)), (&json!("mindspore"), &json!(2)), (&json!("store"), &json!(1))],
        "{json}"
    );
    assert_eq!(found[1]["states"], json!({"damaged": 1, "intact": 1}));
    assert_eq!(found[1]["next"], "opkeep verify run/rank_1/kernel_meta");
    assert!(found.iter().all(|dir| dir["bytes"].as_u64() > Some(0) && dir["oldest_seconds"].is_u64()));

    let text = place.run(&["inspect", "run"]).ended_with(0);
    text.prints("kernel_meta of MindSpore").prints("kernel_cache of CANN").prints("`opkeep gc ");
    // Each next step is a command that works.
    for dir in found {
        let line: Vec<&str> = dir["next"].as_str().unwrap().split(' ').skip(1).collect();
        let ran = place.run(&line);
        assert!(ran.code == Some(0) || line[0] == "verify" && ran.code == Some(1), "{line:?}: {ran:?}");
    }
    // An import is advised only where it finds something: not of opkeep's own kernels, nor of what was imported before.
    let next = |dir: &str| {
        let json = place.run(&["inspect", dir, "--format", "json"]).ended_with(0).json();
        json["files"][0]["directory"]["next"].as_str().unwrap().to_owned()
    };
    assert_eq!(next("rank_0/kernel_meta"), "opkeep verify rank_0/kernel_meta");
    rank.square(3).write(&rank.dir(&place.path("run2"))).unwrap();
    assert_eq!(next("run2"), "opkeep import run2/rank_1/kernel_meta --dry-run");
    place
        .run(&["import", "run2/rank_1/kernel_meta", "--dry-run"])
        .ended_with(0)
        .prints("1 kernel would be imported");
    place.run(&["import", "run2"]).ended_with(0);
    assert_eq!(next("run2"), "opkeep verify run2/rank_1/kernel_meta");
    fs::create_dir(place.path("empty")).unwrap();
    place.run(&["inspect", "empty"]).ended_with(2).says("there are no kernels in `empty`");
}

/// An object's sections and symbols are listed: of many, the first, kernels before all others.
#[test]
fn an_object_is_shown_with_sections_and_symbols() {
    let place = Place::new();
    let names: Vec<String> = (0..2000).map(|at| format!("s{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    place.write("many.o", opkeep_testkit::elf::host_object_in(&"x".repeat(50_000), &names));
    let text = place.run(&["inspect", "many.o"]);
    let listed = text.stdout.lines().filter(|line| line.starts_with("  symbol s")).count();
    assert_eq!(listed, 20, "{text:?}");
    assert!(text.stdout.len() < 20_000, "{}", text.stdout.len());
    let json = place.run(&["inspect", "many.o", "--format", "json"]).json();
    let object = &json["files"][0]["object"];
    let symbols = object["symbols"].as_array().unwrap();
    let more = symbols.len() - 20;
    text.prints(&format!("  and {more} more symbols: --format json lists all\n"));

    place.run(&["build", SQUARE, "--target", "cpu"]).ended_with(0);
    let kernel = crate::common::files(&place.path("rank_0/kernel_meta"));
    let kernel = kernel.iter().find(|path| path.extension().is_some_and(|it| it == "o")).unwrap();
    let kernel = kernel.to_str().unwrap();
    let text = place.run(&["inspect", kernel]).ended_with(0);
    let text = text.prints("\n  section .text ").prints("__kernel0  global function in .text, ");
    let json = place.run(&["inspect", kernel, "--format", "json"]).ended_with(0).json();
    let object = &json["files"][0]["object"];
    let symbol = &object["symbols"][0];
    let section = &object["sections"][symbol["section"].as_u64().unwrap() as usize];
    assert_eq!(
        (&section["name"], &symbol["kind"], &symbol["is_global"]),
        (&json!(".text"), &json!("function"), &json!(true))
    );
    assert_eq!(symbol["sha256"].as_str().unwrap().len(), 64);
    // A diff compares the same sections and symbols.
    let all = object["sections"].as_array().unwrap().len() + object["symbols"].as_array().unwrap().len();
    let shown =
        text.stdout.lines().filter(|line| line.starts_with("  section ") || line.starts_with("  symbol "));
    assert_eq!(shown.count(), all, "{text:?}");
}

/// A quarantined kernel has two files, the entry and the reason, and is one kernel.
#[test]
fn quarantined_kernels_are_counted_and_not_their_files() {
    let place = Place::new();
    place.write("five.info", square_of(5));
    place.run(&["build", SQUARE, "five.info", "--target", "cpu", "--no-kernel-meta"]).ended_with(0);
    for entry in place.entries() {
        let mut bytes = fs::read(&entry).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(&entry, bytes).unwrap();
    }
    place.run(&["repair"]).ended_with(0);
    let files = crate::common::files(&place.path("cache")).into_iter();
    assert_eq!(files.filter(|path| path.to_string_lossy().contains("/quarantine/")).count(), 4);
    let json = place.run(&["inspect", "cache", "--format", "json"]).ended_with(0).json();
    assert_eq!(json["files"][0]["directory"]["states"], json!({ "quarantined": 2 }));
    let stats = place.run(&["stats", "--format", "json"]).ended_with(0).json();
    let quarantined = &stats["targets"][0]["store"]["quarantined"];
    assert_eq!((&quarantined["kernels"], &quarantined["files"]), (&json!(2), &json!(4)));
    place
        .run(&["stats"])
        .ended_with(0)
        .prints("with 2 quarantined kernels (4 files) and the store's own files\n");
}

/// A sparse file can be larger than all memory. Its size is read, and nothing else of it.
#[test]
fn a_file_that_is_too_large_is_refused_by_its_size() {
    const SIZE: u64 = 300 << 30;
    let place = Place::new();
    let sparse = |name: &str| {
        let file = fs::File::create(place.path(name)).unwrap();
        // Some file systems have no files of that size.
        file.set_len(SIZE).unwrap();
    };
    let (text, object) = ((4 << 20).to_string(), (1 << 30).to_string());
    for (suffix, limit) in [
        ("info", &text),
        ("json", &text),
        ("o", &object),
        ("so", &object),
        ("cubin", &object),
        ("hsaco", &object),
        ("kern", &object),
        ("onnx", &((1_u64 << 31) - 1).to_string()),
    ] {
        let name = format!("large.{suffix}");
        sparse(&name);
        let sizes = |ran: crate::common::Ran| ran.says(&SIZE.to_string()).says(limit).says(&name);
        sizes(place.run(&["inspect", &name]).ended_with(2));
        if suffix != "onnx" {
            place.write(&format!("small.{suffix}"), "{}");
            place.run(&["diff", &format!("small.{suffix}"), &name]).ended_with(2).says(&SIZE.to_string());
        }
        if matches!(suffix, "json" | "o" | "so" | "kern") {
            let ran = place.run(&["verify", &name]);
            assert!(ran.code == Some(1) || ran.code == Some(2), "{ran:?}");
            assert!(format!("{ran:?}").contains(&SIZE.to_string()), "{ran:?}");
        }
        fs::remove_file(place.path(&name)).unwrap();
    }
    // The object of a description, and the files of a directory.
    let rank = Rank::new(1);
    let dir = rank.dir(&place.path("run"));
    rank.square(1).write(&dir).unwrap();
    let stem = rank.square(1).stem;
    let object = format!("run/rank_1/kernel_meta/{stem}.o");
    sparse(&object);
    place.run(&["inspect", &object.replace(".o", ".json")]).ended_with(2).says(&SIZE.to_string());
    place.run(&["inspect", "run"]).ended_with(0);
}

/// Of a damaged entry, the key and the header are shown as far as they are intact; an empty file is called so.
#[test]
fn a_damaged_entry_is_described_as_far_as_it_is_intact() {
    let place = Place::new();
    place.run(&["build", SQUARE, "--target", "cpu", "--no-kernel-meta"]).ended_with(0);
    let entry = place.entries().remove(0);
    let path = entry.to_str().unwrap();
    let whole = fs::read(&entry).unwrap();
    let key = entry.file_stem().unwrap().to_str().unwrap().to_owned();
    // A byte of the object, which is in the second half of the members that hits return.
    let at = whole.windows(4).rposition(|bytes| bytes == b"\x7fELF").unwrap() + 20;
    let mut damaged = whole.clone();
    damaged[at] ^= 1;
    fs::write(&entry, &damaged).unwrap();
    let json = place.run(&["inspect", path, "--format", "json"]).ended_with(1).json();
    let fields = &json["files"][0]["fields"];
    assert_eq!(fields["key"], *key);
    assert!(fields["entry name"].as_str().unwrap().starts_with("square_"), "{json}");
    let problem = json["files"][0]["problems"][0].as_str().unwrap();
    assert!(problem.starts_with("member `object` is damaged: expected SHA-256 "), "{problem}");
    // A look-up names the damage once.
    let explained = place.run(&["explain", SQUARE, "--target", "cpu", "--all"]);
    assert!(!explained.stdout.contains("is damaged"), "{explained:?}");
    fs::write(&entry, "").unwrap();
    let empty = place.run(&["inspect", path]).ended_with(1);
    empty.prints("problem: the file is empty").prints(&format!("{key}, by the name of the file"));
}
