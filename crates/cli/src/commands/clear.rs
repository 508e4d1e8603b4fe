//! `opkeep clear`: deletes all stored kernels.

use opkeep_store::GcOptions;

use crate::commands::gc::store::evict;
use crate::flags::store::StoreArgs;
use crate::flags::target_filter::TargetFilter;
use crate::ui::output::{ExitStatus, Output};

/// The details of clear.
const DETAILS: &str = "\
Exit code 1: something could not be deleted, or no target of the store has the name of --target.

Examples:
  opkeep clear --dry-run
    reports what would be deleted
  opkeep clear --target 'Ascend910B*'
    deletes the kernels for some targets, and no others";

/// Delete all stored kernels
///
/// Builds in progress compile again what they miss. `opkeep stats` counts what is deleted as cleared, and not as evicted.
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    target: TargetFilter,
    /// Report what would be deleted, and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    evict(&args.store, &args.target, &GcOptions::clear().with_dry_run(args.dry_run), output)
}
