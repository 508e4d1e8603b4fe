//! Tests that need Python, a C compiler or networks which a machine may lack; they show as ignored without them.

#[path = "../suite/common/mod.rs"]
mod common;
mod conformance;
mod device;
mod drivers;
mod networks;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    if drivers::plays_the_killed_one() {
        return ExitCode::SUCCESS;
    }
    // Half of the time they wait for deadlines.
    let trials = [conformance::trials(), device::trials(), drivers::trials(), networks::trials()];
    opkeep_testkit::run_waiting(Arguments::from_args(), trials.into_iter().flatten().collect()).exit_code()
}
