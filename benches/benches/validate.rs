//! Question: what does it cost to decide whether a kernel is what its `.json` says, beside hashing its object, which
//! has to be done anyway?
//!
//! Budgets: 1.5 times SHA-256 of the object from 64 KiB up, 30 us more than it below. Genuine kernels are measured if
//! `OPBUILD_CORPUS` names the folder that holds them; made ones of 2 KiB to 4 MiB always are. The table after the rows
//! of criterion, which ends in a failure if a budget is broken, takes turns between both sides, so that a machine that slows down slows both.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use opbuild_artifact::{Expectations, KernelMeta};
use opbuild_benches::{Pair, genuine_pairs};
use opbuild_digest::Digest;
use opbuild_testkit::ascend::{Chip, Cores, Kernel};
use opbuild_validator::{expectations_of, validate};

/// From here up, the budget is a ratio.
const LARGE: usize = 64 << 10;

/// A kernel of about so many bytes, and one of the same size in many small ones.
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

fn rows(c: &mut Criterion) {
    let mut group = c.benchmark_group("validate");
    for pair in genuine_pairs().unwrap().iter().chain(&made_pairs()) {
        let expect = expectations_of(Some(&pair.json), &pair.object);
        assert!(validate(&pair.json, &pair.object, &expect).is_valid(), "{}", pair.name);
        let id = |what: &str| BenchmarkId::new(what, format!("{}, {} bytes", pair.name, pair.object.len()));
        group.throughput(Throughput::Bytes(pair.object.len() as u64));
        group.bench_function(id("floor: SHA-256 of the object"), |b| b.iter(|| Digest::of(&pair.object)));
        group.bench_function(id("whole"), |b| b.iter(|| validate(&pair.json, &pair.object, &expect)));
        group.throughput(Throughput::Bytes(pair.json.len() as u64));
        group.bench_function(id("parse the .json"), |b| b.iter(|| KernelMeta::parse(&pair.json).unwrap()));
    }
    group.finish();
}

/// How long `run` takes, with the time to forget what it gives.
fn time<T>(run: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    let _ = black_box(run());
    start.elapsed()
}

/// The middle of many times, of each of the three in turn.
fn in_turns(pair: &Pair, expect: &Expectations) -> [Duration; 3] {
    let turns = (32 << 20) / pair.object.len().max(LARGE) + 21;
    let mut times: [Vec<Duration>; 3] = Default::default();
    for _ in 0..turns {
        times[0].push(time(|| Digest::of(black_box(&pair.object))));
        times[1].push(time(|| validate(black_box(&pair.json), &pair.object, expect)));
        times[2].push(time(|| KernelMeta::parse(black_box(&pair.json))));
    }
    times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    })
}

fn table(_: &mut Criterion) {
    let mut broken = 0;
    println!(
        "{:>8} {:>11} {:>11} {:>6} {:>11} {:>11}  budget",
        "bytes", "SHA-256", "whole", "ratio", "more", "parse"
    );
    for pair in genuine_pairs().unwrap().iter().chain(&made_pairs()) {
        let expect = expectations_of(Some(&pair.json), &pair.object);
        let [floor, whole, parse] = in_turns(pair, &expect);
        let (ratio, more) = (whole.as_secs_f64() / floor.as_secs_f64(), whole.saturating_sub(floor));
        let kept = if pair.object.len() >= LARGE { ratio <= 1.5 } else { more <= Duration::from_micros(30) };
        broken += usize::from(!kept);
        println!(
            "{:>8} {floor:>11.1?} {whole:>11.1?} {ratio:>6.2} {more:>11.1?} {parse:>11.1?}  {:<6} {}",
            pair.object.len(),
            if kept { "kept" } else { "BROKEN" },
            pair.name,
        );
    }
    assert!(broken == 0, "{broken} kernels took more than their budget");
}

criterion_group!(benches, rows, table);
criterion_main!(benches);
