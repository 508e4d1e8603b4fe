//! Records of builds: what each build did and when, for reports. The store keeps them, and bounds their number and size.
//!
//! A record has no path: its label is the caller's, such as the file name of a model. Kernels that were in the store are counted by
//! operator type, not listed, since a look-up takes microseconds.

pub(crate) mod path;
pub(crate) mod recorder;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use opkeep_store::{BuildRecordKind, Store, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version of the format. It is raised when a field changes its name, its type or its meaning, not when a field is added.
const SCHEMA: u32 = 1;
/// The maximum number of characters of a text.
const MAX_TEXT: usize = 200;
/// The maximum number of kernels in a record: those that failed, and those that took the longest.
const MAX_KERNELS: usize = 2000;
/// The maximum number of operator types with counts of their own: the longest names of so many leave place for kernels.
const MAX_OP_TYPES: usize = 256;
/// The maximum number of a thread, of anything that is counted, and of a time: greater ones in a file are not real, and any number
/// that is computed of these fits.
const MAX_WORKER: usize = 9999;
const MAX_COUNT: usize = 1 << 30;
const MAX_MICROS: u64 = 1_000_000_000_000_000;
const MAX_MILLIS: u64 = 999_999_999_999_999;

/// The record of one build. All times are microseconds; those of a step are since the beginning of the build.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct BuildRecord {
    /// The beginning, in Unix milliseconds.
    pub began_ms: u64,
    /// The duration.
    pub elapsed_us: u64,
    /// The host's name.
    pub host: String,
    /// The process's number on its host.
    pub process: u32,
    /// The caller's label.
    pub label: String,
    /// The backend's name.
    pub backend: String,
    /// The exact targets.
    pub targets: Vec<String>,
    /// The number of requests.
    pub operators: usize,
    /// The number of threads that build.
    pub threads: usize,
    /// The number of kernels with each outcome, by its name.
    pub counts: BTreeMap<String, usize>,
    /// The number of kernels from the remote tier.
    pub from_remote: usize,
    /// Whether the build was cancelled.
    pub cancelled: bool,
    /// The ends of the phases.
    pub phases: BuildPhases,
    /// The time in which no thread had anything to do but to wait.
    pub lost: LostTime,
    /// The kernels that were in the store, by operator type. At most 256 types: the others are counted under the empty one.
    pub hits: BTreeMap<String, RecordedHits>,
    /// All other kernels, by the times of their first attempts. At most 2,000: those that failed, and those that took the longest.
    pub kernels: Vec<RecordedKernel>,
    /// The number of other kernels that are left out.
    pub omitted: usize,
}

/// The ends of the phases of a build. What follows is the end of the build: syncing, uploads, the framework's directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct BuildPhases {
    /// All keys were known.
    pub planned_us: u64,
    /// All kernels were looked up in the store.
    pub looked_up_us: u64,
    /// The missing ones were looked up in the remote tier.
    pub fetched_us: u64,
    /// All kernels were built.
    pub made_us: u64,
}

/// The time that a build lost by waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LostTime {
    /// For other processes of this host.
    pub process_us: u64,
    /// For other hosts.
    pub host_us: u64,
    /// For the remote tier.
    pub remote_us: u64,
}

/// The kernels of one operator type that were in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RecordedHits {
    /// The number of kernels.
    pub kernels: usize,
    /// The time that their compiles took, as far as it is known.
    pub saved_us: u64,
}

