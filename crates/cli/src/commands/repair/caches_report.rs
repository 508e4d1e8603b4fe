//! The report of a repair of caches.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use opkeep_framework_cache::fill::{FillReport, FilledKernel, UnfilledKernel, UnfilledReason};
use opkeep_framework_cache::quarantine::{QuarantineReport, QuarantinedItem, SkippedItem};
use opkeep_framework_cache::scan::{ItemKind, ItemState, RankCache};
use serde::Serialize;

use super::causes::{cause_name, is_forced, list};
use super::outcome::{RepairedCache, Repairs};
use super::store::StoreOutput;
use super::triton::{self, TritonOutput};
use crate::commands::verify::caches::{build_advice, missing_advice};
use crate::ui::hints;
use crate::ui::json::{self, DirError, OrError};
use crate::ui::text::{Text, counted, quoted_path};

pub(crate) fn text(repairs: &Repairs) -> Text {
    let mut text = Text::default();
    for repaired in &repairs.caches {
        text.append(&cache_text(repaired, repairs.dry_run));
    }
    for (path, problem) in &repairs.unreadable_dirs {
        text.line(format_args!("left: {}: {problem}", json::path(path)));
    }
    if let Some(filled) = &repairs.filled {
        text.append(&filled_text(filled, repairs.dry_run));
        let is_of_build = |one: &UnfilledKernel| matches!(one.reason, UnfilledReason::OtherNames { .. });
        if filled.unfilled.iter().any(is_of_build) {
            text.append(&build_advice(&repairs.ranks_before_fill));
        }
    }
    text.append(&lacking_text(repairs));
    for repaired in &repairs.triton {
        text.append(&triton::text(repaired));
    }
    let mut skipped =
        repairs.caches.iter().filter_map(|one| one.quarantine.as_ref().ok()).flat_map(|done| &done.skipped);
    if skipped.any(|left| is_forced(&left.cause)) {
        text.line("--force quarantines what is in progress, too: only if nothing is building there");
    }
    let is_quarantined =
        |one: &RepairedCache| one.quarantine.as_ref().is_ok_and(|quarantine| quarantine.quarantine.is_some());
    let is_quarantined = repairs.caches.iter().any(is_quarantined);
    let is_filled =
        repairs.filled.as_ref().is_some_and(|filled| !filled.filled.is_empty()) && !repairs.dry_run;
    let what = match (is_quarantined, is_filled) {
        (true, false) => "restores what was quarantined",
        (false, true) => "removes what was filled in",
        (true, true) => "removes what was filled in, and restores what was quarantined",
        (false, false) => return text,
    };
    let paths: Vec<String> = repairs.paths.iter().map(|path| quoted_path(path)).collect();
    text.line(format_args!("`opkeep repair --undo {}` {what}", paths.join(" ")));
    text
}

fn cache_text(repaired: &RepairedCache, dry_run: bool) -> Text {
    let place = &repaired.scan.cache;
    let (kernels, intact) = counts(repaired);
    let kernels = counted(kernels, "kernel");
    let mut text = Text::of(format_args!("{}: {kernels}, {intact} intact", json::path(&place.path)));
    let would = if dry_run { "would be " } else { "" };
    match &repaired.quarantine {
        Err(error) => text.line(format_args!("  left: {}", hints::repair_error(error))),
        Ok(quarantine) => {
            list(
                &mut text,
                quarantine.moved.iter().map(|QuarantinedItem { kind, below, name, reason, .. }| {
                    format!("  {would}quarantined: {}: {reason}", item_name(*kind, *below, name))
                }),
            );
            list(
                &mut text,
                quarantine.skipped.iter().map(|SkippedItem { kind, below, name, cause, .. }| {
                    format!("  left: {}: {cause}", item_name(*kind, *below, name))
                }),
            );
            if let Some(quarantine) = &quarantine.quarantine {
                text.line(format_args!("  now in {}", json::path(quarantine)));
            }
            if quarantine.without_locks {
                text.line("  this file system has no locks: other programs could not be kept away meanwhile");
            }
        }
    }
    for (dir, error) in &repaired.scan.unreadable_dirs {
        text.line(format_args!("  left: directory {dir}: {error}"));
    }
    text
}

/// Returns the number of kernels, and the number of intact kernels.
fn counts(repaired: &RepairedCache) -> (usize, usize) {
    let kernels = || repaired.scan.items.iter().filter(|item| item.kind == ItemKind::Kernel);
    (kernels().count(), kernels().filter(|item| matches!(item.state, ItemState::Intact)).count())
}

