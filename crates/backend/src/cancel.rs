//! Cancellation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says that nobody waits for the result any more. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels, for good. Safe to call from a signal handler's thread.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
