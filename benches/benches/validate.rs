//! Question: what does it cost to decide whether a kernel matches its `.json`, compared with hashing its object, which
//! is necessary anyway?
//!
//! Budgets: 1.5 times SHA-256 of the object from 64 KiB up, 30 us more than it below. Genuine kernels are measured if
//! `OPKEEP_CORPUS` names the directory that holds them; generated ones of 2 KiB to 4 MiB always are. The table after
//! criterion's rows takes turns between both sides, so that a slowdown of the machine affects both. It fails if a
//! budget is broken.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use opkeep_benches::{Budgets, Figure, Turns, read, time};
use opkeep_cann_meta::KernelMeta;
use opkeep_digest::Digest;
use opkeep_testkit::ascend::{Chip, Cores, Kernel};
use opkeep_testkit::corpus;
use opkeep_validator::{expectations_of, validate};

/// From this size on, the budget is a ratio.
const LARGE: usize = 64 << 10;
const RATIO: f64 = 1.5;
/// Below, it is an additional time.
const MORE: Duration = Duration::from_micros(30);

/// A kernel's description, its object, and their names.
struct Pair {
    /// Their directory, and the object's name.
    name: String,
    json: Vec<u8>,
    object: Vec<u8>,
}

/// The genuine kernels of the corpus, by size; none without one.
fn genuine_pairs() -> Vec<Pair> {
    let Some(root) = corpus::directory() else { return Vec::new() };
    let directories = ["cann", "mindspore/wheel270-ascend", "mindspore/akg-cpu"];
    let objects = directories
        .iter()
        .flat_map(|directory| corpus::files_ending(&root.join(directory), &["o", "so"]).unwrap());
    let pair = |object: PathBuf| {
        let last = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = format!("{}/{}", object.parent().map(last).unwrap_or_default(), last(&object));
        Pair { name, json: read(&object.with_extension("json")).unwrap(), object: read(&object).unwrap() }
    };
    let mut pairs: Vec<Pair> = objects.map(pair).collect();
    pairs.sort_by_key(|pair| pair.object.len());
    pairs
}

/// A kernel of about this number of bytes, and one of the same size that consists of many small ones.
fn made_pairs() -> Vec<Pair> {
    let mut pairs = Vec::new();
    for bytes in [2 << 10, 16 << 10, LARGE, 256 << 10, 1 << 20, 4 << 20] {
        let one = Kernel::new(Chip::Ascend910, &format!("made_{bytes}")).code_bytes(bytes - 700);
        let keys: Vec<u64> = (0..bytes as u64 / 4096).collect();
        let many = Kernel::new(Chip::Ascend910B, &format!("made_{bytes}_in_{}", keys.len()));
        let many = many.cores(Cores::Vector).keys(keys).code_bytes(3600);
        let of = |kernel: Kernel| {
            let pair = kernel.build();
            Pair { name: pair.stem, json: pair.json, object: pair.object }
        };
        pairs.push(of(one));
        if bytes >= LARGE {
            pairs.push(of(many));
        }
    }
    pairs
}

/// The smallest, the largest and two between of the generated kernels. The table has all.
fn rows(c: &mut Criterion) {
    let mut group = c.benchmark_group("validate");
    group.sample_size(20).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
    for pair in made_pairs().iter().filter(|pair| !pair.name.contains("_in_")).step_by(2) {
        let expect = expectations_of(Some(&pair.json), &pair.object);
        let id = |what: &str| BenchmarkId::new(what, format!("{}, {} bytes", pair.name, pair.object.len()));
        group.throughput(Throughput::Bytes(pair.object.len() as u64));
        group.bench_function(id("floor: SHA-256 of the object"), |b| b.iter(|| Digest::of(&pair.object)));
        group.bench_function(id("whole"), |b| b.iter(|| validate(&pair.json, &pair.object, &expect)));
    }
    group.finish();
}

fn table(_: &mut Criterion) {
    let mut budgets = Budgets::default();
    println!(
        "{:>8} {:>11} {:>11} {:>6} {:>11} {:>11}  budget",
        "bytes", "SHA-256", "whole", "ratio", "more", "parse"
    );
    for Pair { name, json, object } in genuine_pairs().iter().chain(&made_pairs()) {
        let expect = expectations_of(Some(json), object);
        assert!(validate(json, object, &expect).is_valid(), "{name}");
        let turns = Turns::take(
            Duration::from_millis(150),
            [
                &mut || time(|| Digest::of(black_box(object))),
                &mut || time(|| validate(black_box(json), object, &expect)),
                &mut || time(|| KernelMeta::parse(black_box(json))),
            ],
        );
        let [floor, whole, parse] = [0, 1, 2].map(|way| turns.median(way));
        let (ratios, more) = (turns.ratio(1, 0), whole.saturating_sub(floor));
        let (measured, limit, allowed) = match object.len() >= LARGE {
            true => (ratios, RATIO, format!("{RATIO} times")),
            false => ([more.as_secs_f64(); 3], MORE.as_secs_f64(), format!("{MORE:.0?} more")),
        };
        let verdict = budgets.judge(measured, limit);
        let figure = Figure::new("validate", name).bytes(object.len()).times(whole, floor).ratio(ratios);
        figure.budget(allowed, [measured[1], limit], verdict).note();
        println!(
            "{:>8} {floor:>11.1?} {whole:>11.1?} {:>6.2} {more:>11.1?} {parse:>11.1?}  {verdict:<6} {name}",
            object.len(),
            ratios[1],
        );
    }
    budgets.settle();
}

criterion_group!(benches, rows, table);
criterion_main!(benches);
