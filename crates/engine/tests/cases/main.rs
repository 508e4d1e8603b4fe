//! Tests that run in processes of their own: some count the memory of all threads, one runs cargo.

#![expect(clippy::unwrap_used, clippy::panic, reason = "these tests are functions without `#[test]`")]
#![expect(clippy::disallowed_methods, reason = "tests, and an example")]
#![expect(clippy::print_stdout, reason = "what some trials measured is worth seeing")]

#[path = "../common/mod.rs"]
mod common;

mod conformance;
mod downstream;
mod memory;
mod windows;

use libtest_mimic::Arguments;
use opkeep_testkit::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let modules = [
        ("conformance", conformance::trials()),
        ("downstream", downstream::trials()),
        ("memory", memory::trials()),
        ("windows", windows::trials()),
    ];
    let trials = modules
        .into_iter()
        .flat_map(|(module, trials)| trials.into_iter().map(move |trial| trial.with_kind(module)));
    opkeep_testkit::run_apart(Arguments::from_args(), trials.collect()).exit();
}
