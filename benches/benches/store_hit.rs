//! Question: what does a store hit with all its checks cost, compared with reading the same file and hashing the
//! returned bytes?
//!
//! A hit returns the object and 1 KiB of description, checked by SHA-256; 6 KiB of descriptor follow them in the same
//! file, checked by a checksum. The floor is one open, one stat and one read of the entry's own file, and SHA-256 of
//! the object and the description. `bare` is the same for a file that holds only the returned bytes.
//!
//! Budget: 1.25 times the floor with an object of 8 KiB. The other sizes have none.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

mod common;

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use common::{AMPLE, Calls, config, draft, key, open};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use opkeep_benches::{
    Budgets, Figure, Kernel, Turns, directory, has_room, is_measured, read, thousands, time, write,
};
use opkeep_digest::Digest;
use opkeep_store::{Lookup, TargetStore};
use tempfile::TempDir;

const BUDGET: f64 = 1.25;

/// A store, and beside it files with the bytes that a hit returns.
struct Setting {
    directory: TempDir,
    store: TargetStore,
    kernel: Kernel,
    keys: Vec<Digest>,
    bare: Vec<PathBuf>,
}

impl Setting {
    fn new(object_bytes: usize) -> Self {
        let directory = directory().unwrap();
        let store = open(config(&directory.path().join("store"), AMPLE));
        Self { directory, store, kernel: Kernel::new(object_bytes), keys: Vec::new(), bare: Vec::new() }
    }

    /// Puts entries up to this number.
    fn grow(&mut self, entries: usize) {
        let needed = self.kernel.needed();
        for number in self.keys.len()..entries {
            let key = key(number as u64);
            self.store.put(&key, &draft(&self.kernel)).unwrap();
            let bare = self.directory.path().join(key.to_string());
            write(&bare, &needed).unwrap();
            self.keys.push(key);
            self.bare.push(bare);
        }
    }

    fn hit(&self, at: usize) {
        match self.store.get(&self.keys[at]) {
            Lookup::Hit(entry) => drop(black_box(entry)),
            Lookup::Miss(miss) => panic!("{miss}"),
        }
    }

    /// Reads the entry's file, and hashes the bytes that a hit returns, which end before the descriptor.
    fn packed(&self, paths: &[PathBuf], at: usize) {
        let file = read(&paths[at]).unwrap();
        let end = file.len() - self.kernel.info.len();
        let needed = self.kernel.json.len() + self.kernel.object.len();
        black_box(Digest::of(&file[end - needed..end]));
    }

    fn bare(&self, at: usize) {
        black_box(Digest::of(&read(&self.bare[at]).unwrap()));
    }

    fn file_bytes(&self) -> usize {
        match self.store.get(&self.keys[0]) {
            Lookup::Hit(entry) => entry.file_bytes() as usize,
            Lookup::Miss(miss) => panic!("{miss}"),
        }
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.keys.iter().map(|key| self.store.path(key)).collect()
    }
}

/// Entries in random order, another one for each seed, so that no way regularly finds in the processor's caches the
/// data that another way read a moment ago.
fn shuffled(entries: usize, mut seed: u64) -> impl FnMut() -> usize {
    move || {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        ((u128::from(seed) * entries as u128) >> 64) as usize
    }
}

fn rows(c: &mut Criterion) {
    let mut setting = Setting::new(Kernel::USUAL);
    setting.grow(1000);
    let paths = setting.paths();
    let mut group = c.benchmark_group("store_hit");
    group.throughput(Throughput::Bytes(setting.kernel.needed().len() as u64));
    group.sample_size(30).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    let mut next = shuffled(1000, 1);
    group.bench_function("floor", |b| b.iter(|| setting.packed(&paths, next())));
    group.bench_function("hit", |b| b.iter(|| setting.hit(next())));
    let absent = Digest::of(b"absent");
    group.bench_function("miss", |b| b.iter(|| setting.store.get(&absent)));
    group.finish();
}

