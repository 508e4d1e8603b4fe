//! Man pages of all commands.
#![expect(clippy::disallowed_methods, reason = "tests look at files")]

use std::fs;

use crate::common::Place;

#[test]
fn each_command_has_a_page() {
    let place = Place::new();
    let json = place.run(&["man", "pages", "--format", "json"]).ended_with(0).json();
    let pages: Vec<&str> =
        json["pages"].as_array().unwrap().iter().map(|page| page.as_str().unwrap()).collect();
    for name in ["opkeep.1", "opkeep-build.1", "opkeep-bundle-export.1", "opkeep-remote-check.1"] {
        assert!(pages.contains(&name), "{pages:?}");
    }
    let text = |name: &str| fs::read_to_string(place.path("pages").join(name)).unwrap();
    assert!(text("opkeep.1").contains(".SH ENVIRONMENT\n") && text("opkeep-gc.1").contains(".SH EXAMPLES\n"));
    let once: Vec<String> = pages.iter().map(|name| text(name)).collect();
    place.run(&["man", "pages"]).ended_with(0);
    assert_eq!(once, pages.iter().map(|name| text(name)).collect::<Vec<_>>(), "the same each time");
}
