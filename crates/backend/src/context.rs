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
    began: Instant,
    diagnostics: &'a dyn Diagnostics,
}

impl<'a> Context<'a> {
    /// A context without a deadline.
    pub fn new(
        files: &'a dyn FileDigests,
        cancel: &'a CancelToken,
        diagnostics: &'a dyn Diagnostics,
    ) -> Self {
        Self { files, cancel, deadline: None, began: Instant::now(), diagnostics }
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

    /// Checks that the call is neither cancelled nor past its deadline. A backend that starts no process calls it at the
    /// start of a compile and within each loop of it. `command` names the compile in the error.
    ///
    /// # Errors
    /// [`BackendError::Cancelled`], otherwise [`BackendError::TimedOut`].
    pub fn check_running(&self, command: impl Display) -> Result<(), BackendError> {
        self.check_cancelled()?;
        if self.deadline.is_none_or(|deadline| Instant::now() < deadline) {
            return Ok(());
        }
        let seconds = self.began.elapsed().as_secs_f64();
        Err(BackendError::TimedOut {
            command: command.to_string(),
            seconds,
            log_tail: String::new(),
            log: None,
        })
    }

    /// Checks that the call is not cancelled. It does not regard the deadline, as [`Context::check_running`] does: a call
    /// that waits for something in small steps, with a deadline of its own, uses this one.
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

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;
    use std::time::Duration;

    use opkeep_digest::Digest;

    use super::*;

    struct NoFiles;

    impl FileDigests for NoFiles {
        fn digest(&self, _: &Path) -> io::Result<Digest> {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    #[test]
    fn a_running_call_ends_by_cancellation_first_and_by_its_deadline() {
        let (cancel, silent) = (CancelToken::default(), |_: String| {});
        let cx = Context::new(&NoFiles, &cancel, &silent);
        let now = Instant::now();
        assert!(cx.check_running("a template").is_ok());
        assert!(cx.with_deadline(now.checked_add(Duration::from_secs(3600))).check_running("x").is_ok());
        match cx.with_deadline(Some(now)).check_running("a template") {
            Err(BackendError::TimedOut { command, .. }) => assert_eq!(command, "a template"),
            other => panic!("expected TimedOut, found {other:?}"),
        }
        assert!(cx.with_deadline(Some(now)).check_cancelled().is_ok());
        cancel.cancel();
        let cancelled = cx.with_deadline(Some(now)).check_running("a template");
        assert!(matches!(cancelled, Err(BackendError::Cancelled)), "{cancelled:?}");
        assert!(matches!(cx.check_cancelled(), Err(BackendError::Cancelled)));
    }
}
