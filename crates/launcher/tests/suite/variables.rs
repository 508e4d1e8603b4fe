//! The environment of a command: a variable counts, or the command does not get it.

use std::fs;
use std::os::unix::fs::symlink;

use opkeep_launcher::{How, ToolFacts};

use crate::common::{Bench, Setup, variable};

fn with(variables: &[(&str, &str)]) -> Setup {
    Setup { env: variables.iter().map(|(name, value)| variable(name, value)).collect(), ..Setup::default() }
}

const MAKE: &str =
    "printf 'all:\\n\\t@echo \"$(MAKELEVEL) $(my.flags)\" > out/k\\n' > $TMPDIR/m.mk; make -sf $TMPDIR/m.mk";

/// What the command gets of it counts.
#[test]
fn a_variable_that_a_command_gets_counts() {
    for (name, values, script) in [
        ("MAKEFLAGS", [" -- my.flags=-g\\ -O2", " -- my.flags=-g\\ -O3"], MAKE),
        ("MAKEFLAGS", [" -- my.flags=\\ -j2", " -- my.flags=\\ -j3"], MAKE),
        ("MAKELEVEL", ["1", "2"], MAKE),
        ("USER", ["alice", "bob"], "echo \"$USER\" > out/k"),
        ("LOGNAME", ["alice", "bob"], "echo \"$LOGNAME\" > out/k"),
        ("OPTION", ["", "x"], "echo \"$OPTION\" > out/k"),
    ] {
        let bench = Bench::new();
        let [one, other] =
            values.map(|value| Setup { facts: ToolFacts::default(), ..with(&[(name, value)]) });
        assert_eq!(bench.run_with(&one, script).how, How::Compiled, "{name}");
        fs::remove_file(bench.path("tree/out/k")).unwrap();
        assert_eq!(bench.run_with(&one, script).how, How::Hit, "{name}");
        fs::remove_file(bench.path("tree/out/k")).unwrap();
        assert_eq!(bench.run_with(&other, script).how, How::Compiled, "{name}");
    }
}

/// The text that a command makes of it is the same for each value.
#[test]
fn a_command_does_not_get_a_variable_that_does_not_count() {
    let help = "import argparse, sys; p = argparse.ArgumentParser(prog=\"x\"); \
                p.add_argument(\"--abcdef\", help=\"word \" * 20); open(\"out/k\", \"w\").write(p.format_help())";
    for (name, script) in [
        ("GITHUB_SHA", "echo \"$GITHUB_SHA\" > out/k".to_owned()),
        ("SHLVL", "env | grep SHLVL > out/k; true".to_owned()),
        ("MFLAGS", "echo \"$MFLAGS\" > out/k".to_owned()),
        ("COLUMNS", format!("python3 -c '{help}'")),
    ] {
        let bench = Bench::new();
        let text = || fs::read(bench.path("tree/out/k")).unwrap();
        assert_eq!(bench.run_with(&with(&[]), &script).how, How::Compiled, "{name}");
        let of_none = text();
        let [one, other] = ["40", "200"].map(|value| with(&[(name, value)]));
        for setup in [&one, &other] {
            // A store of its own: the command runs.
            let alone = Setup {
                store: Some(bench.path(&format!("alone{}", setup.env[0].1.display()))),
                ..setup.clone()
            };
            assert_eq!(bench.run_with(&alone, &script).how, How::Compiled, "{name}");
            assert_eq!(text(), of_none, "{name}");
        }
        fs::remove_file(bench.path("tree/out/k")).unwrap();
        assert_eq!(bench.raw(&other, &script).how, How::Hit, "{name}");
        assert_eq!(text(), of_none, "{name}");
    }
}

/// The caller's spelling of the working directory, if it is one.
#[test]
fn the_working_directory_in_the_environment_is_that_of_the_command() {
    let bench = Bench::new();
    symlink("tree", bench.path("link")).unwrap();
    let script = "import os; open('out/k', 'w').write(os.environ['PWD'])";
    let pwd = |value: &str| Setup { env: vec![variable("PWD", value)], has_root: false, ..Setup::default() };
    let text = || fs::read_to_string(bench.path("tree/out/k")).unwrap();
    let [tree, link] = ["tree", "link"].map(|name| bench.path(name).to_str().unwrap().to_owned());
    let python = |setup: &Setup| {
        let _ = fs::remove_file(bench.path("tree/out/k"));
        bench.run_program(setup, "/usr/bin/python3", &["-c", script]).how
    };
    for stale in ["/nope/1", "/nope/2", "/"] {
        assert_eq!(python(&pwd(stale)), if stale == "/nope/1" { How::Compiled } else { How::Hit }, "{stale}");
        assert_eq!(text(), tree);
    }
    assert_eq!(python(&pwd(&link)), How::Compiled);
    assert_eq!(text(), link);
}
