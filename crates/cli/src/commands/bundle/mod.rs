//! `opkeep bundle`: moves kernels between stores in one file.

mod export;
mod import;
mod inspect;
mod judge;
mod source;
mod trust;

use clap::Subcommand;

use crate::ui::output::{ExitStatus, Output};

/// The help on what bundles are for.
const DETAILS: &str = "\
A bundle is one compressed file with the kernels of a store, of a network, or of a list of keys, and
an index of them. It ships a cache in a container image, beside a wheel, or to hosts without a
network. The same kernels give the same bytes, so a bundle can be an input of a reproducible build.

The writer of a bundle chooses the code that its readers run: take it from a place that you trust,
or sign it (export --sign-key) and have readers demand that (import --trusted-keys). Keys: see
opkeep help key.

Examples:
  opkeep bundle export --plan resnet50.onnx --output resnet50.bundle
    ships the kernels of a network
  opkeep bundle import resnet50.bundle
    takes them into the store of another host
  opkeep bundle inspect resnet50.bundle
    lists and checks them";

/// Export kernels to one file, import them elsewhere, look into such a file
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: BundleCommand,
}

#[derive(Debug, Subcommand)]
enum BundleCommand {
    Export(Box<export::Args>),
    Import(import::Args),
    Inspect(inspect::Args),
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    match &args.command {
        BundleCommand::Export(args) => export::run(args, output),
        BundleCommand::Import(args) => import::run(args, output),
        BundleCommand::Inspect(args) => inspect::run(args, output),
    }
}
