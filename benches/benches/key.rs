//! Question: what does the key of a descriptor cost after it was read?
//!
//! The vendor's 6 KB Square descriptor, and jobs of many operators, each of which takes the output of the one before
//! it. The key covers backend, job, spec, toolchain and sources; the toolchain's fingerprint is computed in advance, as
//! in a build. The floor is SHA-256 of the same number of bytes: about 1 KiB for each operator, and half of that for
//! the rest.
//!
//! Budget: 10 us for the Square descriptor.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

#[path = "common/descriptors.rs"]
mod descriptors;
#[path = "common/networks.rs"]
mod networks;

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use descriptors::{Rest, SQUARE};
use opkeep_benches::{Budgets, Figure, Turns, thousands, time};
use opkeep_descriptor::{Descriptor, Diff, Generation, KernelName, read_info};
use opkeep_digest::Digest;

const BUDGET: Duration = Duration::from_micros(10);
/// The hashed bytes of an operator like Square with all its fields and tags, and of the rest.
const OPERATOR: usize = 1 << 10;
const REST: usize = 1 << 9;

fn rows(c: &mut Criterion) {
    let mut group = c.benchmark_group("key");
    group.sample_size(30).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    group.throughput(Throughput::Elements(1));
    let (square, rest) = (read_info(SQUARE).unwrap(), Rest::new());
    group.bench_function("key", |b| b.iter(|| rest.key(&square)));
    let key = rest.key(&square);
    group.bench_function("our name", |b| b.iter(|| KernelName::new(&square.job, &key)));
    group.bench_function("the vendor's name", |b| {
        b.iter(|| KernelName::mindspore(&square, Generation::R1_5, 2).unwrap());
    });
    group.bench_function("difference to itself", |b| b.iter(|| Diff::of_jobs(&square.job, &square.job)));
    group.finish();
}

fn table(_: &mut Criterion) {
    let mut budgets = Budgets::default();
    println!("one key; ratios are to the floor: lower quartile, median, upper quartile of the turns");
    println!("{:<8} {:>9} {:>10} {:>10} {:>18}  budget", "", "operators", "floor", "key", "ratio");
    row("Square", &read_info(SQUARE).unwrap(), &mut budgets);
    for operators in [1, 10, 100, 1000] {
        row("fused", &networks::fused(operators).descriptor, &mut budgets);
    }
    budgets.settle();
}

fn row(name: &str, descriptor: &Descriptor, budgets: &mut Budgets) {
    let (rest, operators) = (Rest::new(), descriptor.job.ops.len());
    let bytes = vec![7; OPERATOR * operators + REST];
    let each = (100 / operators).max(1) as u32;
    let turns = Turns::take(
        Duration::from_millis(500),
        [
            &mut || time(|| (0..each).for_each(|_| _ = black_box(Digest::of(black_box(&bytes))))) / each,
            &mut || time(|| (0..each).for_each(|_| _ = black_box(rest.key(black_box(descriptor))))) / each,
        ],
    );
    let ratios @ [low, ratio, high] = turns.ratio(1, 0);
    let (floor, ours) = (turns.median(0), turns.median(1));
    let square = name == "Square";
    let verdict = square.then(|| budgets.judge(turns.quartiles(1), BUDGET.as_secs_f64()));
    let figure = Figure::new("key", name).entries(operators).bytes(bytes.len());
    figure
        .times(ours, floor)
        .ratio(ratios)
        .budget(format!("{BUDGET:?}"), [ours, BUDGET].map(|time| time.as_secs_f64()), verdict)
        .note();
    println!(
        "{name:<8} {:>9} {floor:>10.1?} {ours:>10.1?} {low:>6.2} {ratio:>5.2} {high:>5.2}  {}",
        thousands(operators),
        verdict.map_or("-".to_owned(), |verdict| format!("{BUDGET:?} {verdict}")),
    );
}

criterion_group!(benches, rows, table);
criterion_main!(benches);
