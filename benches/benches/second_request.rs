//! Question: what does a request cost for a kernel that is in memory, compared with comparing the request?
//!
//! A framework that compiles during execution calls `get_or_build` each time it meets an operator: nearly always for
//! one that it has requested before. A request is for one operator, or for a job of 40 fused ones. The floor compares
//! the request with an equal one, which no map can avoid. With two threads, each of them makes as many requests, and
//! the time is that of one call.
//!
//! Every two seconds a key is computed again: `longest` is the time of such a request.
//!
//! Budget: a microsecond, for one operator.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

#[path = "common/networks.rs"]
mod networks;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opkeep::{Config, Engine, Request};
use opkeep_benches::{Budgets, Figure, Turns, directory, is_measured, time};
use opkeep_store::StoreConfig;
use opkeep_testkit::NullBackend;

const BUDGET: Duration = Duration::from_micros(1);
/// Requests that are timed together.
const CALLS: u32 = 1000;

fn main() {
    let mut budgets = Budgets::default();
    println!("one request that was made before, the median of the turns; in nanoseconds");
    println!(
        "{:<14} {:>7} {:<9} {:>8} {:>8} {:>11} {:>6}  budget",
        "job", "kernels", "", "compare", "request", "longest", "turns"
    );
    let several = networks::alike(if is_measured() { 1000 } else { 10 });
    row("one operator", &several[..1], &mut budgets);
    row("one operator", &several, &mut budgets);
    row("40 operators", &[networks::fused(40)], &mut Budgets::default());
    budgets.settle();
}

fn row(title: &str, requests: &[Request], budgets: &mut Budgets) {
    let directory = directory().unwrap();
    let engine = Engine::new(
        Arc::new(NullBackend::default()),
        Config::with_store(StoreConfig::new(directory.path().join("store"))),
    )
    .with_config(|config| config.work_dir = Some(directory.path().to_owned()));
    requests.iter().for_each(|request| drop(engine.get_or_build(request).unwrap()));
    let equal = requests.to_vec();
    let mut longest = Duration::ZERO;
    let ask = |first: usize| {
        for at in 0..CALLS as usize {
            black_box(engine.get_or_build(&requests[(first + at) % requests.len()]).unwrap());
        }
    };
    let turns = Turns::take(
        Duration::from_secs(5),
        [
            &mut || {
                time(|| {
                    (0..CALLS as usize).for_each(|at| {
                        let at = at % requests.len();
                        let (job, other) = (&requests[at].descriptor.job, &equal[at].descriptor.job);
                        assert!(black_box(job == other && requests[at].spec == equal[at].spec));
                    });
                })
            },
            &mut || {
                let began = Instant::now();
                engine.get_or_build(&requests[0]).unwrap();
                longest = longest.max(began.elapsed());
                time(|| ask(0))
            },
            &mut || {
                std::thread::scope(|scope| {
                    let other = scope.spawn(|| time(|| ask(requests.len() / 2)));
                    time(|| ask(0)).max(other.join().unwrap())
                })
            },
        ],
    );
    let each = |way| turns.quartiles(way).map(|seconds| seconds / f64::from(CALLS));
    for (way, threads) in [(1, "1 thread"), (2, "2 threads")] {
        let verdict =
            (title == "one operator" && way == 1).then(|| budgets.judge(each(way), BUDGET.as_secs_f64()));
        let figure = Figure::new("second_request", format!("{title}, {threads}")).entries(requests.len());
        let figure = figure.values("s", each(way)[1], each(0)[1]).ratio(turns.ratio(way, 0));
        figure.budget(format!("{BUDGET:?}"), [each(way)[1], BUDGET.as_secs_f64()], verdict).note();
        println!(
            "{title:<14} {:>7} {threads:<9} {:>8.0} {:>8.0} {longest:>11.1?} {:>6}  {}",
            requests.len(),
            each(0)[1] * 1e9,
            each(way)[1] * 1e9,
            turns.count(),
            verdict.map_or("-".to_owned(), |verdict| format!("{BUDGET:?} {verdict}")),
        );
    }
}
