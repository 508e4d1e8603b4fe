//! Printing: results to stdout, everything else to stderr.

use std::io::{ErrorKind, Write};

use anyhow::Context;
use serde_json::{Value, json};

use crate::args::Format;

/// How a command came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    ///
    /// # Errors
    /// It cannot be written, and somebody was there to read it.
    pub(crate) fn result(&self, text: &str, json: &Value) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        let line = match self.format {
            Format::Text => text.trim_end().to_owned(),
            Format::Json => json.to_string(),
        };
        match writeln!(out, "{line}").and_then(|()| out.flush()) {
            // A reader that has gone away (`| head`) has all it wants.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(error).context("cannot write the result")
            }
            _ => Ok(()),
        }
    }

    /// A result that in text has been told already.
    pub(crate) fn quiet_result(&self, json: &Value) -> anyhow::Result<()> {
        if self.is_text() { Ok(()) } else { self.result("", json) }
    }

    /// Something to know that is not the result.
    pub(crate) fn note(&self, text: &str) {
        say("note", text);
    }

    pub(crate) fn warning(&self, text: &str) {
        say("warning", text);
    }

    /// An error with what caused it.
    pub(crate) fn error(&self, error: &anyhow::Error) {
        say("error", &chain(error));
    }

    /// Nothing came of it, since somebody did not want to wait.
    pub(crate) fn interrupted(&self) {
        self.note("interrupted before anything was built; run it again");
        if !self.is_text() {
            let _ = self.result("", &json!({ "interrupted": true }));
        }
    }

    /// The error that ended a command: told to people, and in JSON in place of the result.
    pub(crate) fn failure(&self, error: &anyhow::Error) {
        self.error(error);
        if !self.is_text() {
            // The error itself may be that nothing can be written.
            let _ = self.result("", &json!({ "error": chain(error) }));
        }
    }
}

/// A line on stderr. If that cannot be written there is nobody to tell.
fn say(kind: &str, text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{kind}: {}", printable(text));
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

/// Text with nothing in it that a terminal would obey. Lines stay lines.
pub(crate) fn printable(text: &str) -> String {
    let plain = |letter: char| !letter.is_control() || matches!(letter, '\n' | '\t');
    if text.chars().all(plain) {
        return text.to_owned();
    }
    let escape =
        |letter: char| if plain(letter) { letter.to_string() } else { letter.escape_default().to_string() };
    text.chars().map(escape).collect()
}

/// A name from a file: one line, whatever is in it.
pub(crate) fn one_line(name: &str) -> String {
    printable(&name.replace('\n', "\\n").replace('\t', "\\t"))
}

/// `1 kernel`, `2 kernels`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Lines with their cells below each other, behind `indent`: the first to the left, the others to the right. All lines
/// have as many cells as the first.
pub(crate) fn columns(indent: &str, lines: &[Vec<String>]) -> String {
    let cells = lines.first().map_or(0, Vec::len);
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..cells).map(width).collect();
    let mut text = String::new();
    for line in lines {
        text.push_str(indent);
        for (at, (cell, width)) in line.iter().zip(&widths).enumerate() {
            text.push_str(&match at {
                0 => format!("{cell:width$}"),
                _ => format!("  {cell:>width$}"),
            });
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_a_file_reaches_a_terminal_raw() {
        assert_eq!(printable("a\x1b[31mb\nc"), "a\\u{1b}[31mb\nc");
        assert_eq!(one_line("a\nreused fake"), "a\\nreused fake");
        assert_eq!(one_line("Default/Square-op1"), "Default/Square-op1");
    }
}
