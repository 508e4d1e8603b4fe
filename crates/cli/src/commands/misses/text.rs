//! Misses as text that is read at a glance: each cause once, with the number of its kernels, and then what differs.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use opkeep::{KeyChanges, MissCause, MissExplanation, MissGroup, NearestEntry, RemovedEntries};

use super::parts::part_lines;
use crate::ui::text::{Text, counted, shortened};

/// The maximum number of causes that have lines of their own.
const MAX_CAUSES: usize = 4;
/// The maximum number of lines on the differences of one cause, if there is one cause and if there are several.
const MAX_LINES: (usize, usize) = (7, 3);
/// The maximum number of kernels with lines of their own.
const MAX_KERNELS: usize = 4;
/// The maximum number of names in a line.
const MAX_NAMES: usize = 3;
/// The maximum number of operator types in a line.
const MAX_TYPES: usize = 8;
/// The maximum number of changed fields of a kernel in its line.
const MAX_FIELDS: usize = 2;
/// The maximum number of characters of a change in a line of several.
const MAX_CHANGE: usize = 80;

/// How much is shown.
#[derive(Clone, Copy)]
pub(crate) struct Detail {
    /// Whether nothing is left out but the differences of single kernels.
    pub(crate) all: bool,
    /// The flag that shows all.
    pub(crate) flag: &'static str,
}

/// A kernel that is missing.
#[derive(Clone, Copy)]
pub(crate) struct MissedKernel<'a> {
    pub(crate) name: &'a str,
    pub(crate) op_type: &'a str,
    pub(crate) requested_by: &'a [String],
    pub(crate) miss: &'a MissExplanation,
}

/// Returns the causes of misses, each with what differs and which kernels it hits. `kernel` returns the kernel of a group's index.
pub(crate) fn causes_text<'a>(
    groups: &[MissGroup],
    kernel: impl Fn(usize) -> Option<MissedKernel<'a>>,
    detail: Detail,
) -> Text {
    let Detail { all, flag } = detail;
    let mut text = Text::default();
    let shown = if all { groups.len() } else { MAX_CAUSES };
    let lines = match groups.len() {
        _ if all => usize::MAX,
        0 | 1 => MAX_LINES.0,
        _ => MAX_LINES.1,
    };
    for group in groups.iter().take(shown) {
        let kernels: Vec<MissedKernel<'_>> = group.kernels.iter().filter_map(|at| kernel(*at)).collect();
        text.line(format_args!("{}: {}", counted(kernels.len(), "miss"), group.cause));
        text.extend(group.example.iter().map(|example| Text::of(format_args!("    for example {example}"))));
        match &group.cause {
            MissCause::KeyChanged(changed) => {
                text.extend(
                    changed_lines(changed, lines, detail)
                        .iter()
                        .map(|line| Text::of(format_args!("    {line}"))),
                );
                text.line(format_args!("    {}", names(&kernels)));
            }
            MissCause::Removed(removed) => {
                text.line(format_args!("    {}", removal(removed)));
                text.line(format_args!("    {}", names(&kernels)));
            }
            MissCause::NotKept { .. } => {
                text.line("    the warnings of that build state why");
                text.line(format_args!("    {}", names(&kernels)));
            }
            MissCause::Unfinished(_) => text.line(format_args!("    {}", names(&kernels))),
            MissCause::NewJob => new_jobs(&kernels, all, &mut text),
            MissCause::Untrusted(untrusted) => {
                let help = match untrusted.owner {
                    Some(owner) => format!("--trusted-owner {owner} trusts that user"),
                    None => untrusted.help.clone(),
                };
                text.line(format_args!("    help: {help}"));
                text.line(format_args!("    {}", names(&kernels)));
            }
            MissCause::NewOperators(_) => text.line(format_args!("    {}", operators(&kernels, all))),
            // A reason of all kernels concerns the store.
            _ if groups.len() == 1 && kernels.len() > 1 => {}
            _ => text.line(format_args!("    {}", names(&kernels))),
        }
    }
    if let Some(rest) = groups.get(shown..).filter(|rest| !rest.is_empty()) {
        let misses: usize = rest.iter().map(|group| group.kernels.len()).sum();
        text.line(format_args!(
            "{} of {}: {flag} lists them",
            counted(misses, "miss"),
            counted(rest.len(), "other cause")
        ));
    }
    text
}

fn changed_lines(changed: &KeyChanges, limit: usize, Detail { all, flag }: Detail) -> Vec<String> {
    let KeyChanges { spec, op_sources, consequences, .. } = changed;
    let mut lines = Vec::new();
    // The cause's own line states a single change.
    if changed.main_toolchain_changes().count() > 1 || all {
        lines.extend(part_lines(changed.main_toolchain_changes(), &changed.descriptions, all));
    }
    if spec.changes.len() > 1 || all {
        lines.extend(spec.changes.iter().map(|change| change.to_string()));
    }
    if !op_sources.is_empty() && !changed.only_sources_differ() {
        let most = if all { usize::MAX } else { MAX_NAMES };
        let sources = || op_sources.iter().filter(|(name, _)| !consequences.contains(*name));
        let names: Vec<String> = sources()
            .take(most)
            .map(|(name, count)| format!("{name} (of {})", counted(*count, "kernel")))
            .collect();
        let more = sources().count() - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        if !names.is_empty() {
            lines.push(format!("sources that differ with it: {}{more}", names.join(", ")));
        }
    }
    if all && !consequences.is_empty() {
        let names: Vec<&str> = consequences.iter().map(String::as_str).collect();
        lines.push(format!("what follows from that: {}", names.join(", ")));
    }
    if lines.len() > limit {
        let more = lines.len() - limit + 1;
        lines.truncate(limit - 1);
        lines.push(format!("and {more} more differences: {flag} lists them"));
    }
    lines
}

