//! Question: what does it cost when many processes that start cold build the same kernels on one store, beside one
//! process that may run as many compilers?
//!
//! 8 processes wait until all of them are ready, and are let go at once; the time is until the last of them is done. The
//! floor is one process, treated alike. Each run has a new store. First the compiler sleeps: so 8 of them run at once on
//! any machine, and what is measured is how well the processes share the work. In the rows of `mixed` kernels it
//! sleeps for 5 to 100 ms, as is known from an earlier build, so that the longest begin first; the same is shown of one
//! process that does not know. Last, a network of ours is compiled by this machine's compiler on its cores.
//!
//! What processors worked for all processes is shown beside: each of them has every kernel to look up, to wait for and to
//! check, which one process has to do once. Compilers that sleep leave the processors to that, as many as there are.
//!
//! Then a process is killed while it compiles; see [`takeover`].
//!
//! Every kernel must be compiled exactly once, as the compiler itself says; else this fails, measured or not.
//!
//! Budgets: 1.15 times the floor; 50 ms until another takes over.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the tables are what this is for, and processes talk to each other")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/networks.rs"]
mod networks;
mod rank;
mod takeover;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use opkeep_benches::{
    Budgets, Figure, Turns, directory, is_measured, lines, make_compiler, remove, remove_directory,
};
use opkeep_testkit::CompileLog;
use tempfile::TempDir;

use rank::{Done, Order, Rank, Work};

const BUDGET: f64 = 1.15;

fn main() {
    if let Some(arguments) = common::child_arguments() {
        return rank::run(&arguments);
    }
    let mut budgets = Budgets::default();
    println!("a cold build; ratios are to one process: lower quartile, median, upper quartile of the turns");
    println!(
        "{:<22} {:>9} {:>9} {:>8} {:>9} {:>9} {:>9} {:>9} {:>17} {:>6}  budget",
        "kernels", "processes", "jobs each", "compiles", "one", "crowd", "cpu, one", "cpu", "ratio", "turns"
    );
    let processes = if is_measured() { 8 } else { 3 };
    let kernels = |kernels: usize| if is_measured() { kernels } else { 16 };
    for work in [Work::Equal(kernels(64), 20), Work::Equal(kernels(128), 20), Work::Mixed(kernels(64))] {
        for jobs in if is_measured() { vec![1, 8] } else { vec![2] } {
            row(&work, processes, jobs, 8, &mut budgets);
        }
    }
    what_knowing_is_worth(&Work::Mixed(kernels(64)));
    let compiler = Compiler::new();
    let cores = available_parallelism().unwrap().get();
    let name = if is_measured() { "squeezenet" } else { "lenet" };
    row(&Work::Network(name.to_owned(), compiler.path.clone()), processes, cores, cores, &mut budgets);
    println!();
    takeover::table(&mut budgets);
    budgets.settle();
}

/// A compiler that writes down what it compiles.
struct Compiler {
    path: PathBuf,
    _directory: TempDir,
}

impl Compiler {
    fn new() -> Self {
        let directory = directory().unwrap();
        let path = directory.path().join("cc");
        make_compiler(&path).unwrap();
        Self { path, _directory: directory }
    }
}

/// Where runs are made, each with a store of its own.
struct Setting {
    directory: TempDir,
    order: Order,
    kernels: usize,
}

impl Setting {
    fn new(work: &Work, machine_jobs: usize) -> Self {
        let directory = directory().unwrap();
        let (store, base) = (directory.path().join("store"), directory.path().to_owned());
        let log = match work {
            Work::Network(_, compiler) => compiler.with_extension("log"),
            _ => directory.path().join("log"),
        };
        let order = Order { store, base, log, work: work.clone(), jobs: machine_jobs, machine_jobs };
        let keys: BTreeSet<_> =
            work.requests().iter().map(|request| request.descriptor.job.digest()).collect();
        Self { directory, order, kernels: keys.len() }
    }

    /// How long it takes so many processes until all have all kernels, and how long processors worked for that.
    fn run(&self, processes: usize, jobs: usize) -> (Duration, Duration) {
        let order = Order { jobs, ..self.order.clone() };
        let mut ranks: Vec<Rank> = (0..processes).map(|_| Rank::start(&order)).collect();
        ranks.iter_mut().for_each(|rank| rank.await_line("ready"));
        let begin = Instant::now();
        ranks.iter_mut().for_each(Rank::go);
        let done: Vec<Done> = ranks.iter_mut().map(Rank::done).collect();
        let took = begin.elapsed();
        ranks.into_iter().for_each(Rank::end);
        self.check(&done.iter().map(|done| done.counts.clone()).collect::<Vec<_>>());
        remove(&order.log).unwrap();
        remove_directory(&order.store).unwrap();
        (took, done.iter().map(|done| done.cpu).sum())
    }

