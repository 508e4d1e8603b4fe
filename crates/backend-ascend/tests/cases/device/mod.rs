//! The device's library, its chip, and kernels on it, against a stand-in for `libascendcl.so` that is compiled here. It
//! computes on this host's memory, so arguments, sizes and order are really checked. Ignored without a C compiler.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what cannot be set up fails the test")]
#![expect(clippy::disallowed_methods, reason = "tests read and write files beside the stand-in")]

mod artifact;
mod chip;
mod failures;
mod kernels;
mod refusals;
mod stub;

use libtest_mimic::Trial;

/// A test and its name.
type Test = (&'static str, fn());

pub(crate) fn trials() -> Vec<Trial> {
    let there = stub::compiler();
    let tests = [chip::TESTS, kernels::TESTS, refusals::TESTS, failures::TESTS].concat();
    let trial = |(name, test): Test| {
        let run = move || {
            test();
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(!there)
    };
    tests.into_iter().map(trial).collect()
}
