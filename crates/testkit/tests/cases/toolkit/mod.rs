//! The stand-in toolkit, actually run. Without Python, every test shows as ignored, never as passed.

#![expect(clippy::unwrap_used, reason = "helpers of tests are not themselves marked as tests")]
#![expect(clippy::disallowed_methods, reason = "tests look at what programs left")]

mod bench;
mod faults;
mod habits;
mod layout;
mod objects;
mod options;
mod sameness;
mod worker;

use libtest_mimic::{Failed, Trial};
use opkeep_testkit::toolkit;

/// A test: its name, and its function.
type Case = (&'static str, fn());

pub(crate) fn trials() -> Vec<Trial> {
    let has_python = toolkit::python().is_some();
    let cases = [
        layout::CASES,
        objects::CASES,
        options::CASES,
        habits::CASES,
        sameness::CASES,
        worker::CASES,
        faults::CASES,
    ];
    let trial = |(name, run): &Case| {
        let run = *run;
        Trial::test(format!("toolkit::{name}"), move || {
            run();
            Ok::<(), Failed>(())
        })
        .with_ignored_flag(!has_python)
    };
    cases.into_iter().flatten().map(trial).collect()
}
