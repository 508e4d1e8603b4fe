//! The clients, each with its server, which the trials start and stop. A trial whose server is not here shows as ignored.

#![expect(clippy::unwrap_used, clippy::panic, reason = "these tests are functions without `#[test]`")]

mod contract;
mod redis;

use libtest_mimic::Arguments;

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(4));
    let (trials, server) = redis::trials();
    let conclusion = libtest_mimic::run(&arguments, trials);
    // `exit` would leave the server running.
    drop(server);
    conclusion.exit();
}
