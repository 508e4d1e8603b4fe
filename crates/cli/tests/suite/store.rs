//! The limits, the eviction and the statistics of a store.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use crate::common::{Place, Ran, SQUARE, square_of};
use serde_json::Value;

/// The only target in what a command printed.
fn target(ran: &Ran) -> Value {
    let json = ran.json();
    assert_eq!(json["targets"].as_array().unwrap().len(), 1, "{json}");
    json["targets"][0].clone()
}

/// Three kernels, the first of them used an hour ago.
fn stocked() -> Place {
    let place = Place::new();
    for length in [3, 4, 5] {
        let file = place.write(&format!("{length}.info"), square_of(length));
        place.run(&["build", file.to_str().unwrap()]).ended_with(0);
        if length == 3 {
            let hour_ago = SystemTime::now() - Duration::from_secs(3600);
            std::fs::File::options()
                .write(true)
                .open(&place.entries()[0])
                .unwrap()
                .set_modified(hour_ago)
                .unwrap();
        }
    }
    assert_eq!(place.entries().len(), 3);
    place
}

#[test]
fn only_unused_entries_are_evicted() {
    let place = stocked();
    let dry = target(&place.run(&["gc", "--max-size", "1", "--dry-run", "--format", "json"]).ended_with(0));
    assert_eq!((&dry["removed"]["kernels"], &dry["still_over"]), (&1.into(), &true.into()));
    assert_eq!(place.entries().len(), 3, "a dry run deletes nothing");
    let dry = place.run(&["gc", "--max-size", "1", "--dry-run"]).ended_with(0);
    assert!(dry.stdout.contains("used in the last half hour stay (--older-than 0s deletes"), "{dry:?}");
    let all = place.run(&["gc", "--max-size", "1", "--older-than", "0s", "--dry-run"]).ended_with(0);
    assert!(all.stdout.contains("would delete 3 kernels"), "{all:?}");
    let nothing = place.run(&["gc"]).ended_with(0);
    assert!(nothing.stdout.contains("deleted 0 kernels"), "there is room: {nothing:?}");
    let room = target(&place.run(&["gc", "--max-size", "1", "--format", "json"]).ended_with(0));
    assert_eq!((&room["removed"]["kernels"], &room["after"]["kernels"]), (&1.into(), &2.into()));
    assert_eq!(place.entries().len(), 2);
    let later = place.run(&["gc", "--older-than", "1h"]).ended_with(0);
    assert!(later.stdout.contains("deleted 0 kernels") && place.entries().len() == 2, "{later:?}");

    place.run(&["clear"]).ended_with(0);
    assert!(place.entries().is_empty());
    place.run(&["gc", "--older-than", "soon"]).ended_with(2).says("expected");
    place.run(&["gc", "--max-size", "1T"]).ended_with(2).says("expected");
}

