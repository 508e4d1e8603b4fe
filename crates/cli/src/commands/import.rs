//! `opkeep import`: copies kernels from frameworks' caches into the store.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use opkeep_backend_ascend::AscendConfig;
use opkeep_framework_cache::import::{
    CacheImport, ImportReport, ImportedKernel, Importer, SkipReason, SkippedKernel,
};
use opkeep_framework_cache::scan::{CacheDir, CacheScan};
use opkeep_fs::CancelToken;
use serde::Serialize;

use crate::flags::store::StoreArgs;
use crate::input::store::threads;
use crate::setup;
use crate::ui::env;
use crate::ui::json::{self, DirError};
use crate::ui::output::{ExitStatus, Output};
use crate::ui::registry::registry;
use crate::ui::text::{Text, bytes, counted, quotable};

/// The details of import.
const DETAILS: &str = "\
Kernels are copied unchanged from kernel_meta, rank_N/kernel_meta and akg_kernel_meta at and below
each directory; nothing is changed there. A kernel is imported if it is intact, if a descriptor
(.info) beside it names it and is not newer, if its .json names no other kernel, if it was not
compiled for debugging, if its operator is the toolkit's, and if it is for the chip that the
descriptor states. All others are skipped, with the reason: caches of CANN and operator packages
have no descriptors, no backend runs AKG's kernels for the host, kernels that opkeep published there
are stored already, and the source of a custom operator at that time is unknown.

The toolchain and the sources of an imported kernel are unknown, so builds only reuse it with
--trust-imported: for an equal job, target and options, on every rank and device. A kernel that
opkeep compiled takes precedence. Of several kernels of one job the first is kept, until a kernel is
imported that by the dates of its files was compiled later: it replaces the older one. Importing the
same kernels again changes nothing.

Exit code 0: kernels are imported, or were before; 1: kernels are imported, and others had problems;
2: no kernel could be imported, or a directory could not be read.

Examples:
  opkeep import /data/training --dry-run
    reports what would be imported
  opkeep import /data/training
    copies the kernels of all ranks below a directory";

/// Import the kernels of MindSpore's kernel_meta directories into the store
///
/// Builds reuse them with --trust-imported.
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    /// Directories with caches of a framework at or below them
    #[arg(required = true, value_name = "DIR")]
    pub(crate) dirs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The number of kernels that are read at once [default: one per processor]
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Report what would be imported, and import nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// The maximum number of skipped kernels that are listed for each cache.
const MAX_LISTED: usize = 20;

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let cancel = output.cancel_on_signal();
    let progress = Arc::new(output.progress());
    let shown = Arc::clone(&progress);
    let importer = importer(&args.store)?
        .threads(threads(args.jobs))
        .dry_run(args.dry_run)
        .cancel(cancel)
        .observer(move |cache, done, of| shown.update_subject(&cache.to_string_lossy(), done, of));
    let report = importer.import(&args.dirs);
    progress.done();
    let report = report?;
    for (dir, error) in &report.unreadable_dirs {
        output.print_error(&anyhow::anyhow!("cannot read `{}`: {error}", quotable(dir)));
    }
    report.warnings.iter().for_each(|warning| output.print_warning(warning));
    let totals = Totals::of(&report);
    output.print_result(
        &text(&report, &totals, args.dry_run),
        &ImportOutput::new(&report, &totals, args.dry_run),
    )?;
    Ok(match () {
        () if report.interrupted => ExitStatus::Interrupted,
        () if !report.unreadable_dirs.is_empty() || totals.is_nothing() => ExitStatus::Failed,
        () if totals.problems > 0 => ExitStatus::Problems,
        () => ExitStatus::Success,
    })
}

/// Returns the importer of a store.
fn importer(args: &StoreArgs) -> anyhow::Result<Importer> {
    let config = setup::store(args)?;
    // No backend is opened, so no toolkit is needed.
    let backends = registry(
        env::cpu_config(None, Duration::from_secs(60), &[])?,
        AscendConfig::new(env::ascend_search(None)),
    );
    Ok(Importer::new(config, move |spec| {
        backends.resolve_foreign(spec).map(|read| read.map_err(|error| error.to_string()))
    }))
}

