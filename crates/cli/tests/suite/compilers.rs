//! Misbehaving compilers: their kernel fails with a reason, the others are built, and nothing invalid is stored.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::path::{Path, PathBuf};

use crate::common::crowd::{Build, LoggingCompiler, network, until};
use crate::common::{Place, Ran};
use serde_json::Value;

const KERNELS: usize = 6;
const WITH_A_BAD_ONE: usize = 4;

/// Builds [`WITH_A_BAD_ONE`] kernels with a compiler that does `bad` instead of one of them, the third that is begun.
///
/// That one fails with a reason that contains all of `says`, and the others are built. All entries are valid; and with a
/// working compiler the build succeeds. Returns the reason.
#[track_caller]
fn one_is_bad(place: &Place, bad: &str, args: &[&str], says: &[&str]) -> String {
    network(place, WITH_A_BAD_ONE);
    // Of two that begin at once, one is the third.
    let cc = LoggingCompiler::new(
        place,
        // A run is repeated if it was not observed completely: it does the same again.
        &format!(
            "[ $begun -ge 3 ] && {{ mkdir ../../../third && mkdir ../../../third/$kernel; \
             mkdir ../../../third/$kernel/$$; }} 2> /dev/null && {{ {bad}\n}}"
        ),
    );
    let ran = Build::start(place, 0, &cc, args).end().ended_with(1);
    let (failed, built) = (ran.count("failed"), ran.count("compiled"));
    assert_eq!((failed, built), (1, WITH_A_BAD_ONE as u64 - 1), "{ran:?}");
    let reason = reason(&ran);
    for text in says {
        assert!(reason.contains(text), "no `{text}` in: {reason}");
    }
    only_good(place, WITH_A_BAD_ONE - 1);

    cc.does("");
    let again = Build::start(place, 0, &cc, args).end().ended_with(0);
    assert_eq!((again.count("reused"), again.count("compiled")), (WITH_A_BAD_ONE as u64 - 1, 1));
    only_good(place, WITH_A_BAD_ONE);
    reason
}

/// The reason of the failed kernel.
fn reason(ran: &Ran) -> String {
    let json = ran.json();
    let failed = |result: &&Value| result["outcome"] == "failed";
    let result = json["results"].as_array().unwrap().iter().find(failed).unwrap();
    result["reason"].as_str().unwrap().to_owned()
}

/// Asserts that this many kernels are stored, that all are valid, and that no temporary file stays.
#[track_caller]
fn only_good(place: &Place, kernels: usize) {
    let entries = place.entries();
    assert_eq!(entries.len(), kernels);
    let paths: Vec<&str> = entries.iter().map(|path| path.to_str().unwrap()).collect();
    place.run(&[&["inspect"], &paths[..]].concat()).ended_with(0);
    let meta = place.path("rank_0/kernel_meta");
    assert_eq!(crate::common::crowd::intact_pairs(&meta), kernels);
    place.run(&["verify", meta.to_str().unwrap()]).ended_with(0);
    let tmp = crate::common::files(&place.path("tmp"));
    assert!(tmp.iter().all(|path| !path.to_string_lossy().contains("/work-")), "{tmp:?}");
}

/// The file with the complete output that a reason names.
#[track_caller]
fn kept_log(reason: &str) -> PathBuf {
    let named = reason.split('`').find(|part| part.ends_with("compile.log"));
    let path = Path::new(named.unwrap_or_else(|| panic!("no kept log in: {reason}")));
    assert!(path.is_file(), "{path:?}");
    path.to_owned()
}

#[test]
fn a_compiler_that_crashes() {
    let place = Place::new();
    let bad = "echo 'about to crash' >&2; kill -SEGV $$";
    let reason = one_is_bad(&place, bad, &[], &["signal: 11", "about to crash"]);
    let log = kept_log(&reason);
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "about to crash\n");
    // Its source is beside it.
    assert!(log.with_file_name("kernel.c").is_file());
}

#[test]
fn a_compiler_that_hangs_goes_with_all_its_children_and_leaves_its_output() {
    let place = Place::new();
    let marker = format!("{}.8531", 40_000 + std::process::id() % 10_000);
    let bad =
        format!("echo 'still thinking' >&2; (sh -c 'sleep {marker}; :' & sleep {marker}) & sleep {marker}");
    let reason = one_is_bad(&place, &bad, &["--deadline", "2"], &["deadline of 2.", "still thinking"]);
    let running = || crate::common::command_lines().iter().filter(|line| line.contains(&marker)).count();
    until("the whole group is gone", || running() == 0);
    assert_eq!(std::fs::read_to_string(kept_log(&reason)).unwrap(), "still thinking\n");
}

/// A hundred megabytes of output are neither held in memory nor kept on the disk.
#[test]
fn a_compiler_that_floods_its_output() {
    let place = Place::new();
    let peak = place.path("peak");
    let bad = format!(
        "echo 'the first line'; yes 'again and again' | head -c 100000000; echo 'the last line'\n\
         grep VmHWM /proc/$PPID/status > '{}'; exit 1",
        peak.display()
    );
    let reason = one_is_bad(&place, &bad, &[], &["exit status: 1", "the last line"]);
    assert!(reason.len() < 20_000, "{}", reason.len());
    let log = std::fs::read_to_string(kept_log(&reason)).unwrap();
    assert!(
        log.len() < 200_000 && log.contains("the first line") && log.contains("the last line"),
        "{}",
        log.len()
    );
    let peak = std::fs::read_to_string(peak).unwrap();
    let kilobytes: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    println!("{kilobytes} KB at most");
    assert!(kilobytes < 60_000, "{peak}");
}

