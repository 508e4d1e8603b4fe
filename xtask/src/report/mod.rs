//! `cargo xtask bench-report`: runs the benchmarks that have budgets, and writes `benches/REPORT.md` and a plot beside
//! it.
//!
//! Benchmarks write their figures as lines of JSON to the directory that `OPKEEP_FIGURES` names. Their printed output
//! is for people and is not read.

mod figures;
mod load;
mod machine;
mod notes;
mod peers;
mod plot;
mod python;
mod rows;
mod text;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::cargo::cargo;
use crate::disk;
use crate::task::run;
use figures::Figure;
use load::Ticks;
use machine::{Machine, Run};
use notes::Notes;
use peers::Peers;
use plot::{Across, Bars, Line, Lines, Panel};
use rows::BENCHES;

const REPORT: &str = "benches/REPORT.md";
const PLOT: &str = "benches/REPORT.svg";
/// Explanations of missed budgets: a section for each, with the row's name as its heading.
const NOTES: &str = "benches/REPORT-NOTES.md";
/// Figures of the last run of the harness for other caches.
const PEERS: &str = "benches/peers.json";
const USAGE: &str = "usage: cargo xtask bench-report [--peers RESULTS.json] [--from-last-run]";

/// The arguments of the command line.
#[derive(Debug, Default, PartialEq)]
struct Arguments {
    /// The harness's results.
    peers: Option<String>,
    /// Run nothing.
    from_last_run: bool,
}

impl Arguments {
    fn of(args: &[String]) -> Result<Self, String> {
        let (mut arguments, mut args) = (Self::default(), args.iter());
        while let Some(flag) = args.next() {
            match flag.as_str() {
                "--from-last-run" => arguments.from_last_run = true,
                "--peers" => {
                    let value = args.next().ok_or_else(|| format!("`{flag}` needs a value\n{USAGE}"))?;
                    arguments.peers = Some(value.clone());
                }
                _ => return Err(format!("found `{flag}`\n{USAGE}")),
            }
        }
        Ok(arguments)
    }
}

pub(crate) fn bench_report(args: &[String]) -> Result<(), String> {
    let arguments = Arguments::of(args)?;
    let root = Path::new("");
    // Before anything is written, since a changed file would show as uncommitted.
    let before = if arguments.from_last_run { None } else { Some(Machine::before_run()?) };
    let peers = match &arguments.peers {
        Some(path) => {
            let results = String::from_utf8_lossy(&disk::bytes(root, path)?).into_owned();
            let peers = Peers::of_results(&results).map_err(|error| format!("`{path}`: {error}"))?;
            disk::write(Path::new(PEERS), &format!("{:#}\n", peers.to_json()))?;
            Some(peers)
        }
        None => match disk::text_if_exists(root, PEERS)? {
            Some(saved) => Some(Peers::parse(&saved).map_err(|error| format!("`{PEERS}`: {error}"))?),
            None => None,
        },
    };
    let directory = figures_directory()?;
    let machine_file = directory.join("machine.json");
    if let Some(before) = before {
        disk::empty_directory(&directory)?;
        build_all()?;
        let began = Ticks::now()?;
        let runs: Vec<Run> =
            BENCHES.iter().map(|bench| run_one(bench, &directory)).collect::<Result<_, _>>()?;
        disk::write(&machine_file, &before.after(&runs, began)?.to_json().to_string())?;
    }
    let machine = disk::text_if_exists(root, &machine_file.to_string_lossy())?;
    let machine = machine.ok_or("there was no run; leave out `--from-last-run`")?;
    let machine = Machine::parse(&machine)?;
    let figures = figures::read(&directory, BENCHES)?;
    let notes = Notes::parse(&disk::text_if_exists(root, NOTES)?.unwrap_or_default());
    let guard = disk::text_if_exists(root, crate::guard::FIGURES)?;
    let report = text::Report { machine, figures, peers, notes, guard };
    disk::write(Path::new(REPORT), &report.markdown())?;
    disk::write(Path::new(PLOT), &plot::svg(&panels(&report.figures, report.peers.as_ref()))?)?;
    println!("==> {REPORT} and {PLOT} are written; the run took {:.0} s", report.machine.seconds);
    if let Some(message) = report.machine.over_time() {
        println!("==> LONG: {message}");
    }
    report
        .unexplained()
        .map_err(|message| format!("both are written, but in `{NOTES}` something is missing:\n  {message}"))
}

/// The directory for figures. Absolute, since benchmarks run in their own directory.
fn figures_directory() -> Result<PathBuf, String> {
    let metadata = disk::metadata()?;
    let target = metadata["target_directory"].as_str().ok_or("`cargo metadata` names no target directory")?;
    Ok(Path::new(target).join("bench-figures"))
}

