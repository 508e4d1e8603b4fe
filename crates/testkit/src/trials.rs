//! Ways to run trials.

use std::num::NonZeroUsize;
use std::process::Command;
use std::thread::available_parallelism;

use libtest_mimic::{Arguments, Conclusion, Failed, Trial};

/// Runs trials that wait as long as they compute: two for each core.
pub fn run_waiting(mut arguments: Arguments, trials: Vec<Trial>) -> Conclusion {
    let cores = available_parallelism().map_or(1, NonZeroUsize::get);
    arguments.test_threads.get_or_insert(2 * cores);
    libtest_mimic::run(&arguments, trials)
}

/// Runs each trial in a process of its own, as many at once as there are cores: for trials that count the memory of all
/// threads, or that must have no file of another trial open. Names must be unique, as `--exact` selects one.
pub fn run_apart(mut arguments: Arguments, trials: Vec<Trial>) -> Conclusion {
    if arguments.exact {
        arguments.test_threads.get_or_insert(1);
        return libtest_mimic::run(&arguments, trials);
    }
    let apart = |trial: Trial| {
        let name = trial.name().to_owned();
        let (kind, is_ignored) = (trial.kind().to_owned(), trial.has_ignored_flag());
        Trial::test(name.clone(), move || run_alone(&name)).with_kind(kind).with_ignored_flag(is_ignored)
    };
    libtest_mimic::run(&arguments, trials.into_iter().map(apart).collect())
}

/// Runs this program again with one of its trials.
#[expect(clippy::print_stdout, reason = "the output of a trial is the output of the test program")]
fn run_alone(name: &str) -> Result<(), Failed> {
    let program = std::env::current_exe()?;
    let arguments = ["--exact", name, "--include-ignored", "--color", "never"];
    let output = Command::new(program).args(arguments).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || !text.contains("1 passed") {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {text}{errors}", output.status).into());
    }
    // The trial's output is between its name and its result.
    let output = text.split_once(" ... ").and_then(|(_, rest)| rest.split_once("ok\n\ntest result"));
    output.filter(|(shown, _)| !shown.is_empty()).iter().for_each(|(shown, _)| print!("{name}: {shown}"));
    Ok(())
}
