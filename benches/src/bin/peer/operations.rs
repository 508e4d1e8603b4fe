//! The operations of a single process: put, get, scan, evict.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use opkeep_digest::Digest;
use opkeep_fs::Clock;
use opkeep_store::{GcOptions, GcReport, LimitSettings, Lookup, Miss, Store, StoreConfig, TargetStore};
use serde_json::{Value, json};

use crate::entries::{Maker, Numbers, WHOLE, is_of, key};

/// The number of entries that `get` touches before it measures, as in the harness's own contenders.
const TOUCHED: u64 = 20_000;

/// The arguments after the operation.
pub(crate) struct Options {
    root: PathBuf,
    /// Whether a look-up requests the `.info`.
    pub(crate) with_info: bool,
    others: BTreeMap<String, String>,
}

impl Options {
    pub(crate) fn parse(arguments: &[String], with_info: bool) -> Result<Self, String> {
        let mut others = BTreeMap::new();
        for pair in arguments.chunks(2) {
            match pair {
                [name, value] if name.starts_with("--") => {
                    _ = others.insert(name[2..].to_owned(), value.clone())
                }
                _ => return Err(format!("found `{}`, expected `--name value`", pair.join(" "))),
            }
        }
        let root = others.remove("root").ok_or("`--root DIR` is missing")?.into();
        Ok(Self { root, with_info, others })
    }

    /// The number called `name`, or its default if it is missing.
    pub(crate) fn number<T: FromStr>(&self, name: &str, otherwise: T) -> Result<T, String> {
        let Some(text) = self.others.get(name) else { return Ok(otherwise) };
        text.parse().map_err(|_| format!("`--{name} {text}` is no number, or not one that fits"))
    }

    /// The store, with a limit that is not reached.
    pub(crate) fn open(&self) -> Result<TargetStore, String> {
        self.open_at(None)
    }

    /// The same, but every entry has been idle for half an hour: others may not be evicted.
    fn open_idle(&self) -> Result<TargetStore, String> {
        self.open_at(Some(Arc::new(HalfAnHourLater)))
    }

    fn open_at(&self, clock: Option<Arc<dyn Clock>>) -> Result<TargetStore, String> {
        let limits = LimitSettings::new().with_size(1 << 20);
        let mut config = StoreConfig::new(&self.root).with_limits(limits);
        config.clock = clock;
        Store::open(config).and_then(|store| store.target("peer")).map_err(|error| error.to_string())
    }
}

/// A clock that is ahead.
struct HalfAnHourLater;

impl Clock for HalfAnHourLater {
    fn now(&self) -> SystemTime {
        SystemTime::now() + Duration::from_secs(31 * 60)
    }
}

/// The result of a look-up, for the harness.
pub(crate) enum Got {
    /// All three bodies, with their size in bytes.
    Whole(usize),
    /// Wrong bytes were returned, or were found in the entry.
    Damaged,
    Absent,
    Io,
}

/// Looks up an entry and reads its bodies.
pub(crate) fn look_up(store: &TargetStore, number: u64, key: &Digest, with_info: bool) -> Got {
    let entry = match store.get(key) {
        Lookup::Hit(entry) => entry,
        Lookup::Miss(Miss::Absent) => return Got::Absent,
        Lookup::Miss(Miss::Damaged(_)) => return Got::Damaged,
        Lookup::Miss(_) => return Got::Io,
    };
    let (Some(json), Some(object)) = (entry.member("json"), entry.member("object")) else {
        return Got::Damaged;
    };
    let read = match with_info {
        true => match entry.lazy_member("info") {
            Ok(Some(info)) => json.len() + object.len() + info.len(),
            _ => return Got::Damaged,
        },
        // It was read into memory all the same, after the others.
        false => (entry.file_bytes() as usize).min(WHOLE),
    };
    if read == WHOLE && is_of(number, json, object) { Got::Whole(read) } else { Got::Damaged }
}

