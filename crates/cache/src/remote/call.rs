//! What every call to a client of a remote cache is guarded by.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// The deadline of a call whose timeout exceeds what an [`Instant`] can express.
const LONGEST_CALL: Duration = Duration::from_secs(24 * 3600);

/// When a call has to return that begins now.
pub(super) fn deadline_after(timeout: Duration) -> Instant {
    Instant::now() + timeout.min(LONGEST_CALL)
}

/// Runs a call. The error, for people, says that it panicked: a client that does loses its answer, not the build.
pub(super) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        format!("the client of the remote cache panicked: {}", text.as_deref().unwrap_or("no message"))
    })
}
