//! Signals that a caller received and that its program should receive.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::Signal;

/// The last signal that a program should receive, set by another thread or by a signal handler. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct SignalRelay(Arc<AtomicI32>);

impl SignalRelay {
    /// Without a signal.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the program and its children receive the signal with this number. Safe in a signal handler.
    pub fn send(&self, number: i32) {
        self.0.store(number, Ordering::Relaxed);
    }

    /// The signal that is to be sent now, if there is one.
    pub(crate) fn take(&self) -> Option<Signal> {
        match self.0.swap(0, Ordering::Relaxed) {
            0 => None,
            number => Signal::from_named_raw(number),
        }
    }
}
