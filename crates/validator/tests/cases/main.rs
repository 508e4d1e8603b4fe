//! Tests on genuine kernels, which show as ignored without them, and tests that measure memory and time.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests read their corpus; their functions have no attribute"
)]

mod corpus;
mod fuzz;
mod hostile;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let trials = [corpus::trials(), fuzz::trials(), hostile::trials()].into_iter().flatten().collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
