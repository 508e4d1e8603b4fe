//! The time without a builder after the process that compiles a kernel is killed. With a remote cache, it has a lease, too.

use std::thread;
use std::time::{Duration, SystemTime};

use opkeep_benches::{Budgets, Figure, directory, is_measured};
use opkeep_testkit::servers::{Server, ServerKind};
use opkeep_testkit::{CompileLog, since_1970};

use crate::rank::{Order, Rank, Work};

const BUDGET_MILLIS: f64 = 50.0;
/// The time to live of a lease, in milliseconds: far longer than the budget.
const TTL: u64 = 10_000;

/// The time from the death of the holder to the next compile, in milliseconds.
fn take_over(waiters: usize, round: u64, server: Option<&Server>) -> f64 {
    let directory = directory().unwrap();
    let order = |millis| Order {
        store: directory.path().join("store"),
        base: directory.path().to_owned(),
        log: directory.path().join("log"),
        work: Work::Equal(1, millis),
        jobs: 1,
        machine_jobs: 8,
        // Each round has keys of its own.
        remote: server.map(|server| (format!("{}?prefix=round-{waiters}-{round}", server.url()), TTL)),
    };
    let mut holder = Rank::start(&order(600_000));
    holder.await_line("ready");
    holder.go();
    while CompileLog::read(&order(0).log).unwrap().is_empty() {
        thread::sleep(Duration::from_millis(1));
    }
    let mut ranks: Vec<Rank> = (0..waiters).map(|_| Rank::start(&order(1))).collect();
    for rank in &mut ranks {
        rank.await_line("ready");
        rank.go();
        rank.await_line("waiting");
    }
    // By then, they poll at their longest interval; the round varies the position within it.
    thread::sleep(Duration::from_millis(100 + round * 7 % 40));
    let died = since_1970(SystemTime::now());
    holder.kill();
    let outcomes: Vec<Vec<usize>> = ranks.iter_mut().map(|rank| rank.done().counts).collect();
    ranks.into_iter().for_each(Rank::end);
    let compiled: usize = outcomes.iter().map(|counts| counts[1]).sum();
    let compiles = CompileLog::read(&order(0).log).unwrap();
    assert_eq!((compiled, compiles.len()), (1, 2), "exactly one takes over: {outcomes:?} {compiles:?}");
    (compiles[1].began - died).as_secs_f64() * 1e3
}

pub(crate) fn table(budgets: &mut Budgets) {
    println!("a process dies that compiles a kernel, and others wait for it; until one of them compiles it");
    println!("{:>9} {:>9} {:>9} {:>9} {:>9}  budget", "waiting", "quartile", "median", "quartile", "longest");
    for waiters in [1, 7] {
        row(waiters, None, budgets);
    }
    match ServerKind::redis().missing() {
        Some(missing) => println!("with a remote cache: left out: {missing}"),
        None => {
            let server = Server::start(ServerKind::redis()).unwrap();
            [1, 7].into_iter().for_each(|waiters| row(waiters, Some(&server), budgets));
        }
    }
}

fn row(waiters: usize, server: Option<&Server>, budgets: &mut Budgets) {
    let rounds = if is_measured() { 15 } else { 1 };
    let mut times: Vec<f64> = (0..rounds).map(|round| take_over(waiters, round, server)).collect();
    times.sort_unstable_by(f64::total_cmp);
    let quartiles @ [low, median, high] = [1, 2, 3].map(|quarter| times[times.len() * quarter / 4]);
    let verdict = budgets.judge(quartiles, BUDGET_MILLIS);
    let remote = if server.is_some() { ", with a remote cache" } else { "" };
    let figure = Figure::new("crowd", format!("taken over by one of {waiters}{remote}"));
    let figure = figure.value("s", median / 1e3);
    figure.budget(format!("{BUDGET_MILLIS} ms"), [median, BUDGET_MILLIS], verdict).note();
    let [low, median, high, longest] =
        [low, median, high, times[times.len() - 1]].map(|millis| format!("{millis:.1} ms"));
    println!(
        "{waiters:>9} {low:>9} {median:>9} {high:>9} {longest:>9}  {BUDGET_MILLIS} ms {verdict}{remote}",
    );
}
