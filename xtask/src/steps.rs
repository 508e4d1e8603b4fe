//! The tasks that run cargo, and `ci`, which runs all of them.

use std::io;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::task::{Task, no_arguments};
use crate::{benches, disk, docs, frameworks, guard, notices, package, python, remote_servers, tidy};

type Step = (&'static str, Task);

/// The steps of `ci`. The fastest come first, alone; the tests come last, so that a caller can leave them out.
const FAST: &[Step] =
    &[("fmt", fmt_check), ("tidy", tidy::tidy), ("notices", notices::notices), ("package", package_quick)];
/// They take all cores. The tests are built here already, while the steps beside wait for the package index.
const BUILDS: &[Step] = &[
    ("clippy", clippy),
    ("doc", doc),
    ("guard", guard::guard_if_possible),
    ("test-programs", test_programs),
    ("benches", benches_in_part),
];
/// They mostly wait, for the package index and for processes, so they run beside the builds. The servers come first: pip
/// installs them while clippy has cargo's lock.
const WAITING: &[Step] = &[
    ("remote-servers", remote_servers::install_in_ci),
    ("python", python::python),
    ("frameworks", frameworks_in_part),
    ("docs", docs::docs_in_ci),
];
const TESTS: &[Step] = &[("test", test)];

/// Where the output of steps that run beside others is.
const LOGS: &str = "target/ci";

pub(crate) fn ci(args: &[String]) -> Result<(), String> {
    match args {
        [flag, name] if flag == "--step" => named(name)?.1(&[]),
        _ => all(steps_at_the_end(args)?),
    }
}

/// The steps after those that `--skip-tests` leaves.
fn steps_at_the_end(args: &[String]) -> Result<&'static [Step], String> {
    match args {
        [] => Ok(TESTS),
        [flag] if flag == "--skip-tests" => Ok(&[]),
        [other, ..] => Err(format!("found `{other}`, expected nothing, `--skip-tests`, or `--step NAME`")),
    }
}

/// The step of this name.
fn named(name: &str) -> Result<&'static Step, String> {
    let steps = || [FAST, BUILDS, WAITING, TESTS].into_iter().flatten();
    steps().find(|(known, _)| *known == name).ok_or_else(|| {
        let known: Vec<&str> = steps().map(|(name, _)| *name).collect();
        format!("`--step`: there is no step `{name}`, only {}", known.join(", "))
    })
}

