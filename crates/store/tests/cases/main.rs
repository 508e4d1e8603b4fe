//! The store among several processes, users and file systems. The program runs itself as the other processes, and its
//! trials run one after the other: some count the memory of all threads, others keep a disk full.

#![expect(clippy::unwrap_used, clippy::panic, reason = "these tests are functions without `#[test]`")]
#![expect(clippy::print_stdout, reason = "what some trials measured is worth seeing")]

#[path = "../common/mod.rs"]
mod common;

mod counts;
mod full_disk;
mod history;
mod lock;
mod model;
mod races;
mod soak;
mod stats;
mod trust;

use libtest_mimic::{Arguments, Trial};
use opkeep_testkit::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The trials of a module.
type Trials = fn() -> Vec<Trial>;

fn main() {
    if let Some(arguments) = common::child_arguments() {
        return other_process(&arguments);
    }
    let modules: [(&str, Trials); 8] = [
        ("counts", counts::trials),
        ("full_disk", full_disk::trials),
        ("history", history::trials),
        ("lock", lock::trials),
        ("races", races::trials),
        ("soak", soak::trials),
        ("stats", stats::trials),
        ("trust", trust::trials),
    ];
    let trials = modules
        .into_iter()
        .flat_map(|(module, trials)| trials().into_iter().map(move |trial| trial.with_kind(module)));
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(1));
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// What this program does as another process of a module.
fn other_process(arguments: &[String]) {
    let [module, arguments @ ..] = arguments else { panic!("{arguments:?}") };
    let run = match module.as_str() {
        "counts" => counts::other_process,
        "history" => history::other_process,
        "lock" => lock::other_process,
        "races" => races::other_process,
        "soak" => soak::other_process,
        "stats" => stats::other_process,
        "trust" => trust::other_process,
        other => panic!("{other}"),
    };
    run(arguments);
}
