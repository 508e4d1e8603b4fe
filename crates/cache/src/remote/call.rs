//! The limits of a call to a client of a remote cache, and the guard against its panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use opkeep_fs::CancelToken;

/// The deadline of a call whose timeout exceeds what an [`Instant`] can express.
const LONGEST_CALL: Duration = Duration::from_secs(24 * 3600);

/// The caller's limits, besides the timeout of each call.
#[derive(Clone, Copy, Default)]
pub(crate) struct Limits<'a> {
    pub(crate) deadline: Option<Instant>,
    pub(crate) cancel: Option<&'a CancelToken>,
}

impl Limits<'_> {
    /// Whether the caller waits no longer.
    pub(crate) fn are_over(&self) -> bool {
        self.cancel.is_some_and(CancelToken::is_cancelled)
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// When a call has to return that begins now.
    pub(super) fn end_of_call(&self, timeout: Duration) -> Instant {
        let end = deadline_after(timeout);
        self.deadline.map_or(end, |deadline| deadline.min(end))
    }
}

/// The end of `timeout`, which begins now.
pub(super) fn deadline_after(timeout: Duration) -> Instant {
    Instant::now() + timeout.min(LONGEST_CALL)
}

/// Runs a call. The error, for people, says that it panicked: then its answer is lost, not the build.
pub(super) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        format!("the client of the remote cache panicked: {}", text.as_deref().unwrap_or("no message"))
    })
}
