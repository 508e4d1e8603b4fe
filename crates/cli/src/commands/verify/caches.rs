//! The check of caches of frameworks.

use std::collections::{BTreeSet, HashSet};
use std::mem::discriminant;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use opkeep_framework_cache::scan::{
    CacheDir, CacheDirs, CacheScan, Effect, Item, ItemKind, ItemState, Kind, MissingKernel, Note, Orphan,
    RankCache, RankComparison, RankCopy, ScanOptions, compare, scan,
};
use opkeep_fs::CancelToken;
use opkeep_validator::Severity;
use serde::Serialize;

use crate::input::real_path;
use crate::ui::json::{self, FileError, OrError};
use crate::ui::output::{Output, chain};
use crate::ui::progress::Progress;
use crate::ui::text::{Text, columns, counted, first_names, quoted_path, quoted_word};
use crate::ui::wrap::headed;

/// The maximum number of items of one kind that are listed in text.
const MAX_LISTED: usize = 50;

/// The caches that were checked.
#[derive(Default)]
pub(crate) struct CheckedCaches {
    pub(crate) scans: Vec<CacheScan>,
    unusable: usize,
    errors: Vec<(PathBuf, String)>,
}

/// The number of items of each state in one cache.
#[derive(Default)]
struct Counts {
    kernels: usize,
    intact: usize,
    damaged: usize,
    orphans: usize,
    /// Kernels for another chip.
    other_chip: usize,
    /// Kernels that are damaged, orphans, or for another chip.
    refused_kernels: usize,
    in_use: usize,
    unreadable: usize,
}

/// The sums over all caches.
#[derive(Default)]
pub(crate) struct Sums {
    /// Intact kernels.
    pub(crate) intact: usize,
    /// Kernels that are damaged, orphans, or for another chip.
    pub(crate) refused: usize,
    /// Damaged or orphaned items that are not kernels.
    pub(crate) other_damaged: usize,
    /// Items that may be in progress.
    pub(crate) in_use: usize,
}

impl Counts {
    fn of(scan: &CacheScan) -> Self {
        let mut counts = Self::default();
        for item in &scan.items {
            let is_kernel = item.kind == ItemKind::Kernel;
            counts.kernels += usize::from(is_kernel);
            counts.refused_kernels += usize::from(is_kernel && item.is_finding());
            match item.state_name() {
                "intact" => counts.intact += usize::from(is_kernel),
                "damaged" => counts.damaged += 1,
                "orphan" => counts.orphans += 1,
                "other chip" => counts.other_chip += 1,
                "unreadable" => counts.unreadable += 1,
                _ => counts.in_use += 1,
            }
        }
        counts
    }
}

impl CheckedCaches {
    /// Checks the caches in `found`, and changes nothing. Returns the number of kernels in them, in any state.
    pub(crate) fn add(
        &mut self,
        found: CacheDirs,
        threads: NonZeroUsize,
        cancel: &CancelToken,
        output: &Output,
    ) -> usize {
        let CacheDirs { caches, unreadable_dirs, too_deep, links, .. } = found;
        for (path, error) in unreadable_dirs {
            self.fail(&path, &anyhow::Error::new(error), output);
        }
        for path in too_deep {
            self.fail(&path, &anyhow::anyhow!("nested too deep; name it on the command line"), output);
        }
        note_links(&links, output);
        let full = |cache: &CacheDir| real_path(&cache.path);
        let known: HashSet<PathBuf> = self.scans.iter().map(|scan| full(&scan.cache)).collect();
        let named: HashSet<PathBuf> = caches.iter().map(full).collect();
        let new: Vec<CacheDir> = caches.into_iter().filter(|cache| !known.contains(&full(cache))).collect();
        let progress = output.progress();
        for cache in new {
            if cancel.is_cancelled() {
                break;
            }
            match scan_with_progress(&cache, threads, &progress, cancel) {
                Ok(mut scan) => {
                    for (directory, error) in std::mem::take(&mut scan.unreadable_dirs) {
                        self.fail(&cache.path.join(directory), &anyhow::Error::new(error), output);
                    }
                    self.scans.push(scan);
                }
                Err(error) => self.fail(&cache.path, &anyhow::Error::new(error), output),
            }
        }
        progress.done();
        let scans = self.scans.iter().filter(|scan| named.contains(&full(&scan.cache)));
        scans.map(|scan| Counts::of(scan).kernels).sum()
    }

