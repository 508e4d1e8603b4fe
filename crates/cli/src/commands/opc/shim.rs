//! `opkeep shim`: links by which builds run compilers with opkeep.

use std::path::PathBuf;

use anyhow::Context;
use clap::Subcommand;
use opkeep_fs::Fs;
use opkeep_launcher::bisheng::{self, LAUNCHER_NAME};
use opkeep_launcher::opc;
use opkeep_launcher::shim::install;
use serde::Serialize;

use crate::ui::env;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, quoted_path};

/// The names that links may have.
const NAMES: [&str; 5] = [opc::NAMES[0], opc::NAMES[1], bisheng::NAMES[0], bisheng::NAMES[1], LAUNCHER_NAME];

/// The details of shim.
const DETAILS: &str = "\
A build of an operator package calls opc or asc_opc by its bare name. With a directory of links to opkeep
first on PATH, it runs opkeep, which finds the real program behind them. Nothing of the build changes;
without the directory on PATH, all is as before. See docs/cann-packages.md.

Below opc, bisheng and ccec compile one tiling key each. opkeep-ccache goes before them in builds that take
a ccache: it is the value of ASCENDC_CCACHE_EXECUTABLE.

Examples:
  opkeep shim install ~/opkeep-shims
    makes the links; builds use them after export PATH=~/opkeep-shims:$PATH";

/// The details of shim install.
const INSTALL_DETAILS: &str = "\
Examples:
  opkeep shim install ~/opkeep-shims
    makes links for opc and asc_opc
  opkeep shim install ~/opkeep-shims --for asc_opc
    makes one for asc_opc
  opkeep shim install ~/opkeep-shims --for opkeep-ccache
    makes the program that goes before a compiler: export ASCENDC_CCACHE_EXECUTABLE=~/opkeep-shims/opkeep-ccache";

/// Make links by which builds of operator packages use the store
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct ShimArgs {
    #[command(subcommand)]
    command: ShimCommand,
}

#[derive(Debug, Subcommand)]
enum ShimCommand {
    Install(InstallArgs),
}

/// Make the links in a directory
///
/// A file of another program is never replaced.
#[derive(Debug, clap::Args)]
#[command(after_long_help = INSTALL_DETAILS)]
struct InstallArgs {
    /// The directory, which is created
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// The compilers, separated by commas
    #[arg(long = "for", value_name = "NAMES", value_delimiter = ',')]
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(NAMES), default_values = opc::NAMES)]
    names: Vec<String>,
}

/// The result of an installation.
#[derive(Serialize)]
struct InstallOutput {
    directory: PathBuf,
    /// The links that are new.
    created: Vec<String>,
    /// The links that were there.
    existing: Vec<String>,
}

pub(crate) fn run(args: &ShimArgs, output: &Output) -> anyhow::Result<ExitStatus> {
    let ShimCommand::Install(InstallArgs { dir, names }) = &args.command;
    let own = env::own_program().context("the path of this program cannot be read")?;
    let directory = std::path::absolute(dir)?;
    let mut result = InstallOutput { directory, created: Vec::new(), existing: Vec::new() };
    for name in names {
        match install(&Fs::new(), &result.directory, name, &own)? {
            true => result.created.push(name.clone()),
            false => result.existing.push(name.clone()),
        }
    }
    let mut text = Text::default();
    let dir = quoted_path(&result.directory);
    text.line(format_args!("{dir} has the links {}", names.join(", ")));
    let has = |name: &str| names.iter().any(|known| known == name);
    if names.iter().any(|name| name != LAUNCHER_NAME) {
        text.line(format_args!("builds use them after: export PATH={dir}:\"$PATH\""));
    }
    if has(LAUNCHER_NAME) {
        text.line(format_args!(
            "builds with a ccache use it after: export ASCENDC_CCACHE_EXECUTABLE={dir}/{LAUNCHER_NAME}"
        ));
    }
    if has(bisheng::NAMES[0]) && !opc::NAMES.iter().any(|name| has(name)) {
        text.line("without a link for opc, export BISHENG_REAL_PATH as well: the path of the real bisheng");
    }
    output.print_result(&text, &result)?;
    Ok(ExitStatus::Success)
}
