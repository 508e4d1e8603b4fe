//! Printing: results to stdout, everything else to stderr.
#![expect(clippy::print_stderr, reason = "this is where the command prints")]

use std::io::Write;

use serde_json::Value;

use crate::args::Format;

/// How a command came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Exit code 0.
    Good,
    /// Done, and problems were found: 1.
    Problems,
    /// Some input could not be read: 2.
    Unusable,
}

/// Prints in the format that was asked for.
pub(crate) struct Output {
    format: Format,
}

impl Output {
    pub(crate) fn new(format: Format) -> Self {
        Self { format }
    }

    pub(crate) fn is_text(&self) -> bool {
        self.format == Format::Text
    }

    /// The result: `text`, or `json`.
    pub(crate) fn result(&self, text: &str, json: &Value) {
        let mut out = std::io::stdout().lock();
        let line = match self.format {
            Format::Text => text.trim_end().to_owned(),
            Format::Json => json.to_string(),
        };
        // A reader that has gone away (`| head`) is no error of ours.
        let _ = writeln!(out, "{line}");
    }

    /// Something to know that is not the result.
    pub(crate) fn note(&self, text: &str) {
        eprintln!("note: {text}");
    }

    pub(crate) fn warning(&self, text: &str) {
        eprintln!("warning: {text}");
    }

    /// An error with what caused it.
    pub(crate) fn error(&self, error: &anyhow::Error) {
        eprintln!("error: {}", chain(error));
    }
}

/// An error and its causes in one line, a cause that an error already tells left out.
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

/// `1 kernel`, `2 kernels`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
