//! A report as text: short; JSON and the page have everything.

use std::time::Duration;

use opkeep::Outcome;

use super::data::{BuildReport, Report, TargetReport};
use super::time::{ago, duration, utc};
use crate::ui::text::{Text, bytes, columns, counted, shortened};

/// The number of builds, operators, evictions, quarantined entries and waits.
const MAX_BUILDS: usize = 8;
const MAX_ROWS: usize = 5;
/// The maximum number of characters of a name.
const MAX_NAME: usize = 60;

/// Returns the text of a report.
pub(super) fn report_text(report: &Report) -> Text {
    let mut text = Text::default();
    builds(&mut text, report);
    costs(&mut text, report);
    waits(&mut text, report);
    let rate = report.lookups_rate();
    if rate.of > 0 {
        text.line(format_args!(
            "{} of all look-ups: {} ({})",
            counted(rate.hits, "hit"),
            rate.of,
            rate.percent()
        ));
    }
    report.targets.iter().for_each(|target| contents(&mut text, target, report.made_ms));
    text.line(format_args!("store {}", report.root.as_deref().unwrap_or_default()));
    text
}

fn name(text: &str) -> String {
    shortened(text, MAX_NAME)
}

fn builds(text: &mut Text, report: &Report) {
    if report.builds.is_empty() {
        text.line("no build is recorded");
    } else {
        let rate = report.builds_rate();
        text.line(format_args!(
            "{}: {} of {} were in the store ({})",
            counted(report.builds.len(), "recorded build"),
            rate.hits,
            counted(rate.of, "kernel"),
            rate.percent()
        ));
        let rows: Vec<_> = report.builds.iter().take(MAX_BUILDS).map(build_row).collect();
        text.append(&columns("  ", &rows));
        if let Some(more @ 1..) = report.builds.len().checked_sub(MAX_BUILDS) {
            text.line(format_args!("  and {}", counted(more, "earlier one")));
        }
    }
    let skipped = [(report.records.damaged, "damaged"), (report.records.newer, "of a newer version")];
    for (count, what) in skipped.into_iter().filter(|(count, _)| *count > 0) {
        text.line(format_args!("  {} left out: {what}", counted(count, "record")));
    }
}

fn build_row(build: &BuildReport) -> Vec<String> {
    let record = &build.record;
    let unbuilt = [Outcome::Failed, Outcome::Cancelled, Outcome::Skipped]
        .map(|outcome| (record.count(outcome), outcome));
    let others = unbuilt.iter().fold(build.hits, |sum, (count, _)| sum.saturating_add(*count));
    let mut built = format!("{} built", build.kernels.saturating_sub(others));
    for (count, outcome) in unbuilt.iter().filter(|(count, _)| *count > 0) {
        built += &format!(", {count} {}", outcome.name());
    }
    vec![
        utc(record.began_ms),
        name(&record.label),
        format!("{} reused", build.hits),
        built,
        duration(record.elapsed_us),
        match build.record.kernels.is_empty() {
            true => String::new(),
            false => format!("at least {}", duration(build.path.lower_bound_us)),
        },
        name(&record.host),
    ]
}

fn costs(text: &mut Text, report: &Report) {
    let compiled: Vec<_> = report.operators.iter().filter(|cost| cost.compiled + cost.failed > 0).collect();
    if compiled.is_empty() {
        return;
    }
    text.line("dearest operators");
    let rows: Vec<_> = compiled
        .iter()
        .take(MAX_ROWS)
        .map(|cost| {
            let failed = if cost.failed > 0 { format!(", {} failed", cost.failed) } else { String::new() };
            vec![
                name(&cost.op_type),
                format!("{} compiled{failed}", cost.compiled),
                duration(cost.compile_us),
                format!("saved {}", duration(cost.saved_us)),
            ]
        })
        .collect();
    text.append(&columns("  ", &rows));
}

fn waits(text: &mut Text, report: &Report) {
    let mut waits: Vec<_> = report
        .builds
        .iter()
        .flat_map(|build| build.waits().into_iter().map(move |kernel| (build, kernel)))
        .collect();
    if waits.is_empty() {
        return;
    }
    waits.sort_by_key(|(_, kernel)| std::cmp::Reverse(kernel.waited_us()));
    let all = waits.iter().map(|(_, kernel)| kernel.waited_us()).fold(0, u64::saturating_add);
    text.line(format_args!("{} waited {} for others", counted(waits.len(), "kernel"), duration(all)));
    let rows: Vec<_> = waits
        .iter()
        .take(MAX_ROWS)
        .map(|(build, kernel)| {
            let whom = if kernel.waited_for_host { "another host" } else { "another process" };
            vec![
                name(&kernel.name),
                duration(kernel.waited_us()),
                format!("for {whom}"),
                utc(build.record.began_ms),
            ]
        })
        .collect();
    text.append(&columns("  ", &rows));
}

fn contents(text: &mut Text, target: &TargetReport, made_ms: u64) {
    text.line(format_args!(
        "{}: {}, {}",
        target.target,
        counted(target.kernels, "kernel"),
        bytes(target.bytes)
    ));
    for (title, list, unnamed) in [
        ("framework", &target.frameworks, "opkeep"),
        ("operator", &target.operators, "(unnamed)"),
        ("unused", &target.unused, ""),
    ] {
        let shares = list.iter().filter(|share| share.kernels > 0);
        let shares: Vec<String> = shares
            .take(MAX_ROWS)
            .map(|share| format!("{} {}", name(share.name.as_deref().unwrap_or(unnamed)), share.kernels))
            .collect();
        if !shares.is_empty() {
            let others = list.iter().filter(|share| share.kernels > 0).skip(MAX_ROWS).count();
            let others =
                if others > 0 { format!(", and {}", counted(others, "other")) } else { String::new() };
            text.line(format_args!("  by {title}: {}{others}", shares.join(", ")));
        }
    }
    let eviction = &target.eviction;
    let when = if eviction.is_over { "evicted next" } else { "evicted first if the limit is exceeded" };
    if !eviction.next.is_empty() {
        text.line(format_args!("  {when}, of {}:", counted(eviction.idle_kernels, "unused kernel")));
    }
    let rows: Vec<_> = eviction
        .next
        .iter()
        .take(MAX_ROWS)
        .map(|next| {
            let unused = Duration::from_millis(made_ms.saturating_sub(next.last_used_ms));
            let kernel = next.kernel.as_deref().unwrap_or("(unnamed)");
            vec![name(kernel), bytes(next.bytes), format!("used {}", ago(unused)), shortened(&next.key, 12)]
        })
        .collect();
    text.append(&columns("    ", &rows));
    if !target.quarantined.is_empty() {
        text.line(format_args!("  {} quarantined:", counted(target.quarantined.len(), "kernel")));
    }
    for entry in target.quarantined.iter().take(MAX_ROWS) {
        let reason = entry.reason.as_deref().unwrap_or("no reason was written");
        text.line(format_args!(
            "    {} {}: {}",
            utc(entry.at_ms),
            shortened(&entry.key, 12),
            shortened(reason, 200)
        ));
    }
}
