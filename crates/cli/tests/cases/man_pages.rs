//! The man pages, as a formatter reads them.
#![expect(clippy::expect_used, reason = "tests")]

use std::path::Path;
use std::process::Command;

use libtest_mimic::{Failed, Trial};
use opkeep_testkit::servers::program_of_system;

use crate::common::{Place, files};

pub(crate) fn trials() -> Vec<Trial> {
    let groff = program_of_system("groff");
    let is_missing = groff.is_err();
    let run = move || {
        no_page_has_warnings(&groff.map_err(Failed::from)?);
        Ok(())
    };
    vec![Trial::test("man_pages::a_formatter_has_no_warnings", run).with_ignored_flag(is_missing)]
}

fn no_page_has_warnings(groff: &Path) {
    let place = Place::new();
    place.run(&["man", "pages"]).ended_with(0);
    let pages = files(&place.path("pages"));
    assert!(pages.len() > 20, "{pages:?}");
    for page in pages {
        let mut command = Command::new(groff);
        let checked = command.args(["-man", "-ww", "-z", "-Tascii"]).arg(&page).output().expect("groff runs");
        assert!(checked.status.success() && checked.stderr.is_empty(), "{}: {checked:?}", page.display());
    }
}
