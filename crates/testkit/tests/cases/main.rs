//! Tests that need files or programs which a machine may lack; without them they show as ignored.

mod genuine;
mod null_conformance;
mod toolkit;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let trials = [genuine::trials(), null_conformance::trials(), toolkit::trials()];
    libtest_mimic::run(&Arguments::from_args(), trials.into_iter().flatten().collect()).exit_code()
}