fn item_name(what: ItemKind, below: Option<&str>, name: &str) -> String {
    let below = below.map(|below| format!("{below}/")).unwrap_or_default();
    format!("{what} {below}{name}")
}

fn filled_text(report: &FillReport, dry_run: bool) -> Text {
    let mut ranks: BTreeMap<(&Path, &str), usize> = BTreeMap::new();
    for FilledKernel { dir, source, .. } in &report.filled {
        *ranks.entry((dir, source)).or_default() += 1;
    }
    let would = if dry_run { "would be " } else { "" };
    let mut text = Text::default();
    for ((dir, source), number) in &ranks {
        text.line(format_args!(
            "{would}filled: {} of {} from rank {source}",
            counted(*number, "kernel"),
            json::path(dir)
        ));
    }
    // One line for all kernels with the same reason.
    let mut whys: BTreeMap<(&Path, Option<&str>, &UnfilledReason), Vec<&str>> = BTreeMap::new();
    for UnfilledKernel { base, rank, kernel, reason, .. } in &report.unfilled {
        whys.entry((base, rank.as_deref(), reason)).or_default().extend(kernel.as_deref());
    }
    let lines = whys.into_iter().map(|((base, rank, why), kernels)| {
        let rank = rank.map(|rank| format!(", rank {rank}")).unwrap_or_default();
        let of = match kernels.as_slice() {
            [] => String::new(),
            [kernel] => format!(", {kernel}"),
            [first, ..] => format!(", {first} and {} more", kernels.len() - 1),
        };
        format!("not filled: {}{rank}{of}: {}", json::path(base), hints::unfilled_reason(why))
    });
    list(&mut text, lines);
    for (dir, why) in &report.no_ranks {
        text.line(format_args!("not filled: {}: {why}", json::path(dir)));
    }
    if report.filled.is_empty() && report.unfilled.is_empty() {
        text.line("no rank lacks what another has");
    }
    text
}

/// Returns the ranks that lack kernels of others: after a repair, the others wait for these ranks.
fn lacking(repairs: &Repairs) -> impl Iterator<Item = (&Path, &RankCache)> {
    let ranks = repairs.ranks.iter().flat_map(|ranks| ranks.ranks.iter().map(|rank| (&*ranks.base, rank)));
    ranks.filter(|(_, rank)| !rank.lacks.is_empty())
}

fn lacking_text(repairs: &Repairs) -> Text {
    let line = |(base, rank): (&Path, &RankCache)| {
        let kernels = counted(rank.lacks.len(), "kernel");
        format!("rank {} of {} lacks {kernels} that others have", rank.rank, json::path(base))
    };
    let mut text = Text::default();
    list(&mut text, lacking(repairs).map(line));
    if lacking(repairs).next().is_some() {
        text.line("each compiles them while the others wait, maybe for too long");
    }
    text.append(&missing_advice(&repairs.ranks));
    text
}

/// The result as JSON.
#[derive(Serialize)]
pub(crate) struct CachesOutput {
    dry_run: bool,
    pub(crate) left: usize,
    refused: usize,
    interrupted: bool,
    caches: Vec<OrError<CacheOutput, DirError>>,
    triton: Vec<TritonOutput>,
    lacking: Vec<LackingOutput>,
    filled: Option<FilledOutput>,
    /// The store in the same directory, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) store: Option<StoreOutput>,
}

/// A rank that lacks kernels which others have, as JSON.
#[derive(Serialize)]
struct LackingOutput {
    base: String,
    rank: String,
    has: usize,
    lacks: Vec<String>,
}

#[derive(Serialize)]
struct CacheOutput {
    folder: String,
    kind: &'static str,
    rank: Option<String>,
    kernels: usize,
    intact: usize,
    closed: Vec<DirError>,
    #[serde(flatten)]
    quarantine: OrError<QuarantineOutput, FailedOutput>,
}

#[derive(Serialize)]
struct FailedOutput {
    error: String,
}

#[derive(Serialize)]
struct QuarantineOutput {
    quarantine: Option<String>,
    moved: Vec<MovedOutput>,
    left: Vec<LeftOutput>,
    without_locks: bool,
}

#[derive(Serialize)]
struct MovedOutput {
    what: String,
    name: String,
    below: Option<String>,
    files: Vec<String>,
    why: String,
}

#[derive(Serialize)]
struct LeftOutput {
    what: String,
    name: String,
    below: Option<String>,
    kind: &'static str,
    why: String,
}

