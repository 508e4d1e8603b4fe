//! Question: how long does this process work in a build in which everything is new, compared with the compilers?
//!
//! Networks from `fixtures` are built for this machine by the CPU backend, each time with a new store. The processor
//! time of this process's threads, as the kernel counts it, is compared with that of the compilers that they started:
//! so other processes matter less. Starting a process counts as this process's time; finding and digesting the compiler
//! does not count, since the result is cached.
//!
//! In the rows of `sleep`, the null backend's compiler sleeps for that time instead: this shows the cost of a kernel
//! without starting processes, and with as many at once as on a large machine; the sleep stands for the compiler's
//! time.
//!
//! Budget: 3 % of the compilers' time.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

#[path = "common/networks.rs"]
mod networks;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opkeep::{Config, Engine, Outcome};
use opkeep_benches::{Budgets, Figure, children_cpu, directory, is_measured, own_cpu};
use opkeep_store::StoreConfig;
use opkeep_testkit::NullBackend;

const BUDGET: f64 = 0.03;

fn main() {
    let mut budgets = Budgets::default();
    println!("one cold build; all are means");
    println!(
        "{:<12} {:>7} {:>6} {:>10} {:>10} {:>10} {:>7} {:>12}  budget",
        "network", "kernels", "builds", "wall", "compilers", "ours", "share", "ours, each"
    );
    for name in if is_measured() { &["squeezenet", "resnet18", "bert"][..] } else { &["lenet"] } {
        row(name, &mut budgets);
    }
    for millis in [20, 100] {
        sleeping(millis, &mut budgets);
    }
    budgets.settle();
}

/// Builds with a compiler that sleeps, 16 at a time.
fn sleeping(millis: u64, budgets: &mut Budgets) {
    let requests = networks::alike(if is_measured() { 256 } else { 8 });
    let time = Duration::from_millis(millis);
    let theirs = time * u32::try_from(requests.len()).unwrap();
    let (mut wall, mut ours, mut shares) = (Duration::ZERO, Duration::ZERO, Vec::new());
    let rounds = if is_measured() { 5 } else { 1 };
    for _ in 0..rounds {
        let directory = directory().unwrap();
        let jobs = NonZeroUsize::new(16).unwrap();
        let engine = Engine::new(
            Arc::new(NullBackend::sleeping(move |_| time)),
            Config::with_store(StoreConfig::new(directory.path().join("store"))),
        )
        .with_config(|config| {
            config.jobs = Some(jobs);
            config.work_dir = Some(directory.path().to_owned());
        });
        let (began, own) = (Instant::now(), own_cpu());
        let report = engine.build(&requests).unwrap();
        let own = own_cpu() - own;
        assert_eq!(report.count(Outcome::Compiled), requests.len(), "{:?}", report.kernels);
        (wall, ours) = (wall + began.elapsed(), ours + own);
        shares.push(own.as_secs_f64() / theirs.as_secs_f64());
    }
    print(&format!("sleep {millis} ms"), requests.len(), shares, [wall, theirs * rounds, ours], budgets);
}

fn row(name: &str, budgets: &mut Budgets) {
    let requests = networks::of(&networks::ours(name));
    let backend = Arc::new(networks::cpu());
    let (mut wall, mut ours, mut theirs) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let (mut builds, mut kernels) = (0, 0);
    let mut shares = Vec::new();
    // The first build also finds and digests the compiler, and does not count.
    let rounds = if is_measured() { 5 } else { 1 };
    let directory = directory().unwrap();
    for round in 0..=rounds {
        let config = StoreConfig::new(directory.path().join(round.to_string()));
        let engine = Engine::new(backend.clone(), Config::with_store(config))
            .with_config(|config| config.work_dir = Some(directory.path().to_owned()));
        let (began, own, children) = (Instant::now(), own_cpu(), children_cpu().unwrap());
        let report = engine.build(&requests).unwrap();
        let (own, children) = (own_cpu() - own, children_cpu().unwrap() - children);
        kernels = report.kernels.len();
        assert_eq!(report.count(Outcome::Compiled), kernels, "{:?}", report.kernels);
        if round > 0 {
            (wall, ours, theirs, builds) =
                (wall + began.elapsed(), ours + own, theirs + children, builds + 1);
            shares.push(own.as_secs_f64() / children.as_secs_f64());
        }
    }
    assert_eq!(builds, rounds);
    print(name, kernels, shares, [wall, theirs, ours], budgets);
}

/// Prints the means of as many builds as there are shares.
fn print(
    name: &str,
    kernels: usize,
    mut shares: Vec<f64>,
    [wall, theirs, ours]: [Duration; 3],
    budgets: &mut Budgets,
) {
    let builds = u32::try_from(shares.len()).unwrap();
    shares.sort_unstable_by(f64::total_cmp);
    let quartiles = [1, 2, 3].map(|quarter| shares[shares.len() * quarter / 4]);
    let verdict = budgets.judge(quartiles, BUDGET);
    let figure = Figure::new("cold_build", name).entries(kernels);
    let figure = figure.times(ours / builds, theirs / builds).ratio(quartiles);
    figure.budget(format!("{:.0} %", BUDGET * 100.0), [quartiles[1], BUDGET], verdict).note();
    println!(
        "{name:<12} {kernels:>7} {builds:>6} {:>10.1?} {:>10.1?} {:>10.1?} {:>6.2}% {:>12.1?}  {:.0}% {verdict}",
        wall / builds,
        theirs / builds,
        ours / builds,
        quartiles[1] * 100.0,
        ours / builds / u32::try_from(kernels).unwrap(),
        BUDGET * 100.0,
    );
}