/// What a user clears is counted by itself, and only for the targets that a filter names.
#[test]
fn a_target_is_cleared_and_no_eviction_is_counted() {
    let place = Place::new();
    place.run(&["build", SQUARE, "--target", "cpu"]).ended_with(0);
    let rank = opkeep_testkit::caches::Rank::new(0);
    rank.square(7).write(&rank.dir(&place.path("run"))).unwrap();
    place.run(&["import", "run"]).ended_with(0);
    let targets = |args: &[&str]| -> Vec<Value> {
        place.run(&[args, &["--format", "json"]].concat()).ended_with(0).json()["targets"]
            .as_array()
            .unwrap()
            .clone()
    };
    let names = |args: &[&str]| -> Vec<String> {
        targets(args).iter().map(|one| one["target"].as_str().unwrap().to_owned()).collect()
    };
    let all = names(&["stats"]);
    assert_eq!(all.len(), 2, "{all:?}");
    // All these commands have the same filter.
    for command in [&["stats"][..], &["gc"], &["clear", "--dry-run"]] {
        assert_eq!(names(&[command, &["--target", "CPU*"]].concat()), ["cpu-x86_64"], "{command:?}");
        assert_eq!(names(&[command, &["--target", "*"]].concat()), all, "{command:?}");
    }
    assert_eq!(place.run(&["ls", "--target", "CPU*", "--format", "json"]).json()["kernels_count"], 1);
    // A name that no target has is a mistake where something was to be deleted; a pattern may match none.
    for (command, status) in [("gc", 1), ("clear", 1), ("stats", 0), ("ls", 0)] {
        for (wanted, status) in [("cpu", status), ("gpu*", 0)] {
            let ran = place.run(&[command, "--target", wanted]).ended_with(status);
            let reason = format!("the store has no kernels for {wanted}, but for {}\n", all.join(", "));
            assert!(ran.stdout.starts_with(&reason), "{command}: {ran:?}");
        }
    }
    // Targets that are not asked for are not opened: one that other users may write to prevents nothing.
    let other = place.path("cache/v1").join(all.iter().find(|name| !name.starts_with("cpu")).unwrap());
    fs::set_permissions(&other, fs::Permissions::from_mode(0o777)).unwrap();
    for command in [&["stats"][..], &["gc"], &["ls"], &["clear", "--dry-run"]] {
        place.run(&[command, &["--target", "cpu*"]].concat()).ended_with(0);
        assert_ne!(place.run(command).code, Some(0), "{command:?}");
    }
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    place.run(&["gc", "run", "--target", "cpu"]).ended_with(2).says("cannot be used with");
    assert_eq!(place.entries().len(), 2);

    place.run(&["gc", "--target", "cpu*", "--older-than", "0s"]).ended_with(0);
    place.run(&["build", SQUARE, "--target", "cpu"]).ended_with(0);
    place.run(&["clear", "--target", "cpu*"]).ended_with(0).prints("cpu-x86_64: deleted 1 kernel (");
    let left = place.run(&["ls", "--format", "json"]).json();
    assert_eq!((&left["kernels_count"], &left["kernels"][0]["state"]), (&1.into(), &"imported".into()));
    let counted = targets(&["stats"]);
    let number = |at: usize, name: &str| counted[at]["statistics"][name].as_u64().unwrap();
    let cpu = all.iter().position(|name| name == "cpu-x86_64").unwrap();
    assert_eq!((number(cpu, "evictions"), number(cpu, "cleared"), number(1 - cpu, "cleared")), (1, 1, 0));
    assert!(number(cpu, "bytes_cleared") > 0 && number(cpu, "bytes_evicted") > 0);
    place
        .run(&["stats", "--target", "cpu*"])
        .ended_with(0)
        .prints("  removed   1 evicted, 1 cleared, 0 quarantined\n");
    // An explanation names both ways in which entries went.
    let explain = ["explain", SQUARE, "--target", "cpu"];
    place.run(&explain).ended_with(0).prints(
        "    evicted, cleared or deleted: the store has counted 1 eviction and 1 kernel that `opkeep clear` deleted\n",
    );
    let cause = &place.run(&[&explain[..], &["--format", "json"]].concat()).json()["causes"][0];
    assert_eq!((&cause["evictions"], &cause["cleared"]), (&1.into(), &1.into()), "{cause}");
    // The statistics of one target are reset, too.
    place.run(&["stats", "--zero", "--target", "cpu*"]).ended_with(0);
    let after = targets(&["stats"]);
    assert_eq!(after[cpu]["statistics"]["cleared"], 0);
    assert_eq!(after[1 - cpu]["statistics"]["puts"], counted[1 - cpu]["statistics"]["puts"]);
}

#[test]
fn the_environment_and_the_file_limit_the_store() {
    let place = Place::new();
    let limited = [("ASCEND_MAX_OP_CACHE_SIZE", "0")];
    let said = place.run_with(&["build", SQUARE], &limited).ended_with(0);
    let said = said.says("ASCEND_MAX_OP_CACHE_SIZE").says("500");
    assert_eq!(said.stderr.matches("ASCEND_MAX_OP_CACHE_SIZE").count(), 1, "once: {said:?}");
    let limit = |variables: &[(&str, &str)]| {
        place.run_with(&["stats", "--format", "json"], variables).ended_with(0).json()["max_bytes"].clone()
    };
    assert_eq!(limit(&[]), 500 << 20);
    assert_eq!(limit(&[("ASCEND_MAX_OP_CACHE_SIZE", "7")]), 7 << 20);
    assert_eq!(limit(&[("ASCEND_MAX_OP_CACHE_SIZE", "-1")]), Value::Null);
    place.write("cache/op_cache.ini", "max_op_cache_size=9\nremain_cache_size_ratio=20\n");
    assert_eq!(limit(&[("ASCEND_MAX_OP_CACHE_SIZE", "7")]), 9 << 20, "the file comes first");
}

