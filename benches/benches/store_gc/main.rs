//! Question: what does eviction cost, compared with looking at every file once, and by how much is a limit exceeded
//! before it starts?
//!
//! The walk is a whole `gc` without work, in a store where all entries are idle, so that each is listed. Its floor
//! lists the same directories and looks at each file, and keeps nothing. Then `gc` deletes half of the entries; its
//! floor is the loop that deletes as many files by name, without a walk, a lock or a second look. The walk followed by
//! that loop is measured, too, and the number of calls for each entry. Last, processes put entries into a store with a
//! limit; see [`overshoot`].
//!
//! `cargo bench --bench store_gc -- evictions` measures only the second of these.
//!
//! Budgets: the walk of 100 000 entries takes 3 times the bare walk; evicting half of the entries 2 times the loop; the
//! limit is exceeded by at most the amount that every process may leave unreported.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the tables are what this is for")]

#[path = "../common/mod.rs"]
mod common;
mod overshoot;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use common::{AMPLE, Calls, config, draft, fill, idle, key, open};
use criterion::{Criterion, Throughput, criterion_group};
use opkeep_benches::{
    Budgets, Figure, Kernel, Turns, bare_walk, directory, is_measured, remove, thousands, time,
};
use opkeep_store::{GcOptions, GcReport, TargetStore};

const BUDGET: f64 = 3.0;
/// The time of an eviction, divided by that of the loop that deletes the same files.
const EVICTION_BUDGET: f64 = 2.0;

fn main() {
    match common::child_arguments() {
        Some(arguments) => overshoot::other_process(&arguments),
        None => {
            benches();
            Criterion::default().configure_from_args().final_summary();
        }
    }
}

fn gc(store: &TargetStore) -> GcReport {
    store.gc(&GcOptions::default()).unwrap()
}

fn rows(c: &mut Criterion) {
    let directory = directory().unwrap();
    let store = open(idle(config(directory.path(), AMPLE)));
    let (entries, of) = (1000, store.dir().join("entries"));
    fill(&store, 0, entries);
    let mut group = c.benchmark_group("store_gc");
    group.throughput(Throughput::Elements(entries));
    group.sample_size(30).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    group.bench_function("floor: a bare walk", |b| b.iter(|| bare_walk(&of).unwrap()));
    group.bench_function("walk", |b| b.iter(|| gc(&store)));
    group.finish();
}

fn tables(_: &mut Criterion) {
    let mut budgets = Budgets::default();
    let alone = std::env::args().any(|argument| argument == "evictions");
    if !alone {
        walks(&mut budgets);
    }
    evictions(&mut budgets);
    if !alone {
        overshoot::table(&mut budgets);
    }
    budgets.settle();
}

fn walks(budgets: &mut Budgets) {
    let directory = directory().unwrap();
    let store = open(idle(config(directory.path(), AMPLE)));
    let entries_directory = store.dir().join("entries");
    println!("a walk; ratios are to the bare one: lower quartile, median, upper quartile of the turns");
    println!("{:>8} {:>10} {:>10} {:>17} {:>6}  budget", "entries", "bare", "walk", "ratio", "turns");
    let mut there = 0;
    for entries in if is_measured() { [1000, 10_000, 100_000] } else { [10, 20, 30] } {
        fill(&store, there, entries);
        there = entries;
        assert_eq!(
            (bare_walk(&entries_directory).unwrap().0, gc(&store).before.entries.files),
            (entries, entries)
        );
        let turns = Turns::take(
            Duration::from_secs(3),
            [&mut || time(|| bare_walk(&entries_directory).unwrap()), &mut || time(|| gc(&store))],
        );
        let ratios @ [low, ratio, high] = turns.ratio(1, 0);
        let verdict = budgets.judge(ratios, BUDGET);
        let figure = Figure::new("store_gc", "walk").entries(entries as usize);
        let figure = figure.times(turns.median(1), turns.median(0)).ratio(ratios);
        figure.budget(format!("{BUDGET} times"), [ratio, BUDGET], verdict).note();
        println!(
            "{:>8} {:>10.1?} {:>10.1?} {low:>5.2} {ratio:>5.2} {high:>5.2} {:>6}  {BUDGET} {verdict}",
            thousands(entries),
            turns.median(0),
            turns.median(1),
            turns.count(),
        );
    }
    println!();
}