/// Whether an import of the cache `dir`, of which `scan` is known, would find a kernel to store. Stores nothing.
pub(crate) fn would_import(
    dir: &CacheDir,
    scan: &CacheScan,
    args: &StoreArgs,
    cancel: &CancelToken,
) -> anyhow::Result<bool> {
    let importer = importer(args)?.threads(threads(None)).cancel(cancel.clone());
    Ok(importer.would_import(dir, scan)?)
}

/// The totals of all caches.
#[derive(Default)]
struct Totals {
    imported: usize,
    bytes: usize,
    existing: usize,
    replaced: usize,
    duplicates: usize,
    unprocessed: usize,
    /// The number of skipped kernels, by reason.
    skipped: BTreeMap<&'static str, usize>,
    /// The same, by the reason's words in text.
    phrases: BTreeMap<&'static str, usize>,
    problems: usize,
}

impl Totals {
    fn of(report: &ImportReport) -> Self {
        let mut totals = Self::default();
        for cache in &report.caches {
            totals.imported += cache.imported.len();
            totals.replaced += cache.replaced.len();
            totals.bytes +=
                cache.imported.iter().chain(&cache.replaced).map(|kernel| kernel.bytes).sum::<usize>();
            totals.existing += cache.existing;
            totals.duplicates += cache.duplicates;
            totals.unprocessed += cache.unprocessed;
            totals.problems += cache.unreadable_dirs.len();
            for SkippedKernel { why, .. } in &cache.skipped {
                *totals.skipped.entry(why.name()).or_default() += 1;
                *totals.phrases.entry(why.phrase()).or_default() += 1;
                totals.problems += usize::from(why.is_problem());
            }
        }
        totals
    }

    fn is_nothing(&self) -> bool {
        self.imported + self.replaced + self.existing + self.duplicates == 0
    }
}

fn text(report: &ImportReport, totals: &Totals, dry_run: bool) -> Text {
    let verb = if dry_run { "would be imported" } else { "imported" };
    let mut text: Text = report.caches.iter().map(|cache| cache_text(cache, verb, dry_run)).collect();
    if report.caches.is_empty() && report.unreadable_dirs.is_empty() {
        text.line("there is no cache of a framework: expected kernel_meta, akg_kernel_meta, or a directory above one");
    }
    let replaced = replaced_text(totals.replaced, dry_run);
    let size = bytes(u64::try_from(totals.bytes).unwrap_or(u64::MAX));
    let imported = format!("{} {verb}{replaced} ({size})", counted(totals.imported, "kernel"));
    let skipped: usize = totals.phrases.values().sum();
    let reasons: Vec<String> =
        totals.phrases.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
    let skipped = format!("{skipped} skipped{reasons}");
    text.line(counts_text(imported, totals.existing, totals.duplicates, skipped, totals.unprocessed));
    if report.interrupted {
        text.line("interrupted before everything was imported; run it again to continue");
    }
    if !totals.is_nothing() && !dry_run {
        text.line("`opkeep build --trust-imported` reuses them on hosts with the toolkit for their chip");
    }
    text
}

/// Returns the text with the numbers of kernels, of one cache or of all.
fn counts_text(
    imported: String,
    existing: usize,
    duplicates: usize,
    skipped: String,
    unprocessed: usize,
) -> String {
    let mut counts = vec![imported, format!("{existing} stored already")];
    if duplicates > 0 {
        counts.push(format!("{duplicates} of jobs that were stored with other bytes"));
    }
    counts.push(skipped);
    if unprocessed > 0 {
        counts.push(format!("{unprocessed} not checked"));
    }
    counts.join(", ")
}

/// Returns the text about `count` kernels that replace older ones.
fn replaced_text(count: usize, dry_run: bool) -> String {
    match (count, dry_run) {
        (0, _) => String::new(),
        (_, true) => format!(", {count} would replace older ones"),
        (_, false) => format!(", {count} in place of older ones"),
    }
}

