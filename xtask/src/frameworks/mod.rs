//! `cargo xtask frameworks`: Triton, triton-ascend and JAX with their own caches and with ours, in one table.
//!
//! The programs in `crates/python/tests/frameworks` start real processes of the frameworks, damage files, kill, stop and
//! upgrade, and judge what a process got. This task makes the environment, runs them and prints the table.

mod environment;
mod table;
mod unit_tests;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use crate::disk;
use crate::venv::Skip;
use environment::{Environment, Installed};

const PROGRAMS: &str = "crates/python/tests/frameworks";
const DIRECTORY: &str = "target/frameworks";

const USAGE: &str = "usage: cargo xtask frameworks [--quick] [--seed N] [--framework NAME] [--cases PART]
       cargo xtask frameworks --versions
  --quick      a part of the cases and two of the frameworks, others for each seed; the frameworks' own caches for two
               seeds of eight
  --seed       the part; without it, the commit decides
  --framework  triton, triton-ascend or jax only
  --cases      only modules of cases with this in their name, such as `damage`
  --versions   only the tests of the manager, with the last release of each minor version of Triton";

/// The arguments of the command line.
#[derive(Debug, Default, PartialEq)]
struct Arguments {
    quick: bool,
    seed: Option<u32>,
    framework: Option<String>,
    cases: Option<String>,
    versions: bool,
}

impl Arguments {
    fn of(args: &[String]) -> Result<Self, String> {
        let mut arguments = Self::default();
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            let mut value = || args.next().cloned().ok_or_else(|| format!("`{flag}` needs a value\n{USAGE}"));
            match flag.as_str() {
                "--versions" => arguments.versions = true,
                "--quick" => arguments.quick = true,
                "--seed" => {
                    let text = value()?;
                    let seed = text.parse().map_err(|_| format!("`--seed`: `{text}` is not a number"))?;
                    arguments.seed = Some(seed);
                }
                "--framework" => arguments.framework = Some(value()?),
                "--cases" => arguments.cases = Some(value()?),
                _ => return Err(format!("found `{flag}`\n{USAGE}")),
            }
        }
        Ok(arguments)
    }
}

pub(crate) fn frameworks(args: &[String]) -> Result<(), String> {
    let arguments = Arguments::of(args)?;
    let done = if arguments.versions { each_version() } else { compared(&arguments) };
    match done {
        Err(Skip::Skipped(reason)) => {
            println!("frameworks: SKIPPED, {reason}");
            Ok(())
        }
        Err(Skip::Failed(reason)) => Err(reason),
        Ok(()) => Ok(()),
    }
}

/// Runs the tests of the manager with each minor version of Triton.
fn each_version() -> Result<(), Skip> {
    let (mut environment, _, versions) = Environment::with_wheel(Path::new(DIRECTORY))?;
    let mut failed = Vec::new();
    let mut table = String::from("| Triton | tests |\n|---|---|\n");
    for version in versions {
        let start = Instant::now();
        let tested = environment.with_triton(&version, unit_tests::run);
        let outcome = if tested.is_ok() { "passed" } else { "FAILED" };
        let _ = writeln!(table, "| {version} | {outcome} after {:.0} s |", start.elapsed().as_secs_f64());
        failed.extend(tested.err());
    }
    println!("\n{table}");
    if failed.is_empty() { Ok(()) } else { Err(Skip::Failed(failed.join("\n"))) }
}

