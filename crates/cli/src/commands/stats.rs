//! `opkeep stats`: reports the store's statistics.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;
use opkeep_store::{Access, FileTotals, GcOptions, OpenEntry, Statistics, TargetStore, TargetUsage};
use serde::Serialize;

use crate::commands::activity;
use crate::commands::gc::store::{UsageOutput, open, size_text};
use crate::flags::store::StoreArgs;
use crate::flags::target_filter::TargetFilter;
use crate::input::entries::{ReadHeads, read_heads};
use crate::input::store::threads;
use crate::input::stored_kernel::{StoredKernel, UNNAMED};
use crate::ui::json::{self, Milliseconds};
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, bytes, columns, counted, shortened};

/// The details of stats.
const DETAILS: &str = "\
Examples:
  opkeep stats
    reports the counters of each target, and the size of its kernels
  opkeep stats --by kernel
    reports the size of the entries of each kernel";

/// Report the store's statistics: hits, misses, compiles, time saved
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    target: TargetFilter,
    /// Reset the statistics after the report
    #[arg(long)]
    pub(crate) zero: bool,
    /// Report the entries as well, by the framework that made them or also by kernel
    ///
    /// Their number and size; a kernel by its name, or by its operator if opkeep compiled it. The start of every
    /// entry is read.
    #[arg(long, value_enum, value_name = "ROWS")]
    pub(crate) by: Option<By>,
}

/// The rows of the entries' totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    Framework,
    Kernel,
}

/// The maximum number of rows in text.
const MAX_ROWS: usize = 50;
/// The maximum number of characters of a framework's and a kernel's name in text.
const MAX_NAME: usize = 200;

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let access = if args.zero { Access::Existing } else { Access::ReadOnly };
    let Some(store) = open(&args.store, access, output)? else { return Ok(ExitStatus::Success) };
    let (mut text, mut targets, mut total) = (Text::default(), Vec::new(), Statistics::default());
    let stores = args.target.stores(&store)?;
    for (name, target) in &stores {
        let statistics = target.statistics();
        total.add(&statistics);
        let unsent = target.count_unsent();
        let usage = target.gc(&GcOptions::default().with_dry_run(true))?.before;
        text.append(&stored_text(name, &usage));
        text.append(&counts_text(&statistics, unsent));
        let contents = args.by.map(|by| contents(name, target, by, output)).transpose()?;
        text.extend(contents.as_deref().map(contents_text));
        targets.push(TargetOutput {
            target: name.clone(),
            store: StoredOutput { usage: (&usage).into(), quarantined: (&usage).into() },
            contents,
            unsent,
            statistics: counters(&statistics),
        });
    }
    // All were read: a command that fails loses none.
    for (_, target) in stores.iter().filter(|_| args.zero) {
        target.reset_statistics()?;
    }
    if targets.is_empty() {
        text.line(args.target.none_chosen(&store)?.0);
    }
    if targets.len() > 1 {
        text.line("in all");
        text.append(&counts_text(&total, targets.iter().map(|target| target.unsent).sum()));
    }
    let limits = store.limits();
    let limit = limits.max_bytes.map_or("none".to_owned(), |max| format!("{} a target", bytes(max)));
    text.line(format_args!("store {}, limit {limit}", store.root().to_string_lossy()));
    let json = StatsOutput {
        root: json::path(store.root()),
        max_bytes: limits.max_bytes,
        max_entries: limits.max_entries,
        remain_percent: limits.remain_percent,
        targets,
        total: counters(&total),
    };
    output.print_result(&text, &json)?;
    Ok(ExitStatus::Success)
}

/// The result as JSON.
#[derive(Serialize)]
struct StatsOutput {
    root: String,
    max_bytes: Option<u64>,
    max_entries: Option<u64>,
    remain_percent: u8,
    targets: Vec<TargetOutput>,
    /// The sums over these targets.
    total: CountersOutput,
}

pub(crate) type CountersOutput = BTreeMap<String, CounterOutput>;

#[derive(Serialize)]
struct TargetOutput {
    target: String,
    store: StoredOutput,
    #[serde(skip_serializing_if = "Option::is_none")]
    contents: Option<Vec<ContentOutput>>,
    /// The number of kernels that are to be sent to a remote cache.
    unsent: usize,
    statistics: CountersOutput,
}

/// What is stored for a target.
#[derive(Serialize)]
struct StoredOutput {
    #[serde(flatten)]
    usage: UsageOutput,
    /// The part of it that is quarantined.
    quarantined: QuarantinedOutput,
}

#[derive(Serialize)]
struct QuarantinedOutput {
    kernels: u64,
    files: u64,
    bytes: u64,
}

impl From<&TargetUsage> for QuarantinedOutput {
    fn from(usage: &TargetUsage) -> Self {
        let FileTotals { files, bytes } = usage.quarantine;
        Self { kernels: usage.quarantined_entries, files, bytes }
    }
}

/// Entries of one framework, or of one kernel of it.
#[derive(Serialize)]
struct ContentOutput {
    /// None if opkeep compiled or imported them.
    framework: Option<String>,
    /// None without a name. Unset if not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<Option<String>>,
    entries: u64,
    bytes: u64,
}

