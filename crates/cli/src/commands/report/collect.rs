//! The content of a report, from the store.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use opkeep::RecordedBuilds;
use opkeep_fs::idle;
use opkeep_store::{GcOptions, OpenEntry, Store, TargetStore};

use super::data::{
    BuildReport, EvictionReport, NextReport, QuarantinedReport, RecordsReport, Report, Share, TargetReport,
    operator_costs,
};
use super::time::millis;
use crate::commands::stats::counters;
use crate::input::entries::{ReadHeads, read_heads};
use crate::input::store::{target_stores, threads};
use crate::input::stored_kernel::StoredKernel;
use crate::ui::json;
use crate::ui::output::Output;
use crate::ui::text::quotable;

/// The number of entries that are named as the next evictions of a target.
const NEXT: usize = 25;

/// The ages of entries: a limit, and the name of what is younger. The first limit is the time for which eviction leaves an entry.
const AGES: [(Duration, &str); 4] = [
    (Duration::from_secs(1800), "under half an hour"),
    (Duration::from_secs(86_400), "under a day"),
    (Duration::from_secs(7 * 86_400), "under a week"),
    (Duration::from_secs(30 * 86_400), "under 30 days"),
];
const OLDER: &str = "30 days or more";

/// Collects a report of a store.
pub(super) fn collect(store: &Store, now: SystemTime, output: &Output) -> anyhow::Result<Report> {
    let mut targets = Vec::new();
    for (name, target) in target_stores(store)? {
        targets.push(target_report(name, &target, now, output)?);
    }
    // What is in the store does not depend on the records.
    let read = RecordedBuilds::read(store, usize::MAX).unwrap_or_else(|error| {
        output.print_warning(&format!("the report has no builds: {error}"));
        RecordedBuilds::default()
    });
    for path in &read.foreign {
        output.print_warning(&format!(
            "`{}` is a directory with the name of a build's record, and is left as it is",
            quotable(path)
        ));
    }
    let records = RecordsReport { damaged: read.damaged, newer: read.newer, bytes: read.bytes, deleted: 0 };
    let builds: Vec<BuildReport> = read.builds.into_iter().map(BuildReport::new).collect();
    let limits = store.limits();
    Ok(Report {
        root: Some(json::path(store.root())),
        made_ms: millis(now),
        max_bytes: limits.max_bytes,
        max_entries: limits.max_entries,
        remain_percent: Some(limits.remain_percent),
        targets,
        operators: operator_costs(builds.iter().map(|build| &build.record)),
        builds,
        records,
    })
}

/// An entry in the lists of a target.
struct Listed {
    framework: Option<String>,
    kernel: Option<String>,
    bytes: u64,
    unused: Duration,
    age: Duration,
}

fn target_report(
    name: String,
    target: &TargetStore,
    now: SystemTime,
    output: &Output,
) -> anyhow::Result<TargetReport> {
    let statistics = target.statistics();
    let usage = target.gc(&GcOptions::default().with_dry_run(true))?.before;
    let read = |entry: &OpenEntry<'_>| {
        let (framework, kernel) = framework_and_operator(entry);
        let (bytes, unused) = (entry.head().file_bytes(), idle(entry.last_used(), now));
        Some(Listed { framework, kernel, bytes, unused, age: idle(entry.head().created(), now) })
    };
    let ReadHeads { read: listed, unread } = read_heads(target, threads(None), &output.cancel_token(), read)?;
    if let Some(problem) = unread.problem() {
        output.print_warning(&format!("the report of target {name} is incomplete: {problem}"));
    }
    let preview = target.eviction_preview(NEXT)?;
    let next = preview.next.iter().map(|entry| {
        let (framework, kernel) =
            target.open_entry(&entry.key).map_or((None, None), |entry| framework_and_operator(&entry));
        NextReport {
            key: entry.key.to_string(),
            framework,
            kernel,
            bytes: entry.bytes,
            last_used_ms: millis(entry.last_used),
            compile_us: entry.cost.map(|cost| u64::try_from(cost.as_micros()).unwrap_or(u64::MAX)),
        }
    });
    let eviction = EvictionReport {
        is_over: preview.is_over,
        idle_kernels: preview.idle.files,
        idle_bytes: preview.idle.bytes,
        next: next.collect(),
    };
    let quarantined = target.quarantined()?.into_iter().map(|entry| QuarantinedReport {
        key: entry.key.to_string(),
        at_ms: millis(entry.at),
        bytes: entry.bytes,
        reason: entry.reason,
    });
    let named = |name: &Option<String>| name.clone();
    Ok(TargetReport {
        target: name,
        usage,
        hits: statistics.hits,
        misses: statistics.misses(),
        compiles: statistics.compiles,
        saved_us: u64::try_from(statistics.time_saved().as_micros()).unwrap_or(u64::MAX),
        statistics: counters(&statistics),
        frameworks: shares(&listed, |entry| named(&entry.framework)),
        operators: shares(&listed, |entry| named(&entry.kernel)),
        unused: by_age(&listed, |entry| entry.unused),
        age: by_age(&listed, |entry| entry.age),
        unreadable: unread.count,
        eviction,
        quarantined: quarantined.collect(),
    })
}

fn framework_and_operator(entry: &OpenEntry<'_>) -> (Option<String>, Option<String>) {
    let kernel = StoredKernel::of(entry);
    let operator = kernel.operator().map(str::to_owned);
    (kernel.framework, operator)
}

/// Returns the totals of entries by name, the largest first.
fn shares(listed: &[Listed], name: impl Fn(&Listed) -> Option<String>) -> Vec<Share> {
    let mut totals: BTreeMap<Option<String>, (u64, u64)> = BTreeMap::new();
    for entry in listed {
        let (kernels, bytes) = totals.entry(name(entry)).or_default();
        *kernels += 1;
        *bytes += entry.bytes;
    }
    let share = |(name, (kernels, bytes))| Share { name, kernels, bytes };
    let mut shares: Vec<Share> = totals.into_iter().map(share).collect();
    opkeep_order::by_key(&mut shares, |share| std::cmp::Reverse(share.bytes));
    shares
}

/// Returns the totals of entries by age, the youngest first.
fn by_age(listed: &[Listed], age: impl Fn(&Listed) -> Duration) -> Vec<Share> {
    let mut shares: Vec<Share> = AGES
        .iter()
        .map(|(_, name)| *name)
        .chain([OLDER])
        .map(|name| Share { name: Some(name.to_owned()), kernels: 0, bytes: 0 })
        .collect();
    for entry in listed {
        let at = AGES.iter().position(|(limit, _)| age(entry) < *limit).unwrap_or(AGES.len());
        shares[at].kernels += 1;
        shares[at].bytes += entry.bytes;
    }
    shares
}
