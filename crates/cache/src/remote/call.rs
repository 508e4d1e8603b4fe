//! The limits of a call to a client of a remote cache, and the guard against its panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use opkeep_fs::CancelToken;

use crate::wait_budget::WaitBudget;

/// The maximum time of a call: an [`Instant`] cannot express every sum.
const LONGEST_CALL: Duration = Duration::from_secs(24 * 3600);

/// The caller's limits, in addition to the timeout of each call.
#[derive(Clone, Copy, Default)]
pub(crate) struct Limits<'a> {
    pub(crate) deadline: Option<Instant>,
    pub(crate) cancel: Option<&'a CancelToken>,
    pub(crate) budget: Option<&'a WaitBudget>,
    /// Whether a caller does nothing but wait for the answer.
    pub(crate) is_waited_for: bool,
    /// Whether the call ends when the engine is idle.
    pub(crate) needs_progress: bool,
}

impl Limits<'_> {
    /// Whether the caller is cancelled or its deadline has passed.
    pub(crate) fn are_over(&self) -> bool {
        self.cancel.is_some_and(CancelToken::is_cancelled)
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Returns the timeout of a call that begins now: `timeout`, or what is left of the budget.
    pub(crate) fn timeout_of_call(&self, timeout: Duration) -> Duration {
        self.budget.map_or(timeout, |budget| budget.left_for_call().min(timeout))
    }

    /// Returns the deadline of a call that begins now.
    pub(super) fn end_of_call(&self, timeout: Duration) -> Instant {
        let end = deadline_after(timeout);
        self.deadline.map_or(end, |deadline| deadline.min(end))
    }
}

/// Returns the time that is `timeout` from now.
pub(super) fn deadline_after(timeout: Duration) -> Instant {
    Instant::now() + timeout.min(LONGEST_CALL)
}

/// Runs a call. A panic becomes an error, for people: a client that panics must not fail the build.
pub(crate) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        format!("the client of the remote cache panicked: {}", text.as_deref().unwrap_or("no message"))
    })
}
