//! Signals of Python, such as Ctrl-C, while a call waits.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use opkeep_embed::CancelToken;
use pyo3::prelude::*;

/// The time between two checks.
pub(crate) const INTERVAL: Duration = Duration::from_millis(50);

/// Runs the handlers of Python's signals while a call waits without the lock of the interpreter.
pub(crate) struct Signals {
    /// Cancelled when a handler raises an exception.
    pub(crate) cancel: CancelToken,
    state: Mutex<State>,
}

struct State {
    checked: Instant,
    raised: Option<PyErr>,
}

impl Signals {
    pub(crate) fn new() -> Self {
        let state = State { checked: Instant::now(), raised: None };
        Self { cancel: CancelToken::default(), state: Mutex::new(state) }
    }

    /// Runs the handlers, if the last check was long enough ago.
    pub(crate) fn poll(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.raised.is_some() || state.checked.elapsed() < INTERVAL {
            return;
        }
        state.checked = Instant::now();
        // Handlers are Python code that may run for long, and may use the cache.
        drop(state);
        if let Err(error) = Python::attach(|py| py.check_signals()) {
            self.raise(error);
        }
    }

    /// Ends the call, which raises `error`.
    pub(crate) fn raise(&self, error: PyErr) {
        self.cancel.cancel();
        self.state.lock().unwrap_or_else(PoisonError::into_inner).raised.get_or_insert(error);
    }

    /// The exception that a handler raised.
    pub(crate) fn into_raised(self) -> Option<PyErr> {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).raised
    }
}
