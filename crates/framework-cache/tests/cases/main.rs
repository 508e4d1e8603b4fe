//! Trials of caches that several processes use. The program runs itself as the other processes, and once for each
//! trial: between fork and exec a child has all files of its parent open, and repairs leave open files alone.

#![expect(clippy::disallowed_methods, reason = "tests make and damage caches by hand, and run themselves")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "these tests are functions without `#[test]`")]
#![expect(clippy::print_stdout, reason = "the other process reports its state")]

#[path = "../common/mod.rs"]
mod common;

/// Trials with the names of their functions.
macro_rules! trials {
    ($($test:ident),* $(,)?) => {
        vec![$(Trial::test(stringify!($test), || {
            $test();
            Ok(())
        })),*]
    };
}

mod corpus;
mod foreign;
mod repair;
mod scan;
mod view;
mod writers;

use libtest_mimic::{Arguments, Trial};

/// The first argument of another process. The second is its module.
const CHILD: &str = "--child";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, child, module, arguments @ ..] = arguments.as_slice()
        && child == CHILD
    {
        return other_process(module, arguments);
    }
    type Trials = fn() -> Vec<Trial>;
    let modules: [(&str, Trials); 7] = [
        ("corpus", corpus::trials),
        ("foreign", foreign::trials),
        ("foreign::undone", foreign::undone::trials),
        ("repair", repair::trials),
        ("scan", scan::trials),
        ("view", view::trials),
        ("writers", writers::trials),
    ];
    let trials = modules
        .into_iter()
        .flat_map(|(module, trials)| trials().into_iter().map(move |trial| trial.with_kind(module)));
    opkeep_testkit::run_apart(Arguments::from_args(), trials.collect()).exit();
}

/// Runs this program as another process of a module.
fn other_process(module: &str, arguments: &[String]) {
    match module {
        "repair" => repair::other_process(arguments),
        "view" => view::other_process(arguments),
        "writers" => writers::other_process(arguments),
        other => panic!("{other}"),
    }
}
