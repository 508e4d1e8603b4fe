//! What a repair of caches is told as.

use std::collections::BTreeMap;
use std::path::Path;

use opkeep_kernel_meta::fill::{FillReport, Filled, Refused};
use opkeep_kernel_meta::quarantine::{Aside, Left, Moved, Why};
use opkeep_kernel_meta::survey::{Busy, Rank, Verdict, What};
use serde_json::{Value, json};

use super::outcome::{RepairedCache, Repairs};
use crate::ui::text::{Text, counted};

/// So many of a kind are listed in text; JSON has all.
const LISTED: usize = 50;

pub(crate) fn text(repairs: &Repairs) -> Text {
    let mut text = Text::default();
    for repaired in &repairs.caches {
        text.append(&cache_text(repaired, repairs.dry_run));
    }
    for (path, problem) in &repairs.closed {
        text.line(format_args!("left: {}: {problem}", shown(path)));
    }
    if let Some(filled) = &repairs.filled {
        text.append(&filled_text(filled, repairs.dry_run));
    }
    text.append(&lacking_text(repairs));
    let lefts =
        || repairs.caches.iter().filter_map(|one| one.aside.as_ref().ok()).flat_map(|aside| &aside.left);
    let forced = |left: &Left| matches!(left.why, Why::InProgress(Busy::Young { .. } | Busy::Open { .. }));
    if lefts().any(forced) {
        text.line("what is in progress goes with --force: only if nothing is building there");
    }
    let is_aside = |one: &RepairedCache| one.aside.as_ref().is_ok_and(|aside| aside.quarantine.is_some());
    let is_aside = repairs.caches.iter().any(is_aside);
    let is_filled =
        repairs.filled.as_ref().is_some_and(|filled| !filled.filled.is_empty()) && !repairs.dry_run;
    let what = match (is_aside, is_filled) {
        (true, false) => "puts back what was set aside",
        (false, true) => "removes what was filled in",
        (true, true) => "removes what was filled in, and restores what was set aside",
        (false, false) => return text,
    };
    let paths: Vec<String> = repairs.paths.iter().map(|path| shown(path)).collect();
    text.line(format_args!("`opkeep repair --undo {}` {what}", paths.join(" ")));
    text
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn cache_text(repaired: &RepairedCache, dry_run: bool) -> Text {
    let place = &repaired.survey.place;
    let (kernels, intact) = counts(repaired);
    let kernels = counted(kernels, "kernel");
    let mut text = Text::of(format_args!("{}: {kernels}, {intact} intact", shown(&place.path)));
    let would = if dry_run { "would be " } else { "" };
    match &repaired.aside {
        Err(error) => text.line(format_args!("  left: {error}")),
        Ok(aside) => {
            let moved = aside.moved.iter().map(|moved| format!("  {would}set aside: {}", moved_text(moved)));
            cut(&mut text, moved, aside.moved.len());
            let left = aside.left.iter().map(|left| format!("  left: {}", left_text(left)));
            cut(&mut text, left, aside.left.len());
            if let Some(quarantine) = &aside.quarantine {
                text.line(format_args!("  now in {}", shown(quarantine)));
            }
            if aside.without_locks {
                text.line("  this file system has no locks: nobody could be kept away meanwhile");
            }
        }
    }
    for (folder, error) in &repaired.survey.closed {
        text.line(format_args!("  left: folder {folder}: {error}"));
    }
    text
}

/// How many kernels there are, and how many of them intact.
fn counts(repaired: &RepairedCache) -> (usize, usize) {
    let kernels = || repaired.survey.items.iter().filter(|item| item.what == What::Kernel);
    (kernels().count(), kernels().filter(|item| matches!(item.verdict, Verdict::Intact)).count())
}

/// Adds the first lines, and how many there are more.
fn cut(text: &mut Text, lines: impl Iterator<Item = String>, all: usize) {
    lines.take(LISTED).for_each(|line| text.line(line));
    if let more @ 1.. = all.saturating_sub(LISTED) {
        text.line(format_args!("  and {more} more, which --format json names"));
    }
}

fn named(what: What, below: Option<&str>, name: &str) -> String {
    let below = below.map(|below| format!("{below}/")).unwrap_or_default();
    format!("{what} {below}{name}")
}

fn moved_text(moved: &Moved) -> String {
    format!("{}: {}", named(moved.what, moved.below, &moved.name), moved.why)
}

fn left_text(left: &Left) -> String {
    format!("{}: {}", named(left.what, left.below, &left.name), left.why)
}

fn filled_text(report: &FillReport, dry_run: bool) -> Text {
    let mut ranks: BTreeMap<(&Path, &str), usize> = BTreeMap::new();
    for Filled { folder, donor, .. } in &report.filled {
        *ranks.entry((folder, donor)).or_default() += 1;
    }
    let would = if dry_run { "would be " } else { "" };
    let mut text = Text::default();
    for ((folder, donor), number) in &ranks {
        text.line(format_args!(
            "{would}filled: {} of {} from rank {donor}",
            counted(*number, "kernel"),
            shown(folder)
        ));
    }
    // The same is true of many.
    let mut whys: BTreeMap<(&Path, Option<&str>, &str), Vec<&str>> = BTreeMap::new();
    for Refused { base, rank, kernel, why } in &report.refused {
        whys.entry((base, rank.as_deref(), why)).or_default().extend(kernel.as_deref());
    }
    let all = whys.len();
    let lines = whys.into_iter().map(|((base, rank, why), kernels)| {
        let rank = rank.map(|rank| format!(", rank {rank}")).unwrap_or_default();
        let of = match kernels.as_slice() {
            [] => String::new(),
            [kernel] => format!(", {kernel}"),
            [first, ..] => format!(", {first} and {} more", kernels.len() - 1),
        };
        format!("not filled: {}{rank}{of}: {why}", shown(base))
    });
    cut(&mut text, lines, all);
    for (folder, why) in &report.no_ranks {
        text.line(format_args!("not filled: {}: {why}", shown(folder)));
    }
    if report.filled.is_empty() && report.refused.is_empty() {
        text.line("no rank lacks what another has");
    }
    text
}

/// Ranks that lack what others have: after a repair they are those that others wait for.
fn lacking(repairs: &Repairs) -> impl Iterator<Item = (&Path, &Rank)> {
    let ranks = repairs.ranks.iter().flat_map(|ranks| ranks.ranks.iter().map(|rank| (&*ranks.base, rank)));
    ranks.filter(|(_, rank)| !rank.lacks.is_empty())
}

fn lacking_text(repairs: &Repairs) -> Text {
    let line = |(base, rank): (&Path, &Rank)| {
        let kernels = counted(rank.lacks.len(), "kernel");
        format!("rank {} of {} lacks {kernels} that others have", rank.rank, shown(base))
    };
    let mut text = Text::default();
    cut(&mut text, lacking(repairs).map(line), lacking(repairs).count());
    let mut bases: Vec<String> = lacking(repairs).map(|(base, _)| shown(base)).collect();
    bases.dedup();
    if !bases.is_empty() {
        text.line(format_args!(
            "they compile that while others wait, maybe for too long; `opkeep repair --fill {}` gives them what others \
             have, where their MindSpore allows it",
            bases.join(" ")
        ));
    }
    text
}

pub(crate) fn lacking_json(repairs: &Repairs) -> Value {
    let json = |(base, rank): (&Path, &Rank)| {
        let lacks: Vec<&str> = rank.lacks.iter().map(|lack| &*lack.name).collect();
        json!({ "base": base.to_string_lossy(), "rank": rank.rank, "has": rank.has, "lacks": lacks })
    };
    lacking(repairs).map(json).collect()
}

pub(crate) fn caches_json(repairs: &Repairs) -> Value {
    let caches = repairs.caches.iter().map(cache_json);
    let closed = repairs
        .closed
        .iter()
        .map(|(path, problem)| json!({ "folder": path.to_string_lossy(), "error": problem }));
    caches.chain(closed).collect()
}

fn cache_json(repaired: &RepairedCache) -> Value {
    let RepairedCache { survey, aside } = repaired;
    let (kernels, intact) = counts(repaired);
    let mut json = json!({
        "folder": survey.place.path.to_string_lossy(),
        "kind": survey.place.kind.name(),
        "rank": survey.place.rank,
        "kernels": kernels,
        "intact": intact,
        "closed": survey.closed.iter().map(|(folder, error)| json!({ "folder": folder, "error": error.to_string() })).collect::<Vec<_>>(),
    });
    match aside {
        Err(error) => json["error"] = error.to_string().into(),
        Ok(Aside { quarantine, moved, left, without_locks, cancelled: _ }) => {
            json["quarantine"] = quarantine.as_ref().map(|path| path.to_string_lossy().into_owned()).into();
            json["moved"] = moved.iter().map(moved_json).collect();
            json["left"] = left.iter().map(left_json).collect();
            json["without_locks"] = (*without_locks).into();
        }
    }
    json
}

fn moved_json(moved: &Moved) -> Value {
    let Moved { what, name, below, files, why } = moved;
    json!({ "what": what.to_string(), "name": name, "below": below, "files": files, "why": why })
}

fn left_json(left: &Left) -> Value {
    let Left { what, name, below, why } = left;
    let kind = match why {
        Why::InProgress(Busy::Locked) | Why::Lock(_) => "locked",
        Why::InProgress(_) => "in-progress",
        Why::Changed { .. } | Why::InUse => "changed",
        Why::Unreadable { .. } => "unreadable",
        Why::OtherChip(_) => "other-chip",
        Why::Installed => "installed",
        Why::NotAFile { .. } => "not-a-file",
        Why::Astray { .. } => "astray",
        _ => "failed",
    };
    json!({ "what": what.to_string(), "name": name, "below": below, "kind": kind, "why": why.to_string() })
}

pub(crate) fn filled_json(report: &FillReport) -> Value {
    let filled = |filled: &Filled| {
        let Filled { folder, rank, stem, donor, donor_stem } = filled;
        let folder = folder.to_string_lossy();
        json!({ "folder": folder, "rank": rank, "kernel": stem, "donor": donor, "donor_kernel": donor_stem })
    };
    let refused = |refused: &Refused| {
        let Refused { base, rank, kernel, why } = refused;
        json!({ "base": base.to_string_lossy(), "rank": rank, "kernel": kernel, "why": why })
    };
    json!({
        "done": report.filled.iter().map(filled).collect::<Vec<_>>(),
        "refused": report.refused.iter().map(refused).collect::<Vec<_>>(),
        "no_ranks": report.no_ranks.iter().map(|(folder, why)| json!({ "folder": folder.to_string_lossy(), "why": why })).collect::<Vec<_>>(),
    })
}
