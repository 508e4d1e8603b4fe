//! Caches of frameworks, checked with the real command.
#![expect(clippy::disallowed_methods, reason = "tests break caches by hand")]

use std::fs;

use crate::common::Place;
use opkeep_testkit::caches::{Rank, age, cann_kernel};
use opkeep_testkit::terminal::{COLUMNS, shown_by};
use serde_json::{Value, json};

/// Four ranks of a run, five kernels each.
fn ranks(place: &Place) -> Vec<Rank> {
    let ranks: Vec<Rank> = (0..4).map(Rank::new).collect();
    for rank in &ranks {
        (1..=5).for_each(|elements| rank.square(elements).write(&rank.dir(&place.path("run"))).unwrap());
    }
    ranks
}

#[test]
fn intact_caches_have_no_findings() {
    let place = Place::new();
    ranks(&place);
    (0..3).for_each(|number| {
        cann_kernel("Ascend910B2", number).write(&place.path("run/kernel_cache/Ascend910B2")).unwrap();
    });
    let ran = place.run(&["verify", "run"]).ended_with(0);
    assert!(ran.stdout.contains("4 ranks of run have 5 kernels together, and each has all\n"), "{ran:?}");
    assert!(
        ran.stdout.ends_with("23 kernels checked: 23 valid, 0 refused; 0 files could not be checked\n"),
        "{ran:?}"
    );
    let json = place.run(&["verify", "run", "--format", "json"]).ended_with(0).json();
    let kinds: Vec<&Value> = json["caches"].as_array().unwrap().iter().map(|cache| &cache["kind"]).collect();
    assert_eq!(kinds, ["cann", "mindspore", "mindspore", "mindspore", "mindspore"]);
    let zero = |name: &str| json["caches"].as_array().unwrap().iter().all(|cache| cache[name] == 0);
    assert!(["damaged", "orphans", "in_progress", "unreadable", "foreign"].into_iter().all(zero), "{json}");
}

/// A terminal shows the progress, and clears it before the table.
#[test]
fn a_terminal_shows_progress_until_the_table_is_printed() {
    let place = Place::new();
    ranks(&place);
    let shown = |args: &[&str]| {
        let (status, shown) = shown_by(place.command(args)).unwrap();
        assert_eq!(status.code(), Some(0), "{shown}");
        shown
    };
    let text = shown(&["verify", "run"]);
    // `ESC [ 2 K` clears a line of a terminal.
    let (before, after) = text.split_once("20 kernels checked: 20 valid").unwrap_or_default();
    let (drawn, printed) = before.rsplit_once("\x1b[2K").unwrap_or_default();
    let bars: Vec<&str> = drawn.split(['\r', '\n']).filter(|line| line.contains("/5 ")).collect();
    assert!(!bars.is_empty() && bars.iter().any(|bar| bar.contains("run/rank_")), "{text:?}");
    assert!(bars.iter().all(|bar| bar.chars().count() <= usize::from(COLUMNS) + 10), "{bars:?}");
    assert!(
        printed.contains("4 ranks of run have 5 kernels together") && !printed.contains("/5 "),
        "{text:?}"
    );
    assert!(!after.contains('\x1b'), "{after:?}");
    // A program gets JSON only.
    let json = shown(&["verify", "run", "--format", "json"]);
    assert!(json.starts_with('{') && !json.contains('\x1b'), "{json:?}");
}