/// A kernel of a build that was not in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RecordedKernel {
    /// The operator's type.
    pub op_type: String,
    /// The kernel's name.
    pub name: String,
    /// The kernel's key; `None` if the backend refused the job.
    pub key: Option<String>,
    /// The outcome's name.
    pub outcome: String,
    /// Whether the kernel came from the remote tier.
    pub from_remote: bool,
    /// The thread of the build that finished the kernel, from 0; `None` if the kernel came from the remote tier before the builds.
    pub worker: Option<usize>,
    /// The beginning of the first attempt.
    pub begin_us: u64,
    /// The beginning of the last attempt. Since the first one, the kernel waited for another process or host that built it.
    pub last_us: u64,
    /// The beginning of the compile. Since the last attempt began, the kernel waited for its lock and for a job token.
    pub compile_us: Option<u64>,
    /// The end: compiled, validated, published, and written to the framework's directory.
    pub end_us: u64,
    /// The duration of the compile, with validation.
    pub compile_time_us: Option<u64>,
    /// The time that the kernel's compile took elsewhere, if the kernel was found.
    pub saved_us: Option<u64>,
    /// Whether the last process that was waited for is on another host.
    pub waited_for_host: bool,
    /// The size of the object and the `.json` together.
    pub bytes: Option<usize>,
    /// Whether the local store had the kernel's entry when the build had compiled or taken it; `None` if that is not known, as of
    /// records of earlier versions.
    pub kept: Option<bool>,
    /// The reason why the kernel could not be compiled, without paths, options and output of the compiler; `None` of all other kernels, and
    /// of records of earlier versions.
    pub failure: Option<String>,
}

impl RecordedKernel {
    /// Returns the time in which the kernel waited for another process or host.
    pub fn waited_us(&self) -> u64 {
        self.last_us.saturating_sub(self.begin_us)
    }

    /// Returns the time in which a thread worked on the kernel, waits for its lock and a job token included.
    pub fn worked_us(&self) -> u64 {
        self.end_us.saturating_sub(self.last_us)
    }

    /// Returns the time in which the kernel waited for a job token, if it was compiled.
    pub fn queued_us(&self) -> u64 {
        self.compile_us.map_or(0, |began| began.saturating_sub(self.last_us))
    }
}

/// The records of a store.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RecordedBuilds {
    /// The builds, the latest first.
    pub builds: Vec<BuildRecord>,
    /// The number of damaged records.
    pub damaged: usize,
    /// The number of records of newer versions.
    pub newer: usize,
    /// The number of bytes of all records.
    pub bytes: u64,
    /// The first 20 directories with the name of a record.
    pub foreign: Vec<PathBuf>,
}

impl RecordedBuilds {
    /// Reads the latest `limit` records of a store.
    ///
    /// # Errors
    /// The records cannot be read at all. Damaged ones are counted.
    pub fn read(store: &Store, limit: usize) -> Result<Self, StoreError> {
        Self::read_while(store, limit, &|| true).map(Option::unwrap_or_default)
    }

    /// Does what [`read`](Self::read) does, while `goes_on` returns true; `None` if it returned false before the last record.
    pub(crate) fn read_while(
        store: &Store,
        limit: usize,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Option<Self>, StoreError> {
        let records = store.build_records(limit)?;
        let (damaged, bytes, foreign) = (records.damaged, records.bytes, records.foreign);
        let mut read = Self { damaged, bytes, foreign, ..Self::default() };
        for text in &records.texts {
            if !goes_on() {
                return Ok(None);
            }
            match BuildRecord::parse(text) {
                Parsed::Build(build) => read.builds.push(*build),
                Parsed::Newer => read.newer += 1,
                Parsed::Damaged => read.damaged += 1,
            }
        }
        Ok(Some(read))
    }
}

/// A record that was read.
enum Parsed {
    Build(Box<BuildRecord>),
    Newer,
    Damaged,
}

#[derive(Deserialize)]
struct Version {
    schema: u32,
}

/// The text of a record.
#[derive(Serialize, Deserialize)]
struct Document<B> {
    schema: u32,
    build: B,
}

impl LostTime {
    /// Returns the whole time, in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.process_us.saturating_add(self.host_us).saturating_add(self.remote_us)
    }
}

impl BuildRecord {
    /// Returns the number of kernels.
    pub fn kernel_count(&self) -> usize {
        self.counts.values().fold(0, |all, count| all.saturating_add(*count))
    }

    /// Returns the number of kernels that were in the store.
    pub fn hit_count(&self) -> usize {
        self.hits.values().fold(0, |all, hits| all.saturating_add(hits.kernels))
    }

    /// Returns the number of kernels with an outcome.
    pub fn count(&self, outcome: crate::Outcome) -> usize {
        self.counts.get(outcome.name()).copied().unwrap_or_default()
    }

