//! Question: what does it cost to read a descriptor, and to read it and make its key?
//!
//! The vendor's 6 KB Square descriptor; and, from the directory that `OPKEEP_CORPUS` names, the smallest and the
//! largest genuine ones that may not be redistributed. The floor reads the same bytes into serde_json's own values.
//!
//! Budget: reading Square's takes at most as long as the floor.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

#[path = "common/descriptors.rs"]
mod descriptors;

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use descriptors::{Rest, SQUARE};
use opkeep_benches::{Budgets, Figure, Turns, read, thousands, time};
use opkeep_descriptor::{read_info, write_info};
use opkeep_testkit::corpus;
use serde_json::Value;

/// Times the floor.
const BUDGET: f64 = 1.0;
const EACH: u32 = 20;

fn rows(c: &mut Criterion) {
    let mut group = c.benchmark_group("parse_info");
    group.sample_size(30).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    group.throughput(Throughput::Bytes(SQUARE.len() as u64));
    let (square, rest) = (read_info(SQUARE).unwrap(), Rest::new());
    group.bench_function("parse", |b| b.iter(|| read_info(SQUARE).unwrap()));
    group.bench_function("parse and key", |b| b.iter(|| rest.key(&read_info(SQUARE).unwrap())));
    group.bench_function("write", |b| b.iter(|| write_info(&square)));
    group.finish();
}

fn table(_: &mut Criterion) {
    let mut budgets = Budgets::default();
    println!("one descriptor; ratios are to the floor: lower quartile, median, upper quartile of the turns");
    println!(
        "{:>8} {:>10} {:>10} {:>18} {:>13}  budget",
        "bytes", "floor", "parse", "ratio", "parse and key"
    );
    row("Square", SQUARE, &mut budgets);
    for genuine in ends(genuine()) {
        row("genuine", &genuine, &mut budgets);
    }
    budgets.settle();
}

/// The readable descriptors of the corpus, by size; none without a corpus.
fn genuine() -> Vec<Vec<u8>> {
    let Some(root) = corpus::directory() else { return Vec::new() };
    let files = corpus::files_ending(&root.join("mindspore"), &["info"]).unwrap();
    let mut texts: Vec<Vec<u8>> = files.iter().map(|path| read(path).unwrap()).collect();
    texts.retain(|text| read_info(text).is_ok());
    texts.sort_by_key(Vec::len);
    texts
}

/// The first and the last.
fn ends(mut all: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let last = if all.len() > 1 { all.pop() } else { None };
    all.truncate(1);
    all.extend(last);
    all
}

fn row(name: &str, text: &[u8], budgets: &mut Budgets) {
    let rest = Rest::new();
    let each = |run: &dyn Fn()| time(|| (0..EACH).for_each(|_| run())) / EACH;
    let turns = Turns::take(
        Duration::from_millis(500),
        [
            &mut || each(&|| _ = black_box(serde_json::from_slice::<Value>(black_box(text)).unwrap())),
            &mut || each(&|| _ = black_box(read_info(black_box(text)).unwrap())),
            &mut || each(&|| _ = black_box(rest.key(&read_info(black_box(text)).unwrap()))),
        ],
    );
    let [low, ratio, high] = turns.ratio(1, 0);
    let [floor, parse, both] = [0, 1, 2].map(|way| turns.median(way));
    let verdict = (name == "Square").then(|| budgets.judge([low, ratio, high], BUDGET));
    for (what, way, took, verdict) in [("parse", 1, parse, verdict), ("parse and key", 2, both, None)] {
        let figure = Figure::new("parse_info", format!("{name}, {what}")).bytes(text.len());
        let figure = figure.times(took, floor).ratio(turns.ratio(way, 0));
        figure.budget(format!("{BUDGET} times"), [ratio, BUDGET], verdict).note();
    }
    println!(
        "{:>8} {floor:>10.1?} {parse:>10.1?} {low:>6.2} {ratio:>5.2} {high:>5.2} {both:>13.1?}  {}",
        thousands(text.len()),
        verdict.map_or_else(|| "-".to_owned(), |verdict| format!("{BUDGET} times {verdict}")),
    );
}

criterion_group!(benches, rows, table);
criterion_main!(benches);
