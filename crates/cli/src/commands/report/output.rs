//! A report as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use opkeep::{PathSegment, RecordedKernel, SegmentKind};
use serde::{Serialize, Serializer};

use super::data::{BuildReport, NextReport, OperatorCost, QuarantinedReport, Report, Share, TargetReport};
use crate::commands::gc::store::UsageOutput;
use crate::commands::stats::CountersOutput;
use crate::ui::json::Milliseconds;

#[derive(Serialize)]
pub(super) struct ReportOutput<'a> {
    root: &'a str,
    made_at: Seconds,
    max_bytes: Option<u64>,
    max_entries: Option<u64>,
    remain_percent: Option<u8>,
    targets: Vec<TargetOutput<'a>>,
    builds: Vec<BuildOutput<'a>>,
    operators: Vec<OperatorOutput<'a>>,
    records: RecordsOutput,
    /// The page that was written.
    html: Option<String>,
}

#[derive(Serialize)]
struct RecordsOutput {
    read: usize,
    damaged: usize,
    newer: usize,
    bytes: u64,
    deleted: usize,
}

#[derive(Serialize)]
struct TargetOutput<'a> {
    target: &'a str,
    store: UsageOutput,
    statistics: &'a CountersOutput,
    frameworks: Vec<ShareOutput<'a>>,
    operators: Vec<ShareOutput<'a>>,
    unused: Vec<ShareOutput<'a>>,
    age: Vec<ShareOutput<'a>>,
    unreadable: u64,
    eviction: EvictionOutput<'a>,
    quarantined: Vec<QuarantinedOutput<'a>>,
}

#[derive(Serialize)]
struct ShareOutput<'a> {
    name: Option<&'a str>,
    kernels: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct EvictionOutput<'a> {
    over_limit: bool,
    idle_kernels: u64,
    idle_bytes: u64,
    next: Vec<NextOutput<'a>>,
}

#[derive(Serialize)]
struct NextOutput<'a> {
    key: &'a str,
    framework: Option<&'a str>,
    kernel: Option<&'a str>,
    bytes: u64,
    last_used_at: Seconds,
    compile_ms: Option<Milliseconds>,
}

#[derive(Serialize)]
struct QuarantinedOutput<'a> {
    key: &'a str,
    at: Seconds,
    bytes: u64,
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct OperatorOutput<'a> {
    op_type: &'a str,
    compiled: u64,
    compile_ms: Milliseconds,
    longest_ms: Milliseconds,
    failed: u64,
    found: u64,
    saved_ms: Milliseconds,
}

#[derive(Serialize)]
struct BuildOutput<'a> {
    began_at: Seconds,
    elapsed_ms: Milliseconds,
    host: &'a str,
    process: u32,
    label: &'a str,
    backend: &'a str,
    targets: &'a [String],
    operators: usize,
    threads: usize,
    kernels: usize,
    hits: usize,
    counts: &'a BTreeMap<String, usize>,
    from_remote: usize,
    interrupted: bool,
    phases: PhasesOutput,
    lost: LostOutput,
    path: PathOutput<'a>,
    hits_by_operator: Vec<HitsOutput<'a>>,
    results: Vec<KernelOutput<'a>>,
    omitted: usize,
}

#[derive(Serialize)]
struct PhasesOutput {
    planned_ms: Milliseconds,
    looked_up_ms: Milliseconds,
    fetched_ms: Milliseconds,
    made_ms: Milliseconds,
}

#[derive(Serialize)]
struct LostOutput {
    process_ms: Milliseconds,
    host_ms: Milliseconds,
    remote_ms: Milliseconds,
}

#[derive(Serialize)]
struct HitsOutput<'a> {
    op_type: &'a str,
    kernels: usize,
    saved_ms: Milliseconds,
}

#[derive(Serialize)]
struct PathOutput<'a> {
    thread: Option<usize>,
    lower_bound_ms: Milliseconds,
    longest_ms: Milliseconds,
    work_ms: Milliseconds,
    segments: Vec<SegmentOutput<'a>>,
}

#[derive(Serialize)]
struct SegmentOutput<'a> {
    part: SegmentKind,
    kernel: Option<&'a str>,
    begin_ms: Milliseconds,
    end_ms: Milliseconds,
}

#[derive(Serialize)]
struct KernelOutput<'a> {
    op_type: &'a str,
    name: &'a str,
    key: Option<&'a str>,
    outcome: &'a str,
    from_remote: bool,
    thread: Option<usize>,
    begin_ms: Milliseconds,
    end_ms: Milliseconds,
    waited_ms: Milliseconds,
    waited_for_host: bool,
    queued_ms: Milliseconds,
    compile_ms: Option<Milliseconds>,
    saved_ms: Option<Milliseconds>,
    bytes: Option<usize>,
}

/// A time in Unix milliseconds, serialized as seconds.
struct Seconds(u64);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0 as f64 / 1e3)
    }
}

fn ms(micros: u64) -> Milliseconds {
    Milliseconds(Duration::from_micros(micros))
}

