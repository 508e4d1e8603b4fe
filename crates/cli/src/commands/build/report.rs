//! The report of a build as text.

use std::cmp::Reverse;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use opkeep::{BuildError, BuildReport, Engine, KernelReport, MissGroup, Outcome, Request};
use opkeep_cache::Miss;

use super::{left, not_cached};
use crate::commands::activity;
use crate::commands::misses::text::{Detail, MissedKernel, causes_text};
use crate::flags::compile::CompileArgs;
use crate::ui::config::Verbosity;
use crate::ui::hints;
use crate::ui::logged::is_multi_line;
use crate::ui::output::Output;
use crate::ui::text::{Text, bytes, counted};

/// The number of kernels that are named as the slowest.
const SLOWEST: usize = 3;

/// Notes the other targets that descriptors name.
pub(crate) fn note_targets(requests: &[Request], common: &CompileArgs, output: &Output) {
    let mut named: Vec<&str> = requests
        .iter()
        .filter(|request| request.spec.target == common.target())
        .map(|request| request.descriptor.spec.target.as_str())
        .filter(|named| *named != common.target())
        .collect();
    opkeep_order::sort(&mut named);
    named.dedup();
    if !named.is_empty() {
        let named = named.join(", ");
        let hint = if common.chooses_target() { "" } else { " (--target chooses)" };
        output.print_note(&format!("the descriptors name {named}; building for {}{hint}", common.target()));
    }
}

/// Builds `requests` and shows the progress.
pub(crate) fn with_progress(
    engine: Engine,
    requests: &[Request],
    output: &Output,
) -> Result<BuildReport, BuildError> {
    let progress = Arc::new(output.build_progress());
    let observer = Arc::clone(&progress);
    let report = engine.with_observer(move |event| observer.observe(&event)).build(requests);
    progress.done();
    report
}

/// Returns a summary of an interrupted build.
pub(crate) fn interrupted(report: &BuildReport) -> String {
    let left = not_built(report);
    let kept = report.kernels.len() - left - report.count(Outcome::Failed);
    format!("interrupted: {} kept, {left} not built; run it again to continue", counted(kept, "kernel"))
}

/// Returns the number of kernels that were skipped or cancelled.
fn not_built(report: &BuildReport) -> usize {
    report.count(Outcome::Skipped) + report.count(Outcome::Cancelled)
}

/// Prints warnings. Returns whether the kernels are where the framework looks for them; other programs' kernels may be there
/// if the user did not choose the target.
pub(crate) fn print_report(report: &BuildReport, chose_target: bool, output: &Output) -> bool {
    for warning in &report.warnings {
        output.print_build_warning(warning);
    }
    match &report.view {
        None => true,
        Some(Err(error)) => {
            output.print_warning(&format!(
                "kernels could not be written where the framework reads them: {error}"
            ));
            hints::of_view(error).iter().for_each(|hint| output.print_help(hint));
            false
        }
        Some(Ok(placed)) => {
            for name in &placed.conflicting_names {
                output.print_warning(&format!(
                    "operators of different kernels are all called `{}`: a framework would run one for the other, so \
                     this build writes none to kernel_meta; build them in ranks or directories of their own",
                    name
                ));
            }
            for name in &placed.invalid_names {
                output.print_warning(&format!(
                    "`{}` cannot be a file's name; its kernel is in kernel_meta under opkeep's name, which the framework \
                     does not read",
                    name
                ));
            }
            for name in &placed.multi_part_names {
                output.print_warning(&format!(
                    "the kernel `{}` has several parts (`jsonList`) or no `.json`: it is in the store, and kernel_meta has no such kernels",
                    name
                ));
            }
            let has_all = left::print_report(placed, chose_target, output);
            has_all
                && placed.conflicting_names.is_empty()
                && placed.invalid_names.is_empty()
                && placed.multi_part_names.is_empty()
        }
    }
}

/// Returns the name of a model: the name of its file without the extension.
pub(crate) fn network_name(file: &Path) -> String {
    file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}

