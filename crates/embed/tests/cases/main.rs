//! Tickets among several processes, of which some are killed, stopped or forked: this program runs itself as the others.

#![expect(clippy::disallowed_methods, reason = "these processes communicate through files")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "these tests are functions without `#[test]`")]

mod endings;
mod processes;
mod remote;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(processes::CHILD) {
        let arguments: Vec<String> = arguments.collect();
        return processes::other_process(&arguments);
    }
    let tests: [(&str, fn()); 15] = [
        ("of_eight_processes_one_makes_the_files", processes::of_eight_processes),
        ("a_waiter_takes_over_from_a_killed_process", processes::a_killed_process),
        ("a_stopped_process_is_waited_for_until_it_is_stale", processes::a_stopped_process),
        ("two_processes_whose_threads_wait_for_each_other_end", processes::crossed_processes),
        ("a_held_ticket_is_renewed", processes::a_held_ticket),
        ("a_ticket_that_is_never_ended_is_renewed_for_a_limited_time", processes::a_forgotten_ticket),
        ("a_forked_child_cannot_end_its_parents_ticket", processes::a_forked_child),
        ("a_directory_stays_if_the_process_has_too_many_open_files", processes::too_many_open_files),
        ("a_file_of_a_killed_process_is_removed", processes::killed_before_a_rename),
        ("a_forked_child_uses_its_parents_cache", processes::a_childs_own_work),
        ("a_child_of_a_child_that_opens_its_cache", endings::a_child_of_a_child),
        ("a_process_that_exits_with_a_ticket", endings::an_exit),
        ("a_killed_process_whose_program_runs_on", endings::a_program),
        ("a_late_publisher_does_not_replace_a_newer_entry", endings::a_late_publisher),
        ("a_child_of_another_user", endings::another_user),
    ];
    let trials = tests.into_iter().map(|(name, body)| {
        Trial::test(name, move || {
            body();
            Ok(())
        })
    });
    let trials = trials.chain(remote::trials()).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
