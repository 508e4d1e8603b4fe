//! Tests that run one after another: those that count the memory of the process, and those on files of the corpus, which
//! show as ignored without it.

#[path = "../suite/common/mod.rs"]
mod common;
mod corpus;
mod memory;
mod networks;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // The allocator counts for the whole process.
    arguments.test_threads = Some(1);
    let trials = [memory::trials(), corpus::trials(), networks::trials()].into_iter().flatten().collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