/// Returns the text of a report. `explanation` says how missing kernels are explained.
pub(crate) fn report_text(report: &BuildReport, verbosity: Verbosity, explanation: Option<String>) -> Text {
    let mut text = Text::default();
    // A reused kernel needs no line, unless there are few.
    let few = report.kernels.len() <= 8;
    let worth_a_line = |kernel: &&KernelReport| match kernel.outcome {
        // The first failure, or the interrupt, explains why these kernels were not built.
        Outcome::Skipped | Outcome::Cancelled => false,
        // Named together below.
        Outcome::Failed => !not_cached::is_not_cached(kernel),
        Outcome::Reused => verbosity > Verbosity::Normal || (few && verbosity == Verbosity::Normal),
        _ => verbosity > Verbosity::Quiet,
    };
    // That a kernel is not in the store is the usual reason, and the nearest stored kernel belongs to it.
    let absent = Miss::Absent.to_string();
    let has_use = |reason: &str| verbosity > Verbosity::Normal || !reason.starts_with(&absent);
    let imported = report.kernels.iter().filter(|kernel| kernel.imported.is_some()).count();
    for (at, kernel) in report.kernels.iter().enumerate().filter(|(_, kernel)| worth_a_line(kernel)) {
        let time = kernel.compile_time.map(|time| format!("{} ms", time.as_millis())).unwrap_or_default();
        let why = match (&kernel.reason, kernel.outcome) {
            _ if kernel.miss.is_some() => kernel.miss.iter().map(|miss| format!("({miss})")).collect(),
            (Some(reason), outcome) if outcome != Outcome::Failed && has_use(reason) => format!("({reason})"),
            _ => String::new(),
        };
        let name = format!("{}{}{}", kernel.name, requested_by(kernel), found_as(report, at));
        text.line(format!("{:9} {name}  {time:>7}  {why}", kernel.outcome).trim_end());
        if kernel.outcome == Outcome::Failed {
            text.append(&failure_text(kernel));
        }
    }
    for line in not_cached::lines(report, verbosity > Verbosity::Normal) {
        text.line(format_args!("failed    {line}"));
    }
    for help in not_cached::help(report, explanation) {
        text.line(format_args!("    help: {help}"));
    }
    let missed = |at: usize| {
        let KernelReport { name, op_type, requested_by, miss, .. } = &report.kernels[at];
        Some(MissedKernel { name, op_type, requested_by, miss: miss.as_ref()? })
    };
    let detail = Detail { all: verbosity > Verbosity::Normal, flag: "-v" };
    text.append(&causes_text(&groups(report), missed, detail));
    text.line(summary(report));
    if imported > 0 {
        let were = if imported == 1 { "was" } else { "were" };
        text.line(format_args!("{imported} of those reused {were} imported: their toolchain is not known"));
    }
    if let Some(activity) = activity_text(report) {
        text.line(activity);
    }
    if verbosity > Verbosity::Quiet {
        times(report).into_iter().for_each(|line| text.line(line));
    }
    if let Some(Ok(placed)) = &report.view
        && !placed.names.is_empty()
    {
        text.line(format_args!("kernels are in {}", shortened(&placed.directory)));
    }
    text
}

/// Returns the misses by their causes, if they are explained.
pub(super) fn groups(report: &BuildReport) -> Vec<MissGroup> {
    let misses = report.kernels.iter().enumerate();
    MissGroup::of(misses.filter_map(|(at, kernel)| Some((at, kernel.miss.as_ref()?))))
}

/// Returns the duration of the compiles that the kernels found needed before, as far as their entries state it.
pub(super) fn saved_time(report: &BuildReport) -> Duration {
    report.kernels.iter().filter_map(|kernel| kernel.saved_time).sum()
}

/// `saved 12.3 s of compiling` and `slowest: conv_1 955 ms, softmax_2 724 ms, add_1 689 ms`, if there are such kernels, and more than one
/// was compiled.
fn times(report: &BuildReport) -> Vec<String> {
    let saved = saved_time(report);
    let mut compiled: Vec<(&str, Duration)> = report
        .kernels
        .iter()
        .filter_map(|kernel| Some((kernel.name.as_str(), kernel.compile_time?)))
        .collect();
    opkeep_order::by_key(&mut compiled, |(_, time)| Reverse(*time));
    let slowest = compiled.iter().take(SLOWEST).map(|(name, time)| format!("{name} {} ms", time.as_millis()));
    let saved = (!saved.is_zero()).then(|| format!("saved {:.1} s of compiling", saved.as_secs_f64()));
    let slowest =
        (compiled.len() > 1).then(|| format!("slowest: {}", slowest.collect::<Vec<_>>().join(", ")));
    saved.into_iter().chain(slowest).collect()
}

/// `33 kernels: 20 from the remote cache (412.0 KiB), 10 compiled, 3 by other hosts; waited 1.2 s for other hosts`: what the build
/// did with the remote cache, and whom it waited for. `None` if it did neither.
fn activity_text(report: &BuildReport) -> Option<String> {
    let activity = &report.activity;
    let mut phrases: Vec<String> = kernels_text(report).into_iter().collect();
    phrases.extend(lacking_text(report));
    phrases.extend(activity::sent(activity));
    phrases.extend(activity::unsent(report.unsent));
    let others = [activity::waited, activity::taken_over, activity::refused, activity::failed];
    phrases.extend(others.iter().filter_map(|text| text(activity)));
    (!phrases.is_empty()).then(|| phrases.join("; "))
}

