//! Reports of builds, and the records that they are made of.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::fs;

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::Value;

use crate::common::{Place, SQUARE, files, square_of};

const LENET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/networks/lenet/model.onnx");

fn report(place: &Place, args: &[&str]) -> Value {
    place.run(&[&["report", "--format", "json"], args].concat()).ended_with(0).json()
}

fn build<'a>(place: &Place, args: &[&'a str]) -> Vec<&'a str> {
    let args = [&["build", "--target", "cpu", "--no-kernel-meta", "-q"], args].concat();
    place.run(&args).ended_with(0);
    args
}

fn records(place: &Place) -> usize {
    files(&place.path("cache/v1/.builds")).len()
}

#[test]
fn a_report_has_what_builds_did() {
    let place = Place::new();
    place.run(&["report"]).ended_with(0).prints("there is no store at");
    build(&place, &[LENET]);
    build(&place, &[LENET]);
    let failing = place.compiler("cc", "echo no such instruction >&2; exit 1");
    let args = ["build", SQUARE, "--target", "cpu", "--no-kernel-meta"];
    place.run_with(&args, &[("CC", failing.to_str().unwrap())]).ended_with(1);

    let json = report(&place, &["--html", "page.html"]);
    let [failed, warm, cold] = json["builds"].as_array().unwrap().as_slice() else { panic!("{json}") };
    assert_eq!(
        (&cold["label"], cold["kernels"].as_u64(), cold["hits"].as_u64()),
        (&"model.onnx".into(), Some(13), Some(0))
    );
    assert_eq!(
        (warm["kernels"].as_u64(), warm["hits"].as_u64(), &warm["results"]),
        (Some(13), Some(13), &Value::Array(Vec::new()))
    );
    assert_eq!(
        (&failed["results"][0]["outcome"], &failed["counts"]["failed"]),
        (&"failed".into(), &1.into())
    );
    // Every kernel was compiled on a thread within the build, and the parts of the path are its duration.
    let time = |value: &Value| value.as_f64().unwrap();
    for kernel in cold["results"].as_array().unwrap() {
        assert_eq!(kernel["outcome"], "compiled");
        assert!(kernel["thread"].as_u64().unwrap() < cold["threads"].as_u64().unwrap(), "{kernel}");
        assert!(
            time(&kernel["begin_ms"]) + time(&kernel["compile_ms"]) <= time(&kernel["end_ms"]) + 0.01,
            "{kernel}"
        );
        assert!(time(&kernel["end_ms"]) <= time(&cold["elapsed_ms"]));
    }
    let path = &cold["path"];
    let segments = path["segments"].as_array().unwrap();
    assert_eq!(segments.last().unwrap()["end_ms"], cold["elapsed_ms"]);
    assert!(
        time(&path["lower_bound_ms"]) <= time(&cold["elapsed_ms"])
            && time(&path["longest_ms"]) <= time(&path["work_ms"])
    );

    // The totals are those of stats.
    let stats = place.run(&["stats", "--by", "kernel", "--format", "json"]).ended_with(0).json();
    let (target, of_stats) = (&json["targets"][0], &stats["targets"][0]);
    assert_eq!((&target["target"], &target["statistics"]), (&of_stats["target"], &of_stats["statistics"]));
    for field in ["kernels", "files", "bytes"] {
        assert_eq!(target["store"][field], of_stats["store"][field]);
    }
    let operators = target["operators"].as_array().unwrap();
    let contents = of_stats["contents"].as_array().unwrap();
    assert_eq!(operators.len(), contents.len());
    for (operator, content) in operators.iter().zip(contents) {
        let [of_report, of_stats] = [
            ["name", "kernels", "bytes"].map(|field| &operator[field]),
            ["kernel", "entries", "bytes"].map(|field| &content[field]),
        ];
        assert_eq!(of_report, of_stats);
    }
    let conv = json["operators"].as_array().unwrap().iter().find(|cost| cost["op_type"] == "Conv2D").unwrap();
    assert_eq!((&conv["compiled"], &conv["found"]), (&2.into(), &2.into()));
    assert_eq!((&json["records"]["damaged"], &json["html"]), (&0.into(), &"page.html".into()));
    assert!(fs::read_to_string(place.path("page.html")).unwrap().starts_with("<!DOCTYPE html>"));

    let text = place.run(&["report"]).ended_with(0);
    for part in
        ["3 recorded builds: 13 of 27 kernels were in the store", "dearest operators", "  by operator: "]
    {
        assert!(text.stdout.contains(part), "{part}: {}", text.stdout);
    }
    assert_eq!(report(&place, &["--delete-records"])["records"]["deleted"], 3);
    assert_eq!((records(&place), report(&place, &[])["builds"].as_array().unwrap().len()), (0, 0));
}

