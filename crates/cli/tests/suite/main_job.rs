//! The main job: the vendor's descriptor becomes a cached, validated, running kernel.
#![expect(clippy::disallowed_methods, reason = "tests look at what is on the disk")]

use std::process::Command;

use crate::common::{Place, SQUARE, square_of};
use serde_json::json;

#[test]
fn square_runs_and_is_reused() {
    let place = Place::new();
    let first = place.run(&["run", SQUARE, "--input-values", "1,4,9"]).ended_with(0);
    assert!(first.stdout.contains("[1, 16, 81]"), "{first:?}");
    assert!(first.stdout.contains("0 reused, 1 compiled"), "{first:?}");
    let first = first.says("Ascend910A");
    assert_eq!(first.stderr.lines().count(), 1, "{first:?}");
    let again = place.run(&["run", SQUARE, "--input-values=-2.5,0,1e3"]).ended_with(0);
    assert!(
        again.stdout.contains("[6.25, 0, 1000000]") && again.stdout.contains("1 reused, 0 compiled"),
        "{again:?}"
    );
}

#[test]
fn run_speaks_json() {
    let place = Place::new();
    let ran = place.run(&["run", SQUARE, "--input-values", "1,inf,NaN", "--format", "json"]).ended_with(0);
    let output = &ran.json()["outputs"][0];
    assert_eq!(output["shape"], json!([3]));
    assert_eq!(output["values"], json!([1, "inf", "NaN"]));
}

#[test]
fn two_ranks_share_one_compile() {
    let place = Place::new();
    let compiler = place.logging_compiler("cc-logged", "log");
    let cc = ("CC", compiler.to_str().unwrap());
    for rank in ["0", "3"] {
        place.run_with(&["build", SQUARE], &[cc, ("RANK_ID", rank)]).ended_with(0);
    }
    assert_eq!(place.compiles("log"), 1);
    for rank in ["rank_0", "rank_3"] {
        let file =
            |suffix: &str| place.path(&format!("{rank}/kernel_meta/square_12484080525657478220_2.{suffix}"));
        let meta: serde_json::Value = serde_json::from_slice(&std::fs::read(file("json")).unwrap()).unwrap();
        let object = std::fs::read(file("o")).unwrap();
        assert_eq!(meta["sha256"], opkeep_digest::Digest::of(&object).to_string());
        assert_eq!(
            std::fs::read_to_string(file("info")).unwrap().trim_end(),
            std::fs::read_to_string(SQUARE).unwrap()
        );
        // The symbol, by an independent reader if there is one.
        if let Ok(readelf) = Command::new("readelf").arg("-sW").arg(file("o")).output() {
            let symbols = String::from_utf8_lossy(&readelf.stdout).into_owned();
            let symbol = meta["kernelName"].as_str().unwrap();
            assert!(symbol.ends_with("__kernel0"));
            let line =
                symbols.lines().find(|line| line.ends_with(symbol)).unwrap_or_else(|| panic!("{symbols}"));
            assert!(line.contains("FUNC") && line.contains("GLOBAL") && line.contains("DEFAULT"), "{line}");
        }
    }
}

#[test]
fn a_deleted_rank_is_restored_without_a_compile() {
    let place = Place::new();
    place.run(&["build", SQUARE]).ended_with(0);
    std::fs::remove_dir_all(place.path("rank_0")).unwrap();
    let again = place.run(&["build", SQUARE, "--format", "json"]).ended_with(0);
    assert_eq!((again.count("reused"), again.count("compiled")), (1, 0));
    assert_eq!(crate::common::files(&place.path("rank_0/kernel_meta")).len(), 5);
}

#[test]
fn build_json_is_as_documented() {
    let place = Place::new();
    place.write("net/a.info", square_of(3));
    place.write("net/deeper/b.info", square_of(5));
    place.write("net/deeper/c.info", square_of(3));
    place.write("net/Initialize.info", "{}");
    place.write("net/readme.txt", "not a descriptor");
    let ran =
        place.run(&["build", "net", "--format", "json", "--jobs", "2", "--no-kernel-meta"]).ended_with(0);
    let json = ran.json();
    let numbers = ["operators", "kernels", "reused", "compiled", "shared", "failed", "bypassed"];
    let found: Vec<u64> = numbers.iter().map(|name| json[*name].as_u64().unwrap()).collect();
    assert_eq!(found, [3, 2, 0, 2, 0, 0, 0]);
    assert_eq!(json["network"], "net");
    assert_eq!(json["backend"], "cpu");
    assert_eq!(json["target"], format!("cpu-{}", std::env::consts::ARCH));
    assert!(json["elapsed_ms"].as_f64().unwrap() > 0.0);
    let results = json["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for result in results {
        assert!(result["name"].as_str().unwrap().starts_with("square_"));
        assert_eq!(result["key"].as_str().unwrap().len(), 64);
        assert_eq!(result["op_type"], "Square");
        assert_eq!(result["outcome"], "compiled");
        assert!(result["compile_ms"].as_f64().unwrap() > 0.0 && result["bytes"].as_u64().unwrap() > 1000);
        assert!(result["reason"].as_str().unwrap().contains("not in the store"));
    }
    assert!(!place.path("rank_0").exists());
}