    fn parse(text: &[u8]) -> Parsed {
        match serde_json::from_slice::<Version>(text) {
            Ok(Version { schema }) if schema > SCHEMA => Parsed::Newer,
            // An object: a list would be a record without its last fields.
            Ok(_) => match serde_json::from_slice::<Document<Map<String, Value>>>(text)
                .and_then(|document| serde_json::from_value::<Self>(Value::Object(document.build)))
            {
                Ok(build) => Parsed::Build(Box::new(build.in_order())),
                Err(_) => Parsed::Damaged,
            },
            Err(_) => Parsed::Damaged,
        }
    }

    /// Returns the record of a build that this process did, within the bounds of a record.
    fn bounded(self) -> Self {
        let mut record = self.in_order();
        record.keep_longest(MAX_KERNELS);
        record.keep_most_hits(MAX_OP_TYPES);
        record
    }

    /// Returns the record with times that follow each other: whatever a file says, no step ends before it begins, or after the build,
    /// and no number is so large that a sum of it would not fit.
    fn in_order(mut self) -> Self {
        self.began_ms = self.began_ms.min(MAX_MILLIS);
        self.elapsed_us = self.elapsed_us.min(MAX_MICROS);
        for count in [&mut self.operators, &mut self.threads, &mut self.from_remote, &mut self.omitted] {
            *count = (*count).min(MAX_COUNT);
        }
        self.counts.values_mut().for_each(|count| *count = (*count).min(MAX_COUNT));
        for hits in self.hits.values_mut() {
            hits.kernels = hits.kernels.min(MAX_COUNT);
            hits.saved_us = hits.saved_us.min(MAX_MICROS);
        }
        let LostTime { process_us, host_us, remote_us } = &mut self.lost;
        for time in [process_us, host_us, remote_us] {
            *time = (*time).min(MAX_MICROS);
        }
        let end = self.elapsed_us;
        let BuildPhases { planned_us, looked_up_us, fetched_us, made_us } = &mut self.phases;
        let mut last = 0;
        for time in [planned_us, looked_up_us, fetched_us, made_us] {
            *time = (*time).clamp(last, end);
            last = *time;
        }
        for kernel in &mut self.kernels {
            kernel.end_us = kernel.end_us.min(end);
            kernel.last_us = kernel.last_us.min(kernel.end_us);
            kernel.begin_us = kernel.begin_us.min(kernel.last_us);
            kernel.compile_us = kernel.compile_us.map(|began| began.clamp(kernel.last_us, kernel.end_us));
            kernel.compile_time_us = kernel.compile_time_us.map(|time| time.min(MAX_MICROS));
            kernel.saved_us = kernel.saved_us.map(|time| time.min(MAX_MICROS));
            kernel.worker = kernel.worker.map(|worker| worker.min(MAX_WORKER));
            kernel.bytes = kernel.bytes.map(|bytes| bytes.min(MAX_COUNT));
        }
        self
    }

    /// Returns the text of the record, with so many kernels that it fits into the store.
    fn text(&self) -> Option<Vec<u8>> {
        let write = |build: &Self| serde_json::to_vec(&Document { schema: SCHEMA, build }).ok();
        let text = write(self)?;
        if text.len() <= Store::MAX_BUILD_RECORD_BYTES {
            return Some(text);
        }
        let mut shorter = self.clone();
        while !shorter.kernels.is_empty() {
            let kept = shorter.kernels.len() / 2;
            shorter.keep_longest(kept);
            let text = write(&shorter)?;
            if text.len() <= Store::MAX_BUILD_RECORD_BYTES {
                return Some(text);
            }
        }
        None
    }

    /// Leaves `count` kernels: those that failed, and those that took the longest.
    fn keep_longest(&mut self, count: usize) {
        if self.kernels.len() <= count {
            return;
        }
        let failed = crate::Outcome::Failed.name();
        let time = |kernel: &RecordedKernel| {
            (kernel.outcome != failed, u64::MAX - kernel.end_us.saturating_sub(kernel.begin_us))
        };
        self.kernels.sort_by_cached_key(time);
        self.omitted = self.omitted.saturating_add(self.kernels.len() - count);
        self.kernels.truncate(count);
        opkeep_order::by_key(&mut self.kernels, |kernel| kernel.begin_us);
    }

