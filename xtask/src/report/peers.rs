//! Hits of other caches beside opkeep's, from a run of the harness that measures them all.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::figures::{Outcome, share, thousands};

/// The part of a run that is saved.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Peers {
    /// The time of the run, and the number of processors, as the harness states them.
    time: String,
    cores: u64,
    kernel: String,
    /// The load at its start.
    load: Option<f64>,
    /// For each contender and number of entries, the median of a hit in microseconds.
    hits: BTreeMap<String, BTreeMap<u64, f64>>,
}

/// The name of opkeep on the harness's command line: `--contender 'ours=...'`.
const OURS: &str = "ours";

/// The harness's locations for entries, the fastest first.
const MEDIA: [&str; 2] = ["shm", "disk"];

/// Another cache, the number of entries, and the bound: its time divided by opkeep's is at least that.
const BOUNDS: &[(&str, u64, f64, &str)] = &[
    ("triton FileCacheManager", 1000, 6.0, "6 times faster"),
    ("JAX LRUCache max_size set", 1000, 15.0, "15 times faster"),
    ("NVIDIA cuda.core FileStreamProgramCache", 1000, 2.5, "2.5 times faster"),
    ("cacache-rs 1 blob", 1000, 1.5, "1.5 times faster"),
    ("python diskcache (SQLite)", 1000, 1.0 / 1.3, "at most 1.3 times as long"),
    ("python diskcache (SQLite)", 10_000, 1.0, "faster"),
];

/// Caches that return entries unchecked.
const UNCHECKED: [&str; 2] = ["triton FileCacheManager", "python diskcache (SQLite)"];

/// Shown for scale.
const FLOOR: &str = "floor1 (Rust, 1 packed file + sha256)";

/// One comparison.
#[derive(Debug, PartialEq)]
pub(crate) struct Compared {
    pub(crate) with: String,
    pub(crate) bound: &'static str,
    /// The times of opkeep and of the other cache in microseconds, and their ratio.
    pub(crate) times: Option<(f64, f64, f64)>,
    /// The difference to the bound, relative to it.
    short: f64,
    pub(crate) outcome: Outcome,
}

impl Compared {
    /// Whether the bound is met, and if not, by how much it is missed.
    pub(crate) fn met(&self) -> String {
        match self.outcome {
            Outcome::NotMeasured => "not measured: not in that run".to_owned(),
            Outcome::Met => "yes".to_owned(),
            Outcome::Missed | Outcome::JustAbout => format!("**no**, {} short", share(self.short * 100.0)),
        }
    }
}

impl Peers {
    /// Reads the harness's results. Of several locations, memory counts before the disk, if opkeep was measured there.
    pub(crate) fn of_results(text: &str) -> Result<Self, String> {
        let results: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let contenders = results["inproc"].as_object().ok_or("there is no `inproc`")?;
        if !contenders.contains_key(OURS) {
            return Err(format!(
                "there is no contender `{OURS}`; run it with `--contender 'ours=.../peer store'`"
            ));
        }
        let median = |name: &str, medium: &str, entries: &str| {
            contenders[name][medium][entries]["get"]["median_us"].as_f64()
        };
        let counts = |medium: &str, entries: &str| {
            let ours = MEDIA.into_iter().find(|medium| median(OURS, medium, entries).is_some());
            ours.is_none_or(|ours| ours == medium)
        };
        let mut hits: BTreeMap<String, BTreeMap<u64, f64>> = BTreeMap::new();
        for (name, media) in contenders {
            let found = hits.entry(name.clone()).or_default();
            for medium in MEDIA {
                let sizes = media[medium].as_object().into_iter().flatten().map(|(entries, _)| entries);
                for entries in sizes.filter(|entries| counts(medium, entries)) {
                    if let (Ok(size), Some(median)) = (entries.parse(), median(name, medium, entries)) {
                        found.entry(size).or_insert(median);
                    }
                }
            }
        }
        let text = |name: &str| results[name].as_str().unwrap_or("?").to_owned();
        let cores = results["cores"].as_u64().unwrap_or(0);
        let load = results["loadavg_start"].as_f64().or_else(|| results["loadavg_start"][0].as_f64());
        Ok(Self { time: text("time"), cores, kernel: text("kernel"), load, hits })
    }

    pub(crate) fn to_json(&self) -> Value {
        let Self { time, cores, kernel, load, hits } = self;
        json!({ "time": time, "cores": cores, "kernel": kernel, "load": load, "hit_median_us": hits })
    }

