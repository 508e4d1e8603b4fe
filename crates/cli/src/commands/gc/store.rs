//! Eviction from a store.

use std::path::Path;

use opkeep_store::{Access, GcOptions, GcReport, Store, TargetStore, TargetUsage};
use serde::Serialize;

use crate::flags::store::StoreArgs;
use crate::input::store::StorePath;
use crate::ui::json;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, bytes, counted};

pub(crate) fn evict(args: &StoreArgs, options: &GcOptions, output: &Output) -> anyhow::Result<ExitStatus> {
    let access = if options.dry_run { Access::ReadOnly } else { Access::Existing };
    let Some(store) = open(args, access, output)? else { return Ok(ExitStatus::Success) };
    let (mut text, mut targets, mut exit_status) = (Text::default(), Vec::new(), ExitStatus::Success);
    for (name, target) in target_stores(&store)? {
        let report = target.gc(options)?;
        text.line(format_args!("{name}: {}", summary(&report, options.dry_run)));
        if let Some(failure) = &report.failure {
            let failed = counted(report.failed, "kernel");
            output.print_warning(&format!("{failed} could not be deleted: {failure}"));
            exit_status = ExitStatus::Problems;
        }
        targets.push(target_output(&name, &report));
    }
    if targets.is_empty() {
        text.line("the store is empty");
    }
    let root = json::path(store.root());
    output.print_result(&text, &EvictOutput { root, dry_run: options.dry_run, targets })?;
    Ok(exit_status)
}

/// Opens the store. A missing store counts as empty, unless the user names it.
pub(crate) fn open(args: &StoreArgs, access: Access, output: &Output) -> anyhow::Result<Option<Store>> {
    let store_path = StorePath::default_store(args)?;
    let store = store_path.open(access, args, output)?;
    if store.is_none() {
        let text = Text::of(no_store(&store_path.root));
        output.print_result(&text, &NoStoreOutput { root: json::path(&store_path.root), targets: [] })?;
    }
    Ok(store)
}

/// Returns what is printed of a store that does not exist.
pub(crate) fn no_store(root: &Path) -> String {
    format!("there is no store at {}; the first build creates it", root.display())
}

pub(crate) fn target_stores(store: &Store) -> anyhow::Result<Vec<(String, TargetStore)>> {
    let names = store.targets()?;
    names.into_iter().map(|name| Ok((name.clone(), store.target(&name)?))).collect()
}

fn summary(report: &GcReport, dry_run: bool) -> String {
    if report.busy {
        return "another process evicts entries there".to_owned();
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
            "; that is more than the limit, since kernels that were used in the last half hour stay (--older-than 0s \
             deletes those, too)"
        }
    };
    let rest = match (after.entries.files, after.total().bytes) {
        (0, 1..) if after.quarantine.files > 0 => ": what is quarantined, and the store's own files",
        (0, 1..) => ": the store's own files",
        _ => "",
    };
    format!(
        "{would} {} ({}) of {}, {} left ({}){rest}{over}",
        kernels(removed),
        bytes(removed.total().bytes),
        before.entries.files,
        after.entries.files,
        bytes(after.total().bytes)
    )
}

pub(crate) fn kernels(usage: &TargetUsage) -> String {
    counted(usage.entries.files, "kernel")
}

/// The result as JSON.
#[derive(Serialize)]
struct EvictOutput {
    root: String,
    dry_run: bool,
    targets: Vec<TargetOutput>,
}

/// The result as JSON if there is no store.
#[derive(Serialize)]
struct NoStoreOutput {
    root: String,
    targets: [TargetOutput; 0],
}

#[derive(Serialize)]
struct TargetOutput {
    target: String,
    busy: bool,
    before: UsageOutput,
    removed: UsageOutput,
    after: UsageOutput,
    still_over: bool,
    failed: u64,
}

/// The usage of a target as JSON.
#[derive(Serialize)]
pub(crate) struct UsageOutput {
    kernels: u64,
    files: u64,
    bytes: u64,
}

impl From<&TargetUsage> for UsageOutput {
    fn from(usage: &TargetUsage) -> Self {
        let total = usage.total();
        Self { kernels: usage.entries.files, files: total.files, bytes: total.bytes }
    }
}

fn target_output(name: &str, report: &GcReport) -> TargetOutput {
    TargetOutput {
        target: name.to_owned(),
        busy: report.busy,
        before: (&report.before).into(),
        removed: (&report.removed).into(),
        after: (&report.after).into(),
        still_over: report.still_over,
        failed: report.failed,
    }
}
