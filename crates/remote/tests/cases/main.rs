//! The clients, each with its server, which the trials start and stop. A trial whose server is not here shows as ignored.

#![expect(clippy::unwrap_used, clippy::panic, reason = "these tests are functions without `#[test]`")]

mod check;
mod contract;
mod file;
mod hosts;
mod reapi;
mod redis;
mod s3;
mod shared;

use libtest_mimic::Arguments;

fn main() {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some(hosts::CHILD) {
        return hosts::other_process(&words.collect::<Vec<_>>());
    }
    let mut arguments = Arguments::from_args();
    // They wait: for servers, and for leases to end.
    arguments.test_threads = arguments.test_threads.or(Some(8));
    let (mut trials, redis) = redis::trials();
    let (of_s3, s3) = s3::trials();
    trials.extend(of_s3);
    let (of_file, directory) = file::trials();
    trials.extend(of_file);
    let (of_grpc, grpc) = reapi::trials();
    trials.extend(of_grpc);
    trials.extend(hosts::trials());
    trials.extend(check::trials());
    let conclusion = libtest_mimic::run(&arguments, trials);
    // `exit` would leave the servers running.
    drop((redis, s3, directory, grpc));
    conclusion.exit();
}
