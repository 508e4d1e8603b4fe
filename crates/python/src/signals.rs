//! Signals of Python, such as Ctrl-C, while a call waits.

use std::cell::RefCell;
use std::io;
use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use opkeep_embed::CancelToken;
use pyo3::prelude::*;

/// The time between two checks.
pub(crate) const INTERVAL: Duration = Duration::from_millis(50);

thread_local! {
    /// Those of the call that this thread makes.
    static CURRENT: RefCell<Option<Arc<Signals>>> = const { RefCell::new(None) };
}

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
    pub(crate) fn new() -> Arc<Self> {
        let state = State { checked: Instant::now(), raised: None };
        Arc::new(Self { cancel: CancelToken::default(), state: Mutex::new(state) })
    }

    /// Those that handle signals during a call of this thread.
    pub(crate) fn current() -> Option<Arc<Self>> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Makes a call, during which these handle signals, also while it waits for a remote cache.
    pub(crate) fn during<T>(self: &Arc<Self>, call: impl FnOnce() -> T) -> T {
        /// The handler of a signal may make another call, and a call may panic.
        struct Restore(Option<Arc<Signals>>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _restore = Restore(CURRENT.replace(Some(Arc::clone(self))));
        call()
    }

    /// Makes a call in another thread. `found` gets each item that it sends, in this thread, which also runs the handlers.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn deliver<T: Send, I: Send>(
        &self,
        call: impl FnOnce(&dyn Fn(I)) -> T + Send,
        mut found: impl FnMut(I),
    ) -> io::Result<T> {
        let (sender, items) = channel();
        let make = move || {
            call(&|item| {
                // The receiver is there until this thread has ended.
                let _ = sender.send(item);
            })
        };
        thread::scope(|scope| {
            let thread = thread::Builder::new().name("opkeep-remote".to_owned()).spawn_scoped(scope, make)?;
            loop {
                match items.recv_timeout(INTERVAL) {
                    Ok(item) => found(item),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                self.poll();
            }
            Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
        })
    }

    /// Runs the handlers, if the last check was long enough ago.
    pub(crate) fn poll(&self) {
        let mut state = self.state();
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
        self.state().raised.get_or_insert(error);
    }

    /// Takes the exception that a handler raised.
    pub(crate) fn take_raised(&self) -> Option<PyErr> {
        self.state().raised.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
