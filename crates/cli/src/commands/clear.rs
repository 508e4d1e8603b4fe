//! `opkeep clear`: deletes all stored kernels.

use std::time::Duration;

use opkeep_store::GcOptions;

use crate::commands::gc::store::evict;
use crate::flags::store::StoreArgs;
use crate::ui::output::{ExitStatus, Output};

/// Delete all stored kernels; builds in progress compile again what they miss
#[derive(Debug, clap::Args)]
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
