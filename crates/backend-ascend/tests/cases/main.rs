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
    let mut arguments = Arguments::from_args();
    // Half of the time they wait for deadlines.
    arguments.test_threads.get_or_insert(4);
    let trials = [conformance::trials(), device::trials(), drivers::trials(), networks::trials()];
    libtest_mimic::run(&arguments, trials.into_iter().flatten().collect()).exit_code()
}