/// The result of `--fill` as JSON.
#[derive(Serialize)]
struct FilledOutput {
    done: Vec<FilledKernelOutput>,
    refused: Vec<RefusedOutput>,
    no_ranks: Vec<NoRanksOutput>,
}

#[derive(Serialize)]
struct FilledKernelOutput {
    folder: String,
    rank: String,
    kernel: String,
    donor: String,
    donor_kernel: String,
}

#[derive(Serialize)]
struct RefusedOutput {
    base: String,
    rank: Option<String>,
    kernel: Option<String>,
    why: String,
}

/// A directory whose ranks are not known, as JSON.
#[derive(Serialize)]
struct NoRanksOutput {
    folder: String,
    why: String,
}

impl CachesOutput {
    /// Creates the result of `repairs` with `left` remaining problems and `refused` kernels that could not be filled
    /// in.
    pub(crate) fn new(repairs: &Repairs, left: usize, refused: usize, interrupted: bool) -> Self {
        let caches = repairs.caches.iter().map(|cache| OrError::Done(cache_output(cache)));
        let unreadable_dirs = repairs.unreadable_dirs.iter().map(|(path, problem)| {
            OrError::Failed(DirError { dir: json::path(path), error: problem.clone() })
        });
        let lacking_output = |(base, rank): (&Path, &RankCache)| LackingOutput {
            base: json::path(base),
            rank: rank.rank.clone(),
            has: rank.has,
            lacks: rank.lacks.iter().map(|lack| lack.name.clone()).collect(),
        };
        Self {
            dry_run: repairs.dry_run,
            left,
            refused,
            interrupted,
            caches: caches.chain(unreadable_dirs).collect(),
            triton: repairs.triton.iter().map(TritonOutput::from).collect(),
            lacking: lacking(repairs).map(lacking_output).collect(),
            filled: repairs.filled.as_ref().map(filled_output),
            store: None,
        }
    }
}

fn cache_output(repaired: &RepairedCache) -> CacheOutput {
    let RepairedCache { scan, quarantine } = repaired;
    let (kernels, intact) = counts(repaired);
    CacheOutput {
        folder: json::path(&scan.cache.path),
        kind: scan.cache.kind.name(),
        rank: scan.cache.rank.clone(),
        kernels,
        intact,
        closed: json::dir_errors(&scan.unreadable_dirs),
        quarantine: match quarantine {
            Err(error) => OrError::Failed(FailedOutput { error: hints::repair_error(error) }),
            Ok(QuarantineReport {
                quarantine, moved, skipped: left, without_locks, cancelled: _, ..
            }) => OrError::Done(QuarantineOutput {
                quarantine: quarantine.as_deref().map(json::path),
                moved: moved.iter().map(moved_output).collect(),
                left: left.iter().map(left_output).collect(),
                without_locks: *without_locks,
            }),
        },
    }
}

fn moved_output(moved: &QuarantinedItem) -> MovedOutput {
    let QuarantinedItem { kind, name, below, files, reason, .. } = moved;
    MovedOutput {
        what: kind.to_string(),
        name: name.clone(),
        below: below.map(str::to_owned),
        files: files.clone(),
        why: reason.clone(),
    }
}

fn left_output(left: &SkippedItem) -> LeftOutput {
    let SkippedItem { kind: item_kind, name, below, cause, .. } = left;
    LeftOutput {
        what: item_kind.to_string(),
        name: name.clone(),
        below: below.map(str::to_owned),
        kind: cause_name(cause),
        why: cause.to_string(),
    }
}

fn filled_output(report: &FillReport) -> FilledOutput {
    let filled = |filled: &FilledKernel| {
        let FilledKernel { dir, rank, stem, source, source_stem, .. } = filled.clone();
        FilledKernelOutput {
            folder: json::path(&dir),
            rank,
            kernel: stem,
            donor: source,
            donor_kernel: source_stem,
        }
    };
    let refused = |refused: &UnfilledKernel| {
        let UnfilledKernel { base, rank, kernel, reason, .. } = refused.clone();
        RefusedOutput { base: json::path(&base), rank, kernel, why: hints::unfilled_reason(&reason) }
    };
    let no_ranks =
        |(dir, why): &(PathBuf, &str)| NoRanksOutput { folder: json::path(dir), why: (*why).to_owned() };
    FilledOutput {
        done: report.filled.iter().map(filled).collect(),
        refused: report.unfilled.iter().map(refused).collect(),
        no_ranks: report.no_ranks.iter().map(no_ranks).collect(),
    }
}