impl<'a> ReportOutput<'a> {
    pub(super) fn new(report: &'a Report, html: Option<String>) -> Self {
        let records = &report.records;
        Self {
            root: report.root.as_deref().unwrap_or_default(),
            made_at: Seconds(report.made_ms),
            max_bytes: report.max_bytes,
            max_entries: report.max_entries,
            remain_percent: report.remain_percent,
            targets: report.targets.iter().map(target).collect(),
            builds: report.builds.iter().map(build).collect(),
            operators: report.operators.iter().map(operator).collect(),
            records: RecordsOutput {
                read: report.builds.len(),
                damaged: records.damaged,
                newer: records.newer,
                bytes: records.bytes,
                deleted: records.deleted,
            },
            html,
        }
    }
}

fn target(target: &TargetReport) -> TargetOutput<'_> {
    TargetOutput {
        target: &target.target,
        store: (&target.usage).into(),
        statistics: &target.statistics,
        frameworks: shares(&target.frameworks),
        operators: shares(&target.operators),
        unused: shares(&target.unused),
        age: shares(&target.age),
        unreadable: target.unreadable,
        eviction: EvictionOutput {
            over_limit: target.eviction.is_over,
            idle_kernels: target.eviction.idle_kernels,
            idle_bytes: target.eviction.idle_bytes,
            next: target.eviction.next.iter().map(next).collect(),
        },
        quarantined: target.quarantined.iter().map(quarantined).collect(),
    }
}

fn shares(shares: &[Share]) -> Vec<ShareOutput<'_>> {
    shares
        .iter()
        .map(|share| ShareOutput { name: share.name.as_deref(), kernels: share.kernels, bytes: share.bytes })
        .collect()
}

fn next(next: &NextReport) -> NextOutput<'_> {
    NextOutput {
        key: &next.key,
        framework: next.framework.as_deref(),
        kernel: next.kernel.as_deref(),
        bytes: next.bytes,
        last_used_at: Seconds(next.last_used_ms),
        compile_ms: next.compile_us.map(ms),
    }
}

fn quarantined(entry: &QuarantinedReport) -> QuarantinedOutput<'_> {
    QuarantinedOutput {
        key: &entry.key,
        at: Seconds(entry.at_ms),
        bytes: entry.bytes,
        reason: entry.reason.as_deref(),
    }
}

fn operator(cost: &OperatorCost) -> OperatorOutput<'_> {
    OperatorOutput {
        op_type: &cost.op_type,
        compiled: cost.compiled,
        compile_ms: ms(cost.compile_us),
        longest_ms: ms(cost.longest_us),
        failed: cost.failed,
        found: cost.found,
        saved_ms: ms(cost.saved_us),
    }
}

fn build(build: &BuildReport) -> BuildOutput<'_> {
    let (record, path) = (&build.record, &build.path);
    let segment = |segment: &PathSegment| SegmentOutput {
        part: segment.kind,
        kernel: segment.kernel.and_then(|at| record.kernels.get(at)).map(|kernel| kernel.name.as_str()),
        begin_ms: ms(segment.begin_us),
        end_ms: ms(segment.end_us),
    };
    let hits = record.hits.iter().map(|(op_type, hits)| HitsOutput {
        op_type,
        kernels: hits.kernels,
        saved_ms: ms(hits.saved_us),
    });
    BuildOutput {
        began_at: Seconds(record.began_ms),
        elapsed_ms: ms(record.elapsed_us),
        host: &record.host,
        process: record.process,
        label: &record.label,
        backend: &record.backend,
        targets: &record.targets,
        operators: record.operators,
        threads: record.threads,
        kernels: build.kernels,
        hits: build.hits,
        counts: &record.counts,
        from_remote: record.from_remote,
        interrupted: record.cancelled,
        phases: PhasesOutput {
            planned_ms: ms(record.phases.planned_us),
            looked_up_ms: ms(record.phases.looked_up_us),
            fetched_ms: ms(record.phases.fetched_us),
            made_ms: ms(record.phases.made_us),
        },
        lost: LostOutput {
            process_ms: ms(record.lost.process_us),
            host_ms: ms(record.lost.host_us),
            remote_ms: ms(record.lost.remote_us),
        },
        path: PathOutput {
            thread: path.worker,
            lower_bound_ms: ms(path.lower_bound_us),
            longest_ms: ms(path.longest_us),
            work_ms: ms(path.work_us),
            segments: path.segments.iter().map(segment).collect(),
        },
        hits_by_operator: hits.collect(),
        results: record.kernels.iter().map(kernel).collect(),
        omitted: record.omitted,
    }
}

fn kernel(kernel: &RecordedKernel) -> KernelOutput<'_> {
    KernelOutput {
        op_type: &kernel.op_type,
        name: &kernel.name,
        key: kernel.key.as_deref(),
        outcome: &kernel.outcome,
        from_remote: kernel.from_remote,
        thread: kernel.worker,
        begin_ms: ms(kernel.begin_us),
        end_ms: ms(kernel.end_us),
        waited_ms: ms(kernel.waited_us()),
        waited_for_host: kernel.waited_for_host,
        queued_ms: ms(kernel.queued_us()),
        compile_ms: kernel.compile_time_us.map(ms),
        saved_ms: kernel.saved_us.map(ms),
        bytes: kernel.bytes,
    }
}
