//! Question: what does it cost to check another program's cache of kernels, compared with reading and hashing the same
//! bytes?
//!
//! 10 000 kernels of 15 KiB, in MindSpore's form: an object of 9.6 KiB, a `.json`, a descriptor of 4.6 KiB. Both sides
//! read every file with all processors. Budget: 1.5 times. The table takes turns between both, so that a slowdown of
//! the machine affects both. It fails if the budget is broken.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{available_parallelism, scope};
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use opkeep_benches::{Budgets, Figure, Turns, directory, files_in, read, thousands, time};
use opkeep_digest::Digest;
use opkeep_framework_cache::scan::{ItemState, ScanOptions, find, scan};
use opkeep_testkit::caches::Rank;

const KERNELS: u32 = 10_000;
/// The size that makes a kernel of 15 KiB.
const CODE_BYTES: usize = 9_000;
const RATIO: f64 = 1.5;

fn threads() -> NonZeroUsize {
    available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// A rank's directory with the kernels; returns their size in bytes.
fn cache(base: &Path) -> u64 {
    let rank = Rank::new(0);
    let mut bytes = 0;
    for elements in 1..=KERNELS {
        let kernel = rank.own_square_of(elements, CODE_BYTES);
        kernel.write(&rank.dir(base)).unwrap();
        bytes += kernel.json.len() + kernel.object.len() + kernel.info.map_or(0, |info| info.len());
    }
    bytes as u64
}

/// Reads and hashes every file; returns their number.
fn floor(files: &[PathBuf]) -> usize {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = 0;
        while let Some(batch) = files.chunks(48).nth(next.fetch_add(1, Ordering::Relaxed)) {
            for file in batch {
                let bytes = read(file).unwrap();
                done += usize::from(Digest::of(&bytes) != Digest::of(b""));
            }
        }
        done
    };
    scope(|scope| {
        let helpers: Vec<_> = (1..threads().get()).map(|_| scope.spawn(run)).collect();
        run() + helpers.into_iter().map(|helper| helper.join().unwrap()).sum::<usize>()
    })
}

fn table(_: &mut Criterion) {
    let base = directory().unwrap();
    let bytes = cache(base.path());
    let place = find(base.path()).unwrap().caches.remove(0);
    let files = files_in(&place.path).unwrap();
    let options = ScanOptions::new(threads());
    let look = || {
        let scan = scan(&place, &options).unwrap();
        assert!(scan.items.iter().all(|item| matches!(item.state, ItemState::Intact)));
        assert_eq!(scan.items.len(), KERNELS as usize);
        scan
    };
    let turns = Turns::take(Duration::from_secs(8), [&mut || time(|| floor(&files)), &mut || time(look)]);
    let mut budgets = Budgets::default();
    let (ratios, each) = (turns.ratio(1, 0), |way| turns.median(way) / KERNELS);
    let verdict = budgets.judge(ratios, RATIO);
    let figure = Figure::new("verify_caches", "verify, each kernel").entries(KERNELS as usize);
    let figure = figure.bytes((bytes / u64::from(KERNELS)) as usize).times(each(1), each(0)).ratio(ratios);
    figure.budget(format!("{RATIO} times"), [ratios[1], RATIO], verdict).note();
    println!(
        "{} kernels of {:.1} KiB, {} threads: read and hashed {:.1?} each, verified {:.1?}, ratio {:.2}  {verdict}",
        thousands(KERNELS),
        bytes as f64 / f64::from(KERNELS) / 1024.0,
        threads(),
        each(0),
        each(1),
        ratios[1],
    );
    budgets.settle();
}

criterion_group!(benches, table);
criterion_main!(benches);
