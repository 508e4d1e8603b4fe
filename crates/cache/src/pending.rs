//! A key that another caller holds.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opkeep_digest::Digest;
use opkeep_store::{KeyLock, LockWaiter};

use crate::local::Target;
use crate::miss::Miss;
use crate::ticket::Ticket;

/// How often a holder that waits for another host gives a heartbeat to the waiters on its own.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// The longest time between two calls to a remote tier whose lease is another host's.
const LONGEST_POLL: Duration = Duration::from_millis(250);
const SHORTEST_POLL: Duration = Duration::from_millis(5);

/// A place among the waiters of a key. [`TargetCache::resume`](crate::TargetCache::resume) asks for the key again; a caller
/// that drops it waits no longer.
#[must_use = "it waits for a key, and may hold its lock"]
pub struct PendingKey {
    pub(crate) target: Arc<Target>,
    pub(crate) key: Digest,
    state: State,
}

enum State {
    /// Another caller on this host holds the lock.
    Locked(LockWaiter, Miss),
    /// This caller has the lock, and another host the lease.
    Leased(Leased),
    /// It was resumed or given up.
    Ended,
}

/// A key that this caller has locked, while another host may have the lease.
pub(crate) struct Leased {
    pub(crate) lock: KeyLock,
    pub(crate) miss: Miss,
    /// Since when another host is known to have the lease.
    held_since: Option<Instant>,
    next_poll: Instant,
    next_heartbeat: Instant,
}

/// The state of a pending key that is resumed.
pub(crate) enum Resumed {
    Locked(LockWaiter, Miss),
    Leased(Leased),
    /// It cannot be resumed.
    Ended,
}

impl PendingKey {
    pub(crate) fn locked(target: &Arc<Target>, key: &Digest, waiter: LockWaiter, miss: Miss) -> Self {
        Self { target: Arc::clone(target), key: *key, state: State::Locked(waiter, miss) }
    }

    pub(crate) fn leased(target: &Arc<Target>, key: &Digest, leased: Leased) -> Self {
        Self { target: Arc::clone(target), key: *key, state: State::Leased(leased) }
    }

    /// The key.
    pub fn key(&self) -> &Digest {
        &self.key
    }

    /// How long this caller has waited.
    pub fn waited(&self) -> Duration {
        match &self.state {
            State::Locked(waiter, _) => waiter.waited(),
            State::Leased(leased) => leased.waited(),
            State::Ended => Duration::ZERO,
        }
    }

    /// Whether the holder gave no heartbeat for `timeout`: it is stopped, or hangs. The holder of a lease gives no heartbeats
    /// to other hosts, so the time counts from when this caller began to wait.
    pub fn is_stale(&mut self, timeout: Duration) -> bool {
        match &mut self.state {
            State::Locked(waiter, _) => waiter.is_stale(timeout),
            State::Leased(leased) => leased.is_held_for(timeout),
            State::Ended => true,
        }
    }

    /// Waits no longer: the caller builds, and so may others.
    pub fn into_unshared(mut self) -> Ticket {
        let (lock, miss) = match mem::replace(&mut self.state, State::Ended) {
            State::Locked(waiter, miss) => {
                self.cancel_wait(waiter);
                (None, miss)
            }
            State::Leased(leased) => (Some(leased.lock), leased.miss),
            State::Ended => (None, Miss::Absent),
        };
        Ticket::new(&self.target, &self.key, miss, lock)
    }

    pub(crate) fn resume(mut self) -> Resumed {
        match mem::replace(&mut self.state, State::Ended) {
            State::Locked(waiter, miss) => Resumed::Locked(waiter, miss),
            State::Leased(leased) => Resumed::Leased(leased),
            State::Ended => Resumed::Ended,
        }
    }

    fn cancel_wait(&self, waiter: LockWaiter) {
        if let Some(store) = &self.target.store {
            store.cancel_wait(waiter);
        }
    }
}

impl Drop for PendingKey {
    /// The statistics count a wait that ends without the key.
    fn drop(&mut self) {
        if let State::Locked(waiter, _) = mem::replace(&mut self.state, State::Ended) {
            self.cancel_wait(waiter);
        }
    }
}

impl Leased {
    /// A key that was just locked.
    pub(crate) fn new(lock: KeyLock, miss: Miss) -> Self {
        let now = Instant::now();
        Self { lock, miss, held_since: None, next_poll: now, next_heartbeat: now + HEARTBEAT }
    }

    /// Another host has the lease, for `remaining` unless it is renewed.
    pub(crate) fn held(mut self, remaining: Duration) -> Self {
        let now = Instant::now();
        self.held_since.get_or_insert(now);
        self.next_poll = now + remaining.clamp(SHORTEST_POLL, LONGEST_POLL);
        self
    }

    /// Whether another host is known to have had the lease for `time`.
    pub(crate) fn is_held_for(&self, time: Duration) -> bool {
        self.held_since.is_some_and(|since| since.elapsed() >= time)
    }

    fn waited(&self) -> Duration {
        self.held_since.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Gives a heartbeat if it is due. Returns whether a call to the remote tier is due.
    pub(crate) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        if now >= self.next_heartbeat {
            self.lock.heartbeat();
            self.next_heartbeat = now + HEARTBEAT;
        }
        now >= self.next_poll
    }
}

impl fmt::Debug for PendingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let holder = match &self.state {
            State::Locked(..) => "this host",
            State::Leased(_) => "another host",
            State::Ended => "none",
        };
        f.debug_struct("PendingKey").field("key", &self.key).field("holder", &holder).finish_non_exhaustive()
    }
}
