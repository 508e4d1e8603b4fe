//! One of many processes that get and put at the same time.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use opkeep_digest::Digest;
use opkeep_store::TargetStore;
use serde_json::{Value, json};

use crate::entries::{Maker, Numbers, key};
use crate::operations::{Got, Options, look_up};

/// The operations of a worker, and their results.
#[derive(Default)]
struct Counts {
    gets: u64,
    puts: u64,
    hits: u64,
    misses: u64,
    torn: u64,
    errors: u64,
}

pub(crate) fn worker(options: &Options) -> Result<Value, String> {
    let (n, id): (u64, u64) = (options.number("n", 1000)?, options.number("id", 0)?);
    let (seconds, start_at): (f64, f64) = (options.number("seconds", 3.0)?, options.number("start-at", 0.0)?);
    let (store, maker) = (options.open()?, Maker::new());
    let keys: Vec<Digest> = (0..n).map(key).collect();
    let mut numbers = Numbers(id + 7);
    while since_1970().as_secs_f64() < start_at {
        thread::sleep(Duration::from_micros(200));
    }
    let with_info = options.with_info;
    let (mut counts, start) = (Counts::default(), Instant::now());
    while start.elapsed().as_secs_f64() < seconds {
        step(&store, &maker, &keys, with_info, &mut numbers, &mut counts);
    }
    let seconds = start.elapsed().as_secs_f64();
    let Counts { gets, puts, hits, misses, torn, errors } = counts;
    Ok(json!({
        "op": "worker", "id": id, "gets": gets, "puts": puts, "hits": hits, "misses": misses, "torn": torn,
        "errors": errors, "seconds": seconds,
    }))
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A missing entry that all processes request: another one every 5 ms.
fn hot() -> u64 {
    5_000_000 + u64::try_from(since_1970().as_millis()).unwrap_or_default() / 5 % 1_000_000
}

/// Of ten steps, one puts a known entry again, one puts a hot one, one gets a hot one, and seven get a known one.
fn step(
    store: &TargetStore,
    maker: &Maker,
    keys: &[Digest],
    with_info: bool,
    numbers: &mut Numbers,
    counts: &mut Counts,
) {
    let (hot, dice, known) = (hot(), numbers.below(10), numbers.below(keys.len() as u64));
    if dice < 2 {
        let made = maker.make(if dice == 0 { known } else { hot });
        match store.put(&made.key, &made.draft()) {
            Ok(_) => counts.puts += 1,
            Err(_) => counts.errors += 1,
        }
        return;
    }
    counts.gets += 1;
    let is_hot = dice == 9;
    let number = if is_hot { hot } else { known };
    let key = if is_hot { key(hot) } else { keys[usize::try_from(known).unwrap_or(0)] };
    match look_up(store, number, &key, with_info) {
        Got::Whole(_) => counts.hits += 1,
        Got::Damaged => counts.torn += 1,
        Got::Absent if is_hot => counts.misses += 1,
        Got::Absent | Got::Io => counts.errors += 1,
    }
}
