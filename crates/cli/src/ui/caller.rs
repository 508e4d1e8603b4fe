//! The program in whose process a command runs, in place of a terminal.

use std::cell::RefCell;
use std::sync::mpsc::Sender;

use anstyle::{AnsiColor, Style};

/// An error that ended a command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandError {
    /// The kind of the error.
    pub kind: CommandErrorKind,
    /// The error and its causes, as the program prints them after `error: `; of a usage error, the problem only. The end of
    /// a compiler's log has several lines. Names in it are not escaped.
    pub text: String,
    /// What can be done about it.
    pub help: Vec<String>,
}

/// The kinds of errors that end a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandErrorKind {
    /// The arguments are wrong; nothing was done. The exit code is 2.
    Usage,
    /// The command failed. The exit code is 1 or 2.
    Failed,
    /// The command was cancelled; the JSON document has what it finished. The exit code is 130.
    Interrupted,
}

/// The levels of messages. Their texts have no prefix such as `warning: `.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Level {
    /// An error that did not end the command, such as that of one of several inputs.
    Error,
    /// A problem that the command continues in spite of. The JSON document has it, too.
    Warning,
    /// Information that is no part of the result.
    Note,
    /// What can be done about the error or the warning before it.
    Help,
    /// The present step, such as the kernel that is compiled.
    Progress,
}

impl Level {
    /// Returns the word before a message of this level on a terminal.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
            Self::Help => "help",
            Self::Progress => "progress",
        }
    }

    /// Returns the style of that word.
    pub(crate) fn style(self) -> Style {
        match self {
            Self::Error => AnsiColor::Red.on_default().bold(),
            Self::Warning => AnsiColor::Yellow.on_default().bold(),
            Self::Note => AnsiColor::Cyan.on_default().bold(),
            Self::Help => AnsiColor::Green.on_default().bold(),
            Self::Progress => Style::new(),
        }
    }
}

/// Collects the result of a command, and passes its messages on.
pub(crate) struct Caller<'a> {
    on_message: &'a (dyn Fn(Level, &str) + Sync),
    progress: Option<ProgressSender>,
    json: RefCell<String>,
    error: RefCell<Option<CommandError>>,
}

impl<'a> Caller<'a> {
    pub(crate) fn new(
        on_message: &'a (dyn Fn(Level, &str) + Sync),
        progress: Option<ProgressSender>,
    ) -> Self {
        Self { on_message, progress, json: RefCell::default(), error: RefCell::default() }
    }

    pub(crate) fn message(&self, level: Level, text: &str) {
        (self.on_message)(level, text);
    }

    /// Returns a sender of texts about progress, for any thread.
    pub(crate) fn progress(&self) -> Option<Sender<Option<String>>> {
        self.progress.as_ref().map(|progress| progress.0.clone())
    }

    /// Keeps the JSON document of the result.
    pub(crate) fn result(&self, json: String) {
        self.json.replace(json);
    }

    /// Keeps the error that ends the command.
    pub(crate) fn failure(&self, text: String, help: Vec<String>) {
        self.error.replace(Some(CommandError { kind: CommandErrorKind::Failed, text, help }));
    }

    /// Returns the JSON document and the error, and ends the delivery of progress.
    pub(crate) fn into_result(self) -> (String, Option<CommandError>) {
        (self.json.into_inner(), self.error.into_inner())
    }
}

/// Sends texts about progress to the thread that delivers them. Its end ends the delivery, even if an observer in some
/// thread still has a sender.
pub(crate) struct ProgressSender(Sender<Option<String>>);

impl ProgressSender {
    pub(crate) fn new(sender: Sender<Option<String>>) -> Self {
        Self(sender)
    }
}

impl Drop for ProgressSender {
    fn drop(&mut self) {
        // The receiver is gone if its thread could not be started.
        let _ = self.0.send(None);
    }
}
