//! `opkeep gc DIR` on CANN's caches.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::fs;
use std::path::PathBuf;

use crate::common::{Place, files};
use opkeep_testkit::caches::{age, cann_kernel, wait_until_closed};
use serde_json::Value;

/// The directories of two chips, with kernels that were used an hour ago and useless files of that age.
fn stocked() -> Place {
    let place = Place::new();
    for soc in ["Ascend910B2", "Ascend310P3"] {
        let dir = place.path("atc_data/kernel_cache").join(soc);
        (0..4).for_each(|number| cann_kernel(soc, number).write(&dir).unwrap());
        for name in
            ["te_gone_1.o", "te_gone_2.lock", "te_gone_3_pre.json", "te_gone_4.o_1_2_3.temp", "mine.txt"]
        {
            fs::write(dir.join(name), "{}").unwrap();
            age(&dir.join(name)).unwrap();
        }
        wait_until_closed(&dir).unwrap();
    }
    place
}

fn left(place: &Place) -> usize {
    let lock = |path: &PathBuf| path.ends_with("op_cache_file_del.lock") || path.ends_with("op_cache.ini");
    files(&place.path("atc_data")).iter().filter(|path| !lock(path)).count()
}

fn of<'a>(json: &'a Value, soc: &str) -> &'a Value {
    json["caches"].as_array().unwrap().iter().find(|cache| cache["soc"] == soc).unwrap()
}

#[test]
fn the_caches_of_both_chips_are_collected_by_their_limits() {
    let place = stocked();
    let dry = place.run(&["gc", ".", "--max-size", "0", "--dry-run"]).ended_with(0);
    let would = "would delete 4 kernels, 1 trial compile, 1 orphan, 1 temporary file, 1 stray lock (";
    assert_eq!(dry.stdout.matches(would).count(), 2, "{dry:?}");
    assert_eq!(left(&place), 26, "a dry run deletes nothing");

    let json = place.run(&["gc", "atc_data/kernel_cache", "--format", "json"]).ended_with(0).json();
    let cache = of(&json, "Ascend310P3");
    assert_eq!((&cache["max_bytes"], &cache["remain_percent"]), (&(500 << 20).into(), &50.into()));
    assert_eq!((&cache["removed"]["kernels"]["count"], &cache["removed"]["files"]), (&0.into(), &3.into()));
    assert_eq!(
        (&cache["before"]["kernels"]["count"], &cache["after"]["trials"]["count"]),
        (&4.into(), &1.into())
    );
    assert_eq!(cache["not_recognised"]["first"], serde_json::json!(["mine.txt"]));
    assert_eq!(left(&place), 20);

    // The directory of one chip, by its relative name.
    let mut command = place.command(&["gc", ".", ".", "--older-than", "45m"]);
    let within = command.current_dir(place.path("atc_data/kernel_cache/Ascend910B2")).output().unwrap();
    let text = String::from_utf8(within.stdout).unwrap();
    assert!(
        text.starts_with(".: deleted 4 kernels, 1 trial compile (") && text.lines().count() == 1,
        "{text}"
    );
    assert_eq!(left(&place), 11);
    let again = place.run(&["gc", "atc_data", "--older-than", "2h"]).ended_with(0);
    assert!(
        again.stdout.contains("deleted 0 kernels (0 bytes) of 4 kernels, 1 trial compile; 4 kernels"),
        "{again:?}"
    );
    again.says("1 not CANN's, left alone: `mine.txt`");
}

#[test]
fn limits_that_do_not_count_are_reported() {
    let place = stocked();
    let gc = |variables: &[(&str, &str)]| place.run_with(&["gc", "atc_data"], variables).ended_with(0);
    let bad = gc(&[("ASCEND_MAX_OP_CACHE_SIZE", "0"), ("ASCEND_REMAIN_CACHE_SIZE_RATIO", "half")]);
    bad.says("`0` is not valid for `ASCEND_MAX_OP_CACHE_SIZE`")
        .says("`half` is not valid")
        .says("(default: 50)");
    let ini = place.path("atc_data/kernel_cache/op_cache.ini");
    fs::write(&ini, "[op_compiler_cache]\nmax_op_cache_size=-1\nremain_cache_size_ratio=50\n").unwrap();
    let none = gc(&[("ASCEND_MAX_OP_CACHE_SIZE", "0")]).says("adk_version and ops_version are missing");
    let none = none.says("there is no aging: max_op_cache_size is -1").says("op_cache.ini");
    assert!(!none.stderr.contains("ASCEND_MAX_OP_CACHE_SIZE"), "the file wins: {none:?}");
    let early = place.run(&["gc", "atc_data", "--older-than", "5m"]).ended_with(0);
    early.says("--older-than counts as 30m").says("CANN does not note when a kernel was used");
    assert_eq!(left(&place), 2, "what was used an hour ago went all the same");
}

#[test]
fn directories_that_are_no_cache_are_refused() {
    let place = stocked();
    let all = left(&place);
    fs::create_dir(place.path("empty")).unwrap();
    place.run(&["gc", "empty"]).ended_with(2).says("there is no kernel_cache in it");
    place.run(&["gc", "missing"]).ended_with(2).says("error: cannot read `missing`: No such file");
    place.run(&["gc", "atc_data", "--op_compiler_cache_dir", "x"]).ended_with(2).says("cannot be used with");
    let quarantine = "atc_data/kernel_cache/Ascend910B2.opkeep-quarantine";
    place.write(&format!("{quarantine}/te_x.o"), "x");
    age(&place.path(quarantine).join("te_x.o")).unwrap();
    place.run(&["gc", quarantine]).ended_with(2).says("files that a repair quarantined stay");
    fs::remove_dir_all(place.path(quarantine)).unwrap();
    assert_eq!(left(&place), all);
    // An error in one cache does not prevent the collection of others.
    let json = place.run(&["gc", "missing", "atc_data", "--format", "json"]).ended_with(2).json();
    assert!(json["caches"][0]["error"].as_str().unwrap().contains("No such file"));
    assert_eq!((json["caches"].as_array().unwrap().len(), left(&place)), (3, all - 6));
}