pub(crate) fn put(options: &Options) -> Result<Value, String> {
    let (start, n) = (options.number("start", 0)?, options.number("n", 1000)?);
    let (store, maker, mut times) = (options.open()?, Maker::new(), Times::default());
    let all = Instant::now();
    for number in start..start + n {
        let made = maker.make(number);
        let put = times.take(|| store.put(&made.key, &made.draft()));
        put.map_err(|error| error.to_string())?;
    }
    let line = json!({ "op": "put", "n": n, "total_s": all.elapsed().as_secs_f64() });
    Ok(times.add_to(line))
}

pub(crate) fn get(options: &Options) -> Result<Value, String> {
    let (n, lookups): (u64, u64) = (options.number("n", 1000)?, options.number("lookups", 5000)?);
    let (store, mut times) = (options.open()?, Times::default());
    let mut numbers = Numbers(options.number("seed", 1)?);
    let keys: Vec<Digest> = (0..n).map(key).collect();
    for (number, key) in (0..TOUCHED).zip(&keys) {
        look_up(&store, number, key, options.with_info);
    }
    let (mut hits, mut bytes) = (0, 0);
    for _ in 0..lookups {
        let number = numbers.below(n);
        let key = keys.get(usize::try_from(number).unwrap_or(usize::MAX)).ok_or("`--n` is 0")?;
        if let Got::Whole(read) = times.take(|| look_up(&store, number, key, options.with_info)) {
            (hits, bytes) = (hits + 1, bytes + read);
        }
    }
    Ok(times.add_to(json!({ "op": "get", "n": n, "hits": hits, "bytes": bytes })))
}

/// One walk over everything that removes nothing.
pub(crate) fn scan(options: &Options) -> Result<Value, String> {
    let store = options.open_idle()?;
    let options = GcOptions::default().with_dry_run(true).with_max_bytes(0);
    let (report, seconds) = gc(&store, &options)?;
    let entries = report.before.entries;
    Ok(json!({ "op": "scan", "entries": entries.files, "bytes": entries.bytes, "total_s": seconds }))
}

pub(crate) fn evict(options: &Options) -> Result<Value, String> {
    let bytes = options.number("target-bytes", 0)?;
    let store = options.open_idle()?;
    let options = GcOptions::default().with_max_bytes(bytes);
    let (report, seconds) = gc(&store, &options)?;
    let left = report.after.entries;
    Ok(json!({
        "op": "evict", "removed": report.removed.entries.files, "entries_left": left.files, "bytes_left": left.bytes,
        "total_s": seconds,
    }))
}

/// A report, and the seconds that it took.
fn gc(store: &TargetStore, options: &GcOptions) -> Result<(GcReport, f64), String> {
    let start = Instant::now();
    let report = store.gc(options).map_err(|error| error.to_string())?;
    let seconds = start.elapsed().as_secs_f64();
    match report {
        GcReport { busy: true, .. } => Err("another process evicts".to_owned()),
        GcReport { failure: Some(error), .. } => Err(error.to_string()),
        report => Ok((report, seconds)),
    }
}

/// Times of single calls.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn take<T>(&mut self, run: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = run();
        self.0.push(start.elapsed());
        result
    }

    /// `line` with percentiles in microseconds, or unchanged if nothing was timed.
    fn add_to(mut self, mut line: Value) -> Value {
        self.0.sort_unstable();
        let count = self.0.len();
        if count > 0 {
            let micros = |time: Duration| (time.as_secs_f64() * 1e8).round() / 100.0;
            let mean = self.0.iter().sum::<Duration>() / u32::try_from(count).unwrap_or(u32::MAX);
            line["samples"] = count.into();
            line["median_us"] = micros(self.0[(count - 1) / 2]).into();
            line["p99_us"] = micros(self.0[(count - 1) * 99 / 100]).into();
            line["mean_us"] = micros(mean).into();
            line["max_us"] = micros(self.0[count - 1]).into();
        }
        line
    }
}
