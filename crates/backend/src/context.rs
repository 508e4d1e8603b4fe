//! The context that a caller passes to a backend with each call.
//!
//! A backend gets the digest cache with each call and not at construction, so that one backend serves builds with
//! different caches. Cancellation comes the same way: a process that a backend asks for its version ends with the build.

use std::fmt::{self, Display};
use std::time::Instant;

use opkeep_digest::FileDigests;
use opkeep_fs::CancelToken;

use crate::error::BackendError;

/// File digests, cancellation, the deadline and warnings of one call of a backend.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Context<'a> {
    /// Digests of files, remembered between calls.
    pub files: &'a dyn FileDigests,
    /// Cancels the call.
    pub cancel: &'a CancelToken,
    /// The time by which the call must return, if there is one.
    pub deadline: Option<Instant>,
    diagnostics: &'a dyn Diagnostics,
}

impl<'a> Context<'a> {
    /// A context without a deadline.
    pub fn new(
        files: &'a dyn FileDigests,
        cancel: &'a CancelToken,
        diagnostics: &'a dyn Diagnostics,
    ) -> Self {
        Self { files, cancel, deadline: None, diagnostics }
    }

    /// The same context with a deadline.
    #[must_use]
    pub fn with_deadline(self, deadline: Option<Instant>) -> Self {
        Self { deadline, ..self }
    }

    /// Reports something that does not stop the call. A backend may repeat a text; the caller reports it once.
    pub fn warn(&self, text: impl Display) {
        self.diagnostics.warn(text.to_string());
    }

    /// Checks that the call is not cancelled.
    ///
    /// # Errors
    /// [`BackendError::Cancelled`].
    pub fn check_cancelled(&self) -> Result<(), BackendError> {
        if self.cancel.is_cancelled() { Err(BackendError::Cancelled) } else { Ok(()) }
    }

    /// The earlier of the context's deadline and `limit`.
    pub fn deadline_before(&self, limit: Option<Instant>) -> Option<Instant> {
        match (self.deadline, limit) {
            (Some(deadline), Some(limit)) => Some(deadline.min(limit)),
            (deadline, limit) => deadline.or(limit),
        }
    }
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("cancelled", &self.cancel.is_cancelled())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// Receives the warnings of backends.
pub trait Diagnostics: Send + Sync {
    /// Reports `text` to the user.
    fn warn(&self, text: String);
}

impl<F: Fn(String) + Send + Sync> Diagnostics for F {
    fn warn(&self, text: String) {
        self(text);
    }
}
