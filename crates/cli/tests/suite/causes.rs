//! The causes of misses in the words of the person who made them.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Place, SQUARE, square_of};

/// Returns the first line of an explanation by the compiler `cc`, with further arguments.
fn first_line(place: &Place, cc: &str, more: &[&str]) -> String {
    let args = [&["explain", SQUARE, "--target", "cpu"], more].concat();
    let explained = place.run_with(&args, &[("CC", cc)]).ended_with(0);
    explained.stdout.lines().next().unwrap_or_default().to_owned()
}

fn build(place: &Place, cc: &str, more: &[&str]) {
    let args = [&["build", SQUARE, "--target", "cpu", "--no-kernel-meta"], more].concat();
    place.run_with(&args, &[("CC", cc)]).ended_with(0);
}

/// An input that one side lacks has no other content.
#[test]
fn a_declared_input_is_new_gone_or_changed() {
    let place = Place::new();
    let (mine, yours) = (place.write("my.h", "1"), place.write("your.h", "1"));
    let input = |path: &std::path::Path| ["--toolchain-input".to_owned(), path.display().to_string()];
    let (mine, yours) = (input(&mine), input(&yours));
    let [mine, yours] = [&mine, &yours].map(|args| args.iter().map(String::as_str).collect::<Vec<_>>());
    build(&place, "cc", &[]);
    assert_eq!(first_line(&place, "cc", &mine), "1 miss: new in the toolchain: input my.h");
    let args = [&["build", SQUARE, "--target", "cpu", "--no-kernel-meta", "-v"][..], &mine].concat();
    place.run(&args).ended_with(0).prints("(not in the store; new in the toolchain: input my.h)");

    // Only the kernels with the input are left.
    std::fs::remove_dir_all(place.path("cache")).unwrap();
    build(&place, "cc", &mine);
    assert_eq!(first_line(&place, "cc", &[]), "1 miss: no longer in the toolchain: input my.h");
    assert_eq!(
        first_line(&place, "cc", &yours),
        "1 miss: new in the toolchain: input your.h; no longer in the toolchain: input my.h"
    );
    place.write("my.h", "2");
    assert_eq!(first_line(&place, "cc", &mine), "1 miss: toolchain: other content of input my.h");
}

/// A file that the compiler reads by itself is named, though its name is in no key.
#[test]
fn an_edited_header_and_an_edited_wrapper_are_named() {
    let place = Place::new();
    let header = place.write("pre.h", "/* 1 */\n");
    let cc = format!("cc -include {}", header.display());
    build(&place, &cc, &[]);
    place.write("pre.h", "/* 2 */\n");
    assert_eq!(first_line(&place, &cc, &[]), "1 miss: file pre.h: other content");

    let place = Place::new();
    build(&place, "cc", &[]);
    let wrapper = place.script("my-cc", "exec /usr/bin/env cc \"$@\"");
    let wrapper = wrapper.to_str().unwrap();
    assert_eq!(first_line(&place, wrapper, &[]), "1 miss: compiler is called through my-cc");
    std::fs::remove_dir_all(place.path("cache")).unwrap();
    build(&place, wrapper, &[]);
    assert_eq!(first_line(&place, "cc", &[]), "1 miss: compiler is no longer called through my-cc");
    place.script("my-cc", "# edited\nexec /usr/bin/env cc \"$@\"");
    assert_eq!(first_line(&place, wrapper, &[]), "1 miss: compiler my-cc: other content");
}

/// The descriptors of three kernels.
fn network(place: &Place) {
    (1..=3).for_each(|length| drop(place.write(&format!("net/{length}.info"), square_of(length))));
}

/// Returns the lines of an explanation of the network without its hits, with times as `TIME`.
fn explained(place: &Place, cc: &str) -> Vec<String> {
    let explained = place.run_with(&["explain", "net"], &[("CC", cc)]).ended_with(0);
    explained.stdout.lines().filter(|line| !line.starts_with("hit ")).map(without_time).collect()
}

/// Puts `TIME` in the place of the first time of a line: `2026-11-28 16:03:08 UTC`.
fn without_time(line: &str) -> String {
    match line.find(" UTC").and_then(|end| Some((end, end.checked_sub("2026-11-28 16:03:08".len())?))) {
        Some((end, begin)) => format!("{}TIME{}", &line[..begin], &line[end + " UTC".len()..]),
        None => line.to_owned(),
    }
}

