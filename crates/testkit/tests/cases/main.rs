//! Tests that need files or programs which a machine may lack; without them they show as ignored.

mod genuine;
mod null_conformance;
mod package;
mod servers;
mod toolkit;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|argument| argument == servers::ABORTED) {
        return servers::abort_with_server().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    let trials = [
        genuine::trials(),
        null_conformance::trials(),
        package::trials(),
        servers::trials(),
        toolkit::trials(),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials.into_iter().flatten().collect()).exit_code()
}
