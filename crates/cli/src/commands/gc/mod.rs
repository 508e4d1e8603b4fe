//! `opkeep gc`, `stats` and `clear`: a store as a whole, target by target.

mod kernel_cache;

use std::time::Duration;

use opkeep_store::{Access, GcOptions, GcReport, Statistics, Store, TargetStore, TargetUsage};
use serde_json::{Value, json};

use crate::args::{ClearArgs, GcArgs, StatsArgs, StoreArgs};
use crate::commands::verify::store::Place;
use crate::ui::output::{Output, Verdict};
use crate::ui::text::{Text, counted};

pub(crate) fn gc(args: &GcArgs, output: &Output) -> anyhow::Result<Verdict> {
    if !args.dirs.is_empty() {
        return kernel_cache::gc(args, output);
    }
    let options = GcOptions { dry_run: args.dry_run, max_bytes: args.max_size, older_than: args.older_than };
    make_room(&args.store, &options, output)
}

pub(crate) fn clear(args: &ClearArgs, output: &Output) -> anyhow::Result<Verdict> {
    let options =
        GcOptions { older_than: Some(Duration::ZERO), dry_run: args.dry_run, ..GcOptions::default() };
    make_room(&args.store, &options, output)
}

fn make_room(args: &StoreArgs, options: &GcOptions, output: &Output) -> anyhow::Result<Verdict> {
    let access = if options.dry_run { Access::ReadOnly } else { Access::Existing };
    let Some(store) = open(args, access, output)? else { return Ok(Verdict::Good) };
    let (mut text, mut targets, mut verdict) = (Text::default(), Vec::new(), Verdict::Good);
    for (name, target) in shelves(&store)? {
        let report = target.gc(options)?;
        text.line(format_args!("{name}: {}", made_room(&report, options.dry_run)));
        if let Some(failure) = &report.failure {
            let failed = counted(usize::try_from(report.failed).unwrap_or(usize::MAX), "kernel");
            output.warning(&format!("{failed} could not be deleted: {failure}"));
            verdict = Verdict::Problems;
        }
        targets.push(gc_json(&name, &report));
    }
    let root = store.root().to_string_lossy();
    if targets.is_empty() {
        text.line("the store is empty");
    }
    output.result(&text, &json!({ "root": root, "dry_run": options.dry_run, "targets": targets }))?;
    Ok(verdict)
}

/// The store. One that was not made yet is as good as an empty one, unless the user names it.
fn open(args: &StoreArgs, access: Access, output: &Output) -> anyhow::Result<Option<Store>> {
    let place = Place::usual(args)?;
    let store = place.open(access, args, output)?;
    if store.is_none() {
        let root = place.root.to_string_lossy();
        let text = Text::of(format_args!("there is no store at {root}"));
        output.result(&text, &json!({ "root": root, "targets": [] }))?;
    }
    Ok(store)
}

fn shelves(store: &Store) -> anyhow::Result<Vec<(String, TargetStore)>> {
    let names = store.targets()?;
    names.into_iter().map(|name| Ok((name.clone(), store.target(&name)?))).collect()
}

fn made_room(report: &GcReport, dry_run: bool) -> String {
    if report.busy {
        return "another process is at it".to_owned();
    }
    let (before, removed, after) = (&report.before, &report.removed, &report.after);
    let would = if dry_run { "would delete" } else { "deleted" };
    let over = match (report.still_over, after.entries.files) {
        (false, _) => "",
        (true, 0) => {
            "; that is more than the limit, since the store's own files stay, and those of builds that may still be running"
        }
        (true, _) if report.failed > 0 => "; that is more than the limit, since kernels could not be deleted",
        (true, _) => {
            "; that is more than the limit, since kernels that were used within half an hour stay (--older-than 0s \
             deletes those, too)"
        }
    };
    format!(
        "{would} {} ({}) of {}, {} left ({}){over}",
        kernels(removed),
        bytes(removed.total().bytes),
        before.entries.files,
        after.entries.files,
        bytes(after.total().bytes)
    )
}

fn kernels(usage: &TargetUsage) -> String {
    counted(usize::try_from(usage.entries.files).unwrap_or(usize::MAX), "kernel")
}

fn gc_json(name: &str, report: &GcReport) -> Value {
    json!({
        "target": name,
        "busy": report.busy,
        "before": usage_json(&report.before),
        "removed": usage_json(&report.removed),
        "after": usage_json(&report.after),
        "still_over": report.still_over,
        "failed": report.failed,
    })
}

fn usage_json(usage: &TargetUsage) -> Value {
    json!({ "kernels": usage.entries.files, "files": usage.total().files, "bytes": usage.total().bytes })
}

pub(crate) fn stats(args: &StatsArgs, output: &Output) -> anyhow::Result<Verdict> {
    let access = if args.zero { Access::Existing } else { Access::ReadOnly };
    let Some(store) = open(&args.store, access, output)? else { return Ok(Verdict::Good) };
    let (mut text, mut targets) = (Text::default(), Vec::new());
    for (name, target) in shelves(&store)? {
        let statistics = target.statistics();
        let there = target.gc(&GcOptions { dry_run: true, ..GcOptions::default() })?.before;
        text.append(&stats_text(&name, &statistics, &there));
        let numbers: serde_json::Map<String, Value> =
            statistics.all().map(|(name, number)| (name.replace('-', "_"), number.into())).collect();
        targets.push(json!({ "target": name, "store": usage_json(&there), "statistics": numbers }));
        if args.zero {
            target.reset_statistics()?;
        }
    }
    let limits = store.limits();
    let limit = limits.max_bytes.map_or("none".to_owned(), |max| format!("{} a target", bytes(max)));
    text.line(format_args!("store {}, limit {limit}", store.root().to_string_lossy()));
    let json = json!({
        "root": store.root().to_string_lossy(),
        "max_bytes": limits.max_bytes,
        "max_entries": limits.max_entries,
        "remain_percent": limits.remain_percent,
        "targets": targets,
    });
    output.result(&text, &json)?;
    Ok(Verdict::Good)
}

fn stats_text(name: &str, statistics: &Statistics, there: &TargetUsage) -> Text {
    let Statistics { hits, compiles, waits, evictions, quarantines, .. } = statistics;
    let misses = statistics.misses();
    let rate = match hits + misses {
        0 => String::new(),
        all => format!(" ({:.1} % hits)", *hits as f64 * 100.0 / all as f64),
    };
    let reasons = [
        (statistics.misses_absent, "not there"),
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
    text.line(format_args!("  stored    {}, {}", kernels(there), bytes(there.total().bytes)));
    text.line(format_args!("  look-ups  {hits} hits, {misses} misses{rate}{reasons}"));
    let compiled = Duration::from_micros(statistics.compile_micros).as_secs_f64();
    text.line(format_args!("  compiled  {compiles} in {compiled:.1} s, waited {waits} times for others"));
    text.line(format_args!("  saved     {:.1} s of compiling", statistics.time_saved().as_secs_f64()));
    text.line(format_args!("  removed   {evictions} to make room, {quarantines} damaged"));
    text
}

/// Bytes for people.
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes {
        0..=1023 => format!("{bytes} bytes"),
        1024..=1_048_575 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..=1_073_741_823 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}