fn cache_text(cache: &CacheImport, verb: &str, dry_run: bool) -> Text {
    let mut text = Text::of(cache.path.display());
    if let Some(why) = &cache.skip_reason {
        text.line(format_args!("  skipped: {why}"));
        return text;
    }
    let replaced = replaced_text(cache.replaced.len(), dry_run);
    let imported = format!("  {} {verb}{replaced}", cache.imported.len());
    let skipped = format!("{} skipped", cache.skipped.len());
    text.line(counts_text(imported, cache.existing, cache.duplicates, skipped, cache.unprocessed));
    let line = |SkippedKernel { name, why, .. }: &SkippedKernel| format!("  skipped {name}: {why}");
    text.list(cache.skipped.iter().map(line), MAX_LISTED, |more| format!("  and {more} more"));
    for (dir, error) in &cache.unreadable_dirs {
        text.line(format_args!("  cannot read {dir}: {error}"));
    }
    text
}

/// The result as JSON.
#[derive(Serialize)]
struct ImportOutput {
    dry_run: bool,
    interrupted: bool,
    imported: usize,
    bytes: usize,
    renewed: usize,
    already: usize,
    copies: usize,
    /// The number of skipped kernels, by reason.
    passed_over: BTreeMap<&'static str, usize>,
    left: usize,
    problems: usize,
    unreadable: Vec<DirError>,
    caches: Vec<CacheOutput>,
}

#[derive(Serialize)]
struct CacheOutput {
    folder: String,
    kind: &'static str,
    rank: Option<String>,
    passed_over: Option<ReasonOutput>,
    imported: Vec<KernelOutput>,
    renewed: Vec<KernelOutput>,
    already: usize,
    copies: usize,
    not_imported: Vec<SkippedOutput>,
    left: usize,
    unreadable: Vec<DirError>,
}

#[derive(Serialize)]
struct KernelOutput {
    name: String,
    key: String,
    op_type: String,
    target: String,
    bytes: usize,
}

#[derive(Serialize)]
struct SkippedOutput {
    name: String,
    #[serde(flatten)]
    reason: ReasonOutput,
}

#[derive(Serialize)]
struct ReasonOutput {
    reason: &'static str,
    message: String,
    problem: bool,
}

impl ImportOutput {
    fn new(report: &ImportReport, totals: &Totals, dry_run: bool) -> Self {
        Self {
            dry_run,
            interrupted: report.interrupted,
            imported: totals.imported,
            bytes: totals.bytes,
            renewed: totals.replaced,
            already: totals.existing,
            copies: totals.duplicates,
            passed_over: totals.skipped.clone(),
            left: totals.unprocessed,
            problems: totals.problems,
            unreadable: json::dir_errors(&report.unreadable_dirs),
            caches: report.caches.iter().map(cache_output).collect(),
        }
    }
}

fn cache_output(cache: &CacheImport) -> CacheOutput {
    let skipped = |SkippedKernel { name, why, .. }: &SkippedKernel| SkippedOutput {
        name: name.clone(),
        reason: reason_output(why),
    };
    CacheOutput {
        folder: json::path(&cache.path),
        kind: cache.kind,
        rank: cache.rank.clone(),
        passed_over: cache.skip_reason.as_ref().map(reason_output),
        imported: cache.imported.iter().map(kernel_output).collect(),
        renewed: cache.replaced.iter().map(kernel_output).collect(),
        already: cache.existing,
        copies: cache.duplicates,
        not_imported: cache.skipped.iter().map(skipped).collect(),
        left: cache.unprocessed,
        unreadable: json::dir_errors(&cache.unreadable_dirs),
    }
}

fn kernel_output(kernel: &ImportedKernel) -> KernelOutput {
    let ImportedKernel { name, key, op_type, target, bytes, .. } = kernel;
    KernelOutput {
        name: name.clone(),
        key: key.to_string(),
        op_type: op_type.clone(),
        target: target.clone(),
        bytes: *bytes,
    }
}

fn reason_output(why: &SkipReason) -> ReasonOutput {
    ReasonOutput { reason: why.name(), message: why.to_string(), problem: why.is_problem() }
}
