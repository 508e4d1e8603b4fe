//! Caches of frameworks are repaired, restored and filled.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Place, Ran, SQUARE, files, ran};
use opkeep_testkit::DirSnapshot;
use opkeep_testkit::caches::{Rank, age, cann_kernel};
use serde_json::{Value, json};

/// Eight ranks with three kernels each, one of rank 1 truncated, and a cache of CANN with an orphan.
fn caches() -> Place {
    let place = Place::new();
    for rank in (0..8).map(Rank::new) {
        (1..=3).for_each(|elements| rank.square(elements).write(&rank.dir(&place.path("run"))).unwrap());
    }
    put(&damaged(&place), "");
    let kernel = cann_kernel("Ascend910B2", 1);
    let dir = place.path("run/kernel_cache/Ascend910B2");
    kernel.write(&dir).unwrap();
    fs::remove_file(dir.join(format!("{}.json", kernel.stem))).unwrap();
    place
}

fn damaged(place: &Place) -> PathBuf {
    let rank = Rank::new(1);
    rank.dir(&place.path("run")).join(format!("{}.json", rank.square(1).stem))
}

fn put(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    age(path).unwrap();
}

fn repair(place: &Place, args: &[&str], code: i32) -> Value {
    place.run(&[&["repair", "--format", "json"], args].concat()).ended_with(code).json()
}

fn has(ran: &Ran, words: &[&str]) {
    for word in words {
        assert!(ran.stdout.contains(word), "expected `{word}`: {ran:?}");
    }
}

#[test]
fn damaged_kernels_are_quarantined_and_restored() {
    let place = caches();
    let before = DirSnapshot::of(&place.path("run")).unwrap();
    let ran = place.run(&["repair", "--dry-run", "run"]).ended_with(0);
    has(&ran, &["would be quarantined: kernel square_", "the .json is empty", "nothing was changed"]);
    assert_eq!(DirSnapshot::of(&place.path("run")).unwrap(), before);

    let ran = place.run(&["repair", "run"]).ended_with(0);
    has(
        &ran,
        &[
            "run/rank_1/kernel_meta: 3 kernels, 2 intact",
            "  quarantined: kernel te_square_",
            "no problem is left\n",
        ],
    );
    has(&ran, &["`opkeep repair --undo run` restores", "kernel_meta.opkeep-quarantine/"]);
    // Now that rank would compile while the others wait.
    has(
        &ran,
        &[
            "rank 1 of run lacks 1 kernel that others have\n",
            "`opkeep repair --fill run` copies missing kernels",
        ],
    );
    assert!(!damaged(&place).exists());
    let again = repair(&place, &["run"], 0);
    assert_eq!(again["left"], 0);
    assert_eq!(
        (&again["lacking"][0]["rank"], again["lacking"][0]["lacks"].as_array().unwrap().len()),
        (&"1".into(), 1)
    );
    let caches = again["caches"].as_array().unwrap();
    assert!(
        caches.len() == 9 && caches.iter().all(|cache| cache["moved"] == serde_json::json!([])),
        "{again}"
    );

    has(&place.run(&["repair", "--undo", "--dry-run", "run"]).ended_with(0), &["nothing was changed"]);
    assert!(!damaged(&place).exists());
    let undone = repair(&place, &["--undo", "run"], 0);
    assert_eq!(undone["undone"].as_array().unwrap().len(), 2, "both caches were of one run: {undone}");
    assert!(undone["undone"].as_array().unwrap().iter().all(|one| one["removed"] == true), "{undone}");
    assert_eq!(DirSnapshot::of(&place.path("run")).unwrap(), before);
    place.run(&["repair", "--undo", "run"]).ended_with(2).says("nothing was quarantined");
}

#[test]
fn one_cache_may_be_named_and_one_run() {
    let place = caches();
    let before = DirSnapshot::of(&place.path("run")).unwrap();
    let json = repair(&place, &["run/rank_1/kernel_meta", "run/rank_1"], 0);
    let cache = &json["caches"][0];
    assert_eq!(json["caches"].as_array().unwrap().len(), 1, "each once: {json}");
    assert_eq!(
        (&cache["kind"], &cache["rank"], &cache["intact"]),
        (&"mindspore".into(), &"1".into(), &2.into())
    );
    let moved = &cache["moved"][0];
    assert_eq!((&moved["what"], moved["files"].as_array().unwrap().len()), (&"kernel".into(), 3));
    put(&damaged(&place), "another");
    let quarantine = cache["quarantine"].as_str().unwrap();
    let ran = place.run(&["repair", "--undo", quarantine]).ended_with(1);
    has(&ran, &["was written again since", "not everything is restored: 3 left"]);
    fs::remove_file(damaged(&place)).unwrap();
    place.run(&["repair", "--undo", "run/rank_1/kernel_meta"]).ended_with(0);
    assert_eq!(DirSnapshot::of(&place.path("run")).unwrap(), before);
}

