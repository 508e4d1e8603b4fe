//! Printing: results to stdout, everything else to stderr. Only a [`Text`] is printed.

use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::io::{ErrorKind, Write};

use anyhow::Context;
use clap::ValueEnum;
use opkeep::{KernelError, Warning};
use opkeep_backend::BackendError;
use serde::Serialize;

use crate::ui::file_limit::FileLimit;
use crate::ui::hints::{hints, of_warning};
use crate::ui::text::{Text, printable_json};

/// The format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

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

/// Prints in the requested format.
pub(crate) struct Output {
    format: Format,
    file_limit: FileLimit,
    /// All warnings so far, for the JSON result.
    warnings: RefCell<Vec<String>>,
}

impl Output {
    pub(crate) fn new(format: Format, file_limit: FileLimit) -> Self {
        Self { format, file_limit, warnings: RefCell::default() }
    }

    pub(crate) fn is_text(&self) -> bool {
        self.format == Format::Text
    }

    /// Prints the result: `text`, unless it is empty, or `json` with the schema and all warnings so far.
    ///
    /// # Errors
    /// The result cannot be written, for another reason than that its reader has exited.
    pub(crate) fn print_result(&self, text: &Text, json: &impl Serialize) -> anyhow::Result<()> {
        self.warn_of_file_limit();
        let mut out = std::io::stdout().lock();
        let written = match self.format {
            Format::Text if text.is_empty() => Ok(()),
            Format::Text => writeln!(out, "{}", text.as_str()),
            Format::Json => {
                let warnings = &*self.warnings.borrow();
                let document = Document { schema: JSON_SCHEMA, result: json, warnings };
                let json = serde_json::to_string(&document).context("cannot write the result as JSON")?;
                writeln!(out, "{}", printable_json(&json))
            }
        };
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
        print_line("note", text);
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
            print_line("warning", text);
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

    /// Prints an error with its causes.
    pub(crate) fn print_error(&self, error: &anyhow::Error) {
        let mut text = Text::default();
        let line = format!("error: {}", chain(error));
        if error.chain().any(is_multi_line) {
            text.quoted(line)
        } else {
            text.line(line)
        }
        hints(error).iter().for_each(|hint| text.line(format_args!("help: {hint}")));
        print(&text);
    }

    /// Prints a hint for a warning.
    pub(crate) fn print_help(&self, text: &str) {
        print_line("help", text);
    }

    /// Prints that an interrupt came before any result.
    pub(crate) fn print_interrupted(&self) {
        self.print_note("interrupted before anything was built; run it again");
        let _ = self.print_json_only(&Interrupted { interrupted: true });
    }

    /// Prints the error that ended a command: as text on stderr, and in JSON in place of the result.
    pub(crate) fn print_failure(&self, error: &anyhow::Error) {
        self.print_error(error);
        // Best effort: the error may be that stdout cannot be written.
        let _ = self.print_json_only(&Failure { error: chain(error), help: hints(error) });
    }

    /// Warns if a file reached the limit on the size of files. The write that failed may have had no other consequence.
    pub(crate) fn warn_of_file_limit(&self) {
        if let Some(text) = self.file_limit.reached() {
            self.print_warning(&text);
        }
    }
}

/// Prints a line on stderr.
fn print_line(kind: &str, text: &str) {
    let mut line = Text::default();
    line.line(format_args!("{kind}: {text}"));
    print(&line);
}

/// Prints on stderr. Best effort: an error of stderr cannot be reported anywhere.
fn print(text: &Text) {
    let _ = writeln!(std::io::stderr().lock(), "{}", text.as_str());
}

/// Whether an error has lines of its own: the end of a compiler's log.
pub(crate) fn is_multi_line(error: &(dyn Error + 'static)) -> bool {
    let of_backend = |error: &BackendError| {
        matches!(
            error,
            BackendError::Compile { .. } | BackendError::TimedOut { .. } | BackendError::MissingOutput { .. }
        )
    };
    match (error.downcast_ref::<BackendError>(), error.downcast_ref::<KernelError>()) {
        (Some(error), _) | (_, Some(KernelError::Backend(error))) => of_backend(error),
        (_, Some(error)) => matches!(
            error,
            KernelError::HolderFailed { .. } | KernelError::Invalid { .. } | KernelError::NameMismatch { .. }
        ),
        _ => error.is::<LoggedError>(),
    }
}

/// An error text that may have several lines, such as the end of a compiler's log.
#[derive(Debug)]
pub(crate) struct LoggedError(pub(crate) String);

impl fmt::Display for LoggedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for LoggedError {}

/// Returns the texts of an error and its causes, without causes whose text is part of an earlier one.
pub(crate) fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}
