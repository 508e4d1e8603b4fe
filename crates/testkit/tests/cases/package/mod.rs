//! The stand-in for builds of operator packages, actually run. Without Python, clang, a linker and make, every test shows as
//! ignored, never as passed.

#![expect(clippy::unwrap_used, reason = "helpers of tests are not themselves marked as tests")]
#![expect(clippy::disallowed_methods, reason = "tests look at what programs left")]

mod bench;
mod builds;
mod compilers;
mod faults;
mod hooks;
mod inputs;
mod tasks;

use libtest_mimic::{Failed, Trial};
use opkeep_testkit::toolkit::{self, package};

/// A test: its name, and its function.
type Case = (&'static str, fn());

pub(crate) fn trials() -> Vec<Trial> {
    let can_run = toolkit::python().is_some() && package::tools().is_some();
    let trial = |(name, run): &Case, can_run: bool| {
        let run = *run;
        Trial::test(format!("package::{name}"), move || {
            run();
            Ok::<(), Failed>(())
        })
        .with_ignored_flag(!can_run)
    };
    let cases = [tasks::CASES, inputs::CASES, hooks::CASES, builds::CASES, faults::CASES, compilers::CASES];
    let cases = cases.into_iter().flatten();
    let ninja = trial(&builds::NINJA, can_run && builds::has_ninja());
    cases.map(|case| trial(case, can_run)).chain([ninja]).collect()
}