    fn fail(&mut self, path: &Path, error: &anyhow::Error, output: &Output) {
        let message = format!("cannot read `{}`: {}", path.display(), chain(error));
        output.print_error(&anyhow::anyhow!("{message}"));
        self.unusable += 1;
        self.errors.push((path.to_owned(), message));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.scans.is_empty() && self.errors.is_empty()
    }

    pub(crate) fn cancelled(&self) -> bool {
        self.scans.iter().any(|scan| scan.cancelled)
    }

    /// The sums over all caches.
    pub(crate) fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        for counts in self.scans.iter().map(Counts::of) {
            sums.intact += counts.intact;
            sums.refused += counts.refused_kernels;
            sums.other_damaged +=
                counts.damaged + counts.orphans + counts.other_chip - counts.refused_kernels;
            sums.in_use += counts.in_use;
        }
        sums
    }

    /// Returns the number of items that could not be read.
    pub(crate) fn unreadable(&self) -> usize {
        self.unusable + self.scans.iter().map(|scan| Counts::of(scan).unreadable).sum::<usize>()
    }

    pub(crate) fn ranks(&self) -> Vec<RankComparison> {
        compare(&self.scans)
    }

    /// Returns the text, and the number of notes that have no line in it.
    pub(crate) fn text(&self, ranks: &[RankComparison], shows_notes: bool) -> (Text, usize) {
        if self.scans.is_empty() {
            return Default::default();
        }
        let (mut text, mut hidden) = (Text::default(), 0);
        for scan in &self.scans {
            text.append(&problems_text(scan));
            let (notes, more_hidden) = notes_text(scan, shows_notes);
            text.append(&notes);
            hidden += more_hidden;
        }
        text.append(&table(&self.scans));
        text.extend(ranks.iter().map(ranks_text));
        (text, hidden)
    }

    pub(crate) fn outputs(&self) -> Vec<OrError<CacheOutput>> {
        let caches = self.scans.iter().map(|scan| OrError::Done(cache_output(scan)));
        let errors = self.errors.iter().map(|(path, error)| OrError::Failed(FileError::new(path, error)));
        caches.chain(errors).collect()
    }
}

/// Scans a cache and shows the progress.
pub(crate) fn scan_with_progress(
    cache: &CacheDir,
    threads: NonZeroUsize,
    progress: &Progress,
    cancel: &CancelToken,
) -> std::io::Result<CacheScan> {
    progress.start(&cache.path.to_string_lossy());
    let (update, is_cancelled) = (|done, total| progress.update(done, total), || cancel.is_cancelled());
    let mut options = ScanOptions::new(threads);
    (options.progress, options.is_cancelled) = (&update, &is_cancelled);
    scan(cache, &options)
}

/// Reports links that were not followed.
pub(crate) fn note_links(links: &[PathBuf], output: &Output) {
    for link in links {
        output.print_note(&format!(
            "`{}` is a link to a directory above what was named, and was not followed: name it to have it checked",
            link.display()
        ));
    }
}

/// Returns the problems of one cache.
fn problems_text(scan: &CacheScan) -> Text {
    let mut text = Text::default();
    let wrong: Vec<&Item> =
        scan.items.iter().filter(|item| !matches!(item.state, ItemState::Intact)).collect();
    for item in wrong.iter().take(MAX_LISTED) {
        text.append(&item_text(scan, item));
    }
    if wrong.len() > MAX_LISTED {
        let path = scan.cache.path.to_string_lossy();
        text.line(format_args!("and {} more in {path}: --format json lists all", wrong.len() - MAX_LISTED));
    }
    let mut failing: Vec<(&Item, usize)> = Vec::new();
    for item in scan.items.iter().filter(|item| fails_later(item)) {
        match failing.iter_mut().find(|(first, _)| first.behavior == item.behavior) {
            Some((_, count)) => *count += 1,
            None => failing.push((item, 1)),
        }
    }
    for (item, count) in failing {
        let path = item_path(scan, item);
        text.append(&headed("note        ", format_args!("{path}: {}{}", item.behavior.text, more(count))));
    }
    text
}