#[test]
fn kernels_that_stay_damaged_are_reported_and_counted() {
    let place = caches();
    fs::write(damaged(&place), "").unwrap();
    let ran = place.run(&["repair", "run"]).ended_with(1);
    has(
        &ran,
        &[
            "left: kernel square_",
            "in progress: written",
            "--force quarantines what is in progress",
            "problems are left: 1\n",
        ],
    );
    assert!(damaged(&place).exists());
    let json = repair(&place, &["run"], 1);
    let lefts: Vec<&Value> = json["caches"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|cache| cache["left"].as_array().unwrap())
        .collect();
    assert!(lefts.len() == 1 && lefts[0]["kind"] == "in-progress", "{json}");
    repair(&place, &["--force", "run"], 0);
    assert!(!damaged(&place).exists());

    // A cache whose quarantine cannot be created does not prevent the repair of others.
    put(&damaged(&place), "{");
    let rank = Rank::new(2);
    put(&rank.dir(&place.path("run")).join(format!("{}.json", rank.square(1).stem)), "{");
    fs::remove_dir_all(place.path("run/rank_1/kernel_meta.opkeep-quarantine")).unwrap();
    put(&place.path("run/rank_1/kernel_meta.opkeep-quarantine"), "");
    let ran = place.run(&["repair", "run"]).ended_with(1);
    has(
        &ran,
        &["left: cannot create the directory", "quarantined: kernel square_", "problems are left: 1\n"],
    );
}

/// The commands that a report advises, as a shell splits them.
fn advised(ran: &Ran) -> Vec<Vec<OsString>> {
    let quoted = ran.stdout.split('`').skip(1).step_by(2);
    quoted.filter_map(|text| text.strip_prefix("opkeep ")).map(split_by_shell).collect()
}

fn split_by_shell(words: &str) -> Vec<OsString> {
    let script = "eval \"set -- $1\" && printf '%s\\0' \"$@\"";
    let ran = Command::new("bash").args(["-c", script, "bash", words]).output().unwrap();
    assert!(ran.status.success(), "`{words}`: {ran:?}");
    let words = ran.stdout.strip_suffix(b"\0").unwrap().split(|byte| *byte == 0);
    words.map(|word| OsString::from_vec(word.to_vec())).collect()
}

/// The commands that `verify` advises leave nothing wrong in a directory, and none is advised twice, whatever the directory's name.
#[test]
fn the_advice_of_verify_leads_to_its_end() {
    for name in [b"run".as_slice(), b"a user's run", b"a run\tof today", b"a run \xe5\x8d of 'today'"] {
        follow_the_advice(OsStr::from_bytes(name));
    }
}

fn follow_the_advice(name: &OsStr) {
    let place = caches();
    if name != "run" {
        fs::rename(place.path("run"), place.dir.path().join(name)).unwrap();
    }
    let mut followed: Vec<Vec<OsString>> = Vec::new();
    loop {
        let verified = ran(place.command(&["verify"]).arg(name));
        let advised = advised(&verified);
        if advised.is_empty() {
            verified.ended_with(0);
            break;
        }
        verified.ended_with(1);
        for command in advised {
            assert!(!followed.contains(&command), "{command:?} again, after {followed:?}");
            ran(place.command(&[]).args(&command)).ended_with(0);
            followed.push(command);
        }
    }
    assert!(followed.iter().any(|command| command.contains(&OsString::from("--fill"))), "{followed:?}");
}

/// Kernels of opkeep cannot be copied from rank to rank, so no fill is advised: the build of the rank writes them.
#[test]
fn a_rank_gets_the_kernels_of_opkeep_by_its_build() {
    let place = Place::new();
    let lenet = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/networks/lenet");
    let build =
        |rank: &str| place.run_with(&["build", lenet, "--target", "cpu"], &[("RANK_ID", rank)]).ended_with(0);
    ["0", "1"].iter().for_each(|rank| drop(build(rank)));
    place.run(&["verify", "."]).ended_with(0).prints("and each has all");
    let lost = files(&place.path("rank_1/kernel_meta"));
    let is_conv = |path: &&PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("conv2d_");
    let lost: Vec<_> = lost.iter().filter(is_conv).collect();
    assert_eq!(lost.len(), 6, "two kernels: {lost:?}");
    lost.iter().for_each(|path| fs::remove_file(path).unwrap());
    let advice = "\n  RANK_ID=1 opkeep build MODEL\n";
    for command in ["verify", "repair"] {
        let ran = place.run(&[command, "."]);
        has(&ran, &["lacks 2", advice]);
        assert!(!ran.stdout.contains("--fill"), "{ran:?}");
    }
    // A fill does what it can, and says the same.
    let filled = place.run(&["repair", "--fill", "."]).ended_with(1);
    let own = "`opkeep build` writes its own kernels where they are missing";
    has(&filled, &["some ranks lack 2 kernels", own, advice, "\n2 kernels could not be filled\n"]);
    build("1").prints("reused");
    place.run(&["verify", "."]).ended_with(0).prints("and each has all");
}

