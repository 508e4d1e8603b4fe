//! Commands of several processes at once, of which some are killed: this program runs itself as the others.
#![expect(clippy::disallowed_methods, reason = "these processes communicate through files")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "these tests are functions without `#[test]`")]

mod jobs;
mod processes;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(processes::CHILD) {
        let arguments: Vec<String> = arguments.collect();
        return processes::launch(&arguments);
    }
    let tests: [(&str, fn()); 8] = [
        ("of_eight_processes_one_runs_the_command", processes::eight_processes),
        ("processes_whose_command_fails_do_not_wait_for_each_other", processes::failing_processes),
        ("a_waiter_runs_the_command_of_a_killed_process", processes::a_killed_process),
        ("a_command_that_reads_standard_input_is_not_kept", processes::standard_input),
        ("a_command_with_an_inherited_file_is_kept", processes::an_inherited_file),
        ("a_signal_ends_the_command", processes::a_signal),
        ("jobs_get_tokens_by_descriptors", jobs::by_descriptors),
        ("jobs_get_tokens_by_a_named_pipe", jobs::by_a_named_pipe),
    ];
    let trials = tests.into_iter().map(|(name, body)| {
        let trial = Trial::test(name, move || {
            body();
            Ok(())
        });
        let is_possible = !name.ends_with("named_pipe") || jobs::has_named_pipes();
        trial.with_ignored_flag(!is_possible)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
