//! The cache among several processes: this program runs itself as the others.

#![expect(clippy::disallowed_methods, reason = "these processes communicate through files")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "these tests are functions without `#[test]`")]
#![expect(clippy::print_stdout, reason = "what was measured is worth seeing")]

#[path = "../common/mod.rs"]
mod common;
mod forks;
mod kills;
mod processes;
mod soak;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(processes::CHILD) {
        let arguments: Vec<String> = arguments.collect();
        return processes::other_process(&arguments);
    }
    let tests: [(&str, fn()); 13] = [
        ("one_of_four_takes_over_from_a_killed_holder", processes::one_of_four_takes_over),
        ("waiters_of_other_processes_share_a_failure", processes::waiters_share_a_failure),
        ("a_stopped_holder_is_waited_for_as_long_as_asked", processes::a_stopped_holder),
        ("a_ticket_in_a_forked_child_does_nothing", forks::a_ticket_in_a_child),
        ("a_forked_child_opens_its_own_cache", forks::an_own_cache),
        ("a_killed_parents_lock_ends_while_its_child_runs", forks::a_killed_parent),
        ("forks_during_locks_keep_no_lock_and_close_no_other_file", forks::forks_during_locks),
        ("a_fork_waits_for_changes_of_memory", forks::cells_in_a_child),
        ("files_that_other_code_closed_are_not_used", forks::closed_files),
        ("a_cold_crowd_of_processes_builds_each_key_once", processes::a_cold_crowd),
        ("pending_keys_keep_a_fourth_of_the_files_open", processes::pending_keys),
        ("an_entry_of_a_killed_process_is_sent", kills::killed_at_each_call_of_a_publication),
        ("nothing_is_corrupt_lost_or_built_twice", soak::nothing_is_corrupt_lost_or_built_twice),
    ];
    let trials = tests.into_iter().map(|(name, body)| {
        Trial::test(name, move || {
            body();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}
