//! A newcomer's walk: the commands of docs/first-steps.md, one after the other in one terminal.

use std::os::unix::fs::symlink;
use std::path::Path;

use opkeep_testkit::terminal::shown_in;

use crate::common::Place;

const PAGE: &str = include_str!("../../../../docs/first-steps.md");
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
const COLUMNS: u16 = 100;
/// As many rows as all output has: the screen keeps it.
const ROWS: u16 = 400;

/// The commands of the page, with their progress.
fn commands() -> Vec<String> {
    let commands = PAGE.lines().filter_map(|line| line.strip_prefix("$ "));
    commands.map(|command| command.trim_end_matches(" -q").to_owned()).collect()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the shell has the programs of the tests")]
fn a_newcomer_gets_from_a_clone_to_an_explained_rebuild() {
    let place = Place::untouched();
    symlink(FIXTURES, place.path("fixtures")).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_opkeep"));
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let typed = commands().iter().fold(String::new(), |typed, command| {
        format!("{typed}printf '$ %s\\n' {}\n{command}\necho \"exit status $?\"\n", quoted(command))
    });
    let script = place.write("walk.sh", typed);
    let mut shell = place.program("/bin/sh".as_ref(), &[script.to_str().unwrap()]);
    let path = std::env::var("PATH").unwrap();
    shell.env("PATH", format!("{}:{path}", program.parent().unwrap().display()));
    shell.env("HOME", place.path("home")).env_remove("OPKEEP_CACHE_DIR").env("LANG", "C.UTF-8");
    // One after the other, thirteen compiles take longer than the time between two redraws on any machine.
    shell.env("OPKEEP_JOBS", "1");
    let (status, shown) = shown_in(shell, COLUMNS, ROWS).unwrap();

    let mut terminal = vt100::Parser::new(ROWS, COLUMNS, 0);
    terminal.process(shown.as_bytes());
    let screen = terminal.screen().contents();
    assert!(status.success(), "{screen}");
    let mut rest = screen.as_str();
    for expected in [
        "$ opkeep build",
        "0 reused, 13 compiled",
        "slowest: ",
        "exit status 0",
        "13 reused, 0 compiled",
        "of compiling",
        "exit status 0",
        "13 hits, 13 misses",
        "exit status 0",
        "yes: the pair fits together",
        "exit status 0",
        "all 10 elements within",
        "exit status 0",
        "13 misses: arguments (none) -> -O1",
        "exit status 0",
        "13 hit, 0 miss",
        "exit status 0",
        "13 valid, 0 refused",
        "exit status 0",
    ] {
        let at = rest.find(expected);
        assert!(at.is_some(), "`{expected}` is missing in {rest}\nof\n{screen}");
        rest = &rest[at.unwrap_or(0) + expected.len()..];
    }
    // The compiles were shown as they ran, and nothing is left of that.
    let (progress, _) = shown.split_once("compiled  conv2d_").unwrap();
    assert!(["planning  ", "/13  "].iter().all(|part| progress.contains(part)), "{progress:?}");
    let is_progress = |line: &&str| line.contains("/13 ") || line.starts_with("planning");
    assert_eq!(screen.lines().find(is_progress), None, "{screen}");
}
