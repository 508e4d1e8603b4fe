//! What a command does, event by event: `-vv` and `OPKEEP_LOG`.

use crate::common::crowd::{LoggingCompiler, network};
use crate::common::{Place, Ran, ran};

fn build(place: &Place, cc: &LoggingCompiler, args: &[&str], filter: Option<&str>) -> Ran {
    let mut command = place.command(&["build", "net", "--no-kernel-meta", "--target", "cpu"]);
    command.args(args).env("CC", &cc.path);
    if let Some(filter) = filter {
        command.env("OPKEEP_LOG", filter);
    }
    ran(&mut command)
}

/// The levels and modules of the events on stderr, each once.
fn events(ran: &Ran) -> Vec<&str> {
    let mut events: Vec<_> = ran
        .stderr
        .lines()
        .filter_map(|line| line.split_once("s DEBUG ").or_else(|| line.split_once("s TRACE ")))
        .map(|(_, event)| event.split(": ").next().unwrap_or_default())
        .collect();
    events.sort_unstable();
    events.dedup();
    events
}

#[test]
fn events_are_printed_for_those_who_ask() {
    let place = Place::new();
    let cc = LoggingCompiler::new(&place, "");
    network(&place, 2);
    assert_eq!(events(&build(&place, &cc, &["-v"], None)), [""; 0]);

    let verbose = build(&place, &cc, &["-vv", "--format", "json", "--cache-dir", "other"], None);
    let modules = events(&verbose);
    for module in ["opkeep::setup", "opkeep_process::running_process", "opkeep_store::store::target"] {
        assert!(modules.contains(&module), "{verbose:?}");
    }
    let count = |text: &str| verbose.stderr.lines().filter(|line| line.contains(text)).count();
    assert_eq!(count("entry published key="), 2, "{verbose:?}");
    assert_eq!(verbose.json()["compiled"], 2);

    // Levels of single modules, also for a build that compiles nothing.
    let warm = build(&place, &cc, &[], Some("opkeep_store=trace"));
    assert_eq!(events(&warm), ["opkeep_store::store::read"], "{warm:?}");
    assert_eq!(warm.stderr.matches("entry opened key=").count(), 2, "{warm:?}");
    assert_eq!(events(&build(&place, &cc, &["-vv"], Some("opkeep=off"))), [""; 0]);
}

#[test]
fn a_filter_that_is_none_is_an_error() {
    let place = Place::new();
    let cc = LoggingCompiler::new(&place, "");
    network(&place, 1);
    let wrong = build(&place, &cc, &[], Some("opkeep=loud"));
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(
        wrong.stderr.starts_with("error: OPKEEP_LOG is `opkeep=loud`: ") && wrong.stdout.is_empty(),
        "{wrong:?}"
    );
}

/// A value may be a text from anywhere: here the name of a directory.
#[test]
fn an_event_is_one_line() {
    let place = Place::new();
    let cc = LoggingCompiler::new(&place, "");
    network(&place, 1);
    let ran = build(&place, &cc, &["-vv", "--cache-dir", "a\nDEBUG b\u{1b}[31m"], None);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let published = ran.stderr.lines().find(|line| line.contains("entry published")).unwrap();
    assert!(published.contains("DEBUG b") && !ran.stderr.contains('\u{1b}'), "{ran:?}");
}