/// Returns the warnings and notes about intact items, one a kind, and the number of notes without a line.
fn notes_text(scan: &CacheScan, shows_notes: bool) -> (Text, usize) {
    let (mut text, mut hidden) = (Text::default(), 0);
    let notes = scan.items.iter().flat_map(|item| item.notes.iter().map(move |note| (item, note)));
    let shown_notes =
        notes.filter(|(item, note)| is_shown_note(note) && matches!(item.state, ItemState::Intact));
    let mut kinds: Vec<(&Item, &Note, usize)> = Vec::new();
    for (item, note) in shown_notes {
        match kinds.iter_mut().find(|(_, first, _)| is_same_kind(first, note)) {
            Some((.., count)) => *count += 1,
            None => kinds.push((item, note, 1)),
        }
    }
    for (item, note, count) in kinds {
        let kind = if matches!(note, Note::Finding(_)) { "warning" } else { "note" };
        if is_benign(note) && !shows_notes {
            hidden += count;
            continue;
        }
        let path = item_path(scan, item);
        text.append(&headed(&format!("{kind:<11} "), format_args!("{path}: {note}{}", more(count))));
    }
    (text, hidden)
}

fn item_text(scan: &CacheScan, item: &Item) -> Text {
    let problems = problems(item).join("; ");
    let path = item_path(scan, item);
    let mut text = headed(&format!("{:<11} ", item.state_name()), format_args!("{path}: {problems}"));
    let indent = " ".repeat(12);
    if let Some(in_use) = item.in_use {
        text.append(&headed(&indent, format_args!("{in_use}, so a build may still be writing it")));
    }
    text.append(&headed(&indent, &item.behavior.text));
    text
}

/// Returns the text for the number of further items with the same text.
fn more(count: usize) -> String {
    if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() }
}

/// Whether a kernel is intact, but the framework fails with it.
fn fails_later(item: &Item) -> bool {
    matches!(item.state, ItemState::Intact) && item.behavior.effect >= Effect::FailsLater
}

/// Whether a note is about names and files, or is a warning about the content of files.
fn is_shown_note(note: &Note) -> bool {
    match note {
        Note::Lint(_) => false,
        Note::Finding(finding) => finding.severity() > Severity::Note,
        _ => true,
    }
}

/// Whether a note is about names, or about files that nothing reads.
fn is_benign(note: &Note) -> bool {
    matches!(
        note,
        Note::KernelName { .. }
            | Note::DescriptorName { .. }
            | Note::DamagedDescriptor { .. }
            | Note::OtherObject
    )
}

/// Whether two notes have the same meaning, for any kernels.
fn is_same_kind(one: &Note, other: &Note) -> bool {
    match (one, other) {
        (Note::Finding(one), Note::Finding(other)) => one.code() == other.code(),
        _ => discriminant(one) == discriminant(other),
    }
}

fn item_path(scan: &CacheScan, item: &Item) -> String {
    let directory = item.below.map_or_else(|| scan.cache.path.clone(), |below| scan.cache.path.join(below));
    directory.join(&item.name).to_string_lossy().into_owned()
}

/// Returns the problems of an item.
fn problems(item: &Item) -> Vec<String> {
    let one = |text: String| vec![text];
    match &item.state {
        ItemState::Intact => Vec::new(),
        ItemState::Damaged(problems) => problems.iter().map(ToString::to_string).collect(),
        ItemState::Orphan(orphan) => one(orphan.to_string()),
        ItemState::OtherChip(other) => one(other.to_string()),
        ItemState::Changing => one("it changed whenever it was read".to_owned()),
        ItemState::Unreadable { file, problem } => one(format!("`{file}` cannot be read: {problem}")),
        _ => one("something is wrong with it".to_owned()),
    }
}

/// The index of the column for kernels of other chips.
const OTHER_CHIP: usize = 4;