/// `the remote cache had none of 32`: it was asked, and gave nothing. What was refused has a phrase of its own.
fn lacking_text(report: &BuildReport) -> Option<String> {
    let is_nothing = report.count_from_remote() == 0 && activity::refused(&report.activity).is_none();
    (is_nothing && report.remote_absent > 0)
        .then(|| format!("the remote cache had none of {}", report.remote_absent))
}

/// Returns where the kernels are from, if the remote cache has a part in it.
fn kernels_text(report: &BuildReport) -> Option<String> {
    let has_part = report.count_from_remote() > 0
        || report.activity.remote_puts > 0
        || report.unsent > 0
        || report.remote_absent > 0;
    let of = |from_remote, outcome| {
        let is_of = |kernel: &&KernelReport| kernel.from_remote == from_remote && kernel.outcome == outcome;
        report.kernels.iter().filter(is_of).count()
    };
    let received = bytes(report.activity.remote_bytes_received);
    let parts = [
        (of(true, Outcome::Reused), format!("from the remote cache ({received})")),
        (of(false, Outcome::Reused), "from the store".to_owned()),
        (of(false, Outcome::Compiled), "compiled".to_owned()),
        (of(false, Outcome::Shared), "by other processes".to_owned()),
        (of(true, Outcome::Shared), "by other hosts".to_owned()),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    (has_part && !parts.is_empty())
        .then(|| format!("{}: {}", counted(report.kernels.len(), "kernel"), parts.join(", ")))
}

/// Returns the reason for a kernel's outcome, with a hint.
pub(super) fn reason(kernel: &KernelReport) -> Option<String> {
    let reason = kernel.reason.clone()?;
    Some(match kernel.error.as_deref().and_then(hints::of_kernel) {
        Some(hint) => format!("{reason}; {hint}"),
        None => reason,
    })
}

/// Returns the reason why a kernel failed, with the end of the compiler's log.
fn failure_text(kernel: &KernelReport) -> Text {
    let reason = format!("    {}", kernel.reason.as_deref().unwrap_or("no reason was given"));
    let mut text = Text::default();
    match kernel.error.as_deref().is_some_and(|error| is_multi_line(error)) {
        true => text.quoted(reason),
        false => text.line(reason),
    }
    if let Some(hint) = kernel.error.as_deref().and_then(hints::of_kernel) {
        text.line(format_args!("    help: {hint}"));
    }
    text
}

/// Returns the nodes of a kernel: ` for conv_1 and 2 more`.
fn requested_by(kernel: &KernelReport) -> String {
    let names = &kernel.requested_by;
    let Some(first) = names.iter().find(|name| **name != kernel.name && !name.is_empty()) else {
        return String::new();
    };
    match names.len() - 1 {
        0 => format!(" for {first}"),
        more => format!(" for {first} and {more} more"),
    }
}

/// Returns the other name of a kernel in the framework's directory: ` as square_1_2`.
fn found_as(report: &BuildReport, kernel: usize) -> String {
    let Some(Ok(placed)) = &report.view else { return String::new() };
    let own = &report.kernels[kernel].name;
    let others = placed.names.iter().filter(|(name, of)| *of == kernel && name != own);
    let others: Vec<&str> = others.map(|(name, _)| name.as_str()).collect();
    match others.as_slice() {
        [] => String::new(),
        [one] => format!(" as {one}"),
        [one, more @ ..] => format!(" as {one} and {} more", more.len()),
    }
}

/// Returns a path, relative to the current directory if that is above it.
fn shortened(directory: &Path) -> String {
    let here = std::env::current_dir().ok();
    let relative = here.as_deref().and_then(|here| directory.strip_prefix(here).ok());
    relative.unwrap_or(directory).display().to_string()
}

/// `1 operator, 1 kernel for cpu-x86_64: 0 reused, 1 compiled, 0 shared, 0 failed, 0 bypassed in 0.04 s`
pub(crate) fn summary(report: &BuildReport) -> String {
    // Few builds skip or cancel kernels.
    let is_listed = |outcome: Outcome, count: usize| {
        count > 0 || !matches!(outcome, Outcome::Skipped | Outcome::Cancelled)
    };
    let counts = report.counts().into_iter().filter(|(outcome, count)| is_listed(*outcome, *count));
    let counts: Vec<String> = counts.map(|(outcome, count)| format!("{count} {outcome}")).collect();
    let target = match report.targets.as_slice() {
        [] => String::new(),
        targets => format!(" for {}", targets.join(", ")),
    };
    format!(
        "{}, {}{target}: {} in {:.2} s",
        counted(report.requests, "operator"),
        counted(report.kernels.len(), "kernel"),
        counts.join(", "),
        report.elapsed.as_secs_f64()
    )
}
