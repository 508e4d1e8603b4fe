//! How a command reports: the format of its result, how much it says, and whether in colours.

use anyhow::anyhow;
use clap::{ArgAction, ColorChoice, ValueEnum};

use crate::config::{Settings, SettingsParser};
use crate::ui::{env, trace};

/// The format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

/// When texts have colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorMode {
    Auto,
    Always,
    Never,
}

/// How much a command says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    /// Results, problems and errors.
    Quiet,
    /// Also progress and notes.
    Normal,
    /// Also what explains a result that is as expected.
    Verbose,
}

/// The title of these arguments in help texts.
const GLOBAL: &str = "Global options";

/// The arguments of all commands.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct UiArgs {
    /// The format of results
    ///
    /// With json, stdout has one object, which docs/json.md describes, and stderr has everything else.
    #[arg(long, global = true, help_heading = GLOBAL, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    pub(crate) format: Format,
    /// Print less
    ///
    /// No progress and no notes, and of a build only failures and the sum.
    #[arg(long, short, global = true, help_heading = GLOBAL, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more
    ///
    /// Of a build, each kernel with the reason of its compile. Twice: also what the command does, event by event, as
    /// OPKEEP_LOG=opkeep=debug.
    #[arg(long, short, global = true, help_heading = GLOBAL, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// When texts have colours
    ///
    /// auto uses them on a terminal, unless NO_COLOR is set; CLICOLOR_FORCE=1 uses them everywhere.
    #[arg(long, global = true, help_heading = GLOBAL, value_enum, default_value_t = ColorMode::Auto, value_name = "WHEN")]
    pub(crate) color: ColorMode,
    /// Read the settings from this file only
    ///
    /// It takes the place of opkeep.toml in the current directory or the nearest one above it, that of the user
    /// (~/.config/opkeep/opkeep.toml) and that of the system (/etc/opkeep/opkeep.toml). /dev/null: none is read. `opkeep
    /// config` shows what is in force. [default: $OPKEEP_CONFIG]
    #[arg(long, global = true, help_heading = GLOBAL, value_parser = SettingsParser::default(), value_name = "FILE")]
    #[arg(default_value = "", hide_default_value = true, value_hint = clap::ValueHint::FilePath)]
    pub(crate) config: Settings,
}

impl UiArgs {
    /// Text without colours.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self {
            format: Format::Text,
            quiet: false,
            verbose: 0,
            color: ColorMode::Never,
            config: Settings::default(),
        }
    }

    pub(crate) fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, 0) => Verbosity::Normal,
            (false, _) => Verbosity::Verbose,
        }
    }
}

impl UiArgs {
    /// Begins to print events, if the command line or the environment asks for them. Returns whether that is so.
    ///
    /// # Errors
    /// The environment has no filter.
    pub(crate) fn trace(&self) -> anyhow::Result<bool> {
        let filter = env::log_filter();
        trace::start(filter.as_deref(), self.verbose > 1).map_err(|why| {
            let filter = filter.unwrap_or_default();
            anyhow!("{} is `{filter}`: {why}; expected levels of modules, such as opkeep=debug", env::LOG)
        })
    }
}

impl ColorMode {
    /// Whether texts on stderr have colours.
    pub(crate) fn is_for_stderr(self) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never,
        }
    }
}

impl From<ColorMode> for ColorChoice {
    fn from(mode: ColorMode) -> Self {
        match mode {
            ColorMode::Auto => Self::Auto,
            ColorMode::Always => Self::Always,
            ColorMode::Never => Self::Never,
        }
    }
}
