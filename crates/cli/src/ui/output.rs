//! What a command reports: results to stdout, everything else to stderr; in process, all to the caller. Only a [`Text`] is
//! printed.

use std::cell::RefCell;
use std::io::{ErrorKind, Write};

use anstyle::Style;
use anyhow::Context;
use opkeep::Warning;
use opkeep_fs::CancelToken;
use serde::Serialize;

use crate::ui::caller::{Caller, CommandError, Level};
pub(crate) use crate::ui::causes::chain;
use crate::ui::config::{ColorMode, Format, UiArgs, Verbosity};
use crate::ui::error_report::ErrorReport;
use crate::ui::file_limit::FileLimit;
use crate::ui::hints::{hints, of_warning};
use crate::ui::interrupt;
use crate::ui::logged::{failed_tool, is_multi_line, tool_output};
use crate::ui::progress::Progress;
use crate::ui::progress::build::BuildProgress;
use crate::ui::text::{Text, one_line, printable_json};

/// The exit status of a command. Of several statuses, the greatest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExitStatus {
    /// The command succeeded: exit code 0.
    Success,
    /// The command completed and found problems: exit code 1.
    Problems,
    /// Some input could not be read, or nothing could be done: exit code 2.
    Failed,
    /// The command was interrupted: exit code 130.
    Interrupted,
    /// The command ran another one, which ended with this exit code.
    OfCommand(u8),
}

impl ExitStatus {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Problems => 1,
            Self::Failed => 2,
            Self::Interrupted => interrupt::EXIT_CODE,
            Self::OfCommand(code) => code,
        }
    }
}

/// The version of the JSON results. It is raised when a field changes its name, its type or its meaning, not when a
/// field is added.
const JSON_SCHEMA: u32 = 1;

/// The fields of every JSON result, around the command's own.
#[derive(Serialize)]
struct Document<'a, T> {
    schema: u32,
    #[serde(flatten)]
    result: &'a T,
    warnings: &'a [String],
}

/// The result of a command that was interrupted before it did anything.
#[derive(Serialize)]
struct Interrupted {
    interrupted: bool,
}

/// The result of a command that an error ended.
#[derive(Serialize)]
struct Failure {
    error: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    help: Vec<String>,
}

/// Where a command runs.
enum Host<'a> {
    /// In a process of its own: it prints, and handles signals.
    Terminal(Terminal),
    /// In the caller's process, of which it touches nothing.
    Caller(Caller<'a>),
}

/// A process of the command's own.
struct Terminal {
    limit: FileLimit,
    has_colors: bool,
    /// Whether events are printed: a line that is redrawn would mix with them.
    is_traced: bool,
}

/// Reports in the requested format.
pub(crate) struct Output<'a> {
    format: Format,
    verbosity: Verbosity,
    host: Host<'a>,
    cancel: CancelToken,
    /// All warnings so far, for the JSON result.
    warnings: RefCell<Vec<String>>,
}

impl<'a> Output<'a> {
    /// Prints from now on, in a process whose signals are the command's.
    pub(crate) fn terminal(args: &UiArgs) -> Self {
        let terminal =
            Terminal { limit: FileLimit::watch(), has_colors: args.color.is_for_stderr(), is_traced: false };
        let (format, verbosity, host) = (args.format, args.verbosity(), Host::Terminal(terminal));
        Self { format, verbosity, host, cancel: CancelToken::new(), warnings: RefCell::default() }
    }

    /// Prints progress as lines if `is_traced`: events are printed, too.
    pub(crate) fn with_trace(mut self, is_traced: bool) -> Self {
        if let Host::Terminal(terminal) = &mut self.host {
            terminal.is_traced = is_traced;
        }
        self
    }

    /// Reports to `caller`, whose `cancel` takes the place of signals.
    pub(crate) fn caller(caller: Caller<'a>, cancel: &CancelToken) -> Self {
        let (host, verbosity) = (Host::Caller(caller), Verbosity::Verbose);
        Self { format: Format::Json, verbosity, host, cancel: cancel.clone(), warnings: RefCell::default() }
    }

