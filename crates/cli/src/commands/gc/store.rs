//! Eviction from a store.

use std::path::Path;

use opkeep_store::{Access, FileTotals, GcOptions, GcReport, Store, TargetUsage};
use serde::Serialize;

use crate::flags::store::StoreArgs;
use crate::flags::target_filter::TargetFilter;
use crate::input::store::StorePath;
use crate::ui::json;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, bytes, counted};

pub(crate) fn evict(
    args: &StoreArgs,
    filter: &TargetFilter,
    options: &GcOptions,
    output: &Output,
) -> anyhow::Result<ExitStatus> {
    let access = if options.dry_run { Access::ReadOnly } else { Access::Existing };
    let Some(store) = open(args, access, output)? else { return Ok(ExitStatus::Success) };
    let (mut text, mut targets, mut exit_status) = (Text::default(), Vec::new(), ExitStatus::Success);
    for (name, target) in filter.stores(&store)? {
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
        let (reason, status) = filter.none_chosen(&store)?;
        text.line(reason);
        exit_status = status;
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
    format!(
        "{would} {} ({}) of {}, {} left ({}){over}",
        counted(removed.entries.files, "kernel"),
        size_text(removed),
        before.entries.files,
        after.entries.files,
        size_text(after)
    )
}

/// `163.9 KiB; 172.1 KiB with the store's own files`: the size of the kernels, as `ls` has it, and of all that counts against the limit.
pub(crate) fn size_text(usage: &TargetUsage) -> String {
    let (own, all) = (usage.entries.bytes, usage.total().bytes);
    if own == all {
        return bytes(own);
    }
    let quarantined = match usage.quarantine.files {
        0 => String::new(),
        files => {
            let kernels = counted(usage.quarantined_entries, "quarantined kernel");
            format!("{kernels} ({}) and ", counted(files, "file"))
        }
    };
    format!("{}; {} with {quarantined}the store's own files", bytes(own), bytes(all))
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
    /// The part of the bytes that `ls` adds up.
    kernel_bytes: u64,
}

impl From<&TargetUsage> for UsageOutput {
    fn from(usage: &TargetUsage) -> Self {
        let total = usage.total();
        let FileTotals { files: kernels, bytes: kernel_bytes } = usage.entries;
        Self { kernels, files: total.files, bytes: total.bytes, kernel_bytes }
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
