//! Question: how long do hosts need that begin the same cold build at the same moment, and share it through one Redis?
//!
//! 16 processes, each with a store, job tokens and a work directory of its own, wait until all of them are ready, and start at once; the
//! time ends with the last of them. Each has one job token. The compiler sleeps: so 16 of them run at once on any machine. Kernel n
//! takes 1/n of the time of the longest one, which no host knows before.
//!
//! In the second row, one process of ten is killed after an eighth of the longest kernel's time, while it compiles.
//!
//! Each kernel must be compiled once, and once more for each killed process at most, as the compiler's log shows; if not, this
//! fails, measured or not.
//!
//! Budget: 1.5 times the longest kernel and an equal share of all compiles; one time to live more if processes are killed.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the tables are what this is for, and processes talk to each other")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/networks.rs"]
mod networks;
#[path = "../crowd/rank.rs"]
mod rank;

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use opkeep_benches::{Budgets, Figure, directory, is_measured, make_directory};
use opkeep_testkit::CompileLog;
use opkeep_testkit::servers::{Server, ServerKind};

use rank::{Order, Rank, Work};

fn main() {
    if let Some(arguments) = common::child_arguments() {
        return rank::run(&arguments);
    }
    if let Some(missing) = ServerKind::redis().missing() {
        println!("left out: {missing}");
        return;
    }
    let mut budgets = Budgets::default();
    println!(
        "{:>5} {:>7} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9}  budget",
        "hosts", "kernels", "longest", "share", "killed", "compiles", "in all", "cpu"
    );
    let (hosts, kernels, longest): (usize, usize, u64) =
        if is_measured() { (16, 148, 4000) } else { (4, 12, 100) };
    for killed in [0, hosts.div_ceil(10)] {
        row(hosts, kernels, longest, killed, &mut budgets);
    }
    budgets.settle();
}

fn row(hosts: usize, kernels: usize, longest: u64, killed: usize, budgets: &mut Budgets) {
    let server = Server::start(ServerKind::redis()).unwrap();
    let directory = directory().unwrap();
    let ttl = if killed > 0 { (longest * 3 / 4).max(1000) } else { 30_000 };
    let log = directory.path().join("log");
    let order = |host: usize| Order {
        store: directory.path().join(format!("store-{host}")),
        base: directory.path().join(format!("host-{host}")),
        log: log.clone(),
        work: Work::Falling(kernels, longest),
        jobs: 1,
        machine_jobs: 1,
        remote: Some((server.url(), ttl)),
    };
    let mut ranks: Vec<Rank> = (0..hosts)
        .map(|host| {
            let order = order(host);
            make_directory(&order.base).unwrap();
            Rank::start(&order)
        })
        .collect();
    ranks.iter_mut().for_each(|rank| rank.await_line("ready"));
    let began = Instant::now();
    ranks.iter_mut().for_each(Rank::go);
    let mut dead = 0;
    if killed > 0 {
        // All hosts compile by then: the share is longer.
        thread::sleep(Duration::from_millis(longest / 8));
        for mut rank in ranks.drain(..killed) {
            rank.kill();
            dead += 1;
        }
    }
    let done: Vec<_> = ranks.iter_mut().map(Rank::done).collect();
    let took = began.elapsed();
    ranks.into_iter().for_each(Rank::end);
    for done in &done {
        let [reused, compiled, shared, others @ ..] = &done.counts[..] else { panic!("{:?}", done.counts) };
        assert_eq!((reused + compiled + shared, others.iter().sum()), (kernels, 0));
    }
    let compiles = CompileLog::read(&log).unwrap();
    let names: BTreeSet<_> = compiles.iter().map(|compile| &compile.kernel).collect();
    assert_eq!(names.len(), kernels);
    assert!(
        (kernels..=kernels + dead).contains(&compiles.len()),
        "{} compiles: {compiles:?}",
        compiles.len()
    );

    let longest = Duration::from_millis(longest);
    let sum: Duration = (1..=kernels).map(|n| longest / u32::try_from(n).unwrap()).sum();
    let share = sum / u32::try_from(hosts - killed).unwrap();
    let lost = if killed > 0 { Duration::from_millis(ttl) } else { Duration::ZERO };
    let allowed = longest.mul_f64(1.5) + share + lost;
    let verdict = budgets.judge([took.as_secs_f64(); 3], allowed.as_secs_f64());
    let cpu: Duration = done.iter().map(|done| done.cpu).sum();
    let dead = if killed > 0 { format!(", {killed} killed") } else { String::new() };
    let figure = Figure::new("hosts", format!("{hosts} host processes, cold{dead}")).entries(kernels);
    let bound = match killed {
        0 => "1.5 times the longest kernel and the share",
        _ => "1.5 times the longest kernel, the share and one time to live",
    };
    let figure = figure.times(took, longest + share);
    figure.budget(bound, [took.as_secs_f64(), allowed.as_secs_f64()], verdict).note();
    println!(
        "{hosts:>5} {kernels:>7} {:>8} {share:>9.2?} {killed:>9} {:>9} {:>9.2} {cpu:>9.2?}  {:.2} s {verdict}",
        format!("{longest:?}"),
        compiles.len(),
        took.as_secs_f64(),
        allowed.as_secs_f64(),
    );
}
