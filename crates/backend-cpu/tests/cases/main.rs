//! Tests by each compiler, which show as ignored if the compiler is missing, and the suite for every backend.

#[path = "../suite/common.rs"]
mod common;
mod conformance;
mod dense;
mod numerics;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(std::thread::available_parallelism().map_or(1, usize::from));
    let trials = [conformance::trials(), dense::trials(), numerics::trials()];
    libtest_mimic::run(&arguments, trials.into_iter().flatten().collect()).exit_code()
}
