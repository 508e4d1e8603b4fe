//! Question: what does a put cost, does it grow with the store, and how does it compare with writing, syncing and
//! renaming the same bytes?
//!
//! A put writes one entry of an 8 KiB object, 1 KiB of description and 6 KiB of descriptor, under a missing key, into a
//! store of that number of entries; then the entry is removed again, which does not count. All stores and the floor
//! take turns. The floor hashes nothing, looks up nothing and checks no directory. A second floor also hashes all bytes,
//! as a put does, since an entry holds the digest of each member.
//!
//! Then the same for objects of 2 KiB to 4 MiB, in a store of few entries.
//!
//! Budget: 1.3 times as long at 100 000 entries as at 1 000.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

mod common;

use std::cell::Cell;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use common::{AMPLE, Calls, config, draft, fill, key, open};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use opkeep_benches::{
    Budgets, Figure, Kernel, Turns, directory, is_measured, publish, remove, thousands, time,
};
use opkeep_digest::Digest;
use opkeep_store::TargetStore;
use tempfile::TempDir;

const BUDGET: f64 = 1.3;
const SIZES: [u64; 3] = [1000, 10_000, 100_000];
const SIZES_OF_OBJECTS: [usize; 5] = [2 << 10, 16 << 10, 64 << 10, 512 << 10, 4 << 20];
/// Puts in each turn.
const EACH: u32 = 32;

/// Keys that are in no store.
struct Fresh(Cell<u64>);

impl Fresh {
    fn new() -> Self {
        Self(Cell::new(u64::MAX / 2))
    }

    fn next(&self) -> Digest {
        self.0.update(|last| last + 1);
        key(self.0.get())
    }
}

/// A store of `entries` entries.
fn store_of(directory: &TempDir, entries: u64) -> TargetStore {
    let store = open(config(&directory.path().join(format!("store-{entries}")), AMPLE));
    fill(&store, 0, entries);
    store
}

fn rows(c: &mut Criterion) {
    let directory = directory().unwrap();
    let (kernel, fresh) = (Kernel::new(Kernel::USUAL), Fresh::new());
    let store = store_of(&directory, SIZES[0]);
    let mut group = c.benchmark_group("store_put");
    group.throughput(Throughput::Bytes(kernel.whole().len() as u64));
    group.sample_size(30).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    group.bench_function("put", |b| b.iter(|| store.put(&fresh.next(), &draft(&kernel)).unwrap()));
    store.put(&key(0), &draft(&kernel)).unwrap();
    group.bench_function("put of what is there", |b| b.iter(|| store.put(&key(0), &draft(&kernel)).unwrap()));
    group.finish();
}

fn table(_: &mut Criterion) {
    let directory = directory().unwrap();
    let (kernel, mut budgets) = (Kernel::new(Kernel::USUAL), Budgets::default());
    let sizes = if is_measured() { SIZES } else { [10, 20, 30] };
    let stores = sizes.map(|entries| store_of(&directory, entries));
    let bytes = kernel.whole();
    let fresh = Fresh::new();
    let floor = |is_hashed| floor(&directory, &fresh, &bytes, EACH, is_hashed);
    let put = |store: &_| put(store, &fresh, &kernel, EACH);
    let [few, more, many] = &stores;
    let ways: [&mut dyn FnMut() -> Duration; 5] =
        [&mut || floor(false), &mut || put(few), &mut || put(more), &mut || put(many), &mut || floor(true)];
    let turns = Turns::take(Duration::from_secs(8), ways);
    println!(
        "one put of {} bytes in {}; {} turns of {EACH}",
        thousands(bytes.len()),
        place(&directory),
        turns.count()
    );
    println!("{:>8} {:>10} {:>19} {:>19}  budget", "entries", "put", "to the floor", "to the smallest");
    println!("{:>8} {:>10.1?}", "floor", turns.median(0));
    for (at, entries) in (1..).zip(sizes) {
        let ([low, ratio, high], growths) = (turns.ratio(at, 0), turns.ratio(at, 1));
        let [from, growth, to] = growths;
        let figure = |row| Figure::new("store_put", row).entries(entries as usize).bytes(bytes.len());
        figure("put").times(turns.median(at), turns.median(0)).ratio(turns.ratio(at, 0)).note();
        let verdict = (entries == sizes[2]).then(|| budgets.judge(growths, BUDGET));
        let figure = figure("put, to the smallest store").times(turns.median(at), turns.median(1));
        figure.ratio(growths).budget(format!("{BUDGET} times"), [growth, BUDGET], verdict).note();
        let verdict = verdict.map_or("-".to_owned(), |verdict| format!("{BUDGET} {verdict}"));
        println!(
            "{:>8} {:>10.1?} {low:>7.2} {ratio:>5.2} {high:>5.2} {from:>7.2} {growth:>5.2} {to:>5.2}  {verdict}",
            thousands(entries),
            turns.median(at),
        );
    }
    let (hashed, [low, ratio, high]) = (turns.median(4), turns.ratio(1, 4));
    println!("  hashed {hashed:>10.1?} {low:>7.2} {ratio:>5.2} {high:>5.2} for the smallest store");
    let figure = Figure::new("store_put", "put, to the floor that hashes").entries(sizes[0] as usize);
    figure.bytes(bytes.len()).times(turns.median(1), hashed).ratio([low, ratio, high]).note();
    calls(&directory, &kernel);
    println!("\none put by size, and by how many times the floor's");
    println!("{:>9} {:>10} {:>10} {:>17}", "bytes", "floor", "put", "ratio");
    SIZES_OF_OBJECTS.iter().for_each(|bytes| by_size(&directory, *bytes));
    budgets.settle();
}

