//! The kernels of `explain`, one by one.

use opkeep::{CacheStatus, Explanation, NearestEntry, RemoteStatus};
use opkeep_cache::{Namespace, TrustConfig};

use super::output::{KernelOutput, RemoteOutput};
use crate::commands::build::output::ImportedOutput;
use crate::commands::misses::output::{FormerOutput, NearestOutput};
use crate::commands::misses::text::MissedKernel;
use crate::ui::text::{self, Text, counted, first_names};

/// The number of kernels up to which each hit has a line.
const FEW: usize = 8;
/// The maximum number of kernels that have lines without being asked for, beside misses.
const MAX_LISTED: usize = 5;

/// The maximum number of names in a line.
const MAX_NAMES: usize = 3;
/// Why kernels are bypassed.
const BYPASSED: &str = "kernels with debug options are compiled each time and never kept";

fn outcome(kernel: &Explanation) -> &'static str {
    match kernel.status {
        CacheStatus::Hit => "hit",
        CacheStatus::Miss(_) => "miss",
        CacheStatus::Bypassed => "bypassed",
        CacheStatus::Unsupported(_) => "refused",
        _ => "unknown",
    }
}

/// Returns a kernel that is missing.
pub(super) fn missed(kernel: &Explanation) -> Option<MissedKernel<'_>> {
    let Explanation { name, op_type, requested_by, .. } = kernel;
    match &kernel.status {
        CacheStatus::Miss(miss) => Some(MissedKernel { name, op_type, requested_by, miss }),
        _ => None,
    }
}

/// Returns lines on the kernels that are no plain misses: those that are refused or bypassed, those that an imported kernel matches, and
/// of few kernels the hits.
pub(super) fn few_kernels(kernels: &[Explanation]) -> Text {
    let has_lines = |kernel: &&Explanation| match kernel.status {
        CacheStatus::Hit if kernel.imported.is_none() => kernels.len() <= FEW,
        CacheStatus::Miss(_) => kernel.imported.is_some() || kernel.imported_problem.is_some(),
        // One cause for all of them.
        CacheStatus::Bypassed => false,
        _ => true,
    };
    let listed: Vec<&Explanation> = kernels.iter().filter(has_lines).collect();
    let limit = if kernels.len() <= FEW { FEW } else { MAX_LISTED };
    let mut text: Text = listed.iter().take(limit).map(|kernel| lines(kernel)).collect();
    if let Some(rest) = listed.get(limit..).filter(|rest| !rest.is_empty()) {
        let count = |name: &str| rest.iter().filter(|kernel| outcome(kernel) == name).count();
        let counts = ["hit", "miss", "refused"].map(|name| (count(name), name));
        let counts =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}"));
        let counts: Vec<String> = counts.collect();
        text.line(format_args!(
            "and {}: {}; --all lists them",
            counted(rest.len(), "other kernel"),
            counts.join(", ")
        ));
    }
    text.append(&bypassed(kernels));
    text
}

/// Returns the cause of all kernels with debug options.
fn bypassed(kernels: &[Explanation]) -> Text {
    let bypassed = kernels.iter().filter(|kernel| matches!(kernel.status, CacheStatus::Bypassed));
    let names: Vec<String> = bypassed.map(|kernel| kernel.name.clone()).collect();
    let mut text = Text::default();
    if !names.is_empty() {
        text.line(format_args!("{} bypassed: {BYPASSED}", names.len()));
        text.line(format_args!("    {}", first_names(names.into_iter(), MAX_NAMES)));
    }
    text
}

/// Returns each kernel with all that is known of it. `absent` is what is said of a kernel that the remote cache lacks.
pub(super) fn all_kernels(kernels: &[Explanation], absent: &str) -> Text {
    let mut text = Text::default();
    for kernel in kernels {
        text.append(&lines(kernel));
        let CacheStatus::Miss(miss) = &kernel.status else { continue };
        text.line(format_args!("  {}", miss.why));
        let remote = kernel.remote.as_ref().and_then(|remote| remote_text(remote, absent));
        text.extend(remote.map(Text::of));
        text.extend(miss.former.iter().map(|_| Text::of(format_args!("  {}", miss.cause()))));
        text.extend(miss.nearest.iter().map(|nearest| nearest_text(nearest)));
    }
    text
}

