//! Question: which costs of the store can be counted, independent of the machine's speed: allocations, reads and
//! writes, and peak memory?
//!
//! Each row is a separate process, with a store of that number of entries: files of one byte, since none of these
//! operations reads them. `heap` is the peak of allocated memory, as counted by the allocator; `resident` is the growth
//! of the process (`VmHWM`), in whole pages. Reads and writes are the kernel's own counts.
//!
//! Budgets: opening a store of 100 000 entries takes at most 5 MB, and a hit reads once. The allocations of a hit, and
//! the memory for opening 1 000 entries, are shown for comparison. `-- --most 100000` leaves out the rows that take a
//! minute.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

mod common;

use std::hint::black_box;
use std::path::Path;

use common::{AMPLE, child, config, draft, fill, idle, key, open};
use opkeep_benches::{
    Budgets, Figure, Kernel, directory, has_room, is_measured, most_resident, reads_and_writes, remove,
    thousands,
};
use opkeep_digest::Digest;
use opkeep_store::{GcOptions, Lookup, TargetStore};
use opkeep_testkit::{Counting, allocations, most_bytes};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The key of an entry that is looked up.
const KEY: Digest = Digest::from_bytes([7; 32]);
/// A multiple of the number of puts that are recorded together.
const PUTS: usize = 640;
/// The memory that opening a store may take.
const OPEN_BYTES: u64 = 5_000_000;

fn main() {
    if let Some(arguments) = common::child_arguments() {
        return other_process(&arguments);
    }
    let mut budgets = Budgets::default();
    println!(
        "{:>9} {:<28} {:>11} {:>13} {:>7} {:>7} {:>12}  budget",
        "entries", "", "allocations", "heap", "reads", "writes", "resident"
    );
    let directory = directory().unwrap();
    let store = open(config(directory.path(), AMPLE));
    let sizes = if is_measured() { [1000, 100_000, 1_000_000] } else { [10, 20, 30] };
    let most = most();
    let mut there = 0;
    for entries in sizes.into_iter().filter(|entries| *entries <= most) {
        // In memory, an empty file takes a kilobyte, and another file a page more.
        if !has_room(entries * (5 << 10)) {
            println!("{:>9} are left out: there is no room for them in memory", thousands(entries));
            break;
        }
        fill(&store, there, entries);
        there = entries;
        for what in ["open", "hit", "miss", "put", "gc, all in use", "gc, all idle", "gc, half to go"] {
            row(directory.path(), what, entries, &mut budgets);
        }
    }
    budgets.settle();
}

/// The largest number of entries: the argument after `--most`.
fn most() -> u64 {
    let number = std::env::args().skip_while(|argument| argument != "--most").nth(1);
    number.map_or(u64::MAX, |number| number.parse().unwrap())
}

fn row(root: &Path, what: &str, entries: u64, budgets: &mut Budgets) {
    let arguments = [what.to_owned(), root.to_str().unwrap().to_owned(), entries.to_string()];
    let output = child(&arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let numbers: Vec<f64> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [allocations, heap, reads, writes, resident] = numbers[..] else { panic!("{text}") };
    let figure = |of: &str| Figure::new("store_counts", format!("{what}: {of}")).entries(entries as usize);
    figure("pieces of memory").value("", allocations).note();
    let verdict = match what {
        "open" => {
            let allowed = format!("{} bytes", thousands(OPEN_BYTES));
            let verdict = budgets.judge_count(heap.max(resident) as u64, OPEN_BYTES);
            figure("memory")
                .value("B", heap.max(resident))
                .budget(&allowed, [heap.max(resident), OPEN_BYTES as f64], verdict)
                .note();
            format!("{allowed} {verdict}")
        }
        "hit" => {
            let verdict = budgets.judge([reads; 3], 1.0);
            figure("reads").value("", reads).budget("1", [reads, 1.0], verdict).note();
            format!("1 read {verdict}")
        }
        _ => "-".to_owned(),
    };
    println!(
        "{:>9} {what:<28} {allocations:>11.2} {:>13} {reads:>7.2} {writes:>7.2} {:>12}  {verdict}",
        thousands(entries),
        thousands(heap as u64),
        thousands(resident as u64),
    );
}

/// Counts, and prints the counts.
fn other_process(arguments: &[String]) {
    let [what, root, entries] = arguments else { panic!("{arguments:?}") };
    let root = Path::new(root);
    let everything = |store: &TargetStore| store.gc(&GcOptions::default()).unwrap();
    match what.as_str() {
        "open" => print(1, || open(config(root, AMPLE))),
        "hit" | "miss" => {
            let (store, kernel) = (open(config(root, AMPLE)), Kernel::new(Kernel::USUAL));
            store.put(&KEY, &draft(&kernel)).unwrap();
            // The first hit checks its directory.
            assert!(matches!(store.get(&KEY), Lookup::Hit(_)));
            let wanted = if what == "hit" { KEY } else { Digest::of(b"absent") };
            print(1000, || store.get(&wanted));
            remove(&store.path(&KEY)).unwrap();
        }
        "put" => {
            let (store, kernel) = (open(config(root, AMPLE)), Kernel::new(Kernel::USUAL));
            let (mut keys, draft) = (Vec::with_capacity(PUTS), draft(&kernel));
            print(PUTS, || {
                keys.push(key(u64::MAX / 2 + keys.len() as u64));
                store.put(&keys[keys.len() - 1], &draft).unwrap()
            });
            keys.iter().for_each(|key| remove(&store.path(key)).unwrap());
        }
        "gc, all in use" => {
            let store = open(config(root, AMPLE));
            print(1, || everything(&store));
        }
        "gc, all idle" => {
            let store = open(idle(config(root, AMPLE)));
            print(1, || everything(&store));
        }
        "gc, half to go" => {
            let store = open(idle(config(root, AMPLE)));
            let half = entries.parse::<u64>().unwrap() / 2;
            let half = GcOptions::default().with_max_bytes(half).with_dry_run(true);
            print(1, || store.gc(&half).unwrap());
        }
        other => panic!("{other}"),
    }
}

/// Runs `run` that many times, and prints the mean of its counts, and the peak of its memory.
fn print<T>(times: usize, mut run: impl FnMut() -> T) {
    // Reading the counts is counted, too.
    let [first, second] = [reads_and_writes().unwrap(), reads_and_writes().unwrap()];
    let resident = most_resident().unwrap();
    let io = reads_and_writes().unwrap();
    let (((), heap), pieces) = allocations(|| most_bytes(|| (0..times).for_each(|_| drop(black_box(run())))));
    let (io_after, resident_after) = (reads_and_writes().unwrap(), most_resident().unwrap());
    let each = |at: usize| (io_after[at] - io[at] - (second[at] - first[at])) as f64 / times as f64;
    let resident = resident_after - resident;
    println!("{} {heap} {} {} {resident}", pieces as f64 / times as f64, each(0), each(1));
}