    /// Whether the standard input and the standard output are the command's.
    pub(crate) fn has_standard_streams(&self) -> bool {
        matches!(self.host, Host::Terminal(_))
    }

    /// How much the command says. JSON has everything.
    pub(crate) fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// Whether progress is shown.
    fn shows_progress(&self) -> bool {
        self.format == Format::Text && self.verbosity > Verbosity::Quiet
    }

    /// Whether the result is JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Returns the JSON result and the error for the caller in whose process the command ran.
    pub(crate) fn into_result(self) -> (String, Option<CommandError>) {
        match self.host {
            Host::Caller(caller) => caller.into_result(),
            Host::Terminal(_) => Default::default(),
        }
    }

    /// Whether the command runs in a process of its own.
    pub(crate) fn has_own_process(&self) -> bool {
        matches!(self.host, Host::Terminal(_))
    }

    /// Returns the token that cancels the command. Signals cancel it after [`cancel_on_signal`](Self::cancel_on_signal)
    /// only; before, they end the process.
    pub(crate) fn cancel_token(&self) -> CancelToken {
        self.cancel.clone()
    }

    /// Returns the token that cancels the command, which from now on an interrupt does, if the process is the command's.
    pub(crate) fn cancel_on_signal(&self) -> CancelToken {
        if let Host::Terminal(_) = self.host {
            interrupt::cancel_on_signal(&self.cancel);
        }
        self.cancel_token()
    }

    /// Begins to show progress.
    pub(crate) fn progress(&self) -> Progress {
        match &self.host {
            Host::Terminal(terminal) => Progress::on_terminal(self.shows_progress() && !terminal.is_traced),
            Host::Caller(caller) => Progress::for_caller(caller.progress()),
        }
    }

    /// Begins to show the progress of a build.
    pub(crate) fn build_progress(&self) -> BuildProgress {
        match &self.host {
            Host::Terminal(terminal) => BuildProgress::on_stderr(self.shows_progress(), terminal.is_traced),
            Host::Caller(caller) => BuildProgress::for_caller(caller.progress()),
        }
    }

    /// Prints the result: `text`, unless it is empty, or `json` with the schema and all warnings so far.
    ///
    /// # Errors
    /// The result cannot be written, for another reason than that its reader has exited.
    pub(crate) fn print_result(&self, text: &Text, json: &impl Serialize) -> anyhow::Result<()> {
        self.warn_of_file_limit();
        if self.format == Format::Text {
            return if text.is_empty() { Ok(()) } else { self.write_result(text.as_str()) };
        }
        let warnings = &*self.warnings.borrow();
        let document = Document { schema: JSON_SCHEMA, result: json, warnings };
        let json = serde_json::to_string(&document).context("cannot write the result as JSON")?;
        self.write_result(&printable_json(&json))
    }

    fn write_result(&self, text: &str) -> anyhow::Result<()> {
        if let Host::Caller(caller) = &self.host {
            caller.result(text.to_owned());
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        let written = writeln!(out, "{text}");
        match written.and_then(|()| out.flush()) {
            // A reader that has exited (`| head`) needs no more lines.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(error).context("cannot write the result")
            }
            _ => Ok(()),
        }
    }

    /// Prints the JSON result of a command whose text went to stderr.
    pub(crate) fn print_json_only(&self, json: &impl Serialize) -> anyhow::Result<()> {
        self.print_result(&Text::default(), json)
    }

    /// Prints a note, which is no part of the result.
    pub(crate) fn print_note(&self, text: &str) {
        if self.verbosity > Verbosity::Quiet {
            self.print_line(Level::Note, text);
        }
    }

    /// Prints a problem that did not stop the command, and adds it to the result.
    ///
    /// Each text is printed once: several chips share a file of limits, and several targets a store.
    pub(crate) fn print_warning(&self, text: &str) {
        self.print_new_warning(text);
    }

    /// Prints a warning as [`print_warning`](Self::print_warning) does. Returns whether the warning is new.
    fn print_new_warning(&self, text: &str) -> bool {
        let mut warned = self.warnings.borrow_mut();
        let is_new = !warned.iter().any(|known| known == text);
        if is_new {
            self.print_line(Level::Warning, text);
            warned.push(text.to_owned());
        }
        is_new
    }