#[test]
fn another_compiler_rebuilds_all() {
    let place = Place::new();
    for length in 1..=4 {
        place.write(&format!("net/{length}.info"), square_of(length));
    }
    let compiler = place.logging_compiler("cc-logged", "log");
    let build =
        || place.run_with(&["build", "net", "--format", "json"], &[("CC", compiler.to_str().unwrap())]);
    assert_eq!(build().ended_with(0).count("compiled"), 4);
    assert_eq!(build().ended_with(0).count("reused"), 4);
    assert_eq!(place.compiles("log"), 4);
    let old = std::fs::read_to_string(&compiler).unwrap();
    std::fs::write(&compiler, format!("{old}\n# another version\n")).unwrap();
    assert_eq!(build().ended_with(0).count("compiled"), 4);
    assert_eq!(place.compiles("log"), 8);
    std::fs::write(&compiler, old).unwrap();
    assert_eq!(build().ended_with(0).count("reused"), 4);
}

#[test]
fn each_mode_reads_and_writes_as_documented() {
    let place = Place::new();
    let build = |mode: &str| {
        let mode = format!("--op_compiler_cache_mode={mode}");
        place.run(&["build", SQUARE, &mode, "--format", "json"])
    };
    assert!(build("require").ended_with(2).says("store").json()["error"].is_string());
    assert_eq!(build("disable").ended_with(0).count("compiled"), 1);
    assert!(!place.path("cache").exists());
    assert_eq!(build("enable").ended_with(0).count("compiled"), 1);
    assert_eq!(build("require").ended_with(0).count("reused"), 1);
    assert_eq!(build("read-only").ended_with(0).count("reused"), 1);
    assert_eq!(build("force").ended_with(0).count("compiled"), 1);
    assert_eq!(build("enable").ended_with(0).count("reused"), 1);
    build("sometimes").ended_with(2).says("enable, force, disable, read-only or require");
}

#[test]
fn debug_levels_bypass_the_store() {
    let place = Place::new();
    let level = |level: &str| place.run(&["build", SQUARE, "--op_debug_level", level, "--format", "json"]);
    assert_eq!(level("1").ended_with(0).count("bypassed"), 1);
    assert!(place.entries().is_empty());
    assert_eq!(level("0").ended_with(0).count("compiled"), 1);
    assert_eq!(place.run(&["build", SQUARE, "--format", "json"]).count("reused"), 1);
    level("5").ended_with(2);
}

/// A descriptor that asks for MindSpore's level 3 is built as for level 0.
#[test]
fn mindspores_cache_levels_are_no_debugging() {
    let place = Place::new();
    let text = std::fs::read_to_string(SQUARE).unwrap();
    let level = text.replace("\"op_debug_level\": \"0\"", "\"op_debug_level\": \"3\"");
    assert_ne!(level, text);
    let file = place.write("level.info", level);
    assert_eq!(place.run(&["build", SQUARE, "--format", "json"]).count("compiled"), 1);
    assert_eq!(place.run(&["build", file.to_str().unwrap(), "--format", "json"]).count("reused"), 1);
}

#[test]
fn inspect_reports_the_kind_of_a_file() {
    let place = Place::new();
    place.run(&["build", SQUARE]).ended_with(0);
    let stem = "rank_0/kernel_meta/square_12484080525657478220_2";
    let entry = place.entries().remove(0);
    for (file, kind) in [
        (format!("{stem}.info"), "operator descriptor"),
        (format!("{stem}.json"), "kernel description"),
        (format!("{stem}.o"), "kernel object"),
        (entry.to_str().unwrap().to_owned(), "store entry"),
    ] {
        let ran = place.run(&["inspect", &file, "--format", "json"]).ended_with(0);
        let found = &ran.json()["files"][0];
        assert_eq!((&found["kind"], &found["valid"]), (&json!(kind), &json!(true)), "{ran:?}");
        assert!(place.run(&["inspect", &file]).ended_with(0).stdout.contains(kind));
    }
    // One byte of the object: the pair no longer fits together.
    let object = place.path(&format!("{stem}.o"));
    let mut bytes = std::fs::read(&object).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&object, bytes).unwrap();
    let ran = place.run(&["inspect", &format!("{stem}.json")]).ended_with(1);
    assert!(ran.stdout.contains("  error    OPV005: field `sha256`"), "{ran:?}");
    place.run(&["inspect", "nothing.o"]).ended_with(2).says("nothing.o");
    place.run(&["inspect", env!("CARGO_MANIFEST_PATH")]).ended_with(2).says(".kern");
}

#[test]
fn targets_prints_the_toolchain_and_the_operators() {
    let place = Place::new();
    let ran = place.run(&["targets"]).ended_with(0);
    for text in ["cpu", "version", "SquaredDifference"] {
        assert!(ran.stdout.contains(text), "{ran:?}");
    }
    let json = place.run(&["targets", "--format", "json"]).ended_with(0).json();
    assert_eq!(json["backends"][0]["targets"], json!(["cpu", "cpu-native"]));
    place.run(&["build", SQUARE, "--target", "tpu"]).ended_with(2).says("cpu-native").says("Ascend910B1");
    let home = place.path("tmp");
    let elsewhere = [("HOME", home.to_str().unwrap())];
    let ran = place.run_with(&["build", SQUARE, "--target", "Ascend910B1"], &elsewhere);
    ran.ended_with(2).says("ASCEND_HOME_PATH");
}

/// A kernel for this machine's own features is another kernel.
#[test]
fn native_is_another_target() {
    let place = Place::new();
    place.run(&["build", SQUARE]).ended_with(0);
    let native = ["run", SQUARE, "--target", "cpu-native", "--input-values", "1,4,9"];
    let ran = place.run(&native).ended_with(0);
    assert!(ran.stdout.contains("[1, 16, 81]") && ran.stdout.contains("1 compiled"), "{ran:?}");
    assert!(place.run(&native).stdout.contains("1 reused"));
}
