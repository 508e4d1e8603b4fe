//! `opkeep stats`: reports the store's statistics.

use std::collections::BTreeMap;
use std::time::Duration;

use opkeep_store::{Access, GcOptions, Statistics, TargetUsage};
use serde::Serialize;

use crate::commands::gc::store::{UsageOutput, kernels, open, target_stores};
use crate::flags::store::StoreArgs;
use crate::ui::json::{self, Milliseconds};
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, bytes, counted};

/// Report the store's statistics: hits, misses, compiles, time saved
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Reset the statistics after the report
    #[arg(long)]
    pub(crate) zero: bool,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let access = if args.zero { Access::Existing } else { Access::ReadOnly };
    let Some(store) = open(&args.store, access, output)? else { return Ok(ExitStatus::Success) };
    let (mut text, mut targets) = (Text::default(), Vec::new());
    for (name, target) in target_stores(&store)? {
        let statistics = target.statistics();
        let usage = target.gc(&GcOptions::default().with_dry_run(true))?.before;
        text.append(&stats_text(&name, &statistics, &usage));
        targets.push(TargetOutput {
            target: name,
            store: (&usage).into(),
            statistics: statistics.all().map(counter_output).collect(),
        });
        if args.zero {
            target.reset_statistics()?;
        }
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
}

#[derive(Serialize)]
struct TargetOutput {
    target: String,
    store: UsageOutput,
    statistics: BTreeMap<String, CounterOutput>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum CounterOutput {
    Count(u64),
    Time(Milliseconds),
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

fn stats_text(name: &str, statistics: &Statistics, usage: &TargetUsage) -> Text {
    let Statistics { hits, compiles, waits, evictions, quarantines, .. } = statistics;
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
    let mut text = Text::of(name);
    text.line(format_args!("  stored    {}, {}", kernels(usage), bytes(usage.total().bytes)));
    text.line(format_args!(
        "  look-ups  {}, {}{rate}{reasons}",
        counted(*hits, "hit"),
        counted(misses, "miss")
    ));
    let compiled = Duration::from_micros(statistics.compile_micros).as_secs_f64();
    text.line(format_args!(
        "  compiled  {compiles} in {compiled:.1} s, waited {} for other processes",
        counted(*waits, "time")
    ));
    text.line(format_args!("  saved     {:.1} s of compiling", statistics.time_saved().as_secs_f64()));
    text.line(format_args!("  removed   {evictions} evicted, {quarantines} quarantined"));
    text
}
