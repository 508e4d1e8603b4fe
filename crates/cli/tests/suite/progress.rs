//! What a build shows while it runs: on a terminal, in a log, and not at all.

use opkeep_testkit::terminal::shown_in;

use crate::common::Place;
use crate::common::crowd::{LoggingCompiler, network};

/// The program of a build of `net` with the compiler of `place`.
fn build(place: &Place, cc: &LoggingCompiler, args: &[&str]) -> std::process::Command {
    let mut command = place.command(&["build", "net", "--no-kernel-meta", "--target", "cpu"]);
    command.args(args).env("CC", &cc.path);
    command
}

/// A line for each compile and the sum, which fit into a narrow terminal, and of which nothing is left.
#[test]
fn a_terminal_shows_each_compile_and_keeps_the_result_only() {
    let (columns, rows) = (50, 12);
    let place = Place::new();
    let cc = LoggingCompiler::new(&place, "case $begun in 1|2) sleep 0.4;; *) sleep 2;; esac");
    network(&place, 4);
    let (status, shown) =
        shown_in(build(&place, &cc, &["--color=never", "--jobs", "2"]), columns, rows).unwrap();
    assert!(status.success(), "{shown}");

    let mut terminal = vt100::Parser::new(rows, columns, 100);
    let (mut most_compiles, mut has_count) = (0, false);
    let progress = shown.find("compiled  square_").unwrap_or(shown.len());
    for part in shown.as_bytes()[..progress].chunks(16) {
        terminal.process(part);
        // A note is in the first two rows.
        let lines: Vec<String> = terminal.screen().rows(0, columns).skip(2).collect();
        let begins = |line: &&String| {
            ["planning  ", "0/4  ", "1/4  ", "2/4  ", "3/4  ", "4/4  ", "  square_"]
                .iter()
                .any(|begin| line.starts_with(begin))
        };
        let continued =
            lines.iter().filter(|line| !line.trim().is_empty() && line.len() > 10).find(|line| !begins(line));
        assert_eq!(continued, None, "{lines:#?}");
        let compiles =
            lines.iter().filter(|line| line.starts_with("  square_") && line.trim_end().ends_with(" s"));
        most_compiles = most_compiles.max(compiles.count());
        has_count |= lines.iter().any(|line| line.starts_with("2/4  2 compiled  "));
    }
    assert_eq!((most_compiles, has_count), (2, true), "{shown:?}");

    terminal.process(&shown.as_bytes()[progress..]);
    let end: Vec<String> = terminal.screen().rows(0, columns).collect();
    let leftover = |line: &String| line.contains("/4  ") || line.starts_with("  square_");
    assert!(!end.iter().any(leftover) && terminal.screen().contents().contains("4 compiled"), "{end:#?}");
}

/// A failure is above the lines of the compiles while these go on, and stays.
#[test]
fn a_terminal_shows_a_failure_at_once() {
    let (columns, rows) = (100, 24);
    let place = Place::new();
    let cc =
        LoggingCompiler::new(&place, "case $begun in 1) echo it is broken >&2; exit 1;; *) sleep 1;; esac");
    network(&place, 3);
    let build = build(&place, &cc, &["--color=never", "--jobs", "2"]);
    let (_, shown) = shown_in(build, columns, rows).unwrap();
    let mut terminal = vt100::Parser::new(rows, columns, 100);
    let is_above = |lines: &[String]| {
        let at = |begin: &str| lines.iter().position(|line| line.starts_with(begin));
        let broken =
            lines.iter().position(|line| line.starts_with("    | ") && line.contains("it is broken"));
        let running =
            lines.iter().position(|line| line.starts_with("  square_") && line.trim_end().ends_with(" s"));
        matches!((at("[1/3] failed square_"), broken, running), (Some(failed), Some(broken), Some(running))
            if failed < broken && broken < running)
    };
    let mut is_shown = false;
    for part in shown.as_bytes().chunks(16) {
        terminal.process(part);
        is_shown |= is_above(&terminal.screen().rows(0, columns).collect::<Vec<_>>());
    }
    assert!(is_shown && terminal.screen().contents().contains("[1/3] failed square_"), "{shown:?}");
}

