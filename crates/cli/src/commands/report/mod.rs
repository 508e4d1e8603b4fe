//! `opkeep report`: reports what builds did, and what is in the store.

mod collect;
mod data;
mod html;
mod output;
mod text;
mod time;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;
use opkeep::BuildRecord;
use opkeep_fs::Fs;
use opkeep_store::Access;

use self::data::{BuildReport, RecordsReport, Report, operator_costs};
use self::output::ReportOutput;
use crate::commands::gc::store::open;
use crate::flags::store::StoreArgs;
use crate::input::replaced::check_replaced;
use crate::ui::json;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::quotable;

/// The details of report.
const DETAILS: &str = "\
Exit code 0: the report is made, also of a store with quarantined kernels; 2: the store cannot be read,
or the page cannot be written.

Examples:
  opkeep report
    reports the last builds of this user's store
  opkeep report --html report.html
    writes the page, which can be opened, sent and printed
  opkeep report --format json
    prints everything that is recorded, for programs
  opkeep report --delete-records
    deletes the records of builds after the report";

/// Report the last builds, what bounded them, and what is in the store
///
/// With --html, the report is also a page for a browser: with a timeline of the last builds, their critical paths, the cost by
/// operator, the hit rate over time, what is in the store, what is evicted next, what is quarantined and why, and what waited for
/// whom. The page loads nothing and runs no script.
///
/// The store has a record of each of the last builds, at most 200 and 8 MiB; see --build-records of build.
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Write the report to this file, as a page for a browser
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Delete the records of builds after the report
    #[arg(long)]
    pub(crate) delete_records: bool,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    args.html.as_deref().map_or(Ok(()), check_page)?;
    let access = if args.delete_records { Access::Existing } else { Access::ReadOnly };
    let Some(store) = open(&args.store, access, output)? else { return Ok(ExitStatus::Success) };
    let mut report = collect::collect(&store, SystemTime::now(), output)?;
    if let Some(file) = &args.html {
        write_page(file, &report)?;
    }
    if args.delete_records {
        report.records.deleted = store.remove_build_records()?;
    }
    let mut text = text::report_text(&report);
    if let Some(file) = &args.html {
        text.line(format_args!("the page is in {}", file.display()));
    }
    let html = args.html.as_deref().map(json::path);
    output.print_result(&text, &ReportOutput::new(&report, html))?;
    Ok(ExitStatus::Success)
}

/// Writes the page about builds that this process did.
pub(crate) fn write_timings(file: &Path, records: &[BuildRecord]) -> anyhow::Result<()> {
    let builds: Vec<BuildReport> = records.iter().rev().cloned().map(BuildReport::new).collect();
    let report = Report {
        root: None,
        made_ms: time::millis(SystemTime::now()),
        max_bytes: None,
        max_entries: None,
        remain_percent: None,
        targets: Vec::new(),
        operators: operator_costs(records.iter()),
        builds,
        records: RecordsReport::default(),
    };
    write_page(file, &report)
}

/// Checks that a page at `file` replaces nothing but a page.
///
/// # Errors
/// It would replace another file.
pub(crate) fn check_page(file: &Path) -> anyhow::Result<()> {
    check_replaced(file, "page of opkeep", html::HEAD_BYTES, html::is_page)
}

fn write_page(file: &Path, report: &Report) -> anyhow::Result<()> {
    check_page(file)?;
    let write = || {
        let mut output = Fs::new().output_file(file, 0o666)?;
        output.write_all(html::page(report).as_bytes())?;
        output.publish()
    };
    write().with_context(|| format!("cannot write the page `{}`", quotable(file)))
}
