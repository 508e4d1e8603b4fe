//! The limits of a call, while it waits.

use std::time::Duration;

use opkeep_cache::{RemoteContext, RemoteError};

/// The longest wait before the limits are checked again.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// Fails if the call is over.
pub(crate) fn check(context: &RemoteContext<'_>) -> Result<(), RemoteError> {
    next_wait(context).map(drop)
}

/// Returns how long to wait before this is called again. Fails if the call is over.
pub(crate) fn next_wait(context: &RemoteContext<'_>) -> Result<Duration, RemoteError> {
    context.time_left().map(|left| left.min(LONGEST_WAIT))
}
