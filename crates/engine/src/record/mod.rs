//! Records of builds: what each build did and when, for reports. The store keeps them, and bounds their number and size.
//!
//! A record has no path: its label is the caller's, such as the file name of a model. Kernels that were in the store are counted by
//! operator type, not listed, since a look-up takes microseconds.

pub(crate) mod path;
pub(crate) mod recorder;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use opkeep_store::{BuildRecordKind, Store, StoreError};
use serde::{Deserialize, Serialize};

/// The version of the format. It is raised when a field changes its name, its type or its meaning, not when a field is added.
const SCHEMA: u32 = 1;
/// The maximum number of kernels in a record: those that failed, and those that took the longest.
pub(crate) const MAX_KERNELS: usize = 2000;

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
    /// The kernels that were in the store, by operator type.
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
}

impl RecordedBuilds {
    /// Reads the latest `limit` records of a store.
    ///
    /// # Errors
    /// The records cannot be read at all. Damaged ones are counted.
    pub fn read(store: &Store, limit: usize) -> Result<Self, StoreError> {
        let records = store.build_records(limit)?;
        let mut read = Self { damaged: records.damaged, bytes: records.bytes, ..Self::default() };
        for text in &records.texts {
            match BuildRecord::parse(text) {
                Parsed::Build(build) => read.builds.push(*build),
                Parsed::Newer => read.newer += 1,
                Parsed::Damaged => read.damaged += 1,
            }
        }
        Ok(read)
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
            Ok(_) => match serde_json::from_slice::<Document<Box<Self>>>(text) {
                Ok(Document { build, .. }) => Parsed::Build(Box::new(build.in_order())),
                Err(_) => Parsed::Damaged,
            },
            Err(_) => Parsed::Damaged,
        }
    }

    /// Returns the record with times that follow each other: whatever a file says, no step ends before it begins, or after the build.
    fn in_order(mut self) -> Self {
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
            (kernel.outcome != failed, u64::MAX - (kernel.end_us - kernel.begin_us))
        };
        self.kernels.sort_by_cached_key(time);
        self.omitted += self.kernels.len() - count;
        self.kernels.truncate(count);
        self.kernels.sort_by_key(|kernel| kernel.begin_us);
    }

    /// Adds the record to the store. Best effort: a build does not need it.
    pub(crate) fn add_to(&self, store: &Store) {
        let kind = if self.kernels.is_empty() { BuildRecordKind::Brief } else { BuildRecordKind::Full };
        let began = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(self.began_ms));
        if let (Some(began), Some(text)) = (began, self.text()) {
            let _ = store.add_build_record(began, kind, &text);
        }
    }
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
