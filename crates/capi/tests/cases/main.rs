//! Programs in C and C++, compiled and run with each compiler and sanitizer that the machine has.
#![expect(clippy::unwrap_used, reason = "these tests are functions without `#[test]`")]
#![expect(clippy::disallowed_methods, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;
mod docs;
mod examples;
mod prefix;
mod programs;
mod toolchain;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let _prefix = prefix::create();
    let trials = [examples::trials(), programs::trials(), docs::trials()];
    let trials = trials.into_iter().flatten().collect();
    opkeep_testkit::run_waiting(Arguments::from_args(), trials).exit_code()
}