    /// Leaves `count` operator types in `hits`: those with the most kernels. The others are counted together, under the empty name.
    fn keep_most_hits(&mut self, count: usize) {
        if self.hits.len() <= count {
            return;
        }
        let mut hits: Vec<(String, RecordedHits)> = std::mem::take(&mut self.hits).into_iter().collect();
        opkeep_order::by_key(&mut hits, |(_, hits)| std::cmp::Reverse(hits.kernels));
        // One place is that of the others.
        let others = hits.split_off(count.saturating_sub(1));
        self.hits = hits.into_iter().collect();
        let rest = self.hits.entry(String::new()).or_default();
        for (_, hits) in others {
            rest.kernels = rest.kernels.saturating_add(hits.kernels);
            rest.saved_us = rest.saved_us.saturating_add(hits.saved_us);
        }
    }

    /// Adds the record to the store. Best effort: a build does not need it.
    pub(crate) fn add_to(&self, store: &Store) {
        let kind = if self.kernels.is_empty() { BuildRecordKind::Brief } else { BuildRecordKind::Full };
        let began = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(self.began_ms));
        if let (Some(began), Some(text)) = (began, self.text()) {
            let failed = self.counts.get(crate::Outcome::Failed.name()).is_some_and(|count| *count > 0);
            let _ = match failed {
                true => store.add_failed_build_record(began, kind, &text),
                false => store.add_build_record(began, kind, &text),
            };
        }
    }
}

/// Returns this host's name, as records have it.
pub(crate) fn host_name() -> String {
    cut(&rustix::system::uname().nodename().to_string_lossy())
}

