//! Question: how long do many hosts need that begin the same build at the same moment, and share it by the leases of one Redis?
//!
//! The hosts are simulated: each has the state of a real one ([`LeaseTable`](opkeep_cache::lease::LeaseTable), which decides what
//! is asked and when, and when a lease is claimed), but no process, no connection and no store of its own. Redis, its objects and
//! their names, the calls, their order and the time are real. Virtual are the compiles, which are timers, and the entries, which have one
//! byte: nothing is fetched. The requests of some thousand hosts go over one connection, so that their processor time, which
//! belongs to other machines, does not count here.
//!
//! The build has 148 kernels; kernel n takes 1/n of the time of the longest one. Each host has one job token. In some rows the first
//! holder of each tenth kernel is killed during its compile.
//!
//! Each kernel must be compiled once, and once more for each killed holder; if not, this fails, measured or not.
//!
//! Budget: 1.5 times the longest kernel and 2 s. If holders are killed, one time to live more.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

mod host;
mod plan;
mod redis;
mod shard;

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;
use std::time::{Duration, Instant};

use opkeep_benches::{Budgets, Figure, is_measured, thousands};
use opkeep_testkit::servers::{Server, ServerKind};

use plan::Plan;
use redis::{Pipeline, Reply};
use shard::{Counts, Run};

/// The number of threads, each with a part of the hosts.
const SHARDS: usize = 2;

fn main() {
    if let Some(missing) = ServerKind::redis().missing() {
        println!("left out: {missing}");
        return;
    }
    let mut budgets = Budgets::default();
    println!(
        "{:>6} {:>8} {:>7} {:>7} {:>9} {:>9} {:>9} {:>8} {:>8} {:>9} {:>11} {:>9} {:>9}  budget",
        "hosts",
        "longest",
        "killed",
        "in all",
        "compiles",
        "requests",
        "names",
        "batches",
        "claims",
        "refused",
        "hints/s",
        "slowest",
        "redis"
    );
    let rows: &[(usize, u64, usize)] = match is_measured() {
        true => &[(100, 4000, 0), (1000, 4000, 0), (10_000, 4000, 0), (1000, 4000, 10), (10_000, 4000, 10)],
        false => &[(100, 400, 0), (100, 400, 10)],
    };
    let given: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    if let [hosts, longest, killed_each] = given[..] {
        return row(hosts, Duration::from_millis(longest as u64), killed_each, &mut budgets);
    }
    for (hosts, longest, killed_each) in rows {
        row(*hosts, Duration::from_millis(*longest), *killed_each, &mut budgets);
    }
    budgets.settle();
}

fn row(hosts: usize, longest: Duration, killed_each: usize, budgets: &mut Budgets) {
    // Short, so that a killed holder costs little of the run; a holder renews three times in it.
    let ttl = if killed_each > 0 { longest * 3 / 4 } else { Duration::from_secs(30) };
    let plan = Plan::new(longest, ttl, killed_each);
    let server = Server::start(ServerKind::redis()).unwrap();
    let (left, is_over) = (AtomicUsize::new(hosts), AtomicBool::new(false));
    let began = Instant::now();
    let run = Run { plan: &plan, address: server.address(), began, left: &left, is_over: &is_over };
    let results: Vec<(Counts, Option<Instant>)> = thread::scope(|scope| {
        let start = |shard| {
            let run = &run;
            scope.spawn(move || shard::run(run, (shard..hosts).step_by(SHARDS)))
        };
        let threads: Vec<_> = (0..SHARDS).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut counts = Counts::default();
    results.iter().for_each(|(other, _)| counts.add(other));
    let took = results.iter().filter_map(|(_, last)| *last).max().unwrap() - began;
    let (kernels, killed) = (plan.kernels.len() as u64, plan.killed() as u64);
    assert_eq!((counts.compiles, counts.killed, counts.unleased), (kernels + killed, killed, 0));
    let used = memory(&server);

    let lost = if killed > 0 { ttl } else { Duration::ZERO };
    let allowed = longest.mul_f64(1.5) + Duration::from_secs(2) + lost;
    let verdict = budgets.judge([took.as_secs_f64(); 3], allowed.as_secs_f64());
    let peak = counts.hints_in_second.iter().max().copied().unwrap_or_default();
    let dead = if killed > 0 { format!(", {killed} holders killed") } else { String::new() };
    let name = format!("{} simulated hosts{dead}", thousands(hosts as u64));
    let figure = Figure::new("simulated_hosts", name).entries(plan.kernels.len()).times(took, longest);
    let bound = match killed {
        0 => "1.5 times the longest kernel and 2 s",
        _ => "1.5 times the longest kernel, 2 s and one time to live",
    };
    figure.budget(bound, [took.as_secs_f64(), allowed.as_secs_f64()], verdict).note();
    println!(
        "{hosts:>6} {:>8} {killed:>7} {:>7.2} {:>9} {:>9} {:>9} {:>8} {:>8} {:>9} {:>11} {:>9.0?} {used:>9}  {:.1} s {verdict}",
        format!("{longest:?}"),
        took.as_secs_f64(),
        counts.compiles,
        counts.requests,
        thousands(counts.names),
        counts.batches,
        counts.claims,
        counts.refused_claims,
        format!("{peak}"),
        counts.slowest,
        allowed.as_secs_f64(),
    );
}

/// The most memory that the server used.
fn memory(server: &Server) -> String {
    let mut pipeline = Pipeline::open(server.address());
    pipeline.request(&[b"INFO", b"memory"]);
    loop {
        pipeline.exchange();
        if let Some(Reply::Text(text)) = pipeline.reply() {
            let text = String::from_utf8(text).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("used_memory_peak_human:"));
            return line.unwrap().to_owned();
        }
        thread::sleep(Duration::from_millis(1));
    }
}
