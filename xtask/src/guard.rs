//! `cargo xtask guard`: counts the instructions of a hit, a put, a key, a validation and a warm build, and compares
//! them with the committed counts.
//!
//! Callgrind counts them, so neither the machine's speed nor other processes matter. It does not know SHA instructions,
//! so SHA-256 runs in plain instructions, ten times as many, and is counted separately. An older one also lacks
//! `openat2`, so the store opens directory by directory. The committed file names its compiler and valgrind: with other
//! ones, differences are printed but do not fail.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;

use serde_json::{Value, json};

use crate::disk;

pub(crate) const FIGURES: &str = "benches/guard/instructions.json";
/// The number of runs of each workload.
const TIMES: u64 = 10;
/// The part that is counted separately.
const HASHING: &str = "SHA-256";
/// The function that is counted, by its plain or its mangled name.
const COUNTED: &str = "--toggle-collect=*opkeep_guard*measured*";
const USAGE: &str = "usage: cargo xtask guard [--update]";

/// Counts, with the versions of compiler and valgrind.
#[derive(Clone, Debug, PartialEq)]
struct Figures {
    valgrind: String,
    rustc: String,
    /// The percentage by which a count may grow.
    tolerance: f64,
    instructions: BTreeMap<String, u64>,
}

/// Repeated counts of the same code differ by up to 0.2 %: process numbers have several lengths as text, and maps are
/// seeded in each process.
const TOLERANCE: f64 = 2.0;

pub(crate) fn guard(args: &[String]) -> Result<(), String> {
    let update = match args {
        [] => false,
        [flag] if flag == "--update" => true,
        [other, ..] => return Err(format!("found `{other}`\n{USAGE}")),
    };
    let valgrind = valgrind().ok_or("`valgrind` does not start; is it installed, and on the PATH?")?;
    let now = count(valgrind)?;
    let committed = disk::text_if_exists(Path::new("."), FIGURES)?;
    if update {
        return disk::write(Path::new(FIGURES), &format!("{:#}\n", now.to_json()));
    }
    let committed = committed.ok_or_else(|| format!("there is no `{FIGURES}`; `--update` writes it"))?;
    let committed = Figures::parse(&committed)?;
    let (table, verdict) = compare(&committed, &now);
    print!("{table}");
    verdict
}

/// For `ci`: skips, with a message, if valgrind is missing.
pub(crate) fn guard_if_possible(args: &[String]) -> Result<(), String> {
    match valgrind() {
        Some(_) => guard(args),
        None => {
            println!("guard: SKIPPED, `valgrind` does not start: instructions are not counted");
            Ok(())
        }
    }
}

/// The version of valgrind, if it is installed.
fn valgrind() -> Option<String> {
    disk::output("valgrind", &["--version"], None).ok().map(|text| trimmed(&text))
}

fn trimmed(text: &[u8]) -> String {
    String::from_utf8_lossy(text).trim().to_owned()
}

fn count(valgrind: String) -> Result<Figures, String> {
    let rustc = trimmed(&disk::output("rustc", &["--version"], None)?);
    let program = build()?;
    let program_text = program.to_string_lossy();
    let names = trimmed(&disk::output(&program_text, &["--names"], None)?);
    let counted = at_once(names.lines().collect(), |name| count_one(&program, name));
    let instructions = counted.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    Ok(Figures { valgrind, rustc, tolerance: TOLERANCE, instructions })
}