#[test]
fn damage_is_reported_with_the_behavior_of_the_framework() {
    let place = Place::new();
    let ranks = ranks(&place);
    let damaged = ranks[2].dir(&place.path("run")).join(format!("{}.json", ranks[2].square(3).stem));
    let bytes = fs::read(&damaged).unwrap();
    fs::write(&damaged, &bytes[..bytes.len() / 2]).unwrap();
    // It may be in progress; half an hour later it is damaged.
    let ran = place.run(&["verify", "run"]).ended_with(1);
    assert!(ran.stdout.contains("in progress run/rank_2/kernel_meta/square_"), "{ran:?}");
    age(&damaged).unwrap();
    let ran = place.run(&["verify", "run"]).ended_with(1);
    for part in [
        "damaged     run/rank_2/kernel_meta/square_",
        "MindSpore 2.0 would abort at start-up because of this file",
        "  rank 2 has 4, lacks 1: square_",
        "`opkeep repair run/rank_2/kernel_meta` quarantines",
        "20 kernels checked: 19 valid, 1 refused",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {ran:?}");
    }
    let json = place.run(&["verify", "run", "--format", "json"]).ended_with(1).json();
    let items = json["caches"][2]["items"].as_array().unwrap();
    let item = items.iter().find(|item| item["state"] != "intact").unwrap();
    assert_eq!((&item["state"], &item["effect"]), (&json!("damaged"), &json!("aborts")), "{json}");
    assert_eq!(json["ranks"][0]["ranks"][2]["lacks"][0]["name"], ranks[0].square(3).stem);
    assert_eq!(fs::read(&damaged).unwrap(), &bytes[..bytes.len() / 2]);
}

#[test]
fn kernels_beside_caches_are_checked_too() {
    let place = Place::new();
    let rank = Rank::new(0);
    rank.square(1).write(&rank.dir(&place.path("run"))).unwrap();
    rank.square(2).write(&place.path("run/copied")).unwrap();
    place.write("run/settings.json", "{\"torn\"");
    let json = place.run(&["verify", "run", "--format", "json"]).ended_with(0).json();
    assert_eq!((&json["checked"], &json["valid"]), (&json!(2), &json!(2)), "{json}");
    // Quarantined files are no kernels.
    rank.square(3).write(&place.path("run/rank_0/kernel_meta.opkeep-quarantine/1")).unwrap();
    let json = place.run(&["verify", "run", "--format", "json"]).ended_with(0).json();
    assert_eq!(json["checked"], 2, "{json}");
    fs::write(place.path("run/copied").join(format!("{}.o", rank.square(2).stem)), "torn").unwrap();
    place.run(&["verify", "run"]).ended_with(1);
}

#[test]
fn other_files_are_not_counted_as_kernels() {
    let place = Place::new();
    let dir = place.path("run/kernel_cache/Ascend910B2");
    cann_kernel("Ascend910B2", 1).write(&dir).unwrap();
    for name in ["te_gone_1.lock", "te_gone_2.lock"] {
        fs::write(dir.join(name), "").unwrap();
        age(&dir.join(name)).unwrap();
    }
    let ran = place.run(&["verify", "run"]).ended_with(1);
    assert!(
        ran.stdout.contains("1 kernel checked: 1 valid, 0 refused; 0 files could not be checked\n"),
        "{ran:?}"
    );
    assert!(ran.stdout.contains("beside the kernels, 2 files damaged or orphaned\n"), "{ran:?}");
    let json = place.run(&["verify", "run", "--format", "json"]).ended_with(1).json();
    assert_eq!((&json["refused"], &json["rests"]), (&json!(0), &json!(2)), "{json}");
}

#[test]
fn kernels_that_may_be_in_progress_are_not_intact() {
    let place = Place::new();
    let dir = place.path("run/kernel_cache/Ascend910B2");
    let kernel = cann_kernel("Ascend910B2", 1);
    kernel.write(&dir).unwrap();
    fs::write(dir.join(format!("{}.json", kernel.stem)), "{").unwrap();
    let ran = place.run(&["verify", "run"]).ended_with(1);
    assert!(
        ran.stdout.contains("1 with problems not counted, since a build may still be writing"),
        "{ran:?}"
    );
    let json = place.run(&["verify", "run", "--format", "json"]).ended_with(1).json();
    assert_eq!((&json["checked"], &json["in_progress"]), (&json!(0), &json!(1)), "{json}");
}

#[test]
fn quarantined_kernels_are_not_judged_again() {
    let place = Place::new();
    let rank = Rank::new(0);
    rank.square(1).write(&rank.dir(&place.path("run"))).unwrap();
    let quarantine = place.path("run/rank_0/kernel_meta.opkeep-quarantine/1");
    let mut wrong = rank.square(2);
    wrong.object.push(0);
    wrong.write(&quarantine).unwrap();
    let ran = place.run(&["verify", "run"]).ended_with(0);
    assert!(
        ran.stdout.ends_with("1 kernel checked: 1 valid, 0 refused; 0 files could not be checked\n"),
        "{ran:?}"
    );
}

