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
use crate::ui::text::{Text, shown_json};

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

/// The verdict about a command; of several, the greatest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// Exit code 0.
    Good,
    /// Done, and problems were found: 1.
    Problems,
    /// Some input could not be read, or nothing could be done: 2.
    Unusable,
    /// Interrupted: 130.
    Interrupted,
}

/// The version of the JSON results: raised when a field changes its name, its type or its meaning, not when one is added.
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
    /// All warnings, for the result.
    warnings: RefCell<Vec<String>>,
}

impl Output {
    pub(crate) fn new(format: Format, file_limit: FileLimit) -> Self {
        Self { format, file_limit, warnings: RefCell::default() }
    }

    pub(crate) fn is_text(&self) -> bool {
        self.format == Format::Text
    }

    /// The result: `text`, or `json` with the schema and all warnings so far.
    ///
    /// # Errors
    /// It cannot be written, though the reader is still there.
    pub(crate) fn print_result(&self, text: &Text, json: &impl Serialize) -> anyhow::Result<()> {
        self.warn_of_file_limit();
        let mut out = std::io::stdout().lock();
        let written = match self.format {
            Format::Text => writeln!(out, "{}", text.as_str()),
            Format::Json => {
                let warnings = &*self.warnings.borrow();
                let document = Document { schema: JSON_SCHEMA, result: json, warnings };
                let json = serde_json::to_string(&document).context("cannot write the result as JSON")?;
                writeln!(out, "{}", shown_json(&json))
            }
        };
        match written.and_then(|()| out.flush()) {
            // A reader that has gone away (`| head`) has all it wants.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(error).context("cannot write the result")
            }
            _ => Ok(()),
        }
    }

    /// The result of a command that reported everything on stderr.
    pub(crate) fn print_quiet_result(&self, json: &impl Serialize) -> anyhow::Result<()> {
        if self.is_text() { Ok(()) } else { self.print_result(&Text::default(), json) }
    }

    /// Prints a note, which is no part of the result.
    pub(crate) fn print_note(&self, text: &str) {
        print_line("note", text);
    }

    /// Prints a problem that did not stop the command, and adds it to the result.
    ///
    /// Each once: chips share a file of limits, and targets a store.
    pub(crate) fn print_warning(&self, text: &str) {
        self.print_new_warning(text);
    }

    /// As [`print_warning`](Self::print_warning). Returns whether it is new.
    fn print_new_warning(&self, text: &str) -> bool {
        let mut warned = self.warnings.borrow_mut();
        let is_new = !warned.iter().any(|known| known == text);
        if is_new {
            print_line("warning", text);
            warned.push(text.to_owned());
        }
        is_new
    }

    /// A warning of a build, and the help for it.
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
        if error.chain().any(has_lines) {
            text.quoted(line)
        } else {
            text.line(line)
        }
        hints(error).iter().for_each(|hint| text.line(format_args!("help: {hint}")));
        print(&text);
    }

    /// What to do about something that was warned of.
    pub(crate) fn print_help(&self, text: &str) {
        print_line("help", text);
    }

    /// Reports that an interrupt came before any result.
    pub(crate) fn print_interrupted(&self) {
        self.print_note("interrupted before anything was built; run it again");
        let _ = self.print_quiet_result(&Interrupted { interrupted: true });
    }

    /// Prints the error that ended a command: for people on stderr, and in JSON in place of the result.
    pub(crate) fn print_failure(&self, error: &anyhow::Error) {
        self.print_error(error);
        // The error itself may be that nothing can be written.
        let _ = self.print_quiet_result(&Failure { error: chain(error), help: hints(error) });
    }

    /// Warns once if a file met the limit on their size: which write it was may have been of no consequence.
    pub(crate) fn warn_of_file_limit(&self) {
        if let Some(text) = self.file_limit.reached() {
            self.print_warning(&text);
        }
    }
}

/// A line on stderr.
fn print_line(kind: &str, text: &str) {
    let mut line = Text::default();
    line.line(format_args!("{kind}: {text}"));
    print(&line);
}

/// Prints on stderr. If that cannot be written there is no other place for it.
fn print(text: &Text) {
    let _ = writeln!(std::io::stderr().lock(), "{}", text.as_str());
}

/// Whether an error has lines of its own: the end of a compiler's log.
pub(crate) fn has_lines(error: &(dyn Error + 'static)) -> bool {
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
        _ => error.is::<Logged>(),
    }
}

/// An error made of others that may have lines of their own.
#[derive(Debug)]
pub(crate) struct Logged(pub(crate) String);

impl fmt::Display for Logged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Logged {}

/// An error and its causes in one line, without causes that are in the text of an error before them.
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
