//! Calls of Rust functions without the lock of the interpreter.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::prelude::*;

use crate::error::{internal_error, python_error};
use opkeep_embed::{EmbedError, GroupTicket};

thread_local! {
    /// The warnings of the calls of this thread. They are logged after the call, since a logging handler may do anything,
    /// and is called with the lock of the interpreter. One list a thread needs no lock, which a forked child would find held.
    static WARNINGS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// The largest number of warnings that wait to be logged.
const MOST_WARNINGS: usize = 1000;

/// Keeps a warning until the end of the call.
pub(crate) fn keep_warning(text: &str) {
    WARNINGS.with_borrow_mut(|warnings| {
        if warnings.len() < MOST_WARNINGS {
            warnings.push(text.to_owned());
        }
    });
}

/// Calls `function` without the lock of the interpreter, then logs the warnings.
///
/// # Errors
/// The function's error, or its panic.
pub(crate) fn without_gil<T: Send>(
    py: Python<'_>,
    function: impl FnOnce() -> Result<T, EmbedError> + Send,
) -> PyResult<T> {
    let result = py.detach(|| catch_unwind(AssertUnwindSafe(function)));
    for text in WARNINGS.take() {
        // The call was made, whatever happens to its warning.
        if let Err(error) = log(py, "warning", &text) {
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