    /// Parses the text of [`to_json`](Self::to_json).
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let saved: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let entries = |times: &Value| {
            let times = times.as_object()?.iter();
            times.map(|(entries, time)| Some((entries.parse().ok()?, time.as_f64()?))).collect::<Option<_>>()
        };
        let hits = || {
            let hits = saved["hit_median_us"].as_object()?.iter();
            hits.map(|(name, times)| Some((name.clone(), entries(times)?))).collect::<Option<_>>()
        };
        let text = |name: &str| saved[name].as_str().unwrap_or("?").to_owned();
        let (time, kernel, cores) = (text("time"), text("kernel"), saved["cores"].as_u64().unwrap_or(0));
        let load = saved["load"].as_f64();
        Ok(Self { time, cores, kernel, load, hits: hits().ok_or("there is no `hit_median_us` of numbers")? })
    }

    /// A message if other work disturbed the run.
    pub(crate) fn noise(&self) -> Option<String> {
        let load = self.load.filter(|load| *load > self.cores as f64)?;
        Some(format!("the load was {load:.2} before it began, on {} processors", self.cores))
    }

    /// The machine and the time of the run.
    pub(crate) fn run(&self) -> String {
        format!("{}, {} processors, Linux {}", self.time, self.cores, self.kernel)
    }

    /// The hits of opkeep and of the floor with 1 000 entries.
    pub(crate) fn ours_and_floor(&self) -> (Option<f64>, Option<f64>) {
        (self.hit(OURS, 1000), self.hit(FLOOR, 1000))
    }

    /// Hits with 1 000 entries in seconds: opkeep, the floor, then the others from the fastest on.
    pub(crate) fn bars(&self) -> Vec<(String, f64)> {
        let of = |name: &str, shown: &str| {
            let checks = if UNCHECKED.contains(&name) { ", no checks" } else { "" };
            Some((format!("{shown}{checks}"), self.hit(name, 1000)? / 1e6))
        };
        let others = BOUNDS.iter().filter(|(_, entries, ..)| *entries == 1000);
        let mut others: Vec<_> = others.filter_map(|(name, ..)| of(name, name)).collect();
        others.sort_by(|(_, one), (_, other)| one.total_cmp(other));
        let ours = [of(OURS, "opkeep, all checks"), of(FLOOR, "floor: open, read, SHA-256")];
        match ours {
            [Some(ours), Some(floor)] => [ours, floor].into_iter().chain(others).collect(),
            _ => Vec::new(),
        }
    }

    fn hit(&self, name: &str, entries: u64) -> Option<f64> {
        self.hits.get(name)?.get(&entries).copied()
    }

    pub(crate) fn compared(&self) -> Vec<Compared> {
        let compared = |&(name, entries, least, bound): &(&str, u64, f64, &'static str)| {
            let times = self.hit(OURS, entries).zip(self.hit(name, entries));
            let times = times.map(|(ours, theirs)| (ours, theirs, theirs / ours));
            let short = times.map_or(0.0, |(.., factor)| 1.0 - factor / least);
            let outcome = match times {
                None => Outcome::NotMeasured,
                Some(_) if short <= 0.0 => Outcome::Met,
                Some(_) => Outcome::Missed,
            };
            Compared { with: title(name, entries), bound, times, short, outcome }
        };
        BOUNDS.iter().map(compared).collect()
    }

    /// The names of all comparisons.
    pub(crate) fn names() -> impl Iterator<Item = String> {
        BOUNDS.iter().map(|(name, entries, ..)| title(name, *entries))
    }
}

fn title(name: &str, entries: u64) -> String {
    format!("{name}, N = {}", thousands(entries))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULTS: &str = r#"{"time":"2026-11-20T10:00:00Z","cores":2,"kernel":"6.1","loadavg_start":2.5,"inproc":{
        "ours":{"shm":{"1000":{"get":{"median_us":10.0}}},"disk":{"1000":{"get":{"median_us":99.0}},
                "10000":{"get":{"median_us":11.0}}}},
        "triton FileCacheManager":{"shm":{"1000":{"get":{"median_us":59.0}}}},
        "cacache-rs 1 blob":{"shm":{"1000":{"get":{"median_us":15.0}}}},
        "python diskcache (SQLite)":{"shm":{"1000":{"get":{"median_us":8.0}}},"disk":{"10000":{"get":{"failed":"x"}}}}}}"#;

    #[test]
    fn factors_are_judged_by_their_bounds() {
        let peers = Peers::of_results(RESULTS).unwrap();
        let met: Vec<String> = peers.compared().iter().map(Compared::met).collect();
        let missing = "not measured: not in that run";
        assert_eq!(met, ["**no**, 2 % short", missing, missing, "yes", "yes", missing]);
        assert_eq!(peers.compared()[3].times, Some((10.0, 15.0, 1.5)));
        assert_eq!(peers.hit("ours", 10_000), Some(11.0));
    }

    #[test]
    fn only_figures_of_one_location_are_compared() {
        let others = RESULTS.replace("1 blob\":{\"shm\"", "1 blob\":{\"disk\"");
        let compared = Peers::of_results(&others).unwrap().compared();
        assert_eq!(compared[3].times, None, "ours is of the memory, and theirs of the disk");
    }

    #[test]
    fn a_small_miss_is_not_shown_as_zero() {
        let close = RESULTS.replace("59.0", "59.9");
        assert_eq!(Peers::of_results(&close).unwrap().compared()[0].met(), "**no**, 0.2 % short");
    }

    #[test]
    fn bars_are_ours_the_floor_and_then_the_others_by_time() {
        let peers = Peers::of_results(RESULTS).unwrap();
        assert_eq!(peers.bars(), []);
        let floor =
            format!("{{\"{FLOOR}\":{{\"shm\":{{\"1000\":{{\"get\":{{\"median_us\":9.0}}}}}}}},\"ours\"");
        let bars = Peers::of_results(&RESULTS.replace("{\n        \"ours\"", &floor)).unwrap().bars();
        let names: Vec<&str> = bars.iter().map(|(name, _)| name.split(' ').next().unwrap()).collect();
        assert_eq!(names, ["opkeep,", "floor:", "python", "cacache-rs", "triton"]);
        assert_eq!(bars[0].1, 1e-5);
    }

    #[test]
    fn a_saved_run_reads_back() {
        let peers = Peers::of_results(RESULTS).unwrap();
        assert_eq!(Peers::parse(&peers.to_json().to_string()), Ok(peers.clone()));
        assert!(peers.noise().unwrap().contains("load was 2.50"));
        assert_eq!(Peers { load: Some(2.0), ..peers }.noise(), None);
        assert!(Peers::parse("{}").is_err());
    }

    #[test]
    fn a_run_without_opkeep_names_the_missing_argument() {
        let message = Peers::of_results(&RESULTS.replace("\"ours\"", "\"others\"")).unwrap_err();
        assert!(message.contains("--contender 'ours="), "{message}");
    }
}