/// Runs the cases of all frameworks, and prints the table.
fn compared(arguments: &Arguments) -> Result<(), Skip> {
    let start = Instant::now();
    let seed = arguments.seed.map_or_else(commit_seed, Ok)?;
    let part = Some(seed).filter(|_| arguments.quick && arguments.framework.is_none());
    let environment = Environment::of(Path::new(DIRECTORY), part)?;
    let installed = Instant::now();
    let mut found = Vec::new();
    let mut failed = Vec::new();
    for framework in &environment.frameworks {
        if arguments.framework.as_ref().is_none_or(|name| *name == framework.name) {
            found.push(results(&environment, framework, arguments, seed)?);
            // Those of the first version of Triton are enough for a part of the cases.
            let is_tested = !arguments.quick || found.len() == 1 || framework.name != "triton";
            if is_tested && arguments.cases.is_none() {
                failed.extend(unit_tests::run(&environment, framework).err());
            }
        }
    }
    let mut wrong = table::wrong(&found);
    wrong.extend(failed);
    println!("\n{}", table::markdown(&found));
    for (name, reason) in &environment.skipped {
        println!("skipped: {name}: {reason}");
    }
    println!(
        "seed {seed}{}; {:.0} s, after {:.0} s of installing",
        if arguments.quick { ", a part of the cases" } else { "" },
        installed.elapsed().as_secs_f64(),
        (installed - start).as_secs_f64(),
    );
    let skipped: Vec<Value> = environment
        .skipped
        .iter()
        .map(|(name, reason)| json!({ "framework": name, "reason": reason }))
        .collect();
    let all = json!({ "seed": seed, "quick": arguments.quick, "frameworks": found, "skipped": skipped });
    let path = Path::new(DIRECTORY).join("results.json");
    disk::write(&path, &format!("{all:#}\n"))?;
    println!("results: {}", path.display());
    match wrong.as_slice() {
        [] => Ok(()),
        _ => Err(Skip::Failed(format!("{} cases are wrong:\n{}", wrong.len(), wrong.join("\n")))),
    }
}

/// Whether a part of the cases has the column of the frameworks' own caches, which nothing judges. Not for the seeds for
/// which `ci` builds s3s-fs or the wheel of the command.
fn has_stock(seed: u32) -> bool {
    matches!(seed % 8, 2 | 3)
}

/// The results of one framework, in all columns or in ours.
fn results(
    environment: &Environment,
    framework: &Installed,
    arguments: &Arguments,
    seed: u32,
) -> Result<Value, String> {
    println!("==> {} {}", framework.name, framework.version);
    let scratch = environment.directory.join("scratch");
    disk::empty_directory(&scratch)?;
    let results = scratch.join("results.json");
    let mut program = Command::new(environment.python());
    program.arg(Path::new(PROGRAMS).join("main.py")).arg(&framework.name);
    program.env("PYTHONDONTWRITEBYTECODE", "1");
    program.args(["--version", &framework.version, "--seed", &seed.to_string()]);
    program.arg("--scratch").arg(&scratch).arg("--results").arg(&results);
    if let Some(packages) = &framework.packages {
        program.arg("--packages").arg(packages);
    }
    if arguments.quick {
        program.arg("--quick");
        if !has_stock(seed) {
            program.args(["--columns", "opkeep"]);
        }
    }
    if let Some(part) = &arguments.cases {
        program.args(["--only", part]);
    }
    match program.status() {
        Ok(status) if status.success() => {}
        Ok(status) => {
            return Err(format!(
                "the cases of {} ended with {status}; see `{}`",
                framework.name,
                scratch.display()
            ));
        }
        Err(error) => return Err(format!("`{}` did not start: {error}", environment.python().display())),
    }
    let text = disk::text_if_exists(Path::new("."), &results.to_string_lossy())?.unwrap_or_default();
    serde_json::from_str(&text).map_err(|error| format!("`{}` is not JSON: {error}", results.display()))
}

/// A number that differs from commit to commit.
pub(crate) fn commit_seed() -> Result<u32, String> {
    let commit = disk::output("git", &["rev-parse", "--short=6", "HEAD"], None)?;
    let commit = String::from_utf8_lossy(&commit);
    u32::from_str_radix(commit.trim().get(..6).unwrap_or("0"), 16)
        .map_err(|error| format!("`{}` is not a commit: {error}", commit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Arguments, String> {
        Arguments::of(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_quarter_of_the_seeds_have_the_stock_column() {
        let with_stock: Vec<u32> = (0..16).filter(|seed| has_stock(*seed)).collect();
        assert_eq!(with_stock, [2, 3, 10, 11]);
    }

    #[test]
    fn flags_are_understood_or_refused() {
        assert_eq!(parsed(&[]).unwrap(), Arguments::default());
        let some = parsed(&["--quick", "--seed", "7", "--framework", "jax"]).unwrap();
        assert_eq!((some.quick, some.seed, some.framework.as_deref()), (true, Some(7), Some("jax")));
        assert!(parsed(&["--versions"]).unwrap().versions);
        assert!(parsed(&["--seed", "x"]).unwrap_err().contains("`x` is not a number"));
        assert!(parsed(&["--cases"]).unwrap_err().contains("needs a value"));
        assert!(parsed(&["--slow"]).unwrap_err().contains("usage"));
    }
}