fn evictions(budgets: &mut Budgets) {
    let entries = if is_measured() { 10_000 } else { 20 };
    let (directory, kernel) = (directory().unwrap(), Kernel::new(Kernel::USUAL));
    let calls = Arc::new(Calls::default());
    let store = open(idle(config(&directory.path().join("store"), AMPLE)));
    let bare = open(config(&directory.path().join("bare"), AMPLE));
    let put_all = |store: &TargetStore, to| {
        for number in 0..to {
            store.put(&key(number), &draft(&kernel)).unwrap();
        }
    };
    put_all(&bare, entries);
    let bytes = bare.estimate().unwrap().bytes;
    let half = GcOptions::default().with_max_bytes(bytes / 2);
    let gone: Vec<PathBuf> = (0..entries / 2).map(|number| bare.path(&key(number))).collect();
    let remove_all = || gone.iter().for_each(|path| remove(path).unwrap());
    let mut plain = || {
        put_all(&bare, entries / 2);
        time(remove_all)
    };
    let mut floor = || {
        put_all(&bare, entries / 2);
        time(|| {
            bare_walk(&bare.dir().join("entries")).unwrap();
            remove_all();
        })
    };
    let evict_half = |store: &TargetStore| {
        let report = store.gc(&half).unwrap();
        assert!(report.removed.entries.files.abs_diff(entries / 2) <= 1 + entries / 1000, "{report:?}");
    };
    let mut evict = || {
        put_all(&store, entries);
        time(|| evict_half(&store))
    };
    let turns = Turns::take(Duration::from_secs(8), [&mut floor, &mut evict, &mut plain]);
    let ratios @ [low, ratio, high] = turns.ratio(1, 2);
    let verdict = budgets.judge(ratios, EVICTION_BUDGET);
    let figure = Figure::new("store_gc", "half of them evicted").entries(entries as usize);
    let figure = figure.times(turns.median(1), turns.median(2)).ratio(ratios);
    figure.budget(format!("{EVICTION_BUDGET} times"), [ratio, EVICTION_BUDGET], verdict).note();

    put_all(&store, entries);
    drop(store);
    let config = idle(config(&directory.path().join("store"), AMPLE));
    let watched = open(config.with_watcher(calls.clone()));
    let count = |run: &dyn Fn()| {
        calls.take();
        run();
        calls.take()
    };
    let idle = count(&|| drop(gc(&watched)));
    let evicting = count(&|| evict_half(&watched));
    let half = entries / 2;
    let each = |way| turns.median(way) / u32::try_from(half).unwrap();
    println!(
        "{} entries of {} bytes, half of which go; {} turns; the ratio is to the loop: quartiles and median",
        thousands(entries),
        bytes / entries,
        turns.count()
    );
    println!("walk and unlink: {:>8.1?}, {:.1?} for each that goes", turns.median(0), each(0));
    println!("   unlink alone: {:>8.1?}, {:.1?} for each that goes", turns.median(2), each(2));
    println!("             gc: {:>8.1?}, {:.1?} for each that goes", turns.median(1), each(1));
    println!("          ratio: {low:.2} {ratio:.2} {high:.2}  {EVICTION_BUDGET} {verdict}");
    println!("to walk and loop: {:.2}", turns.ratio(1, 0)[1]);
    let calls = evicting.saturating_sub(idle) as f64 / half as f64;
    println!("{calls:.1} accesses for each that goes, those of the walk not counted\n");
}

criterion_group!(benches, rows, tables);
