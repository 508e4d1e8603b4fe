//! The commands, run in this process.

use std::ffi::OsString;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use opkeep_cli::{CommandErrorKind, InProcess, Level, in_process};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::call::panic_error;
use crate::error::internal_error;
use crate::signals::{INTERVAL, Signals};

/// An error that ended a command.
#[pyclass(frozen, get_all, module = "opkeep._native")]
pub(crate) struct CommandFailure {
    is_usage: bool,
    text: String,
    help: Vec<String>,
}

/// A message of a command: its level and its text.
type Message = (&'static str, String);

/// Runs a command. Returns its JSON result, its exit code and the error that ended it.
///
/// The command runs in a thread of its own, so that this one can run Python's signal handlers and `on_message`, which may
/// take any lock: it is called with no lock of a command held.
#[pyfunction]
pub(crate) fn run(
    py: Python<'_>,
    arguments: Vec<OsString>,
    on_message: Bound<'_, PyAny>,
) -> PyResult<(String, u8, Option<CommandFailure>)> {
    let on_message = on_message.unbind();
    let signals = Signals::new();
    let result = py.detach(|| run_in_thread(arguments, &on_message, &signals));
    let result = match result {
        Some(Ok(result)) => result,
        Some(Err(panic)) => return Err(panic_error(py, panic.as_ref())),
        None => return Err(internal_error(py, "no thread can be started")),
    };
    if let Some(error) = signals.take_raised() {
        return Err(error);
    }
    let InProcess { json, exit_code, error, .. } = result;
    let failure = match error {
        Some(error) if error.kind == CommandErrorKind::Interrupted => {
            return Err(PyKeyboardInterrupt::new_err(error.text));
        }
        error => error.map(|error| CommandFailure {
            is_usage: error.kind == CommandErrorKind::Usage,
            text: error.text,
            help: error.help,
        }),
    };
    Ok((json, exit_code, failure))
}

/// Runs a command in another thread, and delivers its messages in this one. Returns None if there is no thread for it.
fn run_in_thread(
    arguments: Vec<OsString>,
    on_message: &Py<PyAny>,
    signals: &Signals,
) -> Option<thread::Result<InProcess>> {
    let (sender, messages) = channel::<Message>();
    thread::scope(|scope| {
        let cancel = &signals.cancel;
        let command = move || {
            in_process(arguments, cancel, &|level, text| {
                let _ = sender.send((name(level), text.to_owned()));
            })
        };
        let thread = thread::Builder::new().name("opkeep".to_owned()).spawn_scoped(scope, command).ok()?;
        deliver(&messages, on_message, signals);
        Some(thread.join())
    })
}

/// Delivers the messages, and runs Python's signal handlers, until the command ends.
fn deliver(messages: &Receiver<Message>, on_message: &Py<PyAny>, signals: &Signals) {
    loop {
        match messages.recv_timeout(INTERVAL) {
            Ok((level, text)) => {
                let called = Python::attach(|py| on_message.call1(py, (level, text)).map(drop));
                // An exception in a logging filter ends the command as well.
                called.unwrap_or_else(|error| signals.raise(error));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        signals.poll();
    }
}

/// The name of a level in `opkeep._log`.
fn name(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Note => "note",
        Level::Help => "help",
        _ => "progress",
    }
}