/// The results of `run` for each name, in any order, as many at once as there are cores.
fn at_once<T: Send>(names: Vec<&str>, run: impl Fn(&str) -> T + Sync) -> Vec<T> {
    let waiting = Mutex::new(names.into_iter());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || std::iter::from_fn(&next).map(&run).collect::<Vec<T>>();
    std::thread::scope(|scope| {
        let cores = available_parallelism().map_or(1, NonZeroUsize::get);
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.flat_map(|done| done.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

/// Builds the program of the workloads, optimised as frameworks build the crates.
fn build() -> Result<PathBuf, String> {
    let args =
        ["bench", "--profile", "guard", "--package", "opkeep-guard", "--bench", "workloads", "--no-run"];
    let args = [&args[..], &["--message-format", "json-render-diagnostics"]].concat();
    let messages = disk::output("cargo", &args, None)?;
    let program = messages.split(|byte| *byte == b'\n').find_map(|line| {
        let message: Value = serde_json::from_slice(line).ok()?;
        let is_program = message["target"]["name"] == "workloads";
        message["executable"].as_str().filter(|_| is_program).map(PathBuf::from)
    });
    program.ok_or_else(|| "cargo built no program `workloads`".to_owned())
}

/// The instructions of one workload, split into those of SHA-256 and all others.
fn count_one(program: &Path, name: &str) -> Result<Vec<(String, u64)>, String> {
    let profile_path = program.with_file_name(format!("guard-{name}.callgrind"));
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=callgrind", COUNTED]);
    command.arg(format!("--callgrind-out-file={}", profile_path.display()));
    command.arg(program).arg(name).arg(TIMES.to_string());
    let output = command.output().map_err(|error| format!("`valgrind` did not start: {error}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("workload `{name}` ended with {}: {stderr}", output.status));
    }
    let profile = disk::bytes(Path::new(""), &profile_path.to_string_lossy())?;
    let counts = Counts::of(&String::from_utf8_lossy(&profile));
    let Counts { hashing, rest } = counts.map_err(|message| format!("workload `{name}`: {message}"))?;
    let mut found = vec![(name.to_owned(), rest / TIMES)];
    if hashing > 0 {
        found.push((format!("{name}: {HASHING}"), hashing / TIMES));
    }
    Ok(found)
}

/// The instructions in a profile. Those of SHA-256 are separate: they are most of them, and would hide the others.
#[derive(Debug, PartialEq)]
struct Counts {
    hashing: u64,
    rest: u64,
}

impl Counts {
    /// Adds up the counts of each function's own instructions. In callgrind's format, `fn=(number) name` starts a
    /// function, whose name is given only the first time; a line of numbers is a position and its instructions; the
    /// line after `calls=` holds the instructions of the called function.
    fn of(profile: &str) -> Result<Self, String> {
        let mut names: BTreeMap<&str, &str> = BTreeMap::new();
        let (mut counts, mut is_hashing, mut is_call) = (Self { hashing: 0, rest: 0 }, false, false);
        for line in profile.lines() {
            if let Some(function) = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn=")) {
                let (number, name) = function.split_once(' ').unwrap_or((function, ""));
                let name = if name.is_empty() { names.get(number).copied().unwrap_or("") } else { name };
                names.insert(number, name);
                if line.starts_with("fn=") {
                    is_hashing = name.contains("sha2::");
                }
            } else if line.starts_with("calls=") {
                is_call = true;
            } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
                let count: u64 = line.split(' ').nth(1).and_then(|count| count.parse().ok()).unwrap_or(0);
                match (is_call, is_hashing) {
                    (true, _) => {}
                    (false, true) => counts.hashing += count,
                    (false, false) => counts.rest += count,
                }
                is_call = false;
            }
        }
        let total = profile.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok());
        match total {
            Some(0) => Err(format!("nothing was counted, no function is called as in `{COUNTED}`")),
            Some(total) if counts.hashing + counts.rest == total => Ok(counts),
            other => Err(format!("its profile does not add up: {counts:?}, and in all {other:?}")),
        }
    }
}

impl Figures {
    fn to_json(&self) -> Value {
        let Self { valgrind, rustc, tolerance, instructions } = self;
        json!({
            "counted_with": { "valgrind": valgrind, "rustc": rustc }, "tolerance_percent": tolerance,
            "instructions": instructions,
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| format!("`{FIGURES}`: {error}"))?;
        let parse = || {
            let with = |name: &str| Some(value["counted_with"][name].as_str()?.to_owned());
            let counted = value["instructions"].as_object()?.iter();
            let counted = counted.map(|(name, count)| Some((name.clone(), count.as_u64()?)));
            Some(Self {
                valgrind: with("valgrind")?,
                rustc: with("rustc")?,
                tolerance: value["tolerance_percent"].as_f64()?,
                instructions: counted.collect::<Option<_>>()?,
            })
        };
        parse().ok_or_else(|| format!("`{FIGURES}` is not as `cargo xtask guard --update` writes it"))
    }
}

/// A table of both, and an error if a count grew by more than the tolerance.
fn compare(committed: &Figures, now: &Figures) -> (String, Result<(), String>) {
    let mut table = format!("{:<26} {:>12} {:>12} {:>8}\n", "instructions", "committed", "now", "change");
    let mut grown = Vec::new();
    let names: std::collections::BTreeSet<&String> =
        committed.instructions.keys().chain(now.instructions.keys()).collect();
    for name in names {
        let (was, is) = (committed.instructions.get(name), now.instructions.get(name));
        let shown = |count: Option<&u64>| count.map_or("-".to_owned(), u64::to_string);
        let percent = |(was, is): (&u64, &u64)| (*is as f64 - *was as f64) * 100.0 / *was as f64;
        let change = was.zip(is).map(percent);
        let note = match change {
            Some(change) if change > committed.tolerance => {
                grown.push(name.as_str());
                "  GREW"
            }
            Some(change) if change < -committed.tolerance => {
                "  less: `cargo xtask guard --update` commits it"
            }
            Some(_) => "",
            None => {
                grown.push(name.as_str());
                "  NOT IN BOTH"
            }
        };
        let change = change.map_or("-".to_owned(), |change| format!("{change:+.2}%"));
        table += &format!("{name:<26} {:>12} {:>12} {change:>8}{note}\n", shown(was), shown(is));
    }
    let same = committed.valgrind == now.valgrind && committed.rustc == now.rustc;
    if !same {
        let Figures { valgrind, rustc, .. } = committed;
        table += &format!(
            "guard: NOT JUDGED, the committed figures were counted with {valgrind} and {rustc}, these with {} and {}\n",
            now.valgrind, now.rustc
        );
    }
    let verdict = match grown.is_empty() || !same {
        true => Ok(()),
        false => Err(format!(
            "not as committed, by more than {} %: {}; if this is intended, `cargo xtask guard --update`, and say why",
            committed.tolerance,
            grown.join(", ")
        )),
    };
    (table, verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(hit: u64) -> Figures {
        Figures {
            valgrind: "valgrind-1".to_owned(),
            rustc: "rustc 1".to_owned(),
            tolerance: 2.0,
            instructions: [("hit".to_owned(), hit), ("key".to_owned(), 500)].into(),
        }
    }

    #[test]
    fn each_name_is_run_once() {
        let names: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        let mut found: Vec<u32> =
            at_once(names.iter().map(String::as_str).collect(), |name| name.parse().unwrap());
        found.sort_unstable();
        assert_eq!(found, (0..100).collect::<Vec<u32>>());
    }

    #[test]
    fn only_growth_beyond_the_tolerance_fails() {
        for (hit, text, fails) in
            [(10_200, "+2.00%\n", false), (10_201, "GREW", true), (9000, "less: ", false)]
        {
            let (table, verdict) = compare(&figures(10_000), &figures(hit));
            assert!(table.contains(text), "{hit}: {table}");
            assert_eq!(verdict.is_err(), fails, "{hit}: {verdict:?}");
            assert!(verdict.map_or_else(|message| message.contains(": hit;"), |()| true));
        }
    }

    #[test]
    fn a_workload_that_only_one_side_has_fails() {
        let mut more = figures(10_000);
        more.instructions.insert("new".to_owned(), 1);
        assert!(compare(&figures(10_000), &more).1.unwrap_err().contains(": new;"));
        assert!(compare(&more, &figures(10_000)).1.unwrap_err().contains(": new;"));
    }

    #[test]
    fn figures_of_another_compiler_are_not_judged() {
        let other = Figures { rustc: "rustc 2".to_owned(), ..figures(20_000) };
        let (table, verdict) = compare(&figures(10_000), &other);
        assert!(table.contains("NOT JUDGED") && table.contains("rustc 2"), "{table}");
        assert_eq!(verdict, Ok(()));
    }

    #[test]
    fn figures_are_read_as_they_are_written() {
        let figures = figures(10_000);
        assert_eq!(Figures::parse(&figures.to_json().to_string()), Ok(figures));
        for broken in ["", "{}", "{\"instructions\": {\"hit\": -1}}"] {
            assert!(Figures::parse(broken).unwrap_err().contains(FIGURES), "{broken}");
        }
    }

    const PROFILE: &str = "events: Ir\n\nfl=(1) a.rs\nfn=(1) opkeep_guard::measured\n16 10\n+1 2\ncfn=(2) sha2::x\ncalls=3 9\n\
        17 900\n* 3\n\nfn=(2)\nfi=(3) core.rs\n9 800\n-1 100\n\nfn=(3) other\n5 7\n\ntotals: 922\n";

    #[test]
    fn hashing_is_counted_apart() {
        assert_eq!(Counts::of(PROFILE), Ok(Counts { hashing: 900, rest: 22 }));
    }

    #[test]
    fn a_profile_that_does_not_add_up_is_refused() {
        assert!(Counts::of("events: Ir\ntotals: 0\n").unwrap_err().contains("nothing was counted"));
        for wrong in [PROFILE.replace("922", "923"), PROFILE.replace("totals", "summary")] {
            assert!(Counts::of(&wrong).unwrap_err().contains("does not add up"), "{wrong}");
        }
    }
}