/// Each limit by itself, as text and as JSON, in every command that uses it: with value, name, range and default.
#[test]
fn every_limit_that_does_not_count_is_reported() {
    let place = Place::new();
    place.run(&["build", SQUARE]).ended_with(0);
    let bad = "[op_cache]\nmax_op_cache_size=5\n[op_compiler_cache]\nmax_op_cache_size=0\nremain_cache_size_ratio=101\n";
    place.write("cache/op_cache.ini", bad);
    place.write("kernel_cache/Ascend910B1/x.lock", "");
    place.write("kernel_cache/Ascend310P3/x.lock", "");
    place.write("kernel_cache/op_cache.ini", bad);
    let env = [("ASCEND_MAX_OP_CACHE_SIZE", "many"), ("ASCEND_REMAIN_CACHE_SIZE_RATIO", "200")];
    for args in [
        &["build", SQUARE][..],
        &["gc"],
        &["stats"],
        &["clear"],
        &["verify"],
        &["gc", "kernel_cache"],
        &["import", "tmp"],
    ] {
        let text = place.run_with(args, &env);
        let json = place.run_with(&[args, &["--format", "json"]].concat(), &env);
        let warnings: Vec<String> = json.json()["warnings"]
            .as_array()
            .unwrap_or_else(|| panic!("{json:?}"))
            .iter()
            .map(|warning| warning.as_str().unwrap().to_owned())
            .collect();
        assert_eq!(warnings.len(), 5, "{args:?}: {warnings:?}");
        for (name, value, default) in [
            ("max_op_cache_size", "0", "500"),
            ("remain_cache_size_ratio", "101", "50"),
            ("ASCEND_MAX_OP_CACHE_SIZE", "many", "500"),
            ("ASCEND_REMAIN_CACHE_SIZE_RATIO", "200", "50"),
        ] {
            let says = [
                format!("`{value}` is not valid for `{name}`"),
                format!("(default: {default})"),
                "in [".to_owned(),
            ];
            let found = |warning: &&String| says.iter().all(|says| warning.contains(says));
            assert_eq!(warnings.iter().filter(found).count(), 1, "{args:?}, {name}: {warnings:?}");
        }
        assert!(warnings.iter().any(|warning| warning.contains("[op_cache]")), "{warnings:?}");
        for warning in &warnings {
            assert_eq!(
                text.stderr.matches(&format!("warning: {warning}\n")).count(),
                1,
                "{args:?}: {text:?}"
            );
        }
    }
}

#[test]
fn all_actions_are_counted() {
    let place = Place::new();
    let none = place.run(&["stats"]).ended_with(0);
    assert!(none.stdout.contains("there is no store") && !place.path("cache").exists(), "{none:?}");
    place.run(&["build", SQUARE]).ended_with(0);
    for _ in 0..3 {
        place.run(&["build", SQUARE]).ended_with(0);
    }
    place.run(&["explain", SQUARE]).ended_with(0);
    let stats =
        |flags: &[&str]| target(&place.run(&[&["stats", "--format", "json"], flags].concat()).ended_with(0));
    let counted = stats(&["--zero"]);
    let number = |stats: &Value, name: &str| stats["statistics"][name].as_u64().unwrap();
    assert_eq!(
        (number(&counted, "hits"), number(&counted, "absent"), number(&counted, "compiles")),
        (3, 1, 1)
    );
    let time = |name: &str| counted["statistics"][name].as_f64().unwrap();
    assert!(time("compile_ms") > 1.0);
    assert!((time("saved_ms") / 3.0 - time("compile_ms")).abs() < 0.001);
    assert_eq!(counted["store"]["kernels"], 1);
    assert_eq!(number(&stats(&[]), "hits"), 0);
    let text = place.run(&["stats"]).ended_with(0).stdout;
    assert!(text.contains("1 kernel") && text.contains("limit 500.0 MiB"), "{text}");
}
