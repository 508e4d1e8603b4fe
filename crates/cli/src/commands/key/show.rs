//! `opkeep key show`: prints the public keys of a file.

use std::path::{Path, PathBuf};

use anyhow::bail;
use opkeep_fs::Fs;
use opkeep_remote::settings::is_secret_key;
use opkeep_trust::{KeyTextError, PublicKey, SigningKey, TrustError, read_public_keys};
use serde::Serialize;

use super::line::line;
use crate::ui::json;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, quotable};

/// The details of show.
const DETAILS: &str = "\
FILE is that of a secret key, or a list of public keys. Each public key is printed as a line of a
list of trusted keys, with its signer id, which is part of the names of what this key signed. A
secret key is never printed; its file must be of this user, with no access for others (mode 0600),
or of root, which its group may read (mode 0440), as a secret in a container is.

Next: `opkeep key show FILE >> trusted-keys` adds the keys to a list.

Exit code 0: there is a key; 2: there is none, or FILE cannot be read or is refused.

Examples:
  opkeep key show builds-1.secret >> trusted-keys
    adds the public key of a secret key to a list";

/// Print the public keys and the signer ids of a secret key or of a list of keys
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    /// The file of a secret key, or a list of public keys
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// The result as JSON.
#[derive(Serialize)]
struct ShowOutput {
    file: String,
    kind: &'static str,
    keys: Vec<KeyOutput>,
}

#[derive(Serialize)]
struct KeyOutput {
    name: String,
    public_key: String,
    signer: String,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    // Such a text must not be in a message.
    if args.file.to_str().is_some_and(is_secret_key) {
        bail!("FILE is the text of a secret key; give the name of the file that has it");
    }
    let (kind, keys) = read(&args.file)?;
    if keys.is_empty() {
        bail!("there is no key in `{}`; expected keys as NAME:BASE64", quotable(&args.file));
    }
    let mut text = Text::default();
    keys.iter().for_each(|key| text.line(line(key)));
    let keys = keys.iter().map(|key| KeyOutput {
        name: key.name().to_string(),
        public_key: key.to_string(),
        signer: key.signer().to_string(),
    });
    let json = ShowOutput { file: json::path(&args.file), kind, keys: keys.collect() };
    output.print_result(&text, &json)?;
    Ok(ExitStatus::Success)
}

/// Reads the public keys in a file, and whether it is that of a secret key.
fn read(file: &Path) -> Result<(&'static str, Vec<PublicKey>), TrustError> {
    let fs = Fs::new();
    let refused = match SigningKey::read(&fs, file) {
        Ok(key) => return Ok(("secret", vec![key.public_key().clone()])),
        Err(refused) => refused,
    };
    match read_public_keys(&fs, file) {
        Ok(keys) => Ok(("public", keys)),
        // It has a secret key: the reason why that is not read counts, unless it is only that there is more in the file.
        Err(error) if error.is_secret_key() && is_about_secret_keys(&refused) => Err(refused),
        Err(error) => Err(error),
    }
}

fn is_about_secret_keys(error: &TrustError) -> bool {
    matches!(error, TrustError::NotPrivate { .. } | TrustError::Key { problem: KeyTextError::Halves, .. })
}
