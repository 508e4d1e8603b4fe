//! The tasks that run cargo, and `ci`, which runs all of them.

use std::io;
use std::process::{Command, ExitStatus};
use std::time::Instant;

use crate::task::{Task, no_arguments};
use crate::{frameworks, guard, notices, python, remote_servers, tidy};

/// The steps of `ci`. The fastest come first; the tests come last, so that a caller can leave them out.
const CI: &[(&str, Task)] = &[
    ("fmt", fmt_check),
    ("tidy", tidy::tidy),
    ("notices", notices::notices),
    ("clippy", clippy),
    ("doc", doc),
    ("guard", guard::guard_if_possible),
    ("python", python::python),
    ("frameworks", frameworks_in_part),
    ("remote-servers", remote_servers::install_in_ci),
    ("test", test),
];

pub(crate) fn ci(args: &[String]) -> Result<(), String> {
    run(plan(args)?)
}

fn plan(args: &[String]) -> Result<&'static [(&'static str, Task)], String> {
    match args {
        [] => Ok(CI),
        [flag] if flag == "--skip-tests" => Ok(CI.strip_suffix(&[CI[CI.len() - 1]]).unwrap_or(CI)),
        [other, ..] => Err(format!("found `{other}`, expected nothing or `--skip-tests`")),
    }
}

/// Runs the steps until one fails.
fn run(steps: &[(&str, Task)]) -> Result<(), String> {
    let all = Instant::now();
    for (name, step) in steps {
        println!("==> {name}");
        let start = Instant::now();
        step(&[]).map_err(|reason| {
            format!("step `{name}` failed after {:.1} s: {reason}", start.elapsed().as_secs_f64())
        })?;
        println!("==> {name}: passed in {:.1} s", start.elapsed().as_secs_f64());
    }
    println!("==> all {} steps passed in {:.1} s", steps.len(), all.elapsed().as_secs_f64());
    Ok(())
}

pub(crate) fn fmt(args: &[String]) -> Result<(), String> {
    no_arguments(args)?;
    cargo(&["fmt", "--all"], &[])
}

fn fmt_check(args: &[String]) -> Result<(), String> {
    no_arguments(args)?;
    cargo(&["fmt", "--all", "--", "--check"], &[])
        .map_err(|reason| format!("{reason}; `cargo xtask fmt` formats"))
}

pub(crate) fn clippy(args: &[String]) -> Result<(), String> {
    no_arguments(args)?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])
}

pub(crate) fn doc(args: &[String]) -> Result<(), String> {
    no_arguments(args)?;
    cargo(&["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])
}

/// A part of the cases, since all of them take minutes.
fn frameworks_in_part(args: &[String]) -> Result<(), String> {
    no_arguments(args)?;
    frameworks::frameworks(&["--quick".to_owned()])
}

pub(crate) fn test(args: &[String]) -> Result<(), String> {
    let mut line = vec!["test", "--workspace"];
    line.extend(args.iter().map(String::as_str));
    cargo(&line, &[])
}

/// Durations and sizes of tests that are shortened in `ci`: the store's killed processes (histories take a third of
/// it), the entries of its largest directory, the mutated networks of each seed.
const LONG: &[(&str, &str)] =
    &[("OPKEEP_SOAK_SECONDS", "600"), ("OPKEEP_MANY_ENTRIES", "100000"), ("OPKEEP_MUTATION_ROUNDS", "20000")];
const CORPUS: &str = "OPKEEP_CORPUS";

pub(crate) fn soak(args: &[String]) -> Result<(), String> {
    #[expect(clippy::disallowed_methods, reason = "a task of the command line")]
    soak_with(std::env::var_os(CORPUS).is_some(), args)
}

fn soak_with(has_corpus: bool, args: &[String]) -> Result<(), String> {
    if !has_corpus {
        return Err(format!("`{CORPUS}` is not set; set it to the directory of the files for the tests"));
    }
    let mut line = vec!["test", "--workspace"];
    line.extend(args.iter().map(String::as_str));
    cargo(&line, LONG)
}

fn cargo(args: &[&str], environment: &[(&str, &str)]) -> Result<(), String> {
    let line = format!("cargo {}", args.join(" "));
    outcome(&line, Command::new("cargo").args(args).envs(environment.iter().copied()).status())
}

fn outcome(line: &str, status: io::Result<ExitStatus>) -> Result<(), String> {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{line}` ended with {status}")),
        Err(error) => Err(format!("`{line}` did not start: {error}; is cargo on the PATH?")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(args: &[&str]) -> Result<Vec<&'static str>, String> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        Ok(plan(&args)?.iter().map(|(name, _)| *name).collect())
    }

    #[test]
    fn ci_runs_every_step_and_may_skip_only_the_tests() {
        assert_eq!(
            names(&[]).unwrap(),
            [
                "fmt",
                "tidy",
                "notices",
                "clippy",
                "doc",
                "guard",
                "python",
                "frameworks",
                "remote-servers",
                "test"
            ]
        );
        assert_eq!(
            names(&["--skip-tests"]).unwrap(),
            ["fmt", "tidy", "notices", "clippy", "doc", "guard", "python", "frameworks", "remote-servers"]
        );
        assert!(names(&["--skip-tidy"]).unwrap_err().contains("`--skip-tidy`"));
        assert!(names(&["--skip-tests", "--skip-tidy"]).is_err());
    }

    #[test]
    fn a_soak_needs_the_corpus() {
        assert!(soak_with(false, &[]).unwrap_err().starts_with("`OPKEEP_CORPUS` is not set; "));
    }

    #[test]
    fn the_first_failure_stops_and_is_named() {
        let steps: [(&str, Task); 3] = [
            ("fine", |_| Ok(())),
            ("broken", |_| Err("it rained".to_owned())),
            ("never", |_| panic!("a step after the failed one ran")),
        ];
        let message = run(&steps).unwrap_err();
        assert!(message.starts_with("step `broken` failed after "), "{message}");
        assert!(message.ends_with(" s: it rained"), "{message}");
    }

    #[test]
    #[cfg(unix)]
    fn a_failing_cargo_is_quoted() {
        use std::os::unix::process::ExitStatusExt as _;
        let failed = ExitStatus::from_raw(101 << 8);
        assert_eq!(outcome("cargo x", Ok(failed)).unwrap_err(), "`cargo x` ended with exit status: 101");
        let missing = io::Error::from(io::ErrorKind::NotFound);
        assert!(outcome("cargo x", Err(missing)).unwrap_err().starts_with("`cargo x` did not start: "));
        assert_eq!(outcome("cargo x", Ok(ExitStatus::default())), Ok(()));
    }
}
