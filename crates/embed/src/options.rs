//! The conditions of a request for a group.

use std::fmt;
use std::time::{Duration, Instant};

use opkeep_cache::{UNKNOWN_WAIT, WaitBudget};
use opkeep_fs::CancelToken;
use opkeep_kernel_entry::StoredExpectations;

/// The time without a heartbeat after which a ticket's holder is stale. The renewal gives one each second.
const STALE_AFTER: Duration = Duration::from_secs(30);
/// The longest wait while the process holds another ticket.
const WAIT_WITH_TICKET: Duration = Duration::from_secs(30);
/// The longest wait for another thread of the process.
const WAIT_IN_PROCESS: Duration = Duration::from_secs(30);
/// The longest time for which a ticket is renewed.
const HOLD_LIMIT: Duration = Duration::from_secs(3600);

/// The conditions of a request for a group.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options<'a> {
    /// Whether the caller waits if another one makes the files. If not, it makes them as well, without sharing.
    pub wait: bool,
    /// The end of the wait. If unset, it has no limit.
    pub deadline: Option<Instant>,
    /// A token that ends the wait.
    pub cancel: Option<&'a CancelToken>,
    /// A function that is called once, if the caller waits.
    pub on_wait: Option<&'a (dyn Fn() + Sync)>,
    /// A function that is called every 1 to 20 ms while the caller waits, on its thread. It may cancel the token.
    pub on_poll: Option<&'a (dyn Fn() + Sync)>,
    /// The time without a heartbeat after which another caller's ticket is stale, and this caller makes the files: 30 seconds
    /// by default. It applies to callers on this host; a caller on another host that gives no heartbeat loses its lease after
    /// [`RemoteConfig::lease_ttl`](opkeep_cache::RemoteConfig::lease_ttl).
    pub stale_after: Duration,
    /// The longest wait while another thread of this process holds the ticket of another key: 30 seconds by default. The
    /// holder of this key may wait for that one, and that thread for this one. So after that, this caller makes the files, too.
    pub wait_with_ticket: Duration,
    /// The longest wait for another thread of this process that makes the same files: 30 seconds by default. It may need a lock
    /// that this thread holds. So after that, this caller makes the files, too.
    pub wait_in_process: Duration,
    /// The longest wait for a caller on another host: [`UNKNOWN_WAIT`] by default, one minute. Its process may hang while its lease is
    /// renewed, such as in a collective operation that waits for this caller. So after that, and
    /// [`RemoteConfig::lease_ttl`](opkeep_cache::RemoteConfig::lease_ttl) in addition, this caller makes the files, too.
    pub wait_for_host: Duration,
    /// The longest time for which the ticket keeps other callers waiting: one hour by default. After that one of them makes the
    /// files, and this ticket can still be published. If its process is stopped at that moment, they wait for their
    /// `stale_after` in addition.
    pub hold_limit: Duration,
    /// Whether the files work on this machine only, such as a launcher that is linked to its C library. They are neither requested
    /// from the remote cache nor sent there, and other hosts do not wait for them.
    pub stays_here: bool,
    /// The time that calls to the remote cache may take together, for all requests with the same budget; after that, the caller goes
    /// on without it. If unset, each request has [`FileCacheConfig::remote_limit`](crate::FileCacheConfig::remote_limit).
    pub wait_budget: Option<&'a WaitBudget>,
    /// The rules for the kernel among the files, if there are any. An entry that was validated by other rules is validated
    /// again, and is not used if these refuse it.
    pub expectations: Option<&'a StoredExpectations>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            wait: true,
            deadline: None,
            cancel: None,
            on_wait: None,
            on_poll: None,
            stale_after: STALE_AFTER,
            wait_with_ticket: WAIT_WITH_TICKET,
            wait_in_process: WAIT_IN_PROCESS,
            wait_for_host: UNKNOWN_WAIT,
            hold_limit: HOLD_LIMIT,
            stays_here: false,
            wait_budget: None,
            expectations: None,
        }
    }
}

impl<'a> Options<'a> {
    /// These conditions without a wait.
    #[must_use]
    pub fn without_wait(mut self) -> Self {
        self.wait = false;
        self
    }

    /// These conditions, with a wait of `timeout` at most.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        // A time that no clock can state is no limit.
        self.deadline = Instant::now().checked_add(timeout);
        self
    }

    /// These conditions; `cancel` ends the wait.
    #[must_use]
    pub fn with_cancel(mut self, cancel: &'a CancelToken) -> Self {
        self.cancel = Some(cancel);
        self
    }

    /// These conditions; `on_wait` is called once, if the caller waits.
    #[must_use]
    pub fn with_on_wait(mut self, on_wait: &'a (dyn Fn() + Sync)) -> Self {
        self.on_wait = Some(on_wait);
        self
    }

    /// These conditions; `on_poll` is called every 1 to 20 ms while the caller waits.
    #[must_use]
    pub fn with_on_poll(mut self, on_poll: &'a (dyn Fn() + Sync)) -> Self {
        self.on_poll = Some(on_poll);
        self
    }

    /// These conditions, with rules for the kernel.
    #[must_use]
    pub fn with_expectations(mut self, expectations: &'a StoredExpectations) -> Self {
        self.expectations = Some(expectations);
        self
    }
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("wait", &self.wait)
            .field("deadline", &self.deadline)
            .field("stale_after", &self.stale_after)
            .field("wait_with_ticket", &self.wait_with_ticket)
            .field("wait_in_process", &self.wait_in_process)
            .field("wait_for_host", &self.wait_for_host)
            .field("hold_limit", &self.hold_limit)
            .field("stays_here", &self.stays_here)
            .field("wait_budget", &self.wait_budget)
            .finish_non_exhaustive()
    }
}