#[test]
fn intact_kernels_that_the_framework_rejects_are_reported() {
    let place = Place::new();
    let (rank, mut kernel) = (Rank::new(0), Rank::new(0).square(1));
    let mut fields: Value = serde_json::from_slice(&kernel.json).unwrap();
    fields.as_object_mut().unwrap().remove("binFileSuffix");
    kernel.json = serde_json::to_vec(&fields).unwrap();
    kernel.write(&rank.dir(&place.path("run"))).unwrap();
    let ran = place.run(&["verify", "run"]);
    assert!(ran.stdout.contains(": MindSpore 2.0 would reject this kernel"), "{ran:?}");
    let json = place.run(&["verify", "run", "--format", "json"]).json();
    assert_eq!(json["caches"][0]["items"][0]["effect"], "fails-later", "{json}");
}

/// Repair does not change packages, so it is not proposed for them.
#[test]
fn damage_in_a_package_needs_a_new_installation() {
    let place = Place::new();
    let dir = place.path("opp/op_impl/ai_core/tbe/kernel/ascend910b/square");
    let kernel = cann_kernel("Ascend910B2", 1);
    kernel.write(&dir).unwrap();
    place.run(&["verify", "opp"]).ended_with(0);
    let object = dir.join(format!("{}.o", kernel.stem));
    fs::write(&object, "torn").unwrap();
    age(&object).unwrap();
    let ran = place.run(&["verify", "opp"]).ended_with(1);
    assert!(ran.stdout.contains("install the package again"), "{ran:?}");
    assert!(!ran.stdout.contains("opkeep repair"), "{ran:?}");
}

#[test]
fn ranks_without_an_intact_kernel_are_not_said_to_have_all() {
    let place = Place::new();
    for rank in [Rank::new(0), Rank::new(1)] {
        let mut kernel = rank.square(1);
        kernel.object.push(0);
        kernel.write(&rank.dir(&place.path("run"))).unwrap();
    }
    let ran = place.run(&["verify", "run"]).ended_with(1);
    assert!(ran.stdout.contains("2 ranks of run have no intact kernel\n"), "{ran:?}");
    assert!(!ran.stdout.contains("each has all"), "{ran:?}");
}

/// Files whose names are not CANN's, one of them with the name of an operator package's kernel.
#[test]
fn verify_gc_and_repair_agree_on_the_names_of_cann() {
    let place = Place::new();
    let dir = place.path("run/kernel_cache/Ascend910B2");
    cann_kernel("Ascend910B2", 1).write(&dir).unwrap();
    let digits = "ab".repeat(32);
    let mut foreign = vec![
        "a.o".to_owned(),
        "b.json".to_owned(),
        "c.temp".to_owned(),
        "d.lock".to_owned(),
        "e_pre.json".to_owned(),
        "f.json".to_owned(),
        format!("Square_{digits}.o"),
        format!("square_{digits}_high_performance.o"),
    ];
    for name in &foreign {
        let text = if name == "f.json" { "{\"torn" } else { "{}" };
        fs::write(dir.join(name), text).unwrap();
        age(&dir.join(name)).unwrap();
    }
    foreign.sort_unstable();
    let json = place.run(&["verify", "run", "--format", "json"]).ended_with(0).json();
    let cache = &json["caches"][0];
    assert_eq!((&cache["foreign"], &cache["foreign_names"]), (&json!(8), &json!(foreign)), "{json}");
    assert_eq!((&cache["kernels"], &cache["intact"], &cache["orphans"]), (&json!(1), &json!(1), &json!(0)));
    let gc = place.run(&["gc", "run", "--format", "json"]).ended_with(0).json();
    let unknown = &gc["caches"][0]["not_recognised"];
    assert_eq!((&unknown["count"], &unknown["first"]), (&json!(8), &json!(foreign)), "{gc}");
    place.run(&["repair", "run"]).ended_with(0);
    assert!(foreign.iter().all(|name| dir.join(name).exists()));
}
