//! Question: what does it cost if many processes start cold and build the same kernels with one store, compared with
//! one process that may run as many compilers?
//!
//! 8 processes wait until all of them are ready, and start at once; the time ends with the last of them. The floor is
//! one process, treated in the same way. Each run has a new store. First the compiler sleeps: so 8 of them run at once
//! on any machine, and the rows show how well the processes share the work. In the rows of `mixed` kernels it sleeps
//! for 5 to 100 ms, which is known from an earlier build, so that the longest start first; a further row shows one
//! process that does not know it. Last, a network is compiled by this machine's compiler on its cores.
//!
//! The processor time of all processes is shown, too: each of them must look up, await and check every kernel, which
//! one process does once. While compilers sleep, all processors are free for that.
//!
//! Then a process is killed while it compiles; see [`takeover`].
//!
//! Every kernel must be compiled exactly once, as the compiler's log shows; if not, this fails, measured or not.
//!
//! Budgets: 1.15 times the floor; 50 ms until another process takes over.
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
    unknown_times(&Work::Mixed(kernels(64)));
    let compiler = Compiler::new();
    let cores = available_parallelism().unwrap().get();
    let name = if is_measured() { "squeezenet" } else { "lenet" };
    row(&Work::Network(name.to_owned(), compiler.path.clone()), processes, cores, cores, &mut budgets);
    println!();
    takeover::table(&mut budgets);
    budgets.settle();
}

/// A compiler that logs its compiles.
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

/// The directory of runs, each with its own store.
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
        let order =
            Order { store, base, log, work: work.clone(), jobs: machine_jobs, machine_jobs, remote: None };
        let keys: BTreeSet<_> =
            work.requests().iter().map(|request| request.descriptor.job.digest()).collect();
        Self { directory, order, kernels: keys.len() }
    }

    /// The time of that number of processes until all have all kernels, and the processor time that they used.
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

    /// Every process has every kernel, and each was compiled once, as the compiler's log shows.
    fn check(&self, outcomes: &[Vec<usize>]) {
        let kernels = self.kernels;
        let compiled: usize = outcomes.iter().map(|counts| counts[1]).sum();
        assert_eq!(compiled, kernels, "{outcomes:?}");
        for counts in outcomes {
            let [reused, compiled, shared, others @ ..] = &counts[..] else { panic!("{counts:?}") };
            assert_eq!((reused + compiled + shared, others.iter().sum()), (kernels, 0));
        }
        // The network's kernels exist, and there were as many compiles, so each had one.
        let mut compiles = lines(&self.order.log).unwrap();
        // One of the processes probes the compiler's inputs, by compiles that belong to no kernel.
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
    // Records the times of compiles, and the toolchain of this machine.
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
        Work::Falling(_, millis) => format!("{kernels} of {millis}/n ms"),
        Work::Network(name, _) => format!("{kernels} of {name}"),
    }
}

/// One process that does not know the times of its kernels, compared with one that does.
fn unknown_times(work: &Work) {
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