/// Returns the first characters of a text.
fn cut(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> &'static str {
        match BuildRecord::parse(text.as_bytes()) {
            Parsed::Build(_) => "build",
            Parsed::Newer => "newer",
            Parsed::Damaged => "damaged",
        }
    }

    #[test]
    fn newer_formats_are_known_by_their_number_alone() {
        assert_eq!(parsed(r#"{"schema":1,"build":{"label":"x","later_field":3}}"#), "build");
        assert_eq!(parsed(r#"{"schema":2,"build":[]}"#), "newer");
        assert_eq!(parsed(r#"{"schema":1,"build":[]}"#), "damaged");
        assert_eq!(parsed(r#"{"schema":1,"build":{"began_ms":-1}}"#), "damaged");
        assert_eq!(parsed("{"), "damaged");
    }

    /// What an earlier version did not record is unknown.
    #[test]
    fn records_of_earlier_versions_are_read() {
        let text = r#"{"schema":1,"build":{"kernels":[{"outcome":"compiled"},{"outcome":"compiled","kept":false}]}}"#;
        let Parsed::Build(build) = BuildRecord::parse(text.as_bytes()) else { panic!("it is a record") };
        assert_eq!([build.kernels[0].kept, build.kernels[1].kept], [None, Some(false)]);
    }

    #[test]
    fn times_are_put_in_order() {
        let text = r#"{"schema":1,"build":{"elapsed_us":100,"phases":{"planned_us":90,"looked_up_us":10,"made_us":900},
            "kernels":[{"begin_us":500,"last_us":50,"compile_us":7,"end_us":80}]}}"#;
        let Parsed::Build(build) = BuildRecord::parse(text.as_bytes()) else { panic!("it is a record") };
        let kernel = &build.kernels[0];
        assert_eq!(
            (kernel.begin_us, kernel.last_us, kernel.compile_us, kernel.end_us),
            (50, 50, Some(50), 80)
        );
        let BuildPhases { planned_us, looked_up_us, fetched_us, made_us } = build.phases;
        assert_eq!((planned_us, looked_up_us, fetched_us, made_us), (90, 90, 90, 100));
    }

    /// A file may have any numbers; those of a record are such that sums of them fit, and that a list by threads is short.
    #[test]
    fn no_number_of_a_file_is_too_large() {
        let most = u64::MAX;
        let text = format!(
            r#"{{"schema":1,"build":{{"began_ms":{most},"elapsed_us":{most},"threads":{most},"omitted":{most},
            "operators":{most},"from_remote":{most},"counts":{{"compiled":{most},"failed":{most}}},
            "lost":{{"process_us":{most},"host_us":{most},"remote_us":{most}}},
            "hits":{{"Add":{{"kernels":{most},"saved_us":{most}}}}},
            "kernels":[{{"worker":{most},"begin_us":{most},"last_us":{most},"compile_us":{most},"end_us":{most},
            "compile_time_us":{most},"saved_us":{most},"bytes":{most}}}]}}}}"#
        );
        let Parsed::Build(build) = BuildRecord::parse(text.as_bytes()) else { panic!("it is a record") };
        let kernel = &build.kernels[0];
        assert_eq!(kernel.worker, Some(MAX_WORKER));
        assert!(build.began_ms.checked_mul(1000).unwrap().checked_add(2 * kernel.end_us).is_some());
        let numbers = serde_json::to_string(&*build).unwrap();
        let largest =
            numbers.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse::<u64>().ok());
        assert_eq!(largest.max(), Some(MAX_MICROS));
        assert_eq!(build.critical_path().segments.last().unwrap().end_us, MAX_MICROS);
    }

    /// A record of the longest names, and of as many kernels and types of operators as a build may have, fits into the store.
    #[test]
    fn any_build_has_a_record() {
        let long = |at: usize| format!("{at:04}{}", "\u{1}".repeat(196));
        let kernel = |at: usize| RecordedKernel {
            op_type: long(at),
            name: long(at),
            end_us: 9,
            ..RecordedKernel::default()
        };
        let hits = |at: usize| (long(at), RecordedHits { kernels: 1 + at % 7, saved_us: u64::MAX });
        let build = BuildRecord {
            host: long(0),
            label: long(1),
            targets: (0..16).map(long).collect(),
            elapsed_us: 5,
            hits: (0..3000).map(hits).collect(),
            // These end before they begin.
            kernels: (0..3000).map(|at| RecordedKernel { begin_us: 99, ..kernel(at) }).collect(),
            ..BuildRecord::default()
        };
        let all = build.hit_count();
        let bounded = build.bounded();
        assert_eq!((bounded.hits.len(), bounded.hit_count()), (MAX_OP_TYPES, all));
        assert!(bounded.hits.iter().all(|(name, hits)| name.is_empty() || hits.kernels == 7));
        assert!(bounded.text().unwrap().len() <= Store::MAX_BUILD_RECORD_BYTES);
    }

    /// Names as long as they may be: the text fits, failures stay, and what is left out is counted.
    #[test]
    fn a_record_of_many_kernels_fits() {
        let kernel = |at: u64| RecordedKernel {
            name: "\u{1}".repeat(200),
            op_type: "x".repeat(200),
            outcome: if at == 7 { "failed" } else { "compiled" }.to_owned(),
            begin_us: at,
            last_us: at,
            end_us: 2 * at,
            ..RecordedKernel::default()
        };
        let mut build = BuildRecord { kernels: (0..5000).map(kernel).collect(), ..BuildRecord::default() };
        build.elapsed_us = 10_000;
        build.keep_longest(MAX_KERNELS);
        assert_eq!(
            (build.kernels.len(), build.omitted, build.kernels[1].begin_us),
            (MAX_KERNELS, 3000, 3001)
        );
        let text = build.text().unwrap();
        assert!(
            text.len() <= Store::MAX_BUILD_RECORD_BYTES && text.len() > Store::MAX_BUILD_RECORD_BYTES / 3
        );
        let Parsed::Build(read) = BuildRecord::parse(&text) else { panic!("it is a record") };
        assert_eq!(read.kernels.len() + read.omitted, 5000);
        assert_eq!(read.kernels[0].outcome, "failed");
        assert_eq!(read.kernels.last(), build.kernels.last());
    }
}