/// Returns a table with a line for each cache.
fn table(scans: &[CacheScan]) -> Text {
    let head = [
        "cache",
        "kernels",
        "intact",
        "damaged",
        "other chip",
        "orphans",
        "in progress",
        "unreadable",
        "foreign",
    ];
    // The column is shown only if a cache has such kernels, which is rare.
    let has_others = scans.iter().any(|scan| Counts::of(scan).other_chip > 0);
    let rows = scans.iter().map(|scan| {
        let Counts { kernels, intact, damaged, other_chip, orphans, in_use, unreadable, .. } =
            Counts::of(scan);
        let others = usize::try_from(scan.foreign_count).unwrap_or(usize::MAX);
        let numbers = [kernels, intact, damaged, other_chip, orphans, in_use, unreadable, others];
        let numbers = numbers.map(|number| number.to_string());
        std::iter::once(scan.cache.path.to_string_lossy().into_owned()).chain(numbers).collect::<Vec<_>>()
    });
    let mut lines: Vec<Vec<String>> = std::iter::once(head.map(str::to_owned).to_vec()).chain(rows).collect();
    if !has_others {
        lines.iter_mut().for_each(|line| drop(line.remove(OTHER_CHIP)));
    }
    columns("", &lines)
}

fn ranks_text(ranks: &RankComparison) -> Text {
    let RankComparison { base, kernels, ranks, .. } = ranks;
    let base = base.to_string_lossy();
    let lacking: Vec<&RankCache> = ranks.iter().filter(|rank| !rank.lacks.is_empty()).collect();
    let number = counted(ranks.len(), "rank");
    if *kernels == 0 {
        return Text::of(format_args!("{number} of {base} have no intact kernel"));
    }
    let together = format!("{number} of {base} have {} together", counted(*kernels, "kernel"));
    if lacking.is_empty() {
        return Text::of(format_args!("{together}, and each has all"));
    }
    let mut text = Text::of(format_args!(
        "{together}; where one lacks some, the others wait while it compiles, unless it runs another part of the network:"
    ));
    for RankCache { rank, has, lacks, .. } in lacking {
        let names =
            first_names(lacks.iter().map(|lack| format!("{} (of rank {})", lack.name, lack.in_rank)), 3);
        text.line(format_args!("  rank {rank} has {has}, lacks {}: {names}", lacks.len()));
    }
    text
}

/// The number of ranks whose commands are shown.
const MAX_COMMANDS: usize = 16;

/// Returns a command for each rank that lacks kernels which only a build with its number writes.
pub(crate) fn build_advice(ranks: &[RankComparison]) -> Text {
    let is_of_build = |rank: &&RankCache| rank.lacks.iter().any(|lack| lack.copy == RankCopy::OtherName);
    let numbers: BTreeSet<&str> = opkeep_order::set(
        ranks.iter().flat_map(|ranks| ranks.ranks.iter().filter(is_of_build)).map(|rank| rank.rank.as_str()),
    );
    let mut text = Text::default();
    if !numbers.is_empty() {
        text.line(
            "kernels without a device in the name are written by the program that wrote the others; if that is opkeep, in \
             the directory of the ranks:",
        );
        let command = |rank: &&str| format!("  RANK_ID={} opkeep build MODEL", quoted_word(rank));
        text.list(numbers.iter().map(command), MAX_COMMANDS, |more| format!("  and for {more} more ranks"));
    }
    text
}

/// Returns the commands that give ranks the kernels that they lack, each only if it does so.
pub(crate) fn missing_advice(ranks: &[RankComparison]) -> Text {
    let lacking = |ranks: &RankComparison, copy: RankCopy| {
        ranks.ranks.iter().find(|rank| rank.lacks.iter().any(|lack| lack.copy == copy)).map(|_| ())
    };
    let bases = ranks.iter().filter(|ranks| lacking(ranks, RankCopy::Possible).is_some());
    let bases: Vec<String> = bases.map(|ranks| quoted_path(&ranks.base)).collect();
    let mut text = Text::default();
    if !bases.is_empty() {
        text.line(format_args!(
            "`opkeep repair --fill {}` copies missing kernels from other ranks if MindSpore allows it",
            bases.join(" ")
        ));
    }
    text.append(&build_advice(ranks));
    if ranks.iter().any(|ranks| lacking(ranks, RankCopy::NameOfRank).is_some()) {
        text.line("from MindSpore r2.1 on, names depend on the rank: each rank compiles what it lacks");
    }
    text
}

/// The comparison of ranks as JSON.
#[derive(Serialize)]
pub(crate) struct RanksOutput {
    base: String,
    kernels: usize,
    ranks: Vec<RankOutput>,
}

