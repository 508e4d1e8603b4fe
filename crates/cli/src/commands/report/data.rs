//! The content of a report.

use std::collections::BTreeMap;

use opkeep::{BuildRecord, CriticalPath, RecordedKernel};
use opkeep_store::TargetUsage;

use crate::commands::stats::CountersOutput;

/// A report.
pub(super) struct Report {
    /// The store's directory; none of a report of one build.
    pub(super) root: Option<String>,
    /// When the report was made.
    pub(super) made_ms: u64,
    /// The limits of each target.
    pub(super) max_bytes: Option<u64>,
    pub(super) max_entries: Option<u64>,
    pub(super) remain_percent: Option<u8>,
    pub(super) targets: Vec<TargetReport>,
    /// The builds, the latest first.
    pub(super) builds: Vec<BuildReport>,
    /// The costs of all these builds by operator type, the dearest first.
    pub(super) operators: Vec<OperatorCost>,
    pub(super) records: RecordsReport,
}

/// A number of hits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HitRate {
    pub(super) hits: u64,
    /// The number of kernels, or of look-ups.
    pub(super) of: u64,
}

impl HitRate {
    fn add(self, other: Self) -> Self {
        Self { hits: self.hits.saturating_add(other.hits), of: self.of.saturating_add(other.of) }
    }

    /// Returns the part of the hits, from 0 to 1; `None` without any kernel or look-up.
    pub(super) fn part(self) -> Option<f64> {
        (self.of > 0).then(|| self.hits as f64 / self.of as f64)
    }

    /// `62.5 %`; `none` without any kernel or look-up.
    pub(super) fn percent(self) -> String {
        self.part().map_or_else(|| "none".to_owned(), |part| format!("{:.1} %", part * 100.0))
    }
}

impl Report {
    /// Returns how many of the kernels of the recorded builds were in the store. The store's look-ups also count those of other programs,
    /// and of builds without a record.
    pub(super) fn builds_rate(&self) -> HitRate {
        self.builds.iter().map(BuildReport::hit_rate).fold(HitRate::default(), HitRate::add)
    }

    /// Returns how many of the look-ups of all targets found an entry.
    pub(super) fn lookups_rate(&self) -> HitRate {
        self.targets.iter().map(TargetReport::hit_rate).fold(HitRate::default(), HitRate::add)
    }
}

/// The records that the report is made of.
#[derive(Default)]
pub(super) struct RecordsReport {
    pub(super) damaged: usize,
    pub(super) newer: usize,
    pub(super) bytes: u64,
    /// How many were deleted after the report.
    pub(super) deleted: usize,
}

/// What is in the store for one target.
pub(super) struct TargetReport {
    pub(super) target: String,
    pub(super) usage: TargetUsage,
    pub(super) statistics: CountersOutput,
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) compiles: u64,
    pub(super) saved_us: u64,
    pub(super) frameworks: Vec<Share>,
    pub(super) operators: Vec<Share>,
    /// By the time since the last use.
    pub(super) unused: Vec<Share>,
    /// By the time since the entry was made.
    pub(super) age: Vec<Share>,
    /// Entries whose content could not be read; they are in none of these lists.
    pub(super) unreadable: u64,
    pub(super) eviction: EvictionReport,
    pub(super) quarantined: Vec<QuarantinedReport>,
}

impl TargetReport {
    /// Returns how many of the look-ups found an entry.
    pub(super) fn hit_rate(&self) -> HitRate {
        HitRate { hits: self.hits, of: self.hits.saturating_add(self.misses) }
    }
}

/// A part of the entries.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Share {
    /// The framework, the operator or the age; none if an entry does not state it.
    pub(super) name: Option<String>,
    pub(super) kernels: u64,
    pub(super) bytes: u64,
}

/// What eviction deletes next.
#[derive(Default)]
pub(super) struct EvictionReport {
    pub(super) is_over: bool,
    pub(super) idle_kernels: u64,
    pub(super) idle_bytes: u64,
    pub(super) next: Vec<NextReport>,
}

pub(super) struct NextReport {
    pub(super) key: String,
    pub(super) framework: Option<String>,
    /// The operator, or the name that a framework gave.
    pub(super) kernel: Option<String>,
    pub(super) bytes: u64,
    pub(super) last_used_ms: u64,
    pub(super) compile_us: Option<u64>,
}

pub(super) struct QuarantinedReport {
    pub(super) key: String,
    pub(super) at_ms: u64,
    pub(super) bytes: u64,
    pub(super) reason: Option<String>,
}

/// A build, with what the report computes of it.
#[derive(Clone)]
pub(super) struct BuildReport {
    /// The record, as the store has it.
    pub(super) record: BuildRecord,
    pub(super) kernels: usize,
    pub(super) hits: usize,
    pub(super) path: CriticalPath,
}

impl BuildReport {
    pub(super) fn new(record: BuildRecord) -> Self {
        let path = record.critical_path();
        let (kernels, hits) = (record.kernel_count(), record.hit_count());
        Self { record, kernels, hits, path }
    }

    /// Returns how many of the kernels were in the store.
    pub(super) fn hit_rate(&self) -> HitRate {
        HitRate { hits: self.hits as u64, of: self.kernels as u64 }
    }

    /// Returns the kernels that waited for others, the longest first.
    pub(super) fn waits(&self) -> Vec<&RecordedKernel> {
        let mut waits: Vec<_> = self.record.kernels.iter().filter(|kernel| kernel.waited_us() > 0).collect();
        opkeep_order::by_key(&mut waits, |kernel| std::cmp::Reverse(kernel.waited_us()));
        waits
    }
}

