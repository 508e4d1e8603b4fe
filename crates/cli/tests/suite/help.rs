//! Help texts on a real terminal; all of them at other widths are unit tests.

use opkeep_testkit::terminal::shown_in;

use crate::common::Place;

/// The length of the longest line of a help text on a terminal of that width.
fn longest(place: &Place, columns: u16, environment: &str) -> usize {
    let mut command = place.command(&["gc", "--help"]);
    command.env("COLUMNS", environment).env("NO_COLOR", "1");
    let (status, shown) = shown_in(command, columns, 24).unwrap();
    assert!(status.success(), "{shown}");
    shown.lines().map(|line| line.trim_end().chars().count()).max().unwrap_or_default()
}

#[test]
fn help_has_the_width_of_the_terminal() {
    let place = Place::new();
    let lengths = [(61, "80"), (90, "80"), (300, "80")].map(|(columns, env)| longest(&place, columns, env));
    assert!(
        (56..=61).contains(&lengths[0])
            && (85..=90).contains(&lengths[1])
            && (110..=120).contains(&lengths[2]),
        "{lengths:?}"
    );
    // Without a terminal, the environment counts.
    let ran = place.run_with(&["gc", "--help"], &[("COLUMNS", "70")]).ended_with(0);
    let longest = ran.stdout.lines().map(|line| line.chars().count()).max().unwrap_or_default();
    assert!((65..=70).contains(&longest), "{longest}");
}