#[test]
fn ranks_are_filled_from_each_other() {
    let place = caches();
    fs::remove_dir_all(place.path("run/rank_6")).unwrap();
    let ran = place.run(&["repair", "--fill", "--dry-run", "run"]).ended_with(0);
    has(&ran, &["would be filled: 1 kernel of ", "rank_1/kernel_meta from rank 0", "nothing was changed"]);
    fs::create_dir(place.path("run/rank_6")).unwrap();
    let ran = place.run(&["repair", "--fill", "run"]).ended_with(1);
    has(
        &ran,
        &[
            "filled: 1 kernel of ",
            "removes what was filled in, and restores what was quarantined",
            "/run, rank 6: it lacks 3",
            "--device-map 6=DEVICE",
            "\n3 kernels could not be filled\n",
        ],
    );
    assert!(damaged(&place).exists(), "it was quarantined, and is valid now");

    fs::write(place.path("map"), "# where they run\n6=6\n").unwrap();
    let json = repair(&place, &["--fill", "--device-map", "map", "run"], 0);
    let done = json["filled"]["done"].as_array().unwrap();
    assert!(done.len() == 3 && done.iter().all(|one| one["rank"] == "6" && one["donor"] == "0"), "{json}");
    let rank = Rank::new(6);
    assert!(
        (1..=3).all(|n| rank.dir(&place.path("run")).join(format!("{}.json", rank.square(n).stem)).exists())
    );
    has(&place.run(&["repair", "--fill", "run"]).ended_with(0), &["no rank lacks", "no problem is left\n"]);
    place.run(&["verify", "run/rank_6/kernel_meta"]).ended_with(0);
}

#[test]
fn ranks_may_be_named_by_relative_paths() {
    let place = caches();
    let in_run = |args: &[&str], dir: &str| {
        let output = place.command(args).current_dir(place.path(dir)).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, said) = in_run(&["repair", "--fill", "--dry-run", "."], "run/rank_1");
    assert!(code == Some(1) && said.contains("was not scanned"), "{said}");
    let (code, said) = in_run(&["repair", "--fill", "."], "run");
    assert!(
        code == Some(0) && said.contains("filled: 1 kernel of ./rank_1/kernel_meta from rank 0"),
        "{said}"
    );
    assert!(damaged(&place).exists());
}

#[test]
fn wrong_usage_is_reported() {
    let place = caches();
    for (args, says) in [
        (&["repair", "--undo"][..], "--undo needs a framework's cache"),
        (&["repair", "--fill"], "are for caches of frameworks"),
        (&["repair", "--undo", "--fill", "run"], "cannot be used with"),
        (&["repair", "--device-map", "0=0", "run"], "--fill"),
        (&["repair", "--fill", "--device-map", "0=x", "run"], "expected RANK=DEVICE"),
        (&["repair", "--fill", "--device-map", "nomap", "run"], "cannot read `nomap`"),
        (&["repair", "--undo", "nowhere"], "nowhere"),
        (&["repair", "tmp"], "is no store"),
    ] {
        place.run(args).ended_with(2).says(says);
    }
    // A store is not repaired by this command.
    place.run(&["build", SQUARE, "--no-kernel-meta", "--op_compiler_cache_dir", "store"]).ended_with(0);
    place.run(&["repair", "store", "run"]).ended_with(2).says("as the only path");
    place.run(&["repair", "--force", "store"]).ended_with(2).says("are for caches of frameworks");
}

/// All that `verify` reports.
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

/// What `verify` refuses beside the caches is named, and is a problem that is left.
#[test]
fn kernels_that_are_in_no_cache_are_named_and_left() {
    let place = Place::new();
    let rank = Rank::new(0);
    rank.square(3).write(&rank.dir(&place.path("run"))).unwrap();
    let stem = rank.square(4).stem;
    rank.square(4).write(&place.path("run/copies")).unwrap();
    has(&place.run(&["repair", "run"]).ended_with(0), &["no problem is left\n"]);
    std::fs::remove_file(place.path(&format!("run/copies/{stem}.o"))).unwrap();
    place.run(&["verify", "run"]).ended_with(1).prints("1 refused");
    let ran = place.run(&["repair", "run"]).ended_with(1);
    ran.prints(&format!("left: run/copies/{stem}.json: "))
        .prints("it is in no cache")
        .prints("problems are left: 1\n");
    let json = place.run(&["repair", "run", "--format", "json"]).ended_with(1).json();
    assert_eq!(json["left"], 1, "{json}");
    assert!(place.path(&format!("run/copies/{stem}.json")).exists());
}
