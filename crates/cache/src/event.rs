//! The events of a cache, for a caller that shows what happens.

use std::fmt;
use std::sync::Arc;

use crate::remote::guarded;

/// An event of the remote tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheEvent<'a> {
    /// Entries are in the remote tier, after one call.
    #[non_exhaustive]
    Sent {
        /// The number of entries.
        entries: usize,
        /// Their size in bytes.
        bytes: u64,
    },
    /// Entries could not be sent. They stay marked, and are sent later.
    #[non_exhaustive]
    NotSent {
        /// The number of entries.
        entries: usize,
        /// Whether the engine refused them, such as one that is full.
        is_refused: bool,
        /// The reason for people.
        reason: &'a str,
    },
    /// The last calls to the remote tier failed: it is not used for a while.
    Paused,
    /// The remote tier answered after a pause: it is used again.
    Resumed,
}

/// A function that is called with each event, on the thread on which it happens.
pub type OnEvent = Arc<dyn Fn(CacheEvent<'_>) + Send + Sync>;

/// Calls the caller's function for each event.
#[derive(Clone, Default)]
pub(crate) struct Events(pub(crate) Option<OnEvent>);

impl Events {
    /// If the caller's function panics, the thread that sends entries or renews leases must go on.
    pub(crate) fn notify(&self, event: CacheEvent<'_>) {
        if let Some(on_event) = &self.0 {
            let _ = guarded(|| on_event(event));
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Events").field(&self.0.is_some()).finish()
    }
}
