//! Calls of Rust functions without the lock of the interpreter.

use std::any::Any;
use std::cell::RefCell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use opkeep_fs::without_fork;
use pyo3::prelude::*;

use crate::error::{internal_error, python_error};
use opkeep_embed::{EmbedError, GroupTicket, WarningKind};

/// A message: the name of its level in `opkeep._log`, and its text.
type Message = (&'static str, String);

thread_local! {
    /// The messages of the call that this thread makes. They are logged after the call, since a logging handler may do anything,
    /// and is called with the lock of the interpreter. One list a thread needs no lock, which a forked child would find held.
    static OF_CALL: RefCell<Option<Vec<Message>>> = const { RefCell::new(None) };
}

/// The messages of threads that make no call, such as the one that sends files to a remote cache. The next call of any thread logs
/// them.
static OF_OTHERS: Mutex<Vec<Message>> = Mutex::new(Vec::new());
/// Whether there are any: a call without them takes no lock.
static HAS_OTHERS: AtomicBool = AtomicBool::new(false);

/// The largest number of messages that wait to be logged.
const MOST_MESSAGES: usize = 1000;

/// Keeps a warning until the end of the call.
pub(crate) fn keep_warning(_: WarningKind, text: &str) {
    keep(("warning", text.to_owned()));
}

/// Keeps a message until the end of the call.
pub(crate) fn keep(message: Message) {
    let add = |messages: &mut Vec<Message>, message| {
        if messages.len() < MOST_MESSAGES {
            messages.push(message);
        }
    };
    OF_CALL.with_borrow_mut(|messages| match messages {
        Some(messages) => add(messages, message),
        None => without_fork(|| {
            add(&mut OF_OTHERS.lock().unwrap_or_else(PoisonError::into_inner), message);
            HAS_OTHERS.store(true, Ordering::Release);
        }),
    });
}

/// Takes the messages of other threads.
fn of_others() -> Vec<Message> {
    match HAS_OTHERS.swap(false, Ordering::Acquire) {
        true => without_fork(|| mem::take(&mut *OF_OTHERS.lock().unwrap_or_else(PoisonError::into_inner))),
        false => Vec::new(),
    }
}

/// Calls `function` without the lock of the interpreter, then logs the messages.
///
/// # Errors
/// The function's error, or its panic.
pub(crate) fn without_gil<T: Send>(
    py: Python<'_>,
    function: impl FnOnce() -> Result<T, EmbedError> + Send,
) -> PyResult<T> {
    // A handler of a signal may make another call during this one.
    let outer = OF_CALL.replace(Some(Vec::new()));
    let result = py.detach(|| catch_unwind(AssertUnwindSafe(function)));
    let own = OF_CALL.replace(outer).unwrap_or_default();
    for (level, text) in own.into_iter().chain(of_others()) {
        // The call was made, whatever happens to its messages.
        if let Err(error) = log(py, level, &text) {
            error.write_unraisable(py, None);
        }
    }
    match result {
        Ok(result) => result.map_err(|error| python_error(py, &error)),
        Err(panic) => Err(panic_error(py, panic.as_ref())),
    }
}

/// Ends a ticket that is dropped, without the lock of the interpreter.
pub(crate) fn end_without_gil(ticket: &GroupTicket) {
    // A ticket of the parent of this process stays, and one that has ended has no more to write.
    let end = || drop(ticket.abandon(None));
    if Python::try_attach(|py| py.detach(end)).is_none() {
        // The interpreter is ending.
        end();
    }
}

/// Logs a message.
///
/// # Errors
/// The exception of a logging filter.
pub(crate) fn log(py: Python<'_>, level: &str, text: &str) -> PyResult<()> {
    py.import("opkeep._log")?.getattr("log")?.call1((level, text)).map(drop)
}

/// Returns the exception for a panic.
pub(crate) fn panic_error(py: Python<'_>, panic: &(dyn Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    internal_error(py, text.unwrap_or("a panic without a text"))
}

/// Panics, for the test of the boundary.
#[cfg(debug_assertions)]
#[pyfunction]
pub(crate) fn panics(py: Python<'_>) -> PyResult<()> {
    without_gil(py, || std::panic::resume_unwind(Box::new("a panic of a test")))
}