/// Builds all programs in advance, so that building does not count as time of the run.
fn build_all() -> Result<(), String> {
    let ours = BENCHES.iter().filter(|bench| !python::is_one(bench));
    let named = ours.flat_map(|bench| ["--bench", bench]);
    run(cargo().args(["bench", "--package", "opkeep-benches", "--no-run"]).args(named))?;
    // The command would be built during its own measurement.
    let command = ["build", "--quiet", "--release", "--package", "opkeep-cli", "--bin", "opkeep"];
    run(cargo().args(command))?;
    python::builds().iter_mut().try_for_each(run)
}

fn cargo_bench(bench: &str) -> Command {
    let mut command = cargo();
    command.args(["bench", "--quiet", "--package", "opkeep-benches", "--bench", bench, "--"]);
    // Selects none of criterion's own rows, which the report does not show.
    command.arg("none, only the table");
    if bench == "store_counts" {
        // A million entries take longer than all others and show the same.
        command.args(["--most", "100000"]);
    }
    command
}

/// Runs one benchmark. A failure is no error here: it means a missed budget, which the report shows.
fn run_one(bench: &'static str, directory: &Path) -> Result<Run, String> {
    println!("==> {bench}");
    let start = Instant::now();
    let command = if python::is_one(bench) { python::command(bench) } else { Some(cargo_bench(bench)) };
    let Some(mut command) = command else {
        println!("==> {bench}: skipped, since `cargo xtask frameworks` installed nothing");
        return Ok(Run { bench, seconds: 0.0, succeeded: true });
    };
    let status = command.env("OPKEEP_FIGURES", directory).env("RUST_BACKTRACE", "0").status();
    let succeeded = status.map_err(|error| format!("{bench} did not start: {error}"))?.success();
    let seconds = start.elapsed().as_secs_f64();
    println!("==> {bench}: {seconds:.0} s");
    Ok(Run { bench, seconds, succeeded })
}

/// Hits by size, puts by number of entries, and hits beside other caches.
fn panels(figures: &[Figure], peers: Option<&Peers>) -> [Panel; 3] {
    let hits = |figure: &Figure| (figure.bench == "store_hit").then_some(figure.bytes? as f64);
    let puts = |figure: &Figure| {
        (figure.bench == "store_put" && figure.row == "put").then_some(figure.entries? as f64)
    };
    [
        Panel::Lines(Lines {
            title: "A warm hit, by the size of its object",
            across: Across::Bytes("bytes of the object"),
            lines: lines(figures, hits, ["opkeep, all checks", "floor: open, read, SHA-256"]),
        }),
        Panel::Lines(Lines {
            title: "A put of 15 KiB, by how many entries there are",
            across: Across::Count("entries in the store"),
            lines: lines(figures, puts, ["opkeep, all checks", "floor: write, sync, rename"]),
        }),
        Panel::Bars(Bars {
            title: "A warm hit beside other caches, 1 000 entries",
            bars: peers.map(Peers::bars).unwrap_or_default(),
        }),
    ]
}

/// The lines of opkeep and of the floor by the quantity `across`. Of several figures with the same quantity, the first
/// counts.
fn lines(figures: &[Figure], across: impl Fn(&Figure) -> Option<f64>, names: [&'static str; 2]) -> Vec<Line> {
    let mut found: Vec<(f64, &Figure)> =
        figures.iter().filter_map(|figure| Some((across(figure)?, figure))).collect();
    found.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    found.dedup_by(|(one, _), (other, _)| one == other);
    let ours = found.iter().map(|(x, figure)| (*x, figure.ours)).collect();
    let floor = found.iter().filter_map(|(x, figure)| Some((*x, figure.floor?))).collect();
    names.into_iter().zip([ours, floor]).map(|(name, points)| Line { name, points }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Arguments, String> {
        Arguments::of(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn flags_are_understood_or_refused() {
        assert_eq!(parsed(&[]), Ok(Arguments::default()));
        let both = Arguments { peers: Some("r.json".to_owned()), from_last_run: true };
        assert_eq!(parsed(&["--peers", "r.json", "--from-last-run"]), Ok(both));
        assert!(parsed(&["--peers"]).unwrap_err().contains("needs a value"));
        assert!(parsed(&["--quick"]).unwrap_err().contains("usage"));
    }

    #[test]
    fn every_row_is_of_a_benchmark_that_is_run() {
        for row in rows::rows() {
            assert!(BENCHES.contains(&row.bench), "{}", row.title);
        }
    }

    #[test]
    fn lines_go_across_in_order_with_one_point_at_a_place() {
        let hit = |bytes, ours| Figure {
            bench: "store_hit".to_owned(),
            bytes: Some(bytes),
            ours,
            floor: Some(1.0),
            ..Figure::default()
        };
        let [Panel::Lines(hits), Panel::Lines(puts), Panel::Bars(peers)] =
            panels(&[hit(8192, 2.0), hit(8192, 9.0), hit(2048, 1.5)], None)
        else {
            panic!("other panels")
        };
        assert_eq!(hits.lines[0].points, [(2048.0, 1.5), (8192.0, 2.0)]);
        assert_eq!(hits.lines[1].points, [(2048.0, 1.0), (8192.0, 1.0)]);
        assert!(puts.lines[0].points.is_empty() && peers.bars.is_empty());
    }
}
