//! `opkeep ls`: filters, order, and columns that fit.

use opkeep_testkit::caches::Rank;
use opkeep_testkit::terminal::shown_in;

use serde_json::json;

use crate::common::{Place, square_of};

#[test]
fn kernels_are_listed_filtered_and_sorted() {
    let place = Place::new();
    place.run(&["ls"]).ended_with(0).prints("there is no store at");
    let none = place.run(&["ls", "--format", "json"]).ended_with(0).json();
    assert_eq!((&none["kernels_count"], &none["kernels"]), (&json!(0), &json!([])));
    for elements in [3, 4, 5] {
        let info = place.write(&format!("{elements}.info"), square_of(elements));
        place.run(&["build", info.to_str().unwrap(), "--target", "cpu", "--no-kernel-meta"]).ended_with(0);
    }
    let rank = Rank::new(0);
    rank.square(7).write(&rank.dir(&place.path("run"))).unwrap();
    place.run(&["import", "run"]).ended_with(0);

    let list = |args: &[&str]| place.run(&[&["ls", "--format", "json"], args].concat()).ended_with(0).json();
    let all = list(&[]);
    let names = |json: &serde_json::Value| -> Vec<String> {
        let kernels = json["kernels"].as_array().unwrap().iter();
        kernels
            .map(|one| format!("{} {}", one["target"].as_str().unwrap(), one["name"].as_str().unwrap()))
            .collect()
    };
    let sorted = {
        let mut sorted = names(&all);
        sorted.sort();
        sorted
    };
    assert_eq!((names(&all).len(), &names(&all)), (4, &sorted));
    assert_eq!(all["kernels_count"], 4);
    for (filter, count) in [
        (&["--state", "imported"][..], 1),
        (&["--state", "compiled"], 3),
        (&["--target", "cpu*"], 3),
        (&["--operator", "Square"], 4),
        (&["--operator", "square"], 4),
        (&["--operator", "SQ*"], 4),
        (&["--framework", "OPKEEP"], 4),
        (&["--operator", "Conv2D"], 0),
        (&["--name", "square*"], 4),
        (&["--name", "conv*"], 0),
        (&["--framework", "triton"], 0),
        (&["--framework", "opkeep"], 4),
        (&["--unused", "1h"], 0),
        (&["--unused", "0s"], 4),
        (&["--min-size", "1G"], 0),
        (&["--state", "compiled", "--limit", "2"], 2),
    ] {
        assert_eq!(list(filter)["kernels"].as_array().unwrap().len(), count, "{filter:?}");
    }
    // A list of nothing says why.
    let note = |args: &[&str]| place.run(&[&["ls"], args].concat()).ended_with(0).stderr;
    let whole = note(&["--name", "squar"]);
    assert!(whole.contains("note: --name squar is the whole name; --name '*squar*' lists"), "{whole}");
    place.run(&["ls", "--target", "nope"]).prints("the store has no kernels for nope, but for ");
    assert!(note(&["--name", "x*"]).contains("no kernel for the chosen targets satisfies all filters"));
    assert_eq!(note(&["--name", "squar*"]), "");

    let largest = list(&["--sort", "size", "-n", "1"]);
    let most = all["kernels"].as_array().unwrap().iter().map(|one| one["bytes"].as_u64().unwrap()).max();
    assert_eq!(largest["kernels"][0]["bytes"].as_u64(), most);
    place.run(&["ls", "-n", "2"]).ended_with(0).prints("2 of 4 kernels, ");

    // A listing is no use.
    assert_eq!(names(&list(&[])), names(&all), "the same order");
    let (status, shown) = shown_in(place.command(&["ls", "--target", "cpu*"]), 80, 24).unwrap();
    assert!(status.success() && shown.contains("name"), "{shown}");
    let rows = shown.lines().take(4).map(|line| line.trim_end().chars().count());
    assert!(rows.max().unwrap() <= 80, "{shown}");
}

/// All commands add up the same kernels, and say what else counts against the limit.
#[test]
fn the_size_of_the_store_is_the_same_in_all_commands() {
    let place = Place::new();
    let info = place.write("5.info", square_of(5));
    place.run(&["build", info.to_str().unwrap(), "--target", "cpu", "--no-kernel-meta"]).ended_with(0);
    let json = |command: &str| place.run(&[command, "--format", "json"]).ended_with(0).json();
    let bytes = json("ls")["bytes"].as_u64().unwrap();
    let stored = |command| json(command)["targets"][0]["store"].clone();
    let (stats, report) = (stored("stats"), stored("report"));
    assert_eq!((stats["kernel_bytes"].as_u64(), report["kernel_bytes"].as_u64()), (Some(bytes), Some(bytes)));
    assert_eq!(
        (&stats["bytes"], json("gc")["targets"][0]["after"]["bytes"].as_u64().unwrap() > bytes),
        (&report["bytes"], true)
    );
    // In text, too.
    let listed = place.run(&["ls"]).stdout;
    let size = listed.lines().last().unwrap().split(" in ").next().unwrap().to_owned();
    let both = |begin: &str| format!("{begin}{size}; ");
    place.run(&["stats"]).prints(&both("  stored    ")).prints(" with the store's own files\n");
    place.run(&["report"]).prints(&both(": ")).prints(" with the store's own files\n");
    let size = size.strip_prefix("1 kernel, ").unwrap();
    place.run(&["gc"]).prints(&format!("of 1, 1 left ({size}; ")).prints(" with the store's own files)\n");
}
