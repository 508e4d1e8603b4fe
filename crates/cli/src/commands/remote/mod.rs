//! `opkeep remote`: the engine of a remote cache, and what is in it.

mod check;
mod contents;
mod gc;
mod ls;
mod push;
mod stats;

use clap::Subcommand;

use crate::ui::output::{ExitStatus, Output};

/// The help on engines.
const DETAILS: &str = "\
URL names an engine that exists, in which hosts share kernels:
  redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE][?prefix=P]
    a Redis server; rediss:// with TLS
  s3://BUCKET[/PREFIX][?OPTION=VALUE&...]
    S3, or a server that speaks it, with the options endpoint (a URL), region, style (path or virtual) and profile;
    the access comes from AWS_ACCESS_KEY_ID, ... or AWS's files
  grpc://HOST:PORT[/INSTANCE]
    a server of the Remote Execution API; grpcs:// with TLS; the access comes from OPKEEP_REMOTE_HEADERS or
    OPKEEP_REMOTE_HEADERS_FILE
  file:///DIRECTORY
    on a file system that all hosts mount

Servers that speak TLS: OPKEEP_REMOTE_TLS_CA, OPKEEP_REMOTE_TLS_CERTIFICATE and
OPKEEP_REMOTE_TLS_KEY name PEM files. See docs/remote.md.

Examples:
  opkeep remote check redis://HOST
    reports what a server really does
  opkeep remote stats
    counts what is in the remote cache that OPKEEP_REMOTE names";

/// Check the engine of a remote cache, and manage what is in it
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: RemoteCommand,
}

#[derive(Debug, Subcommand)]
enum RemoteCommand {
    Check(check::Args),
    Ls(ls::Args),
    Stats(stats::Args),
    Gc(gc::Args),
    Push(push::Args),
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    match &args.command {
        RemoteCommand::Check(args) => check::run(args, output),
        RemoteCommand::Ls(args) => ls::run(args, output),
        RemoteCommand::Stats(args) => stats::run(args, output),
        RemoteCommand::Gc(args) => gc::run(args, output),
        RemoteCommand::Push(args) => push::run(args, output),
    }
}