fn table(_: &mut Criterion) {
    let mut budgets = Budgets::default();
    println!("one hit, warm; ratios are to the floor: lower quartile, median, upper quartile of the turns");
    println!(
        "{:>7} {:>9} {:>9} {:>9} {:>9} {:>10} {:>10} {:>10} {:>17}  {:<12} {:>8}",
        "entries",
        "object",
        "read",
        "SHA-256",
        "checksum",
        "bare",
        "floor",
        "hit",
        "ratio",
        "budget",
        "to bare"
    );
    let mut usual = Setting::new(Kernel::USUAL);
    for entries in [1000, 10_000, 100_000] {
        let bytes = entries * (32 << 10);
        if !is_measured() && entries > 1000 {
            continue;
        }
        if entries > 10_000 && !has_room(bytes as u64) {
            println!("{:>7} are left out: there is no room for them in memory", thousands(entries));
            continue;
        }
        usual.grow(entries);
        row(&usual, &mut budgets);
    }
    calls(&usual);
    for bytes in [2 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20] {
        let mut setting = Setting::new(bytes);
        setting.grow(((64 << 20) / bytes).min(1000));
        row(&setting, &mut budgets);
    }
    budgets.settle();
}

fn row(setting: &Setting, budgets: &mut Budgets) {
    let Setting { kernel, keys, .. } = setting;
    let (needed, read_bytes) = (kernel.needed().len(), setting.file_bytes());
    let paths = setting.paths();
    let [mut one, mut two, mut three] = [1, 2, 3].map(|seed| shuffled(keys.len(), seed));
    let each = ((256 << 10) / needed).clamp(1, 32);
    let turns = Turns::take(
        Duration::from_millis(1500),
        [
            &mut || time(|| (0..each).for_each(|_| setting.bare(one()))) / each as u32,
            &mut || time(|| (0..each).for_each(|_| setting.packed(&paths, two()))) / each as u32,
            &mut || time(|| (0..each).for_each(|_| setting.hit(three()))) / each as u32,
        ],
    );
    let ratios @ [low, ratio, high] = turns.ratio(2, 1);
    let verdict = (kernel.object.len() == Kernel::USUAL).then(|| budgets.judge(ratios, BUDGET));
    let figure = Figure::new("store_hit", "hit").entries(keys.len()).bytes(kernel.object.len());
    let figure = figure.times(turns.median(2), turns.median(1)).ratio(ratios);
    figure.budget(format!("{BUDGET} times"), [ratio, BUDGET], verdict).note();
    let verdict = verdict.map_or("-".to_owned(), |verdict| format!("{BUDGET} {verdict}"));
    println!(
        "{:>7} {:>9} {:>9} {:>9} {:>9} {:>10.1?} {:>10.1?} {:>10.1?} {low:>5.2} {ratio:>5.2} {high:>5.2}  {verdict:<12} {:>8.2}",
        thousands(keys.len()),
        thousands(kernel.object.len()),
        thousands(read_bytes),
        thousands(needed),
        thousands(kernel.info.len()),
        turns.median(0),
        turns.median(1),
        turns.median(2),
        turns.ratio(2, 0)[1],
    );
}

/// The calls to the disk of a hit and a miss, without closing files.
fn calls(setting: &Setting) {
    let heard = Arc::new(Calls::default());
    let root = setting.directory.path().join("store");
    let store = open(config(&root, AMPLE).with_watcher(heard.clone()));
    // The first look at each directory checks it.
    setting.keys.iter().take(5000).for_each(|key| drop(store.get(key)));
    let mut next = shuffled(setting.keys.len().min(5000), 1);
    println!("        a hit: {}", heard.of(1000, || store.get(&setting.keys[next()])));
    let absent = Digest::of(b"absent");
    println!("        a miss: {}", heard.of(1000, || store.get(&absent)));
}

criterion_group!(benches, rows, table);
criterion_main!(benches);