/// The end of a failed compile's output is there at once, with the number of kernels that have ended.
#[test]
fn a_log_has_a_line_for_each_compile_and_failure() {
    let place = Place::new();
    let cc = LoggingCompiler::new(&place, "case $begun in 1) echo it is broken >&2; exit 1;; esac");
    network(&place, 3);
    let ran = crate::common::ran(&mut build(&place, &cc, &["--jobs", "1"]));
    let lines: Vec<&str> = ran.stderr.lines().collect();
    let begins = |begin: &str| lines.iter().filter(|line| line.starts_with(begin)).count();
    assert_eq!(
        [begins("[1/3] failed square_"), begins("[2/3] compiled "), begins("[3/3] compiled ")],
        [1; 3],
        "{ran:?}"
    );
    assert!(lines.iter().any(|line| line.starts_with("    | ") && line.contains("it is broken")), "{ran:?}");

    // What is reused needs no line, and neither does the only compile.
    let again = crate::common::ran(&mut build(&place, &cc, &[]));
    assert!(again.stdout.contains("2 reused, 1 compiled") && !again.stderr.contains("[3/3]"), "{again:?}");
}

/// `--quiet` keeps failures and the sum, and `--verbose` adds why.
#[test]
fn a_build_says_less_or_more() {
    let place = Place::new();
    let cc = LoggingCompiler::new(&place, "case $begun in 1) exit 1;; esac");
    network(&place, 3);
    let quiet = crate::common::ran(&mut build(&place, &cc, &["--jobs", "1", "-q"]));
    assert_eq!(
        (quiet.stderr.as_str(), quiet.stdout.lines().filter(|line| line.starts_with("compiled")).count()),
        ("", 0)
    );
    assert!(
        quiet.stdout.starts_with("failed    square_") && quiet.stdout.contains("2 compiled"),
        "{quiet:?}"
    );
    for (args, expected) in [(&[][..], [0, 1]), (&["-v"], [1, 1])] {
        let place = Place::new();
        network(&place, 2);
        let cc = LoggingCompiler::new(&place, "");
        let ran = crate::common::ran(&mut build(&place, &cc, args));
        let count = |text: &str| usize::from(ran.stdout.contains(text));
        assert_eq!([count("(not in the store)"), count("slowest: square_")], expected, "{ran:?}");
    }
    let json = crate::common::ran(&mut build(&place, &cc, &["--format", "json", "-q"]));
    assert_eq!((json.count("reused"), json.stderr.as_str()), (2, ""), "{json:?}");
}

/// The words before messages have colours where they are wanted, and nothing else has.
#[test]
fn colours_are_used_where_they_are_wanted() {
    let place = Place::new();
    let colored = |args: &[&str], env: &[(&str, &str)]| {
        let ran = place.run_with(&[&["build", "missing.onnx"], args].concat(), env).ended_with(2);
        assert!(ran.stderr.contains("error"), "{ran:?}");
        ran.stderr.contains('\u{1b}')
    };
    let force = ("CLICOLOR_FORCE", "1");
    assert!(!colored(&[], &[]), "no terminal");
    assert!(colored(&["--color", "always"], &[("NO_COLOR", "1")]) && colored(&[], &[force]));
    assert!(
        !colored(&["--color=never", "--jobs", "2"], &[force]) && !colored(&[], &[force, ("NO_COLOR", "1")])
    );
    // Errors of the command line have them, too.
    let usage = |args: &[&str]| place.run(args).ended_with(2).stderr.contains('\u{1b}');
    assert!(usage(&["build", "--color=always"]) && !usage(&["build", "--color", "never"]));
}

/// What a hit saves is what its compile took.
#[test]
fn the_time_that_hits_save_is_reported() {
    let place = Place::new();
    let cc = LoggingCompiler::new(&place, "sleep 0.1");
    network(&place, 2);
    let json = || crate::common::ran(&mut build(&place, &cc, &["--format", "json"])).json();
    let (first, second) = (json(), json());
    let sum = |json: &serde_json::Value, field: &str| -> f64 {
        json["results"].as_array().unwrap().iter().filter_map(|kernel| kernel[field].as_f64()).sum()
    };
    let took = sum(&first, "compile_ms");
    assert!(took >= 200.0 && first["saved_ms"] == 0.0 && sum(&first, "saved_ms") == 0.0, "{first}");
    let saved = second["saved_ms"].as_f64().unwrap();
    assert!((saved - took).abs() < 0.01 && (sum(&second, "saved_ms") - took).abs() < 0.01, "{took} {second}");
    let text = crate::common::ran(&mut build(&place, &cc, &[])).stdout;
    assert!(text.contains(&format!("saved {:.1} s of compiling", took / 1000.0)), "{text}");
}

