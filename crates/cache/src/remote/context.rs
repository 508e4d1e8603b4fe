//! The limits of a call to an engine.

use std::fmt;
use std::time::{Duration, Instant};

use opkeep_fs::CancelToken;

use super::error::RemoteError;
use super::idle_timeout::IdleTimeout;

/// The limits of a call to an engine.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct RemoteContext<'a> {
    /// The time by which the call must return.
    pub deadline: Instant,
    /// A token that ends the call early, if the caller can be cancelled. The client checks it a few times a second.
    pub cancel: Option<&'a CancelToken>,
    idle: Option<&'a IdleTimeout<'a>>,
}

impl<'a> RemoteContext<'a> {
    /// Creates the limits of a call that may take until `deadline`.
    pub fn new(deadline: Instant, cancel: Option<&'a CancelToken>) -> Self {
        Self { deadline, cancel, idle: None }
    }

    /// These limits, for a call that also ends when the engine is idle for too long.
    #[must_use]
    pub fn with_idle_timeout(self, idle: &'a IdleTimeout<'a>) -> Self {
        Self { idle: Some(idle), ..self }
    }

    /// Records that the engine sent or took something. A client calls it for each part of an answer that arrives.
    pub fn note_progress(&self) {
        self.idle.inspect(|idle| idle.note(Instant::now()));
    }

    /// Goes on after the caller did something else for a while, in which the engine was not waited for.
    pub(crate) fn resume(&self) {
        self.idle.inspect(|idle| idle.resume(Instant::now()));
    }

    /// Returns the time for which the call may still wait for the engine to do anything: more than zero.
    ///
    /// # Errors
    /// The call is cancelled, or its time is over.
    pub fn time_left(&self) -> Result<Duration, RemoteError> {
        if self.cancel.is_some_and(CancelToken::is_cancelled) {
            return Err(RemoteError::Cancelled);
        }
        let now = Instant::now();
        let mut left = self.deadline.saturating_duration_since(now);
        if let Some(idle) = self.idle {
            let left_idle = idle.left(now);
            left = (self.deadline + idle.stopped()).saturating_duration_since(now).min(left_idle);
        }
        if left.is_zero() { Err(RemoteError::TimedOut) } else { Ok(left) }
    }
}

impl fmt::Debug for RemoteContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteContext").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
