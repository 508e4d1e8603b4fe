//! The turn of one process of a host to fetch a plan. The others wait for it, and find its entries in the local store.

use std::thread;
use std::time::{Duration, Instant};

use opkeep_digest::Digest;
use opkeep_store::{KeyLock, TryLockOutcome};

use crate::query::Query;
use crate::remote::{ObjectNames, RemoteTarget};
use crate::tiers::Target;

/// The shortest and the longest pause between two attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

impl Target {
    /// Waits for the turn to fetch the plan `keys`, for half of the time at most that a call may take: if the other process is stopped,
    /// this one fetches as well. Returns the lock that the turn lasts for, if there are locks, and whether another caller had its turn
    /// meanwhile: then the local store may have more by now.
    pub(crate) fn fetch_turn(
        &self,
        remote: &RemoteTarget,
        keys: &[Digest],
        query: &Query<'_>,
    ) -> (Option<KeyLock>, bool) {
        let Some(store) = self.written_store() else { return (None, false) };
        let (began, limits) = (Instant::now(), query.limits());
        let longest = limits.timeout_of_call(remote.client().call_timeout()) / 2;
        let wait = self.tally.wait_for_answer();
        limits.budget.inspect(|budget| budget.begin_wait());
        // The digest of a plan is no key of an entry.
        let mut attempt = store.try_lock(&ObjectNames::plan(keys));
        let (mut pause, mut has_waited) = (PAUSES.0, false);
        while let Ok(TryLockOutcome::Held(waiter)) = attempt {
            has_waited = true;
            if began.elapsed() >= longest || limits.are_over() {
                store.cancel_wait(waiter);
                attempt = Ok(TryLockOutcome::Unsupported);
            } else {
                thread::sleep(pause);
                pause = (pause * 2).min(PAUSES.1);
                attempt = store.poll(waiter);
            }
        }
        let waited = if has_waited { began.elapsed() } else { Duration::ZERO };
        limits.budget.inspect(|budget| budget.end_wait(waited));
        drop(wait);
        // Without the lock, it is the turn of all: entries are fetched more than once, and nothing else.
        let lock = match attempt {
            Ok(TryLockOutcome::Acquired(lock)) => Some(lock),
            _ => None,
        };
        (lock, has_waited)
    }
}