fn all(last: &[Step]) -> Result<(), String> {
    let begin = Instant::now();
    let has_failed = AtomicBool::new(false);
    in_turn(FAST, &has_failed, here)?;
    side_by_side(&has_failed, BUILDS, here, WAITING, apart)?;
    in_turn(last, &has_failed, here)?;
    println!("==> all steps passed in {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}

/// Runs two rows of steps at the same time. When a step fails, no other one begins.
fn side_by_side(
    has_failed: &AtomicBool,
    left: &[Step],
    run_left: impl Fn(&Step) -> Result<(), String>,
    right: &[Step],
    run_right: impl Fn(&Step) -> Result<(), String> + Send,
) -> Result<(), String> {
    std::thread::scope(|scope| {
        let right = scope.spawn(|| in_turn(right, has_failed, run_right));
        let left = in_turn(left, has_failed, run_left);
        left.and(right.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Runs the steps until one of them, or of those beside them, fails.
fn in_turn(
    steps: &[Step],
    has_failed: &AtomicBool,
    run: impl Fn(&Step) -> Result<(), String>,
) -> Result<(), String> {
    for step in steps {
        let name = step.0;
        if has_failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        println!("==> {name}");
        let start = Instant::now();
        if let Err(reason) = run(step) {
            has_failed.store(true, Ordering::Relaxed);
            let message =
                format!("step `{name}` failed after {:.1} s: {reason}", start.elapsed().as_secs_f64());
            // The steps beside it may take minutes to end.
            println!("==> {message}");
            return Err(message);
        }
        println!("==> {name}: passed in {:.1} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}

fn here((_, task): &Step) -> Result<(), String> {
    task(&[])
}

/// Runs a step as a process of its own, whose output comes in one piece at its end.
fn apart((name, _): &Step) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| format!("this program has no path: {error}"))?;
    let log = Path::new(LOGS).join(format!("{name}.log"));
    let output = disk::create(&log)?;
    let errors = output.try_clone().map_err(|error| format!("`{}`: {error}", log.display()))?;
    let mut step = Command::new(program);
    step.args(["ci", "--step", name]).stdin(Stdio::null()).stdout(output).stderr(errors);
    let status = step.status();
    let text = disk::bytes(Path::new(""), &log.to_string_lossy())?;
    println!("==> the output of {name}\n{}", String::from_utf8_lossy(&text).trim_end());
    outcome(&format!("ci --step {name}"), status)
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

fn test_programs(args: &[String]) -> Result<(), String> {
    no_arguments(args)?;
    cargo(&["test", "--workspace", "--no-run"], &[])
}

/// With the features of the workspace, since the tests are built with those.
fn benches_in_part(args: &[String]) -> Result<(), String> {
    no_arguments(args)?;
    let names = benches::of_turn(frameworks::commit_seed()?)?;
    let named = names.iter().flat_map(|name| ["--bench", name]);
    cargo(&["test", "--workspace"].into_iter().chain(named).collect::<Vec<_>>(), &[])
}

/// Nothing is compiled, since that takes minutes.
fn package_quick(args: &[String]) -> Result<(), String> {
    no_arguments(args)?;
    package::package(&["--no-verify".to_owned()])
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
    outcome(&line, crate::cargo::cargo().args(args).envs(environment.iter().copied()).status())
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

    fn names_at_the_end(args: &[&str]) -> Result<Vec<&'static str>, String> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        Ok(steps_at_the_end(&args)?.iter().map(|(name, _)| *name).collect())
    }

    #[test]
    fn ci_may_skip_only_the_tests() {
        assert_eq!(names_at_the_end(&[]).unwrap(), ["test"]);
        assert!(names_at_the_end(&["--skip-tests"]).unwrap().is_empty());
        assert!(names_at_the_end(&["--skip-tidy"]).unwrap_err().contains("`--skip-tidy`"));
        assert!(names_at_the_end(&["--skip-tests", "--skip-tidy"]).is_err());
    }

    #[test]
    fn a_step_is_found_by_its_name() {
        for (name, _) in [FAST, BUILDS, WAITING, TESTS].into_iter().flatten() {
            assert_eq!(named(name).unwrap().0, *name);
        }
        assert!(named("tydi").unwrap_err().contains("`tydi`, only fmt, tidy, notices, package, clippy"));
        assert!(ci(&["--step".to_owned()]).is_err());
    }

    #[test]
    fn a_soak_needs_the_corpus() {
        assert!(soak_with(false, &[]).unwrap_err().starts_with("`OPKEEP_CORPUS` is not set; "));
    }

    #[test]
    fn the_first_failure_stops_and_is_named() {
        let steps: [Step; 3] = [
            ("fine", |_| Ok(())),
            ("broken", |_| Err("it rained".to_owned())),
            ("never", |_| panic!("a step after the failed one ran")),
        ];
        let message = in_turn(&steps, &AtomicBool::new(false), here).unwrap_err();
        assert!(message.starts_with("step `broken` failed after "), "{message}");
        assert!(message.ends_with(" s: it rained"), "{message}");
    }

    #[test]
    fn rows_run_at_the_same_time() {
        // Each waits until the other has begun.
        let barrier = std::sync::Barrier::new(2);
        let meet = |_: &Step| {
            barrier.wait();
            Ok(())
        };
        let steps: [Step; 2] = [("one", |_| Ok(())), ("two", |_| Ok(()))];
        assert_eq!(side_by_side(&AtomicBool::new(false), &steps, meet, &steps, meet), Ok(()));
    }

    #[test]
    fn a_failure_in_either_row_ends_both() {
        let broken: [Step; 1] = [("broken", |_| Err("it rained".to_owned()))];
        let others: [Step; 2] =
            [("begun", |_| Ok(())), ("never", |_| panic!("a step began after a failure"))];
        for is_left in [true, false] {
            let has_failed = AtomicBool::new(false);
            let until_failed = |step: &Step| {
                let begin = Instant::now();
                while !has_failed.load(Ordering::Relaxed) {
                    assert!(begin.elapsed().as_secs() < 60, "the failure is not known");
                    std::thread::yield_now();
                }
                here(step)
            };
            let done = match is_left {
                true => side_by_side(&has_failed, &broken, here, &others, until_failed),
                false => side_by_side(&has_failed, &others, until_failed, &broken, here),
            };
            let message = done.unwrap_err();
            assert!(message.starts_with("step `broken` failed after "), "{message}");
        }
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
