//! `opkeep key`: makes and shows the keys that sign kernels.

mod generate;
mod line;
mod show;

use clap::Subcommand;

use crate::ui::output::{ExitStatus, Output};

/// The help on how keys are used.
const DETAILS: &str = "\
No build signs or checks kernels yet: this release makes and shows the keys. What they are for:

A host signs the kernels that it compiled with a secret key. Other hosts list the public keys that
they trust, and take only kernels that one of them signed. Keys are texts, NAME:BASE64, as Nix has
them: a key pair of Nix works here.

To begin     opkeep key generate builds-1 --out builds-1.secret >> trusted-keys
             Copy builds-1.secret to the hosts that compile, trusted-keys to all hosts.
To replace   Generate builds-2, add it to the lists of all hosts, then sign with it, and remove
             builds-1 from the lists at last: what it alone signed is not taken any more.
To retire    Remove the key from the lists. A key has no date at which it ends.";

/// Make and show the keys with which hosts sign kernels for each other
#[derive(Debug, clap::Args)]
#[command(after_help = DETAILS)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    Generate(generate::Args),
    Show(show::Args),
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    match &args.command {
        KeyCommand::Generate(args) => generate::run(args, output),
        KeyCommand::Show(args) => show::run(args, output),
    }
}
