//! `opkeep key generate`: makes a key pair.

use std::path::PathBuf;

use opkeep_fs::Fs;
use opkeep_trust::{KeyName, SigningKey};
use serde::Serialize;

use super::line::line;
use crate::ui::json;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::Text;

/// The details of generate.
const DETAILS: &str = "\
The secret key is written to FILE, which must not exist, with mode 0600. It is never printed. The
public key is printed as a line of a list of trusted keys; `opkeep key show FILE` prints it again.
Next: copy FILE to the hosts that sign, by a private channel, and add the printed line to the list
of trusted keys of each host that is to take their kernels.

Exit code 0: the key pair exists; 2: NAME is not allowed, or FILE exists or cannot be written.

Examples:
  opkeep key generate builds-1 --out builds-1.secret >> trusted-keys
    makes a key pair, and adds the public key to a list";

/// Make a new key pair: write the secret key to a file, print the public key
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    /// The name of the key, by which people recognize it, such as builds-1
    ///
    /// It has letters, digits, `.`, `_` and `-`.
    #[arg(value_name = "NAME")]
    name: KeyName,
    /// The new file for the secret key
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// The result as JSON.
#[derive(Serialize)]
struct GenerateOutput {
    file: String,
    name: String,
    public_key: String,
    signer: String,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let key = SigningKey::generate(args.name.clone())?;
    key.write_new(&Fs::new(), &args.out)?;
    let public = key.public_key();
    let file = json::path(&args.out);
    output.print_note(&format!(
        "`{file}` has the secret key, for the hosts that sign; the public key is for the lists of trusted keys"
    ));
    let json = GenerateOutput {
        file,
        name: public.name().to_string(),
        public_key: public.to_string(),
        signer: public.signer().to_string(),
    };
    output.print_result(&Text::of(line(public)), &json)?;
    Ok(ExitStatus::Success)
}