fn lines(kernel: &Explanation) -> Text {
    let Explanation { name, op_type, requested_by, status, .. } = kernel;
    let others = if requested_by.len() > 1 {
        format!(", {}", counted(requested_by.len(), "operator"))
    } else {
        String::new()
    };
    let mut text = Text::of(format_args!("{:8} {name} ({op_type}{others})", outcome(kernel)));
    match status {
        CacheStatus::Bypassed => {
            text.line(format_args!("  {BYPASSED}"));
        }
        CacheStatus::Unsupported(why) => text.line(format_args!("  {why}")),
        _ => {}
    }
    if let Some(imported) = &kernel.imported {
        let would = match status {
            CacheStatus::Hit => "it is",
            _ => "an imported kernel matches: --trust-imported would reuse it;",
        };
        text.line(format_args!("  {would} {imported}"));
    }
    text.extend(kernel.imported_problem.iter().map(|problem| Text::of(format_args!("  {problem}"))));
    text
}

/// Returns the differences from the nearest kernel, by part of the key. Of a kernel of the same job, the toolchain in a few words: its
/// parts are in the lines of the cause.
fn nearest_text(nearest: &NearestEntry) -> Text {
    let NearestEntry { name, job, spec, toolchain, op_sources, consequences, .. } = nearest;
    let mut text = Text::of(format_args!("  the nearest stored kernel is {name}; it differs in"));
    let changes = [("job", job), ("spec", spec)];
    for (part, diff) in changes {
        text.extend(diff.changes.iter().map(|change| Text::of(format_args!("    {part:10}  {change}"))));
    }
    match nearest.toolchain_text() {
        None => {}
        Some(changes) if job.is_empty() => text.line(format_args!("    toolchain   {changes}")),
        Some(_) => text.line(format_args!("    toolchain   {}", counted(toolchain.len(), "part"))),
    }
    let own = op_sources.iter().filter(|change| !consequences.contains(&change.name));
    text.extend(own.map(|change| Text::of(format_args!("    op sources  {change}"))));
    text
}

/// Returns which copies a host with these keys does not find. What others signed has other names, so whether it is there is not known.
pub(super) fn absent_text(trust: &TrustConfig, namespace: &Namespace) -> String {
    let (which, by) = match (trust.policy.trusted_keys(), &trust.signing_key) {
        (Some(_), _) => ("copy", " that a trusted key signed"),
        (None, Some(_)) => ("copy", " that is unsigned or signed by this host's key"),
        (None, None) => ("unsigned copy", ""),
    };
    format!("the remote cache has no {which} of it in namespace `{namespace}`{by}")
}

/// Returns a line about the remote cache; `None` if it did not answer, which is a note.
fn remote_text(remote: &RemoteStatus, absent: &str) -> Option<String> {
    Some(match remote {
        RemoteStatus::Available { bytes, .. } => {
            format!("  the remote cache has it ({}): a build takes it", text::bytes(*bytes))
        }
        RemoteStatus::Refused { reason, .. } => {
            format!("  the remote cache has it, and a build refuses it: {reason}")
        }
        RemoteStatus::Absent => format!("  {absent}"),
        _ => return None,
    })
}

pub(super) fn kernel_output(kernel: &Explanation) -> KernelOutput {
    let (reason, nearest, former) = match &kernel.status {
        CacheStatus::Unsupported(why) => (Some(why.to_string()), None, None),
        CacheStatus::Miss(miss) => (
            Some(miss.why.clone()),
            Some(miss.nearest.as_ref().map(|nearest| NearestOutput::from(&**nearest))),
            Some(miss.former.as_ref().and_then(FormerOutput::new)),
        ),
        _ => (None, None, None),
    };
    KernelOutput {
        name: kernel.name.clone(),
        key: kernel.key.map(|key| key.to_string()),
        op_type: kernel.op_type.clone(),
        operators: kernel.requested_by.clone(),
        outcome: outcome(kernel),
        reason,
        nearest,
        former,
        imported: kernel.imported.as_ref().map(ImportedOutput::from),
        imported_problem: kernel.imported_problem.clone(),
        remote: kernel.remote.as_ref().map(RemoteOutput::from),
    }
}

pub(super) fn summary(kernels: &[Explanation]) -> String {
    let count = |name: &str| kernels.iter().filter(|kernel| outcome(kernel) == name).count();
    let counts = ["hit", "miss", "bypassed", "refused"].map(|name| format!("{} {name}", count(name)));
    let is_available = |kernel: &&Explanation| matches!(kernel.remote, Some(RemoteStatus::Available { .. }));
    let in_remote = match kernels.iter().filter(is_available).count() {
        0 => String::new(),
        count => format!("; {count} of the misses would come from the remote cache"),
    };
    format!("{}: {}{in_remote}", counted(kernels.len(), "kernel"), counts.join(", "))
}
