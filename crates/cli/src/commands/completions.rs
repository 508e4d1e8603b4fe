//! `opkeep completions`: prints scripts for shells.

use clap_complete::Shell;
use serde::Serialize;

use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::Text;

/// The help on how shells read the script.
const DETAILS: &str = "\
Examples:
  opkeep completions bash > ~/.local/share/bash-completion/completions/opkeep
    where bash reads it; create the directory first
  opkeep completions zsh > DIR/_opkeep
    for zsh, with DIR in fpath before compinit
  opkeep completions fish > ~/.config/fish/completions/opkeep.fish
    where fish reads it
  opkeep completions elvish > ~/.config/elvish/lib/opkeep.elv
    for elvish, then `use opkeep`
  opkeep completions powershell >> $PROFILE
    where PowerShell reads it";

/// Print a script with which a shell completes the commands and flags of opkeep
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    /// The shell that reads the script
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// The result as JSON.
#[derive(Serialize)]
struct CompletionsOutput {
    shell: String,
    script: String,
}

/// Prints the script for `command`, which is opkeep with all its commands.
pub(crate) fn run(args: &Args, mut command: clap::Command, output: &Output) -> anyhow::Result<ExitStatus> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "opkeep", &mut script);
    let script = String::from_utf8(script)?;
    let json = CompletionsOutput { shell: args.shell.to_string(), script };
    output.print_result(&Text::script(&json.script), &json)?;
    Ok(ExitStatus::Success)
}