    /// Prints a warning of a build, and the hint for it.
    pub(crate) fn print_build_warning(&self, warning: &Warning) {
        if self.print_new_warning(&warning.text)
            && let Some(hint) = of_warning(warning.kind)
        {
            self.print_help(hint);
        }
    }

    /// Prints an error with its causes and what helps.
    pub(crate) fn print_error(&self, error: &anyhow::Error) {
        match &self.host {
            Host::Terminal(terminal) => {
                terminal.print_report(&ErrorReport::of(error));
                self.print_failed_tool(error);
            }
            Host::Caller(caller) => {
                let is_multi_line = error.chain().any(is_multi_line);
                let mut text = Text::default();
                if is_multi_line {
                    text.quoted(chain(error))
                } else {
                    text.line(chain(error))
                };
                caller.message(Level::Error, text.as_str());
                hints(error).iter().for_each(|hint| self.print_help(hint));
            }
        }
    }

    /// Prints what a tool that fails wrote, or with which argument that is shown.
    fn print_failed_tool(&self, error: &anyhow::Error) {
        let Some(tool) = failed_tool(error) else { return };
        if self.verbosity > Verbosity::Normal {
            let mut text = Text::default();
            text.quoted(format_args!("note: {}", tool_output(tool)));
            if let Host::Terminal(terminal) = &self.host {
                terminal.print("note", Level::Note.style(), &text);
            }
        } else {
            self.print_help("-v shows all that it wrote");
        }
    }

    /// Prints a hint for a warning.
    pub(crate) fn print_help(&self, text: &str) {
        self.print_line(Level::Help, text);
    }

    /// Prints that an interrupt came before any result, of a command that `builds` or of another one.
    pub(crate) fn print_interrupted(&self, builds: bool) {
        self.print_note(match builds {
            true => "interrupted before anything was built; run it again",
            false => "interrupted; run it again",
        });
        let _ = self.print_json_only(&Interrupted { interrupted: true });
    }

    /// Prints the error that ended a command: as text on stderr, and in JSON in place of the result.
    pub(crate) fn print_failure(&self, error: &anyhow::Error) {
        match &self.host {
            Host::Terminal(_) => self.print_error(error),
            Host::Caller(caller) => caller.failure(chain(error), hints(error)),
        }
        // Best effort: the error may be that stdout cannot be written.
        let _ = self.print_json_only(&Failure { error: chain(error), help: hints(error) });
    }

    /// Warns if a file reached the limit on the size of files. The write that failed may have had no other consequence.
    pub(crate) fn warn_of_file_limit(&self) {
        if let Host::Terminal(terminal) = &self.host
            && let Some(text) = terminal.limit.reached()
        {
            self.print_warning(&text);
        }
    }

    /// Prints a line, on a terminal after the name of its level.
    fn print_line(&self, level: Level, text: &str) {
        match &self.host {
            Host::Terminal(terminal) => terminal.print(
                level.name(),
                level.style(),
                &Text::of(format_args!("{}: {text}", level.name())),
            ),
            Host::Caller(caller) => caller.message(level, &one_line(text)),
        }
    }
}

impl Terminal {
    fn print_report(&self, report: &ErrorReport) {
        report.lines().for_each(|(label, text)| self.print(label.name(), label.style(), &text));
    }

    /// Prints a text that begins with `name` on stderr. Best effort: an error of stderr cannot be reported anywhere.
    fn print(&self, name: &str, style: Style, text: &Text) {
        let text = text.as_str();
        let (name, rest) = text.split_at_checked(name.len()).unwrap_or((text, ""));
        let mut stderr = std::io::stderr().lock();
        let _ = match self.has_colors {
            true => writeln!(stderr, "{style}{name}{style:#}{rest}"),
            false => writeln!(stderr, "{text}"),
        };
    }
}

/// Prints that a command line is wrong.
pub(crate) fn print_usage_error(error: &clap::Error, color: ColorMode) {
    let terminal =
        Terminal { limit: FileLimit::watch(), has_colors: color.is_for_stderr(), is_traced: false };
    terminal.print_report(&ErrorReport::of_usage(error));
}