/// With the mode `require`, a reason is stated once with the kernels, and the command that explains them is one that works.
#[test]
fn missing_kernels_are_named_once() {
    let place = Place::new();
    network(&place, 7);
    place.write("other.info", crate::common::square_of(30));
    place.run(&["build", "other.info", "--target", "cpu", "--no-kernel-meta"]).ended_with(0);
    let line = ["build", "net", "--no-kernel-meta", "--target", "cpu", "--cache-mode", "require"];
    let ran = place.run(&line).ended_with(1);
    let both = format!("{}{}", ran.stdout, ran.stderr);
    assert_eq!(both.matches("cannot be reused").count(), 1, "{ran:?}");
    assert_eq!(both.matches("square_").count(), 3, "the first three are named: {ran:?}");
    let begin = "failed    7 kernels cannot be reused (not in the store), and the mode `require` compiles none: square_";
    assert!(
        ran.stdout.starts_with(begin) && ran.stdout.contains(" and 4 more\n    help: build where"),
        "{ran:?}"
    );
    assert!(ran.stdout.contains("7 failed"), "{ran:?}");
    let advice = ran.stdout.lines().find_map(|line| line.strip_prefix("    help: `opkeep ")).unwrap();
    let (command, _) = advice.split_once('`').unwrap();
    assert_eq!(command, "explain net --target cpu");
    let explained = place.run(&command.split(' ').collect::<Vec<_>>()).ended_with(0);
    assert!(explained.stdout.contains("0 hit, 7 miss,"), "{explained:?}");
    // All are named with -v, and each has its reason in JSON.
    let all = place.run(&[&line[..], &["-v"]].concat()).ended_with(1);
    assert_eq!(all.stdout.matches("square_").count(), 7, "{all:?}");
    let json = place.run(&[&line[..], &["--format", "json"]].concat()).ended_with(1).json();
    let reasons = json["results"].as_array().unwrap().iter().map(|one| one["reason"].as_str().unwrap());
    assert_eq!(reasons.filter(|reason| reason.contains("cannot be reused: not in the store;")).count(), 7);
    // A flag that decides keys is in the advice, and an explanation that was printed needs none.
    let options = [&line[..], &["--cache-dir", "cache", "--option", "a b=c"]].concat();
    let refused = place.run(&options);
    assert!(refused.code == Some(2), "an unknown option: {refused:?}");
    place
        .run(&[&line[..], &["--cache-dir", "cache"]].concat())
        .ended_with(1)
        .prints("`opkeep explain net --target cpu --op_compiler_cache_dir cache` states");
    // What decides whose kernels are used, too; and an input is no flag, although its name begins as one.
    place.write("-net/1.info", crate::common::square_of(1));
    place.write("-settings.toml", "");
    let flags =
        ["--target", "cpu", "--trusted-owner", "12", "--trusted-owner", "13", "--config", "./-settings.toml"];
    let ran = place
        .run(&[&["build", "./-net", "--cache-mode", "require", "--no-kernel-meta"], &flags[..]].concat());
    let command = format!("explain ./-net {}", flags.join(" "));
    ran.ended_with(1).prints(&format!("`opkeep {command}` states"));
    place.run(&command.split(' ').collect::<Vec<_>>()).ended_with(0);
    let ran = place.run(
        &[&["build", "--cache-mode", "require", "--no-kernel-meta"], &flags[..], &["--", "-net"]].concat(),
    );
    ran.ended_with(1).prints(&format!("`opkeep {command}` states"));
    let explaining = place.run(&[&line[..], &["--explain"]].concat()).ended_with(1);
    assert!(!explaining.stdout.contains("opkeep explain"), "{explaining:?}");

    let run = ["run", "net/1.info", "--input-values", "1", "--target", "cpu", "--cache-mode", "require"];
    let ran = place.run(&run).ended_with(1);
    let ran = ran.says(
        "error: 1 kernel cannot be reused (not in the store), and the mode `require` compiles none: square_",
    );
    ran.says("help: `opkeep explain net/1.info --target cpu` states");
}
