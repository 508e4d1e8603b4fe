//! Question: what does it cost to put a store into a bundle and to take it out again, beside a program that compresses the same files
//! in one stream, and one that decompresses them and writes each?
//!
//! The store has kernels of 15 KiB, of which each differs from the others in a quarter of its object. The floor of an export reads
//! the files of the entries and compresses them with the same library and level; it hashes nothing and checks nothing. The floor of
//! an import decompresses them, and writes, syncs and renames a file for each, as a put does. All take turns.
//!
//! Kernels are not judged here: that is the caller's, and has a benchmark of its own (`validate`).
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

mod common;

use std::cell::Cell;
use std::io::{Cursor, Read};
use std::path::PathBuf;
use std::time::Duration;

use common::{AMPLE, config, key, open};
use criterion::{Criterion, criterion_group, criterion_main};
use opkeep_benches::{
    Figure, Kernel, Turns, directory, is_measured, publish, read, remove, remove_directory, thousands, time,
};
use opkeep_bundle::{BundleReader, BundleWriter};
use opkeep_digest::Digest;
use opkeep_store::{EntryBuilder, Lookup, TargetStore};
use tempfile::TempDir;

const ENTRIES: u64 = 500;

/// A store of similar kernels.
fn store(directory: &TempDir, entries: u64) -> (TargetStore, Vec<Digest>) {
    let (kernel, store) = (Kernel::new(Kernel::USUAL), open(config(&directory.path().join("store"), AMPLE)));
    for number in 0..entries {
        let mut object = kernel.object.clone();
        let length = object.len();
        let mut seed = key(number);
        for chunk in object[..length / 4].chunks_mut(32) {
            chunk.copy_from_slice(&seed.as_bytes()[..chunk.len()]);
            seed = Digest::of(seed.as_bytes());
        }
        let builder = EntryBuilder::new(1).eager("json", &kernel.json).eager("object", &object);
        store.put(&key(number), &builder.lazy("info", &kernel.info)).unwrap();
    }
    let keys = store.keys(usize::MAX);
    (store, keys)
}

fn export(store: &TargetStore, keys: &[Digest]) -> Vec<u8> {
    let mut writer = BundleWriter::new(Vec::new(), None, None).unwrap();
    for key in keys {
        let Lookup::Hit(entry) = store.peek(key) else { unreachable!() };
        writer.add("bench", &entry).unwrap();
    }
    writer.finish().unwrap().out
}

fn import(bundle: &[u8], store: &TargetStore) {
    let mut reader = BundleReader::open(Cursor::new(bundle)).unwrap();
    for number in 0..reader.index().block_count() {
        let block = reader.read_block(number).unwrap().decompress().unwrap();
        for place in 0..block.entries().len() {
            let entry = block.entry(place).unwrap();
            store.put(entry.key(), &entry.to_builder()).unwrap();
        }
    }
}

/// Compresses files in one stream, each behind its length.
fn compress(files: &[PathBuf]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    encoder.window_log(23).unwrap();
    encoder.long_distance_matching(true).unwrap();
    for file in files {
        let bytes = read(file).unwrap();
        std::io::Write::write_all(&mut encoder, &(bytes.len() as u64).to_le_bytes()).unwrap();
        std::io::Write::write_all(&mut encoder, &bytes).unwrap();
    }
    encoder.finish().unwrap()
}

/// Decompresses such a stream, and writes each file.
fn decompress(compressed: &[u8], directory: &TempDir) {
    let mut decoder = zstd::Decoder::new(compressed).unwrap();
    for number in 0.. {
        let mut length = [0; 8];
        if decoder.read_exact(&mut length).is_err() {
            break;
        }
        let mut bytes = vec![0; u64::from_le_bytes(length) as usize];
        decoder.read_exact(&mut bytes).unwrap();
        let path = directory.path().join(format!("file-{number}"));
        publish(directory.path(), &path, &bytes).unwrap();
        remove(&path).unwrap();
    }
}

fn table(_: &mut Criterion) {
    let directory = directory().unwrap();
    let entries = if is_measured() { ENTRIES } else { 20 };
    let (full, keys) = store(&directory, entries);
    let files: Vec<PathBuf> = keys.iter().map(|key| full.path(key)).collect();
    let bytes: usize = files.iter().map(|file| read(file).unwrap().len()).sum();
    let (bundle, compressed) = (export(&full, &keys), compress(&files));
    let run = Cell::new(0);
    let imported = || {
        // A new target, whose directories do not count.
        run.update(|run| run + 1);
        let root = directory.path().join(format!("import-{}", run.get()));
        let target = open(config(&root, AMPLE));
        let took = time(|| import(&bundle, &target));
        drop(target);
        remove_directory(&root).unwrap();
        took
    };
    let turns = Turns::take(
        Duration::from_secs(10),
        [
            &mut || time(|| compress(&files)),
            &mut || time(|| export(&full, &keys)),
            &mut || time(|| decompress(&compressed, &directory)),
            &mut || imported(),
        ],
    );
    println!(
        "{entries} entries of {} bytes together; compressed {}, as a bundle {}; {} turns",
        thousands(bytes),
        thousands(compressed.len()),
        thousands(bundle.len()),
        turns.count()
    );
    println!("{:>8} {:>10} {:>8} {:>10} {:>8} {:>19}", "", "floor", "MB/s", "time", "MB/s", "to the floor");
    for (row, floor, ours) in [("export", 0, 1), ("import", 2, 3)] {
        let ratios @ [low, ratio, high] = turns.ratio(ours, floor);
        let rate = |way| bytes as f64 / 1e6 / turns.median(way).as_secs_f64();
        let figure = Figure::new("bundle", row).entries(entries as usize).bytes(bytes);
        figure.times(turns.median(ours), turns.median(floor)).ratio(ratios).note();
        Figure::new("bundle", format!("{row}, throughput"))
            .entries(entries as usize)
            .values("MB/s", rate(ours), rate(floor))
            .note();
        println!(
            "{row:>8} {:>10.1?} {:>8.0} {:>10.1?} {:>8.0} {low:>6.2} {ratio:>5.2} {high:>5.2}",
            turns.median(floor),
            rate(floor),
            turns.median(ours),
            rate(ours),
        );
    }
}

criterion_group!(benches, table);
criterion_main!(benches);
