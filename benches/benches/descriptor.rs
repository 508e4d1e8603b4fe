//! Question: what do reading the vendor's 6 KB Square descriptor, making its key, and finding its vendor's name cost?
//!
//! Budgets: 50 us for reading it, 10 us for the key of one that was read.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up has no figures")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use opbuild_descriptor::{
    Descriptor, Diff, EffectiveSpec, Generation, KernelName, KeyParts, read_info, write_info,
};
use opbuild_digest::{Digest, Fingerprint};

const SQUARE: &[u8] = include_bytes!("../../fixtures/mindspore/square_12484080525657478220_2.info");

fn descriptor(c: &mut Criterion) {
    let mut group = c.benchmark_group("descriptor");
    group.throughput(Throughput::Bytes(SQUARE.len() as u64));
    group.bench_function("floor: SHA-256 of the file", |b| b.iter(|| Digest::of(SQUARE)));
    group.bench_function("parse", |b| b.iter(|| read_info(SQUARE).unwrap()));

    let descriptor = read_info(SQUARE).unwrap();
    let spec = EffectiveSpec { target: "Ascend910A".into(), ..EffectiveSpec::default() };
    let mut toolchain = Fingerprint::new();
    toolchain.text("version", "7.7.0.1.238");
    let key = |descriptor: &Descriptor| {
        KeyParts::new("bench", &descriptor.job, &spec, toolchain.clone(), Fingerprint::new()).key()
    };
    group.bench_function("key of a parsed descriptor", |b| b.iter(|| key(&descriptor)));
    group.bench_function("parse and key", |b| b.iter(|| key(&read_info(SQUARE).unwrap())));
    group.bench_function("write", |b| b.iter(|| write_info(&descriptor)));
    group.bench_function("name of its vendor", |b| {
        b.iter(|| KernelName::mindspore(&descriptor, Generation::R1_5, 2).unwrap());
    });
    group.bench_function("difference to itself", |b| {
        b.iter(|| Diff::of_jobs(&descriptor.job, &descriptor.job));
    });
    group.finish();
}

criterion_group!(benches, descriptor);
criterion_main!(benches);
