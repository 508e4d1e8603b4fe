//! The arguments of `opkeep`; those of each command are in its module.

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::commands::{
    build, bundle, clear, completions, config, diff, doctor, explain, gc, import, inspect, key, ls, man, opc,
    package, remote, repair, report, run, stats, targets, verify,
};
use crate::flags::ENVIRONMENT;
use crate::ui::config::{ColorMode, UiArgs};
use crate::ui::help::laid_out;
use crate::ui::interrupt;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::one_line;
use crate::ui::version::{LONG_VERSION, VERSION};

/// Incremental operator build: compile each kernel once, check it, reuse it everywhere
///
/// Exit codes: 0 done; 1 done, and problems were found (a kernel failed, an input is not a model, damage); 2 wrong usage,
/// an input cannot be read, or nothing could be done; 130 interrupted.
#[derive(Debug, Parser)]
#[command(name = "opkeep", version = VERSION, long_version = LONG_VERSION, propagate_version = true, after_long_help = ENVIRONMENT)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) ui: UiArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Args {
    /// Reads a command line, whose first element is the program. A help text is laid out for `width`.
    ///
    /// # Errors
    /// The command line is wrong, or asks for help.
    pub(crate) fn read(line: &[OsString], width: impl FnOnce() -> usize) -> Result<Self, clap::Error> {
        Self::parse_line(line, Self::command()).map_err(|error| {
            // Parsed again with escaped arguments, since clap prints them unchanged. Most are file names, and a shell's
            // pattern may have matched unsafe ones.
            let shown = line.iter().map(|arg| one_line(&arg.to_string_lossy()).into());
            let command = laid_out(Self::command(), width());
            Self::parse_line(&shown.collect::<Vec<_>>(), command).err().unwrap_or(error)
        })
    }

    fn parse_line(line: &[OsString], command: clap::Command) -> Result<Self, clap::Error> {
        let mut command = command.color(color_of(line).into());
        let mut matches = command.try_get_matches_from_mut(line)?;
        Self::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    }

    /// Runs the command, and reports the error that ends it.
    pub(crate) fn run(&self, output: &Output<'_>) -> ExitStatus {
        let exit_status = match self.configured(output).and_then(|()| self.command.run(output)) {
            Ok(exit_status) => exit_status,
            Err(error) if interrupt::is_cause_of(&error) => {
                output.warn_of_file_limit();
                output.print_interrupted(self.command.builds());
                ExitStatus::Interrupted
            }
            Err(error) => {
                output.print_failure(&error);
                ExitStatus::Failed
            }
        };
        output.warn_of_file_limit();
        exit_status
    }
}

impl Args {
    /// Reads the settings that flags leave open, if the command has any.
    ///
    /// # Errors
    /// A file or a variable is not valid.
    fn configured(&self, output: &Output<'_>) -> anyhow::Result<()> {
        if !self.command.has_settings() {
            return Ok(());
        }
        let loaded = self.ui.config.load();
        for (problem, help) in loaded.ignored() {
            output.print_warning(&problem);
            output.print_help(help);
        }
        // One error ends the command, and is its result; those before it are printed as well.
        match loaded.errors.split_last() {
            None => Ok(()),
            Some((last, others)) => {
                others.iter().for_each(|error| output.print_error(&anyhow::Error::new(error.clone())));
                Err(last.clone().into())
            }
        }
    }
}

/// Returns the colours that a command line asks for, before it is read: its errors have colours, too.
pub(crate) fn color_of(line: &[OsString]) -> ColorMode {
    let own = line.iter().take_while(|argument| *argument != "--");
    let mut texts = own.map(|argument| argument.to_str().unwrap_or_default());
    while let Some(text) = texts.next() {
        let mode = if text == "--color" { texts.next() } else { text.strip_prefix("--color=") };
        if let Some(mode) = mode.and_then(|mode| ColorMode::from_str(mode, true).ok()) {
            return mode;
        }
    }
    ColorMode::Auto
}

/// Returns the exit code for an error of [`Args::read`]: 0 for the requested help.
pub(crate) fn exit_code(error: &clap::Error) -> u8 {
    u8::try_from(error.exit_code()).unwrap_or(2)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Build(build::Args),
    Run(run::Args),
    Explain(explain::Args),
    Inspect(inspect::Args),
    Diff(diff::Args),
    Ls(ls::Args),
    Verify(verify::Args),
    Repair(repair::Args),
    Import(import::Args),
    Gc(gc::Args),
    Stats(stats::Args),
    Report(report::Args),
    Clear(clear::Args),
    Targets(targets::Args),
    Config(config::Args),
    Doctor(Box<doctor::Args>),
    Bundle(bundle::Args),
    Key(key::Args),
    Remote(remote::Args),
    Opc(Box<opc::Args>),
    Bisheng(Box<opc::BishengArgs>),
    Shim(opc::ShimArgs),
    Package(package::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    fn run(&self, output: &Output) -> anyhow::Result<ExitStatus> {
        match self {
            Self::Build(args) => build::run(args, output),
            Self::Run(args) => run::run(args, output),
            Self::Explain(args) => explain::run(args, output),
            Self::Inspect(args) => inspect::run(args, output),
            Self::Diff(args) => diff::run(args, output),
            Self::Ls(args) => ls::run(args, output),
            Self::Verify(args) => verify::run(args, output),
            Self::Repair(args) => repair::run(args, output),
            Self::Import(args) => import::run(args, output),
            Self::Gc(args) => gc::run(args, output),
            Self::Stats(args) => stats::run(args, output),
            Self::Report(args) => report::run(args, output),
            Self::Clear(args) => clear::run(args, output),
            Self::Targets(args) => targets::run(args, output),
            Self::Config(args) => config::run(args, output),
            Self::Doctor(args) => doctor::run(args, output),
            Self::Bundle(args) => bundle::run(args, output),
            Self::Key(args) => key::run(args, output),
            Self::Remote(args) => remote::run(args, output),
            Self::Opc(args) => opc::run(args, output),
            Self::Bisheng(args) => opc::run_bisheng(args, output),
            Self::Shim(args) => opc::run_shim(args, output),
            Self::Package(args) => package::run(args, output),
            Self::Completions(args) => completions::run(args, Args::command(), output),
            Self::Man(args) => man::run(args, Args::command(), output),
        }
    }

    /// Whether the command needs valid settings. Those that show settings report what is wrong with them.
    fn has_settings(&self) -> bool {
        !matches!(
            self,
            Self::Config(_)
                | Self::Doctor(_)
                | Self::Key(_)
                | Self::Shim(_)
                | Self::Package(_)
                | Self::Completions(_)
                | Self::Man(_)
        )
    }

    /// Whether the command builds kernels.
    fn builds(&self) -> bool {
        matches!(self, Self::Build(_) | Self::Run(_))
    }
}
