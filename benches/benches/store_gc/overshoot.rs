//! The amount by which a limit is exceeded.
//!
//! Each process watches its own calls to the disk, and logs the time and the size of writes and deletions. All logs
//! together, sorted by time, give the store's size at any time, without gaps between samples. Every new entry is idle
//! at once, so only the writers keep the store below its limit.
//!
//! No process waits for the one that evicts. A process reports its puts to the others after 64 puts or 16 MiB, so each
//! may exceed the limit by that amount. With a put every 10 ms, ten times the rate of a compiler, eviction keeps pace.
//! In the rows without a pause, the processes put faster than any process can delete until they are done: those rows
//! show the worst case, and have no budget.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use opkeep_benches::{Budgets, Figure, Kernel, bare_walk, directory, is_measured, thousands};
use opkeep_fs::{FsCall, FsOp, Permit, Watcher};

use crate::common::{child, config, draft, idle, key, open};

/// The size of objects, the limit in MB, of which half is left, and the time between two puts.
const CASES: [(usize, u64, Duration); 3] =
    [(8 << 10, 2, PAUSE), (256 << 10, 16, PAUSE), (8 << 10, 2, Duration::ZERO)];
const UNSAID_PUTS: u64 = 64;
const UNSAID_BYTES: u64 = 16 << 20;
const PAUSE: Duration = Duration::from_millis(10);
/// The number of puts of each process.
const PUTS: u64 = 200;

/// The times and sizes of writes (positive) and deletions (negative).
#[derive(Default)]
struct Log(Mutex<Vec<(u128, i64)>>);

impl Watcher for Log {
    fn before(&self, call: &FsCall<'_>) -> Permit {
        let begins = |path: &Path, start| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(start))
        };
        let bytes = match call.op {
            FsOp::Write if begins(call.path, "put-") => call.bytes as i64,
            // All entries have one size. The next one that is moved to this name replaces the previous one.
            FsOp::Rename if call.to.is_some_and(|to| begins(to, "evict-")) => -1,
            _ => return Permit::Go,
        };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
        self.0.lock().unwrap().push((now, bytes));
        Permit::Go
    }
}

/// Puts entries, and prints its log.
pub(crate) fn other_process(arguments: &[String]) {
    let [root, process, megabytes, puts, object_bytes, pause] = arguments else { panic!("{arguments:?}") };
    let number = |text: &String| text.parse::<u64>().unwrap();
    let kernel = Kernel::new(number(object_bytes) as usize);
    let log = Arc::new(Log::default());
    let config = idle(config(Path::new(root), number(megabytes)));
    let store = open(config.with_watcher(log.clone()));
    for put in 0..number(puts) {
        store.put(&key(number(process) << 32 | put), &draft(&kernel)).unwrap();
        thread::sleep(Duration::from_micros(number(pause)));
    }
    drop(store);
    let log = log.0.lock().unwrap();
    log.iter().for_each(|(when, bytes)| println!("{when} {bytes}"));
}

/// The peak size of the store, and the numbers of entries that were put and that are left.
fn run(processes: u64, puts: u64, (object_bytes, megabytes, pause): (usize, u64, Duration)) -> [u64; 3] {
    let directory = directory().unwrap();
    let argument = |process: u64| {
        let root = directory.path().to_str().unwrap().to_owned();
        let numbers = [process, megabytes, puts, object_bytes as u64, pause.as_micros() as u64];
        [root].into_iter().chain(numbers.map(|number| number.to_string())).collect::<Vec<_>>()
    };
    let children: Vec<_> = (0..processes).map(|process| child(&argument(process)).spawn().unwrap()).collect();
    let mut events: Vec<(u128, i64)> = Vec::new();
    for mut child in children {
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let (when, bytes) = line.split_once(' ').unwrap();
            events.push((when.parse().unwrap(), bytes.parse().unwrap()));
        }
        assert!(child.wait().unwrap().success());
    }
    events.sort_unstable();
    let entry = events.iter().map(|(_, bytes)| *bytes).max().unwrap();
    let (mut now, mut most, mut put) = (0, 0, 0);
    for (_, bytes) in events {
        now += if bytes < 0 { -entry } else { bytes };
        put += bytes.max(0);
        most = most.max(now);
    }
    // The logs are right only if they give what is there at the end.
    let an_entry = open(config(directory.path(), megabytes)).path(&key(0));
    let (_, there) = bare_walk(an_entry.ancestors().nth(2).unwrap()).unwrap();
    let [most, put, now] = [most, put, now].map(|bytes| u64::try_from(bytes).unwrap());
    assert_eq!(there, now, "the bytes that are there, and by the logs");
    [most, put, now]
}

pub(crate) fn table(budgets: &mut Budgets) {
    println!("processes that put {PUTS} entries each");
    println!(
        "{:>9} {:>9} {:>7} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}  budget",
        "processes", "object", "pause", "limit", "put", "left", "most", "over by", "allowed"
    );
    for case @ (object_bytes, megabytes, pause) in CASES {
        for processes in if is_measured() { vec![1, 2, 4, 8] } else { vec![2] } {
            let puts = if is_measured() { PUTS } else { 10 };
            let [most, put, left] = run(processes, puts, case);
            let (limit, entry) = (megabytes << 20, put / (processes * puts));
            let unsaid = (UNSAID_PUTS * entry).min(UNSAID_BYTES + entry);
            let (over, allowed) = (most.saturating_sub(limit), processes * unsaid);
            let verdict = (!pause.is_zero()).then(|| budgets.judge_count(over, allowed));
            let row = format!("over the limit, {processes} processes, a put every {pause:.0?}");
            let figure = Figure::new("store_gc", row).bytes(entry as usize).value("B", over as f64);
            let limits = [over, allowed].map(|bytes| bytes as f64);
            figure.budget(format!("{} bytes", thousands(allowed)), limits, verdict).note();
            println!(
                "{processes:>9} {:>9} {pause:>7.0?} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}  {}",
                thousands(object_bytes),
                thousands(limit),
                thousands(put),
                thousands(left),
                thousands(most),
                thousands(over),
                thousands(allowed),
                verdict.unwrap_or("-"),
            );
        }
    }
}
