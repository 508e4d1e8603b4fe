//! `opkeep package`: operator packages and their build trees.

mod diff;
mod paths;
mod plan;
mod verify;

use clap::Subcommand;

use crate::ui::output::{ExitStatus, Output};

/// The help on what packages are.
const DETAILS: &str = "\
An operator package has kernels of operators for chip families, indexes that name them, and operator
information. DIR is a vendor's directory (op_impl/ai_core/tbe in it), a directory with several, such
as vendors or a whole opp, or the tree of a build (binary/UNIT/bin in it). Nothing is changed. Links
to directories are not followed.

Examples:
  opkeep package verify $ASCEND_OPP_PATH/vendors
    checks all packages of custom operators
  opkeep package diff vendors/customize csrc/build
    shows what a new build changes
  opkeep package plan csrc/build --source csrc/add/op_kernel/add.cpp
    lists the tasks that read a source";

/// Check and compare CANN operator packages, and list the tasks of their builds
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: PackageCommand,
}

#[derive(Debug, Subcommand)]
enum PackageCommand {
    Verify(verify::Args),
    Diff(diff::Args),
    Plan(plan::Args),
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    match &args.command {
        PackageCommand::Verify(args) => verify::run(args, output),
        PackageCommand::Diff(args) => diff::run(args, output),
        PackageCommand::Plan(args) => plan::run(args, output),
    }
}