/// Invalid objects and objects of other kernels are refused, and a copy for inspection is named.
#[test]
fn a_compiler_that_writes_a_wrong_object() {
    let arm = "printf '\\267' | dd of=kernel.o bs=1 seek=18 conv=notrunc 2>/dev/null; exit 0";
    let cases = [
        ("text", "echo 'not an object' > kernel.o; exit 0".to_owned(), "OPV"),
        ("nothing", "echo 'all is well'; exit 0".to_owned(), "cannot be read"),
        ("an empty object", ": > kernel.o; exit 0".to_owned(), "OPV"),
        ("half an object", "cc \"$@\"; truncate -s 600 kernel.o; exit 0".to_owned(), "OPV"),
        ("of another machine", format!("cc \"$@\"; {arm}"), "OPV"),
        // The object of another compile: valid, but of another kernel.
        (
            "another kernel",
            "sed -i 's/[a-z_0-9]*__kernel0/square_1__kernel0/' kernel.c; cc \"$@\"; exit 0".to_owned(),
            "square_",
        ),
        ("a folder", "mkdir kernel.o; exit 0".to_owned(), "cannot be read"),
        ("a pipe", "mkfifo kernel.o; exit 0".to_owned(), "cannot be read"),
        ("a link to a device", "ln -s /dev/zero kernel.o; exit 0".to_owned(), "cannot be read"),
        ("8 TB of nothing", "truncate -s 8T kernel.o; exit 0".to_owned(), "cannot be read"),
    ];
    for (name, bad, says) in cases {
        println!("{name}");
        let place = Place::new();
        let reason = one_is_bad(&place, &bad, &["--deadline", "20"], &[says]);
        let kept = reason.split('`').find(|part| part.contains("/failed/")).unwrap();
        let kept = Path::new(kept.trim_end_matches("/compile.log"));
        assert!(kept.join("kernel.c").is_file(), "{reason}");
    }
}

/// Even if no file can be kept, the compiler's output is reported.
#[test]
fn a_compiler_that_deletes_its_directory() {
    let place = Place::new();
    one_is_bad(&place, "here=$(pwd); cd /; rm -r \"$here\"; echo gone; exit 1", &[], &["gone"]);
}

#[test]
fn the_first_failure_ends_the_build_if_that_is_wanted() {
    let place = Place::new();
    network(&place, KERNELS);
    let (fails, fails_later) = ("echo 'kernel.c:1: error: no' >&2; exit 1", "[ $begun -ge 10 ] && exit 1");
    let cc = LoggingCompiler::with_behaviors(&place, &[fails, fails_later]);
    cc.does(fails);
    let ran = Build::start(&place, 0, &cc, &["--fail-fast", "--jobs", "1"]).end().ended_with(1);
    assert_eq!((ran.count("failed"), ran.count("skipped"), cc.compiles().0), (1, KERNELS as u64 - 1, 1));
    let json = ran.json();
    let stopped = json["results"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|result| result["reason"].as_str().unwrap().starts_with("not built, since `square_"));
    assert_eq!(stopped.count(), KERNELS - 1, "{json}");
    // Without it each is tried.
    let ran = Build::start(&place, 0, &cc, &["--jobs", "1"]).end().ended_with(1);
    assert_eq!((ran.count("failed"), cc.compiles().0), (KERNELS as u64, 1 + KERNELS));
    assert!(place.entries().is_empty());
    // Kernels that were built before the failure are stored.
    cc.does(fails_later);
    let ran = Build::start(&place, 0, &cc, &["--fail-fast", "--jobs", "1"]).end().ended_with(1);
    assert_eq!((ran.count("compiled"), ran.count("failed"), ran.count("skipped")), (2, 1, 3));
    assert_eq!(cc.compiles().0, 10);
    assert_eq!(place.entries().len(), 2);
}

/// Compilers run with the configured niceness, and by default with none.
#[test]
fn compilers_are_nice_if_that_is_wanted() {
    let place = Place::new();
    network(&place, 3);
    let log = place.path("nice");
    let cc = LoggingCompiler::new(&place, &format!("cut -d ' ' -f 19 /proc/$$/stat >> '{}'", log.display()));
    let own: i64 = {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        stat.rsplit(')').next().unwrap().split_whitespace().nth(16).unwrap().parse().unwrap()
    };
    let niceness = |args: &[&str]| {
        let _ = std::fs::remove_file(&log);
        let force = ["--op_compiler_cache_mode", "force"];
        Build::start(&place, 0, &cc, &[&force, args].concat()).end().ended_with(0);
        let text = std::fs::read_to_string(&log).unwrap();
        text.lines().map(|line| line.parse::<i64>().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(niceness(&[]), [own; 3]);
    assert_eq!(niceness(&["--nice", "7"]), [(own + 7).min(19); 3]);
    assert_eq!(niceness(&["--nice", "19", "--jobs", "1"]), [(own + 19).min(19); 3]);
}

#[test]
fn values_that_make_no_sense_are_refused() {
    let place = Place::new();
    network(&place, 1);
    for (flag, values) in [
        ("--nice", &["20", "-1", "x", ""][..]),
        ("--jobs", &["0", "-2", "many"]),
        ("--deadline", &["0", "-1", "nan", "inf", "soon"]),
        ("--fail-fast", &["yes"]),
    ] {
        for value in values {
            let ran = place.run(&["build", "net", &format!("{flag}={value}")]).ended_with(2);
            assert!(ran.stderr.contains(flag) && ran.stdout.is_empty(), "{flag}={value}: {ran:?}");
        }
    }
    assert!(!place.path("cache").exists());
}
