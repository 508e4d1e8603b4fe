//! `opkeep man`: writes a man page for each command.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use opkeep_fs::Fs;
use serde::Serialize;

use crate::ui::help::blocks;
use crate::ui::json;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, counted, quotable, quoted_path};

/// The details of man.
const DETAILS: &str = "\
The pages are opkeep.1, opkeep-build.1 and so on, for section 1. They have no date, so that the same version gives
the same pages. Existing pages of these names are replaced.

Examples:
  opkeep man ~/.local/share/man/man1
    then `man -M ~/.local/share/man opkeep-build` shows a page; `man opkeep-build` does where `manpath` lists
    that directory, as Debian's does if ~/.local/bin is in PATH";

/// Write the man pages of all commands to a directory
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    /// The directory, which is created if it does not exist
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// The result as JSON.
#[derive(Serialize)]
struct ManOutput {
    dir: String,
    pages: Vec<String>,
}

/// Writes the pages of `command`, which is opkeep with all its commands.
pub(crate) fn run(args: &Args, mut command: clap::Command, output: &Output) -> anyhow::Result<ExitStatus> {
    command.build();
    let mut pages = Vec::new();
    add_pages(&command, &mut pages)?;
    let fs = Fs::new();
    let dir: &Path = &args.dir;
    fs.create_dirs(dir, 0o755).with_context(|| format!("cannot create `{}`", quotable(dir)))?;
    for (name, page) in &pages {
        let path = dir.join(name);
        fs.replace(&path, &[page], 0o644).with_context(|| format!("cannot write `{}`", quotable(&path)))?;
    }
    let mut text = Text::of(format_args!("{} in {}", counted(pages.len(), "page"), dir.display()));
    // With a slash it is a path, and not a name that `man` looks up.
    let first = dir.join("opkeep.1");
    text.line(format_args!("`man {}` shows the first one", quoted_path(&first)));
    let pages = pages.into_iter().map(|(name, _)| name).collect();
    output.print_result(&text, &ManOutput { dir: json::path(dir), pages })?;
    Ok(ExitStatus::Success)
}

/// Adds the page of a command, and those of its own commands.
fn add_pages(command: &clap::Command, pages: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    pages.push((format!("{}.1", command.get_display_name().unwrap_or("opkeep")), page(command)?));
    for subcommand in command.get_subcommands().filter(|command| command.get_name() != "help") {
        add_pages(subcommand, pages)?;
    }
    Ok(())
}

fn page(command: &clap::Command) -> std::io::Result<Vec<u8>> {
    let man = Man::new(command.clone()).manual("opkeep");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().next().is_some() {
        man.render_subcommands_section(&mut page)?;
    }
    details(command).to_writer(&mut page)?;
    man.render_version_section(&mut page)?;
    Ok(page)
}

/// Returns the details of a command.
fn details(command: &clap::Command) -> Roff {
    let mut roff = Roff::new();
    let source = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    if !source.is_empty() && !source.starts_with("Examples:") {
        roff.control("SH", ["DETAILS"]);
    }
    for block in blocks(&source) {
        match block.text.trim_end_matches(':') {
            "Examples" => roff.control("SH", ["EXAMPLES"]),
            "Environment" => roff.control("SH", ["ENVIRONMENT"]),
            _ => roff.control("PP", []).text([roman(block.text)]),
        };
        for row in block.rows {
            roff.control("TP", []).text([bold(row.term)]).text([roman(row.text)]);
        }
    }
    roff
}
