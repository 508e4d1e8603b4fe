//! `opkeep clear`: deletes all stored kernels.

use std::time::Duration;

use opkeep_store::GcOptions;

use crate::commands::gc::store::evict;
use crate::flags::store::StoreArgs;
use crate::ui::output::{ExitStatus, Output};

/// The details of clear.
const DETAILS: &str = "\
Examples:
  opkeep clear --dry-run
    reports what would be deleted";

/// Delete all stored kernels
///
/// Builds in progress compile again what they miss.
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Report what would be deleted, and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let options = GcOptions::default().with_older_than(Duration::ZERO).with_dry_run(args.dry_run);
    evict(&args.store, &options, output)
}
