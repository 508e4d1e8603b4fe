//! A report as text: short; JSON and the page have everything.

use std::time::Duration;

use opkeep::Outcome;

use super::data::{BuildReport, Report, TargetReport};
use super::time::{ago, duration, utc};
use crate::commands::gc::store::size_text;
use crate::input::stored_kernel::UNNAMED;
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
        let head =
            ["began", "input", "reused", "compiled", "shared", "not built", "took", "at least", "host"];
        text.append(&table("  ", head, report.builds.iter().take(MAX_BUILDS).map(build_row)));
        if let Some(more @ 1..) = report.builds.len().checked_sub(MAX_BUILDS) {
            text.line(format_args!("  and {}", counted(more, "earlier one")));
        }
    }
    let skipped = [(report.records.damaged, "damaged"), (report.records.newer, "of a newer version")];
    for (count, what) in skipped.into_iter().filter(|(count, _)| *count > 0) {
        text.line(format_args!("  {} left out: {what}", counted(count, "record")));
    }
}

/// Returns lines below a head.
fn table<const N: usize>(indent: &str, head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> Text {
    let head = head.map(str::to_owned).to_vec();
    let rows: Vec<_> = std::iter::once(head).chain(rows.map(Vec::from)).collect();
    match rows.len() {
        1 => Text::default(),
        _ => columns(indent, &rows),
    }
}

fn build_row(build: &BuildReport) -> [String; 9] {
    let record = &build.record;
    let unbuilt = [Outcome::Failed, Outcome::Cancelled, Outcome::Skipped]
        .map(|outcome| (record.count(outcome), outcome));
    let others = unbuilt.iter().fold(build.hits, |sum, (count, _)| sum.saturating_add(*count));
    // A kernel that another process compiled meanwhile.
    let shared = record.count(Outcome::Shared);
    let reasons = unbuilt.iter().filter(|(count, _)| *count > 0);
    let reasons: Vec<_> = reasons.map(|(count, outcome)| format!("{count} {}", outcome.name())).collect();
    let lower_bound = match record.kernels.is_empty() {
        true => String::new(),
        false => duration(build.path.lower_bound_us),
    };
    [
        utc(record.began_ms),
        name(&record.label),
        build.hits.to_string(),
        build.kernels.saturating_sub(others).saturating_sub(shared).to_string(),
        shared.to_string(),
        reasons.join(", "),
        duration(record.elapsed_us),
        lower_bound,
        name(&record.host),
    ]
}

fn costs(text: &mut Text, report: &Report) {
    let compiled: Vec<_> = report.operators.iter().filter(|cost| cost.compiled + cost.failed > 0).collect();
    if compiled.is_empty() {
        return;
    }
    text.line("dearest operators");
    let rows = compiled.iter().take(MAX_ROWS).map(|cost| {
        let (compiled, failed) = (cost.compiled.to_string(), cost.failed.to_string());
        [name(&cost.op_type), compiled, failed, duration(cost.compile_us), duration(cost.saved_us)]
    });
    text.append(&table("  ", ["operator", "compiled", "failed", "compile time", "saved"], rows));
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
    opkeep_order::by_key(&mut waits, |(_, kernel)| std::cmp::Reverse(kernel.waited_us()));
    let all = waits.iter().map(|(_, kernel)| kernel.waited_us()).fold(0, u64::saturating_add);
    let lost = report.builds.iter().map(|build| build.record.lost.sum_us()).fold(0, u64::saturating_add);
    text.line(format_args!(
        "{} waited for others, {} added up; the builds did nothing but wait for {}",
        counted(waits.len(), "kernel"),
        duration(all),
        duration(lost)
    ));
    let rows = waits.iter().take(MAX_ROWS).map(|(build, kernel)| {
        let whom = if kernel.waited_for_host { "another host" } else { "another process" };
        [name(&kernel.name), duration(kernel.waited_us()), whom.to_owned(), utc(build.record.began_ms)]
    });
    text.append(&table("  ", ["kernel", "waited", "for", "build began"], rows));
}

fn contents(text: &mut Text, target: &TargetReport, made_ms: u64) {
    let kernels = counted(target.usage.entries.files, "kernel");
    text.line(format_args!("{}: {kernels}, {}", target.target, size_text(&target.usage)));
    for (title, list, unnamed) in [
        ("framework", &target.frameworks, "opkeep"),
        ("operator", &target.operators, UNNAMED),
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
    let rows = eviction.next.iter().take(MAX_ROWS).map(|next| {
        let unused = Duration::from_millis(made_ms.saturating_sub(next.last_used_ms));
        let kernel = next.kernel.as_deref().unwrap_or(UNNAMED);
        [name(kernel), bytes(next.bytes), ago(unused), digits(&next.key)]
    });
    text.append(&table("    ", ["operator", "size", "last used", "key"], rows));
    if !target.quarantined.is_empty() {
        text.line(format_args!("  {} quarantined:", counted(target.quarantined.len(), "kernel")));
    }
    let rows = target.quarantined.iter().take(MAX_ROWS).map(|entry| {
        let reason = entry.reason.as_deref().unwrap_or("no reason was written");
        [utc(entry.at_ms), digits(&entry.key), shortened(reason, 200)]
    });
    text.append(&table("    ", ["quarantined", "key", "reason"], rows));
}

/// Returns the first digits of a key, as `ls` has them, which `explain` takes.
fn digits(key: &str) -> String {
    key.chars().take(12).collect()
}
