//! Commands of several processes at once, of which some are killed: this program runs itself as the others. Tasks of the stand-in toolkit.
#![expect(clippy::disallowed_methods, reason = "these processes communicate through files")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "these tests are functions without `#[test]`")]

mod bisheng;
mod jobs;
mod opc;
#[path = "../common/outputs.rs"]
mod outputs;
mod processes;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use opkeep_testkit::toolkit::package::tools;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(processes::CHILD) {
        let arguments: Vec<String> = arguments.collect();
        return processes::launch(&arguments);
    }
    let tests: [(&str, fn()); 14] = [
        ("of_eight_processes_one_runs_the_command", processes::eight_processes),
        ("processes_whose_command_fails_do_not_wait_for_each_other", processes::failing_processes),
        ("a_waiter_runs_the_command_of_a_killed_process", processes::a_killed_process),
        ("standard_input_is_empty", processes::standard_input),
        ("inherited_files_are_closed", processes::an_inherited_file),
        ("inherited_pipes_are_closed", processes::an_inherited_pipe),
        ("a_signal_ends_the_command", processes::a_signal),
        ("jobs_get_tokens_by_descriptors", jobs::by_descriptors),
        ("jobs_get_tokens_by_a_named_pipe", jobs::by_a_named_pipe),
        (
            "opc::every_task_is_compiled_once_whatever_lies_where",
            opc::every_task_is_compiled_once_whatever_lies_where,
        ),
        ("opc::a_change_compiles_what_reads_it", opc::a_change_compiles_what_reads_it),
        (
            "opc::failures_and_unusual_command_lines_are_as_they_are",
            opc::failures_and_unusual_command_lines_are_as_they_are,
        ),
        ("opc::a_set_has_no_order", opc::a_set_has_no_order),
        ("opc::a_toolkit_beside_a_project", opc::a_toolkit_beside_a_project),
    ];
    let trials = tests.into_iter().chain(bisheng::cases()).map(|(name, body)| {
        let trial = Trial::test(name, move || {
            body();
            Ok(())
        });
        let is_possible = match name {
            "jobs_get_tokens_by_a_named_pipe" => jobs::has_named_pipes(),
            // clang, a linker, objdump and make.
            name if name.starts_with("opc::") || name.starts_with("bisheng::") => tools().is_some(),
            _ => true,
        };
        trial.with_ignored_flag(!is_possible)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