#[derive(Serialize)]
struct RankOutput {
    rank: String,
    has: usize,
    lacks: Vec<MissingOutput>,
}

/// A kernel that a rank lacks and another rank has, as JSON.
#[derive(Serialize)]
struct MissingOutput {
    name: String,
    in_rank: String,
}

pub(crate) fn ranks_outputs(ranks: &[RankComparison]) -> Vec<RanksOutput> {
    let lack =
        |lack: &MissingKernel| MissingOutput { name: lack.name.clone(), in_rank: lack.in_rank.clone() };
    let one = |rank: &RankCache| RankOutput {
        rank: rank.rank.clone(),
        has: rank.has,
        lacks: rank.lacks.iter().map(lack).collect(),
    };
    let all = |ranks: &RankComparison| RanksOutput {
        base: json::path(&ranks.base),
        kernels: ranks.kernels,
        ranks: ranks.ranks.iter().map(one).collect(),
    };
    ranks.iter().map(all).collect()
}

/// A cache as JSON.
#[derive(Serialize)]
pub(crate) struct CacheOutput {
    cache: String,
    kind: &'static str,
    rank: Option<String>,
    soc: Option<String>,
    kernels: usize,
    intact: usize,
    damaged: usize,
    other_chip: usize,
    orphans: usize,
    in_progress: usize,
    unreadable: usize,
    known: u64,
    skipped: u64,
    foreign: u64,
    foreign_names: Vec<String>,
    interrupted: bool,
    items: Vec<ItemOutput>,
}

#[derive(Serialize)]
struct ItemOutput {
    what: String,
    name: String,
    below: Option<String>,
    files: Vec<String>,
    state: &'static str,
    orphan: Option<&'static str>,
    problems: Vec<String>,
    busy: Option<String>,
    effect: &'static str,
    consequence: String,
    notes: Vec<String>,
}

fn cache_output(scan: &CacheScan) -> CacheOutput {
    let Counts { kernels, intact, damaged, other_chip, orphans, in_use, unreadable, .. } = Counts::of(scan);
    let is_listed = |item: &&Item| {
        !matches!(item.state, ItemState::Intact) || item.notes.iter().any(is_shown_note) || fails_later(item)
    };
    let CacheScan { cache, known, skipped, foreign, foreign_count, cancelled, .. } = scan;
    CacheOutput {
        cache: json::path(&cache.path),
        kind: cache.kind.name(),
        rank: cache.rank.clone(),
        soc: cache.soc.clone(),
        kernels,
        intact,
        damaged,
        other_chip,
        orphans,
        in_progress: in_use,
        unreadable,
        known: *known,
        skipped: *skipped,
        foreign: *foreign_count,
        foreign_names: foreign.clone(),
        interrupted: *cancelled,
        items: scan.items.iter().filter(is_listed).map(item_output).collect(),
    }
}

fn item_output(item: &Item) -> ItemOutput {
    let orphan = match item.state {
        ItemState::Orphan(orphan) => Some(orphan_name(orphan)),
        _ => None,
    };
    ItemOutput {
        what: item.kind.to_string(),
        name: item.name.clone(),
        below: item.below.map(str::to_owned),
        files: item.files(),
        state: item.state_name(),
        orphan,
        problems: problems(item),
        busy: item.in_use.map(|in_use| in_use.to_string()),
        effect: item.behavior.effect.name(),
        consequence: item.behavior.text.to_string(),
        notes: item.notes.iter().map(ToString::to_string).collect(),
    }
}

fn orphan_name(orphan: Orphan) -> &'static str {
    match orphan {
        Orphan::InfoOnly => "info-only",
        Orphan::ObjectOnly => "object-only",
        Orphan::HeaderOnly => "header-only",
        Orphan::Temp => "temp",
        Orphan::StaleLock => "dead-lock",
        _ => "rest",
    }
}

/// Returns the caches that `repair` would change. Damaged packages have to be installed again.
pub(crate) fn repairable(scans: &[CacheScan]) -> Vec<&Path> {
    let is_no_package = |scan: &&CacheScan| scan.cache.kind != Kind::Package;
    let wrong = scans.iter().filter(is_no_package).filter(|scan| scan.items.iter().any(Item::is_repairable));
    wrong.map(|scan| scan.cache.path.as_path()).collect()
}