/// Returns the totals of a target's entries, the largest first.
fn contents(name: &str, target: &TargetStore, by: By, output: &Output) -> anyhow::Result<Vec<ContentOutput>> {
    let mut totals: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    let read = |entry: &OpenEntry<'_>| {
        let kernel = StoredKernel::of(entry);
        let operator = (by == By::Kernel).then(|| kernel.operator().map(str::to_owned));
        Some(((kernel.framework, operator), entry.head().file_bytes()))
    };
    let ReadHeads { read, unread } = read_heads(target, threads(None), &output.cancel_token(), read)?;
    if let Some(problem) = unread.problem() {
        output.print_warning(&format!("the content of target {name} is incomplete: {problem}"));
    }
    for (content, bytes) in read {
        let (entries, total) = totals.entry(content).or_default();
        *entries += 1;
        *total += bytes;
    }
    let output =
        |((framework, kernel), (entries, bytes))| ContentOutput { framework, kernel, entries, bytes };
    let mut contents: Vec<ContentOutput> = totals.into_iter().map(output).collect();
    opkeep_order::by_key(&mut contents, |content| std::cmp::Reverse(content.bytes));
    Ok(contents)
}

fn contents_text(contents: &[ContentOutput]) -> Text {
    let row = |content: &ContentOutput| {
        let framework = content.framework.as_deref().unwrap_or("opkeep");
        let name = match &content.kernel {
            Some(kernel) => format!("{framework} {}", kernel.as_deref().unwrap_or(UNNAMED)),
            None => framework.to_owned(),
        };
        vec![shortened(&name, MAX_NAME), counted(content.entries, "kernel"), bytes(content.bytes)]
    };
    let mut text = columns("    ", &contents.iter().take(MAX_ROWS).map(row).collect::<Vec<_>>());
    if let Some(more @ 1..) = contents.len().checked_sub(MAX_ROWS) {
        text.line(format_args!("    and {}, which the JSON output lists", counted(more, "other")));
    }
    text
}

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum CounterOutput {
    Count(u64),
    Time(Milliseconds),
}

pub(crate) fn counters(statistics: &Statistics) -> CountersOutput {
    opkeep_order::map(statistics.all().map(counter_output))
}

/// Returns a counter with its name, for JSON. The store counts microseconds; JSON has milliseconds everywhere.
fn counter_output((name, number): (&'static str, u64)) -> (String, CounterOutput) {
    match name.strip_suffix("-us") {
        Some(name) => {
            let time = Duration::from_micros(number);
            (format!("{}_ms", name.replace('-', "_")), CounterOutput::Time(Milliseconds(time)))
        }
        None => (name.replace('-', "_"), CounterOutput::Count(number)),
    }
}

fn stored_text(name: &str, usage: &TargetUsage) -> Text {
    let mut text = Text::of(name);
    let kernels = counted(usage.entries.files, "kernel");
    text.line(format_args!("  stored    {kernels}, {}", size_text(usage)));
    text
}

/// `unsent` kernels are to be sent to a remote cache.
fn counts_text(statistics: &Statistics, unsent: usize) -> Text {
    let Statistics { hits, compiles, waits, evictions, cleared, quarantines, .. } = statistics;
    let misses = statistics.misses();
    let rate = match hits + misses {
        0 => String::new(),
        all => format!(" ({:.1} % hits)", *hits as f64 * 100.0 / all as f64),
    };
    let reasons = [
        (statistics.misses_absent, "not stored"),
        (statistics.misses_damaged, "damaged"),
        (statistics.misses_untrusted, "not trusted"),
        (statistics.misses_trouble, "could not be read"),
    ];
    let reasons: Vec<String> = reasons
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, reason)| format!("{number} {reason}"))
        .collect();
    let reasons = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join(", ")) };
    let mut text = Text::default();
    text.line(format_args!(
        "  look-ups  {}, {}{rate}{reasons}",
        counted(*hits, "hit"),
        counted(misses, "miss")
    ));
    let compiled = Duration::from_micros(statistics.compile_micros).as_secs_f64();
    text.line(format_args!(
        "  compiled  {compiles} in {compiled:.1} s, waited {} for other processes (a look-up that waits is a miss before it is a hit)",
        counted(*waits, "time")
    ));
    text.line(format_args!("  saved     {:.1} s of compiling", statistics.time_saved().as_secs_f64()));
    text.line(format_args!("  removed   {evictions} evicted, {cleared} cleared, {quarantines} quarantined"));
    text.append(&remote_text(statistics, unsent));
    text
}

/// Returns the lines about waits and the remote cache, of which most stores have none.
fn remote_text(statistics: &Statistics, unsent: usize) -> Text {
    let phrases =
        |phrases: &[Option<String>]| phrases.iter().flatten().cloned().collect::<Vec<_>>().join(", ");
    let Statistics { remote_hits, remote_shared, remote_bytes_received: received, .. } = statistics;
    let taken = || {
        let by_host = match remote_shared {
            0 => String::new(),
            count => format!(", {count} of them compiled by another host meanwhile"),
        };
        format!("{}{by_host}", counted(*remote_hits, "hit"))
    };
    // Not the sum of the waits of kernels, which a build spends on others.
    let waited = activity::waited(statistics).map(|waited| format!("{waited}, with nothing else to do"));
    let (still, failed) = (activity::unsent(unsent), activity::failed_uploads(statistics));
    let rows = [
        (
            "remote",
            phrases(&[
                (*remote_hits > 0).then(taken),
                (*received > 0).then(|| format!("{} received", bytes(*received))),
            ]),
        ),
        ("sent", phrases(&[activity::sent(statistics), still, failed])),
        ("lost", phrases(&[waited.clone(), activity::taken_over(statistics)])),
        ("refused", phrases(&[activity::refused(statistics)])),
        ("failed", phrases(&[activity::failed(statistics)])),
    ];
    let mut text = Text::default();
    for (name, row) in rows.iter().filter(|(_, row)| !row.is_empty()) {
        text.line(format_args!("  {name:<8}  {row}"));
    }
    text
}