/// Returns what is known of the removal of entries. A user may have reset the counters.
fn removal(removed: &RemovedEntries) -> String {
    let evicted = (removed.evictions > 0).then(|| counted(removed.evictions, "eviction"));
    let cleared = (removed.cleared > 0)
        .then(|| format!("{} that `opkeep clear` deleted", counted(removed.cleared, "kernel")));
    let counts: Vec<String> = [evicted, cleared].into_iter().flatten().collect();
    let ways = if removed.cleared > 0 { "evicted, cleared or deleted" } else { "evicted or deleted" };
    match counts.is_empty() {
        true => {
            "the file is gone: the counters of the store have no eviction and no `opkeep clear`".to_owned()
        }
        false => format!("{ways}: the store has counted {}", counts.join(" and ")),
    }
}

/// Adds kernels with the stored ones that they resemble; those that resemble one come first.
fn new_jobs(kernels: &[MissedKernel<'_>], all: bool, text: &mut Text) {
    let similar =
        |kernel: &MissedKernel<'_>| kernel.miss.nearest.as_ref().is_some_and(|nearest| nearest.is_similar());
    let mut kernels = kernels.to_vec();
    opkeep_order::by_key(&mut kernels, |kernel| !similar(kernel));
    let shown = if all { kernels.len() } else { MAX_KERNELS };
    for kernel in kernels.iter().take(shown) {
        match kernel.miss.nearest.as_ref().filter(|nearest| nearest.is_similar()) {
            None => text.line(format_args!("    {}, like no stored kernel", title(kernel))),
            Some(nearest) => {
                text.line(format_args!("    {}, like {} but for", title(kernel), nearest.name));
                text.line(format_args!("      {}{}", fields(nearest, MAX_FIELDS), beside(nearest)));
            }
        }
    }
    if let Some(more) = kernels.get(shown..).filter(|more| !more.is_empty()) {
        text.line(format_args!("    and {} more: {}", more.len(), operators(more, false)));
    }
}

/// What else differs from a kernel of another job.
fn beside(nearest: &NearestEntry) -> String {
    let changes: Vec<String> =
        nearest.other_changes().iter().map(|change| shortened(change, MAX_CHANGE)).collect();
    if changes.is_empty() { String::new() } else { format!("; also {}", changes.join(", ")) }
}

/// Returns the first of the changed fields.
fn fields(nearest: &NearestEntry, limit: usize) -> String {
    let changes = nearest.main_changes();
    let shown: Vec<String> =
        changes.iter().take(limit).map(|change| shortened(&change.to_string(), MAX_CHANGE)).collect();
    match changes.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {}", shown.join(", "), counted(more, "more field")),
    }
}

/// `conv2d_123 (Conv2D) for conv_1`.
fn title(kernel: &MissedKernel<'_>) -> String {
    let MissedKernel { name, op_type, requested_by, .. } = kernel;
    let node = requested_by.iter().find(|node| node != name && !node.is_empty());
    let more = requested_by.len().saturating_sub(1);
    match (node, more) {
        (None, _) => format!("{name} ({op_type})"),
        (Some(node), 0) => format!("{name} ({op_type}) for {node}"),
        (Some(node), more) => format!("{name} ({op_type}) for {node} and {more} more"),
    }
}

/// `conv2d_1, relu_2, add_3 and 30 more`.
fn names(kernels: &[MissedKernel<'_>]) -> String {
    let shown: Vec<&str> = kernels.iter().take(MAX_NAMES).map(|kernel| kernel.name).collect();
    match kernels.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// `Conv2D (7), Relu (3), Add`: the operators of kernels, the most frequent first. Of few kernels, each.
fn operators(kernels: &[MissedKernel<'_>], all: bool) -> String {
    if kernels.len() <= MAX_NAMES || all {
        return kernels.iter().map(title).collect::<Vec<_>>().join(", ");
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    kernels.iter().for_each(|kernel| *counts.entry(kernel.op_type).or_default() += 1);
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    opkeep_order::by_key(&mut counts, |(_, count)| Reverse(*count));
    let shown = counts.iter().take(MAX_TYPES).map(|(op_type, count)| match count {
        1 => (*op_type).to_owned(),
        count => format!("{op_type} ({count})"),
    });
    let shown: Vec<String> = shown.collect();
    match counts.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {}", shown.join(", "), counted(more, "other type")),
    }
}

#[cfg(test)]
mod tests;