/// Builds the network with a compiler that compiles the first kernel and never ends with the second, and ends the build by a signal
/// when the first is stored.
fn interrupt(place: &Place, cc: &Path, marker: &str, signal: rustix::process::Signal) {
    let stored = place.entries().len();
    let mut build = place.command(&["build", "net", "--jobs", "2", "--no-kernel-meta"]);
    let mut build = build.env("CC", cc).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let is_running = || crate::common::command_lines().iter().any(|line| line.contains(marker));
    while !is_running() || place.entries().len() == stored {
        assert!(build.try_wait().unwrap().is_none(), "the build ended before it was interrupted");
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = rustix::process::Pid::from_raw(build.id() as i32).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
    assert_eq!(build.wait().unwrap().code(), Some(130));
}

/// What an interrupted build did not compile is missing because of that, and not because kernels of other jobs differ from it.
#[test]
fn an_interrupted_build_is_a_cause() {
    use rustix::process::Signal;
    for (signal, offset) in [(Signal::INT, 0), (Signal::TERM, 10_000)] {
        let place = Place::new();
        network(&place);
        let marker = format!("{}.8645", 20_000 + offset + std::process::id() % 10_000);
        let cc = place.compiler("cc-slow", &format!("grep -q '\\[[23]\\]' kernel.c && exec sleep {marker}"));
        interrupt(&place, &cc, &marker, signal);
        let lines = explained(&place, cc.to_str().unwrap());
        let text = "a build (TIME, this host) was interrupted before it compiled them";
        assert_eq!(lines[0], format!("2 misses: {text}"), "{lines:#?}");
        assert_eq!(lines.iter().filter(|line| line.contains("like ")).count(), 0, "{lines:#?}");
        let json = place.run_with(&["explain", "net", "--format", "json"], &[("CC", cc.to_str().unwrap())]);
        let json = json.ended_with(0).json();
        let former =
            json["kernels"].as_array().unwrap().iter().find_map(|kernel| kernel["former"].as_object());
        let former = former.unwrap();
        assert_eq!(
            (&json["causes"][0]["cause"], &former["state"]),
            (&json!("interrupted"), &json!("interrupted"))
        );
        assert_eq!((&former["compiled"], &former["reason"]), (&Value::Null, &Value::Null), "{former:?}");
    }
}

/// After an upgrade, the compiler is why an interrupted build had to compile: both are named.
#[test]
fn an_upgrade_and_an_interrupted_build_are_one_cause() {
    let place = Place::new();
    network(&place);
    place.run(&["build", "net", "--no-kernel-meta"]).ended_with(0);
    let marker = format!("{}.8646", 20_000 + std::process::id() % 10_000);
    let cc = place.compiler("cc-slow", &format!("grep -q '\\[[23]\\]' kernel.c && exec sleep {marker}"));
    interrupt(&place, &cc, &marker, rustix::process::Signal::INT);
    let lines = explained(&place, cc.to_str().unwrap());
    assert_eq!(
        lines[0],
        "2 misses: compiler is called through cc-slow; a build (TIME, this host) was interrupted before it compiled them",
        "{lines:#?}"
    );
}

/// A failure has its reason, and what `--fail-fast` did not begin is named with it.
#[test]
fn a_failed_build_is_a_cause() {
    let place = Place::new();
    network(&place);
    let cc = place.compiler("cc-bad", "exit 7");
    let cc = cc.to_str().unwrap();
    let build = |more: &[&str]| {
        let args = [&["build", "net", "--no-kernel-meta", "--jobs", "1"], more].concat();
        place.run_with(&args, &[("CC", cc)]).ended_with(1)
    };
    build(&["--fail-fast"]);
    let lines = explained(&place, cc);
    let failed = "a build (TIME, this host) failed to compile";
    assert!(
        lines.contains(&format!("1 miss: {failed} this kernel: cc-bad failed: exit status: 7")),
        "{lines:#?}"
    );
    let skipped =
        "a build (TIME, this host) ended with the failure of another kernel before it compiled them";
    assert!(lines.contains(&format!("2 misses: {skipped}")), "{lines:#?}");
    build(&[]);
    let lines = explained(&place, cc);
    assert_eq!(lines[0], format!("3 misses: {failed} them: cc-bad failed: exit status: 7"), "{lines:#?}");
    let json = place.run_with(&["explain", "net", "--format", "json"], &[("CC", cc)]).ended_with(0).json();
    let former = &json["kernels"][0]["former"];
    assert_eq!(
        (&former["state"], &former["reason"]),
        (&json!("failed"), &json!("cc-bad failed: exit status: 7"))
    );
    assert_eq!(json["causes"][0]["cause"], json!("failed"));

    // A build that may not compile has tried nothing.
    let place = Place::new();
    network(&place);
    place.run(&["build", "net/1.info", "--no-kernel-meta"]).ended_with(0);
    place.run(&["build", "net", "--no-kernel-meta", "--op_compiler_cache_mode", "require"]).ended_with(1);
    let lines = explained(&place, "cc");
    assert_eq!(lines[0], "2 misses: no kernel of this job is stored", "{lines:#?}");
}

/// Entries of another user are one cause, with the flag that helps.
#[test]
fn entries_of_another_user_are_one_cause() {
    let place = Place::new();
    network(&place);
    place.run(&["build", "net", "--no-kernel-meta"]).ended_with(0);
    let give = |uid: u32| {
        place.entries().iter().all(|entry| std::os::unix::fs::chown(entry, Some(uid), None).is_ok())
    };
    // Only root gives files away.
    if rustix::process::getuid().is_root() {
        assert!(give(12345));
        let lines = explained(&place, "cc");
        assert_eq!(
            lines[..2],
            [
                "3 misses: stored by user 12345, which is not a trusted owner",
                "    help: --trusted-owner 12345 trusts that user"
            ],
            "{lines:#?}"
        );
        assert_eq!(lines.iter().filter(|line| line.contains("trusted")).count(), 2, "{lines:#?}");
        let json = place.run(&["explain", "net", "--format", "json"]).ended_with(0).json();
        assert_eq!(
            (&json["causes"][0]["cause"], &json["lookups"][0]["unknown"]),
            (&json!("untrusted"), &json!(3))
        );
        let trusted = place.run(&["explain", "net", "--trusted-owner", "12345"]).ended_with(0);
        trusted.prints("3 hit, 0 miss");
        let built = place.run(&["build", "net", "--no-kernel-meta", "-v"]).ended_with(0);
        let reasons = built.stdout.matches("(stored by user 12345, which is not a trusted owner)").count();
        assert_eq!((reasons, built.stdout.matches("cached kernel").count()), (3, 0), "{built:?}");
        return;
    }
    // Files that others may write are as little trusted.
    for entry in place.entries() {
        std::fs::set_permissions(entry, std::fs::Permissions::from_mode(0o666)).unwrap();
    }
    let lines = explained(&place, "cc");
    assert!(lines[0].starts_with("3 misses: stored, and not trusted: "), "{lines:#?}");
    assert!(lines[1].starts_with("    help: "), "{lines:#?}");
}

/// Files that are gone were not evicted, and what is stored for another target is named.
#[test]
fn what_is_known_of_other_entries_is_said() {
    let place = Place::new();
    network(&place);
    place.run(&["build", "net", "--no-kernel-meta"]).ended_with(0);
    std::fs::remove_file(&place.entries()[0]).unwrap();
    let lines = explained(&place, "cc");
    assert_eq!(
        lines[..2],
        [
            "1 miss: compiled TIME on this host, and no longer stored",
            "    the file is gone: the counters of the store have no eviction and no `opkeep clear`",
        ],
        "{lines:#?}"
    );
    // Without records and entries nothing is known.
    std::fs::remove_dir_all(place.path("cache/v1/.builds")).unwrap();
    place.entries().iter().for_each(|entry| std::fs::remove_file(entry).unwrap());
    assert_eq!(explained(&place, "cc")[0], "3 misses: the store is empty");
    // The same entries under another target.
    place.run(&["build", "net", "--no-kernel-meta"]).ended_with(0);
    std::fs::remove_dir_all(place.path("cache/v1/.builds")).unwrap();
    let target = place.entries()[0].clone();
    let target = target.strip_prefix(place.path("cache/v1")).unwrap().components().next().unwrap();
    let target = Path::new(target.as_os_str()).to_str().unwrap().to_owned();
    std::fs::rename(place.path("cache/v1").join(&target), place.path("cache/v1/Ascend910A")).unwrap();
    assert_eq!(
        explained(&place, "cc")[0],
        format!("3 misses: no kernel of these operators is stored for {target}, but for Ascend910A")
    );
}

/// Debug options are one cause, however many kernels have them.
#[test]
fn debug_options_are_one_cause() {
    let place = Place::new();
    network(&place);
    let explained = place.run(&["explain", "net", "--op_debug_level", "2"]).ended_with(0);
    let lines: Vec<&str> = explained.stdout.lines().collect();
    assert_eq!(
        lines[0], "3 bypassed: kernels with debug options are compiled each time and never kept",
        "{lines:#?}"
    );
    assert!(lines[1].starts_with("    square_") && lines.len() == 3, "{lines:#?}");
    let all = place.run(&["explain", "net", "--op_debug_level", "2", "--all"]).ended_with(0);
    assert_eq!(all.stdout.matches("bypassed square_").count(), 3, "{all:?}");
}

/// An edited model is compared with what is like it, and with nothing else.
#[test]
fn a_new_job_is_like_what_has_few_changes() {
    let place = Place::new();
    network(&place);
    place.run(&["build", "net/3.info", "--no-kernel-meta"]).ended_with(0);
    let four = place.write("four.info", square_of(4));
    let run = |file: &Path, cc: &str| {
        let args = ["explain", file.to_str().unwrap()];
        let ran = place.run_with(&args, &[("CC", cc)]).ended_with(0);
        ran.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let lines = run(&four, "cc");
    assert_eq!(
        (lines[0].as_str(), lines[2].as_str()),
        ("1 miss: no kernel of this job is stored", "      inputs[0].shape: [3] -> [4]")
    );
    assert!(lines[1].contains(", like square_") && lines[1].ends_with(" but for"), "{lines:#?}");
    // What else differs is named, not that something does.
    assert_eq!(run(&four, "cc -O1")[2], "      inputs[0].shape: [3] -> [4]; also arguments (none) -> -O1");
}

/// An argument of the compiler is the cause. The flags, headers and sources that follow from it are none: `--all` names them, and
/// JSON has them whole.
#[test]
fn an_added_argument_is_the_only_cause() {
    let place = Place::new();
    let network = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/networks/lenet");
    let run = |args: &[&str], cc: &str| {
        place.run_with(&[args, &[network, "--target", "cpu"]].concat(), &[("CC", cc)]).ended_with(0)
    };
    run(&["build", "--no-kernel-meta"], "cc");
    let explained = run(&["explain"], "cc -O1").stdout;
    let lines: Vec<&str> = explained.lines().collect();
    assert_eq!((lines[0], lines.len()), ("13 misses: arguments (none) -> -O1", 4), "{lines:#?}");
    assert!(lines[1].ends_with(" and 10 more") && lines[2].starts_with("the store "), "{lines:#?}");

    let all = run(&["explain", "--all"], "cc -O1").stdout;
    let following = all.lines().find_map(|line| line.strip_prefix("    what follows from that: ")).unwrap();
    let following: Vec<&str> = following.split(", ").collect();
    for part in ["arguments of each step", "flags", "libm"] {
        assert!(following.contains(&part), "{following:?}");
    }
    assert!(all.lines().all(|line| line.len() < 200) && !all.contains("-fno-math-errno"), "{all}");
    let json = run(&["explain", "--format", "json"], "cc -O1").json();
    let parts = json["causes"][0]["toolchain"].as_array().unwrap();
    let flags = parts.iter().find_map(|part| part.as_str()?.strip_prefix("`flags` changed: ")).unwrap();
    assert_eq!(flags.matches("-fno-math-errno").count(), 2, "{parts:#?}");
    // JSON marks what follows, which the text leaves out.
    let following: Vec<Value> = following.into_iter().map(Value::from).collect();
    assert_eq!(json["causes"][0]["consequences"], Value::from(following.clone()), "{json}");
    assert!(!following.contains(&Value::from("arguments")), "{following:?}");
    for kernel in json["kernels"].as_array().unwrap() {
        let own = kernel["nearest"]["consequences"].as_array().unwrap();
        assert!(own.contains(&json!("flags")) && own.iter().all(|name| following.contains(name)), "{own:?}");
    }
}