    /// Every process has every kernel, and each was compiled once, as the compiler says.
    fn check(&self, outcomes: &[Vec<usize>]) {
        let kernels = self.kernels;
        let compiled: usize = outcomes.iter().map(|counts| counts[1]).sum();
        assert_eq!(compiled, kernels, "{outcomes:?}");
        for counts in outcomes {
            let [reused, compiled, shared, failed, bypassed] = counts[..] else { panic!("{counts:?}") };
            assert_eq!((reused + compiled + shared, failed + bypassed), (kernels, 0));
        }
        // A network's kernels are there, and there were as many compiles: so each had one.
        let mut compiles = lines(&self.order.log).unwrap();
        // One of the processes finds out what the compiler reads, by compiles that are no kernel's.
        compiles.retain(|dir| !dir.contains("/probe-"));
        assert_eq!(compiles.len(), kernels, "{compiles:?}");
        if !matches!(self.order.work, Work::Network(..)) {
            let log = CompileLog::read(&self.order.log).unwrap();
            let names: BTreeSet<_> = log.iter().map(|compile| &compile.kernel).collect();
            assert_eq!(names.len(), kernels, "{log:?}");
        }
    }
}

fn row(work: &Work, processes: usize, jobs: usize, machine_jobs: usize, budgets: &mut Budgets) {
    let setting = Setting::new(work, machine_jobs);
    // Learns what compiles take, and what is where on this machine.
    setting.run(1, machine_jobs);
    let mut cpu = [Vec::new(), Vec::new()];
    let [of_one, of_all] = &mut cpu;
    let run = |processes, jobs, cpu: &mut Vec<Duration>| {
        let (took, worked) = setting.run(processes, jobs);
        cpu.push(worked);
        took
    };
    let turns = Turns::take(
        Duration::from_secs(2),
        [&mut || run(1, machine_jobs, of_one), &mut || run(processes, jobs, of_all)],
    );
    let cpu = cpu.map(|mut cpu| {
        cpu.sort_unstable();
        cpu[cpu.len() / 2]
    });
    let ratios @ [low, ratio, high] = turns.ratio(1, 0);
    let verdict = budgets.judge(ratios, BUDGET);
    let title = title(work, setting.kernels);
    let row = format!("{title}, {processes} processes of {jobs} jobs, each kernel compiled once");
    let figure = Figure::new("crowd", row).entries(setting.kernels);
    let figure = figure.times(turns.median(1), turns.median(0)).ratio(ratios);
    figure.budget(format!("{BUDGET} times"), [ratio, BUDGET], verdict).note();
    let row = format!("{title}, {processes} processes of {jobs} jobs: CPU of all");
    Figure::new("crowd", row).entries(setting.kernels).times(cpu[1], cpu[0]).note();
    println!(
        "{title:<22} {processes:>9} {jobs:>9} {:>8} {:>9.1?} {:>9.1?} {:>9.1?} {:>9.1?} {low:>5.2} {ratio:>5.2} {high:>5.2} {:>6}  {BUDGET} {verdict}",
        setting.kernels,
        turns.median(0),
        turns.median(1),
        cpu[0],
        cpu[1],
        turns.count(),
    );
}

fn title(work: &Work, kernels: usize) -> String {
    match work {
        Work::Equal(_, millis) => format!("{kernels} of {millis} ms"),
        Work::Mixed(_) => format!("{kernels} of 5 to 100 ms"),
        Work::Network(name, _) => format!("{kernels} of {name}"),
    }
}

/// One process that does not know what its kernels take, beside one that does.
fn what_knowing_is_worth(work: &Work) {
    let known = Setting::new(work, 8);
    known.run(1, 8);
    let turns = Turns::take(
        Duration::from_secs(2),
        [&mut || known.run(1, 8).0, &mut || {
            let ignorant = Setting::new(work, 8);
            assert_ne!(ignorant.directory.path(), known.directory.path());
            ignorant.run(1, 8).0
        }],
    );
    let [low, ratio, high] = turns.ratio(1, 0);
    println!(
        "{:<22} {:>9} {:>9} {:>8} {:>9.1?} {:>9.1?} {:>9} {:>9} {low:>5.2} {ratio:>5.2} {high:>5.2} {:>6}  -",
        "  not known before",
        1,
        8,
        known.kernels,
        turns.median(0),
        turns.median(1),
        "",
        "",
        turns.count(),
    );
}