#[test]
fn what_failed_is_not_built() {
    let place = Place::new();
    (4..=6).for_each(|length| drop(place.write(&format!("net/{length}.info"), square_of(length))));
    let broken = place.compiler("cc-broken", "grep -q '\\[5\\]' kernel.c && exit 1");
    let args = ["build", "net", "--target", "cpu", "--no-kernel-meta"];
    place.run_with(&args, &[("CC", broken.to_str().unwrap())]).ended_with(1);
    let text = place.run(&["report"]).ended_with(0);
    let row = |begin: &str| -> Vec<String> {
        let line = text.stdout.lines().find(|line| line.trim_start().starts_with(begin)).unwrap();
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    let head = ["began", "input", "reused", "compiled", "shared", "not built", "took", "at least", "host"];
    assert_eq!(row("began"), head);
    assert_eq!(row("20")[1..6], ["net", "0", "2", "0", "1 failed"]);
    assert_eq!(row("operator"), ["operator", "compiled", "failed", "compile time", "saved"]);
    assert_eq!(row("Square")[..3], ["Square", "2", "1"]);
}

/// A kernel that a framework compiled has the same operator in all commands.
#[test]
fn an_imported_kernel_has_its_operator() {
    let place = Place::new();
    let rank = opkeep_testkit::caches::Rank::new(0);
    rank.square(7).write(&rank.dir(&place.path("run"))).unwrap();
    place.run(&["import", "run"]).ended_with(0);
    place.run(&["ls", "--operator", "Square"]).ended_with(0).prints("\n1 kernel, ");
    let text = place.run(&["report"]).ended_with(0).prints("  by operator: Square 1\n");
    assert!(!text.stdout.contains("unnamed"), "{text:?}");
    place.run(&["stats", "--by", "kernel"]).ended_with(0).prints("    opkeep Square  1 kernel  ");
    let json = place.run(&["report", "--format", "json"]).ended_with(0).json();
    assert_eq!(json["targets"][0]["operators"][0]["name"], "Square");
}

#[test]
fn records_can_be_turned_off_and_have_no_paths() {
    let place = Place::new();
    let file = place.write("secret-project/net.info", square_of(5));
    let file = file.to_str().unwrap();
    build(&place, &[file, "--build-records", "off"]);
    let off = [("OPKEEP_BUILD_RECORDS", "off")];
    let args = ["build", file, "--target", "cpu", "--no-kernel-meta"];
    place.run_with(&args, &off).ended_with(0);
    assert_eq!(records(&place), 0);
    place.run_with(&args, &[("OPKEEP_BUILD_RECORDS", "never")]).ended_with(2).says("expected on or off");
    // The flag counts more, and a page about this build needs no record in the store.
    place.run_with(&[&args[..], &["--build-records", "on"]].concat(), &off).ended_with(0);
    place
        .run_with(&[&args[..], &["--timings=t.html"]].concat(), &off)
        .ended_with(0)
        .says("timings of this build are in t.html");
    assert_eq!(records(&place), 1);
    let record = fs::read_to_string(&files(&place.path("cache/v1/.builds"))[0]).unwrap();
    assert!(record.contains("net.info") && !record.contains("secret-project"), "{record}");
    let mode = ["--op_compiler_cache_mode", "read-only"];
    place.run(&[&args[..], &mode].concat()).ended_with(0);
    assert_eq!(records(&place), 1);
}

#[test]
fn timings_are_a_page_about_this_build() {
    let place = Place::new();
    build(&place, &[SQUARE]);
    let args = ["build", LENET, "--target", "cpu", "--no-kernel-meta", "--format", "json"];
    let json = place.run(&[&args[..], &["--timings"]].concat()).ended_with(0).json();
    assert_eq!(json["timings"], "opkeep-timings.html");
    let page = fs::read_to_string(place.path("opkeep-timings.html")).unwrap();
    for kernel in json["results"].as_array().unwrap() {
        assert!(page.contains(kernel["name"].as_str().unwrap()), "{kernel}");
    }
    assert!(!page.contains(&place.dir.path().display().to_string()) && !page.contains("id=\"quarantine\""));
    // A page that cannot be written is a problem, and the build is done.
    let ran = place.run(&[&args[..], &["--timings=missing/t.html"]].concat()).ended_with(1);
    assert_eq!((ran.count("reused"), ran.json().get("timings")), (13, None));
    assert!(ran.stderr.contains("cannot write the page `missing/t.html`"), "{ran:?}");
}

/// A page replaces a page, and nothing else: neither a model nor a device.
#[test]
fn a_page_replaces_only_a_page() {
    let place = Place::new();
    let model = place.write("model.html", "mine");
    let args = ["build", SQUARE, "--no-kernel-meta", "--target", "cpu"];
    let refused =
        |options: &[&str], says: &str| place.run(&[&args, options].concat()).ended_with(2).says(says);
    refused(&["--timings=model.html"], "`model.html` is no page of opkeep, so it is not replaced");
    assert_eq!(records(&place), 0, "nothing is built before");
    assert_eq!(fs::read(&model).unwrap(), b"mine");
    for _ in 0..2 {
        place.run(&[&args[..], &["--timings=page.html"]].concat()).ended_with(0);
        place.run(&["report", "--html", "page.html"]).ended_with(0);
    }
    place.run(&["report", "--html", "model.html"]).ended_with(2).says("is no page of opkeep");
    assert_eq!(fs::read(&model).unwrap(), b"mine");
    assert!(std::process::Command::new("mkfifo").arg(place.path("pipe")).status().unwrap().success());
    place.run(&["report", "--html", "pipe"]).ended_with(2).says("it is neither a file nor a new name");
    // A link would be replaced itself, such as /dev/stdout.
    std::os::unix::fs::symlink("page.html", place.path("link")).unwrap();
    place.run(&["report", "--html", "link"]).ended_with(2).says("`link` is a link, so it is not replaced");
    assert!(fs::symlink_metadata(place.path("link")).unwrap().is_symlink());
}

/// What is no directory of records, or no record, ends neither a report nor a build.
#[test]
fn foreign_files_in_the_place_of_records_end_no_report() {
    let place = Place::new();
    build(&place, &[SQUARE]);
    let builds = place.path("cache/v1/.builds");
    let moved = place.path("moved");
    fs::rename(&builds, &moved).unwrap();
    let put: [(&str, &dyn Fn()); 3] = [
        ("a pipe", &|| mkfifoat(CWD, &builds, Mode::RUSR | Mode::WUSR).unwrap()),
        ("a file", &|| fs::write(&builds, "a user's").unwrap()),
        ("a link", &|| std::os::unix::fs::symlink(&moved, &builds).unwrap()),
    ];
    for (what, put) in put {
        put();
        let reported = place.run(&["report"]).ended_with(0);
        assert!(reported.stdout.contains("1 kernel, "), "{what}: {reported:?}");
        reported.says("the report has no builds").says("v1/.builds").says("move away what is there");
        build(&place, &[SQUARE]);
        place.run(&["report", "--delete-records"]).ended_with(2).says("v1/.builds");
        assert!(
            fs::symlink_metadata(&builds).is_ok() && fs::read_dir(&moved).unwrap().count() == 1,
            "{what}"
        );
        fs::remove_file(&builds).unwrap();
    }
    fs::rename(&moved, &builds).unwrap();
    let foreign = builds.join("001764331200123-77-0-5678.full");
    fs::create_dir(&foreign).unwrap();
    let deleted = place.run(&["report", "--delete-records", "--format", "json"]).ended_with(0);
    let warning = deleted.json()["warnings"][0].as_str().unwrap().to_owned();
    assert!(warning.contains("is a directory with the name of a build's record"), "{warning}");
    assert!(foreign.is_dir() && fs::read_dir(&builds).unwrap().count() == 1);
}
