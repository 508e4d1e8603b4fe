//! `opkeep key`: makes and shows the keys that sign kernels.

mod generate;
mod line;
mod show;

use clap::Subcommand;

use crate::ui::output::{ExitStatus, Output};

/// The help on how keys are used.
const DETAILS: &str = "\
`opkeep build --sign-key FILE` signs the kernels that this host compiles and shares. `opkeep build
--trusted-keys @FILE` uses only kernels that one of the listed public keys signed, and those that
this host compiled. Other commands that use kernels have these flags as well; OPKEEP_SIGN_KEY and
OPKEEP_TRUSTED_KEYS set them. Keys are texts, NAME:BASE64, as Nix has them: a key pair of Nix works.

A host with trusted keys and no key to sign with sends nothing, so it needs no write access to the
remote cache. What it compiled itself it recognizes by a key in ~/.local/state/opkeep/host-key.

Changes of keys:
  To begin    Copy builds-1.secret to the hosts that compile, trusted-keys to all hosts. There,
              OPKEEP_SIGN_KEY=builds-1.secret and OPKEEP_TRUSTED_KEYS=@trusted-keys.
  To replace  Generate builds-2, add it to the lists of all hosts, then sign with it. Run opkeep remote push --all
              once on each host that compiled, for each remote cache and namespace: it signs what is there already.
              At last, remove builds-1 from the lists: what it alone signed is not taken any more, and would be
              compiled again.
  To retire   Remove the key from the lists. A key has no date at which it ends.

Examples:
  opkeep key generate builds-1 --out builds-1.secret >> trusted-keys
    makes a key pair, and adds the public key to a list";

/// Make and show the keys with which hosts sign kernels for each other
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
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
