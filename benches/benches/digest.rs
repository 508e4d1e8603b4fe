//! Question: what does hashing cost: bytes, a file, and a structure of many fields?
//!
//! `bytes` is SHA-256 of that number of bytes; its floor adds them up as numbers, which is the cost of reading them,
//! and the bytes per second show whether the processor's SHA-256 instructions are used (above a gigabyte per second
//! they are). `file` is opened, read and hashed; its floor does the same with one read of exactly the right size.
//! `fields` hashes numbers and texts, each with its tag and length; its floor is SHA-256 of the same number of bytes.
//!
//! There are no budgets: those of hits and keys include these.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

use std::fs::File;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use opkeep_benches::{Figure, Kernel, Turns, directory, read, thousands, time, write};
use opkeep_digest::{Digest, Hasher};

const SIZES: [usize; 6] = [2 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
const FIELDS: [usize; 3] = [10, 100, 1000];
/// A text between two numbers.
const TEXT: &str = "float32";

fn rows(c: &mut Criterion) {
    let mut group = c.benchmark_group("digest");
    group.sample_size(20).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
    for bytes in [8 << 10, 1 << 20] {
        let object = Kernel::new(bytes).object;
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::new("floor: touch", bytes), |b| b.iter(|| touch(&object)));
        group.bench_function(BenchmarkId::new("bytes", bytes), |b| b.iter(|| Digest::of(&object)));
    }
    group.finish();
}

/// The sum of its words.
fn touch(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
    words.fold(0, u64::wrapping_add)
}

/// Numbers and texts, alternating.
fn fields(count: usize) -> Digest {
    let mut hasher = Hasher::new("bench");
    for at in 0..count {
        if at % 2 == 0 { hasher.u64(black_box(at as u64)) } else { hasher.str(black_box(TEXT)) }
    }
    hasher.finish()
}

/// The number of bytes in those fields.
fn bytes_of(count: usize) -> usize {
    count.div_ceil(2) * 8 + count / 2 * TEXT.len()
}

fn table(_: &mut Criterion) {
    println!("ratios are to the floor: lower quartile, median, upper quartile of the turns");
    println!(
        "{:<8} {:>8} {:>10} {:>10} {:>10} {:>18} {:>7}",
        "", "fields", "bytes", "floor", "ours", "ratio", "MB/s"
    );
    let directory = directory().unwrap();
    let path = directory.path().join("object");
    for bytes in SIZES {
        let object = Kernel::new(bytes).object;
        row("bytes", 1, bytes, &mut || _ = black_box(touch(&object)), &mut || {
            _ = black_box(Digest::of(black_box(&object)));
        });
        write(&path, &object).unwrap();
        let whole = || _ = black_box(Digest::of(&read(&path).unwrap()));
        row("file", 1, bytes, &mut { whole }, &mut || _ = black_box(of_file(&path)));
    }
    for count in FIELDS {
        let same = vec![7; bytes_of(count)];
        row("fields", count, same.len(), &mut || _ = black_box(Digest::of(black_box(&same))), &mut || {
            _ = black_box(fields(count));
        });
    }
}

fn of_file(path: &Path) -> Digest {
    #[expect(clippy::disallowed_methods, reason = "a file is what is measured")]
    Digest::of_reader(File::open(path).unwrap()).unwrap()
}

fn row(what: &str, fields: usize, bytes: usize, floor: &mut dyn FnMut(), ours: &mut dyn FnMut()) {
    let each = ((256 << 10) / bytes).clamp(1, 256) as u32;
    let turns = Turns::take(
        Duration::from_millis(300),
        [&mut || time(|| (0..each).for_each(|_| floor())) / each, &mut || {
            time(|| (0..each).for_each(|_| ours())) / each
        }],
    );
    let ratios @ [low, ratio, high] = turns.ratio(1, 0);
    let (took, floor) = (turns.median(1), turns.median(0));
    let figure = Figure::new("digest", what).entries(fields).bytes(bytes).times(took, floor);
    figure.ratio(ratios).note();
    println!(
        "{what:<8} {:>8} {:>10} {floor:>10.1?} {took:>10.1?} {low:>6.2} {ratio:>5.2} {high:>5.2} {:>7.0}",
        thousands(fields),
        thousands(bytes),
        bytes as f64 / took.as_secs_f64() / 1e6,
    );
}

criterion_group!(benches, rows, table);
criterion_main!(benches);