/// The mean time of a write of `bytes` to a new file, synced and renamed; with the time of their SHA-256 if `is_hashed`.
fn floor(directory: &TempDir, fresh: &Fresh, bytes: &[u8], each: u32, is_hashed: bool) -> Duration {
    let paths: Vec<PathBuf> = (0..each).map(|_| directory.path().join(fresh.next().to_string())).collect();
    let took = time(|| {
        for path in &paths {
            if is_hashed {
                black_box(Digest::of(black_box(bytes)));
            }
            publish(directory.path(), path, bytes).unwrap();
        }
    });
    remove_all(&paths);
    took / each
}

/// The same for puts.
fn put(store: &TargetStore, fresh: &Fresh, kernel: &Kernel, each: u32) -> Duration {
    let keys: Vec<Digest> = (0..each).map(|_| fresh.next()).collect();
    let took = time(|| {
        for key in &keys {
            store.put(key, &draft(kernel)).unwrap();
        }
    });
    remove_all(&keys.iter().map(|key| store.path(key)).collect::<Vec<_>>());
    took / each
}

fn by_size(directory: &TempDir, object_bytes: usize) {
    let (kernel, fresh) = (Kernel::new(object_bytes), Fresh::new());
    let store = open(config(&directory.path().join(format!("by-size-{object_bytes}")), AMPLE));
    let (bytes, each) = (kernel.whole(), ((1 << 20) / object_bytes).clamp(1, 32) as u32);
    let turns = Turns::take(
        Duration::from_secs(1),
        [&mut || floor(directory, &fresh, &bytes, each, false), &mut || put(&store, &fresh, &kernel, each)],
    );
    let ratios @ [low, ratio, high] = turns.ratio(1, 0);
    let (ours, floor) = (turns.median(1), turns.median(0));
    let figure = Figure::new("store_put", "put by size").bytes(bytes.len());
    figure.times(ours, floor).ratio(ratios).note();
    println!(
        "{:>9} {floor:>10.1?} {ours:>10.1?} {low:>5.2} {ratio:>5.2} {high:>5.2}",
        thousands(bytes.len())
    );
}

fn remove_all(paths: &[PathBuf]) {
    paths.iter().for_each(|path| remove(path).unwrap());
}

fn place(directory: &TempDir) -> &'static str {
    if directory.path().starts_with("/dev/shm") { "memory" } else { "the directory for temporary files" }
}

/// The calls to the disk of a put, without closing files.
fn calls(directory: &TempDir, kernel: &Kernel) {
    let heard = Arc::new(Calls::default());
    let root: &Path = &directory.path().join("counted");
    let store = open(config(root, AMPLE).with_watcher(heard.clone()));
    let fresh = Fresh::new();
    println!("         a put: {}", heard.of(640, || store.put(&fresh.next(), &draft(kernel)).unwrap()));
    let there = Fresh::new().next();
    println!(
        "         a put of what is there: {}",
        heard.of(640, || store.put(&there, &draft(kernel)).unwrap())
    );
}

criterion_group!(benches, rows, table);
criterion_main!(benches);