/// What operators of one type cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OperatorCost {
    pub(super) op_type: String,
    pub(super) compiled: u64,
    pub(super) compile_us: u64,
    /// The longest compile.
    pub(super) longest_us: u64,
    pub(super) failed: u64,
    /// Kernels that were found, in the store or elsewhere, and the compile time that they saved.
    pub(super) found: u64,
    pub(super) saved_us: u64,
}

/// Returns the costs of builds by operator type, the dearest first.
pub(super) fn operator_costs<'b>(builds: impl Iterator<Item = &'b BuildRecord>) -> Vec<OperatorCost> {
    let mut costs: BTreeMap<&str, OperatorCost> = BTreeMap::new();
    for build in builds {
        for (op_type, hits) in &build.hits {
            let cost = costs.entry(op_type).or_default();
            cost.found = cost.found.saturating_add(hits.kernels as u64);
            cost.saved_us = cost.saved_us.saturating_add(hits.saved_us);
        }
        for kernel in &build.kernels {
            let cost = costs.entry(&kernel.op_type).or_default();
            match kernel.compile_time_us {
                Some(time) => {
                    cost.compiled += 1;
                    cost.compile_us = cost.compile_us.saturating_add(time);
                    cost.longest_us = cost.longest_us.max(time);
                }
                None if kernel.outcome == opkeep::Outcome::Failed.name() => cost.failed += 1,
                // Found elsewhere; one that was skipped or cancelled has no size.
                None if kernel.bytes.is_some() => {
                    cost.found += 1;
                    cost.saved_us = cost.saved_us.saturating_add(kernel.saved_us.unwrap_or(0));
                }
                None => {}
            }
        }
    }
    let named = |(op_type, cost): (&str, OperatorCost)| OperatorCost { op_type: op_type.to_owned(), ..cost };
    let mut costs: Vec<_> = costs.into_iter().map(named).collect();
    opkeep_order::by_key(&mut costs, |cost| std::cmp::Reverse((cost.compile_us, cost.saved_us)));
    costs
}

/// Returns the builds with kernels in groups that overlap in time, by indices; the latest group and, in it, the first build first.
pub(super) fn concurrent(builds: &[BuildReport], limit: usize) -> Vec<Vec<usize>> {
    let span = |at: usize| {
        let BuildRecord { began_ms, elapsed_us, .. } = builds[at].record;
        (began_ms, began_ms.saturating_add(elapsed_us / 1000))
    };
    let mut shown: Vec<usize> =
        (0..builds.len()).filter(|at| !builds[*at].record.kernels.is_empty()).take(limit).collect();
    opkeep_order::by_key(&mut shown, |at| (span(*at).0, *at));
    let mut groups: Vec<(u64, Vec<usize>)> = Vec::new();
    for at in shown {
        let (began, end) = span(at);
        match groups.last_mut() {
            Some((last, group)) if began < *last => {
                *last = end.max(*last);
                group.push(at);
            }
            _ => groups.push((end, vec![at])),
        }
    }
    groups.into_iter().rev().map(|(_, group)| group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use opkeep::RecordedHits;

    fn kernel(op_type: &str, outcome: &str, compile: Option<u64>) -> RecordedKernel {
        let mut kernel = RecordedKernel::default();
        (kernel.op_type, kernel.outcome, kernel.compile_time_us) =
            (op_type.to_owned(), outcome.to_owned(), compile);
        (kernel.bytes, kernel.saved_us) = (Some(9).filter(|_| outcome != "failed"), Some(5));
        kernel
    }

    #[test]
    fn costs_are_those_of_all_builds() {
        let mut build = BuildRecord::default();
        let mut hits = RecordedHits::default();
        (hits.kernels, hits.saved_us) = (3, 100);
        build.hits.insert("Add".to_owned(), hits);
        build.kernels = vec![
            kernel("Conv2D", "compiled", Some(70)),
            kernel("Add", "shared", None),
            kernel("Add", "compiled", Some(30)),
            kernel("Conv2D", "failed", None),
        ];
        let costs = operator_costs([&build, &build].into_iter());
        let shown: Vec<_> = costs
            .iter()
            .map(|cost| {
                (
                    cost.op_type.as_str(),
                    cost.compiled,
                    cost.compile_us,
                    cost.failed,
                    cost.found,
                    cost.saved_us,
                )
            })
            .collect();
        assert_eq!(shown, [("Conv2D", 2, 140, 2, 0, 0), ("Add", 2, 60, 0, 8, 210)]);
    }

    #[test]
    fn builds_that_overlap_are_shown_together() {
        let build = |began_ms: u64, millis: u64, kernels: usize| {
            let mut record = BuildRecord::default();
            (record.began_ms, record.elapsed_us) = (began_ms, millis * 1000);
            record.kernels = vec![RecordedKernel::default(); kernels];
            BuildReport::new(record)
        };
        // The latest first: two at once, one without details, one alone, and three in a chain.
        let builds = [
            build(900, 50, 1),
            build(880, 100, 1),
            build(700, 9, 0),
            build(500, 100, 2),
            build(140, 30, 1),
            build(90, 60, 1),
            build(0, 100, 1),
        ];
        assert_eq!(concurrent(&builds, 99), [vec![1, 0], vec![3], vec![6, 5, 4]]);
        assert_eq!(concurrent(&builds, 3), [vec![1, 0], vec![3]]);
    }
}
