//! A key that another caller holds.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opkeep_digest::Digest;
use opkeep_fs::{CancelToken, ProcessId};
use opkeep_store::{Counter, KeyLock, LockWaiter};

use crate::kept_lock::KeptLock;
use crate::miss::Miss;
use crate::remote::Watch;
use crate::ticket::Ticket;
use crate::tiers::Target;
use crate::unshared::UnsharedReason;

/// The time between two look-ups in the local store for a key whose lock is not held: another caller on this host may have
/// published the entry.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// A wait for a key. [`TargetCache::resume`](crate::TargetCache::resume) tries again to get the key; dropping the pending key
/// ends the wait.
///
/// If another host builds the entry, the pending key may hold the key's lock on this host, so that one caller calls
/// the remote tier for all of them. If it is not resumed for a second, it is [parked](Self::park) automatically.
///
/// The copy in a forked child holds no lock; resuming it there is an attempt of its own.
#[must_use = "it waits for a key, and may hold its lock"]
pub struct PendingKey {
    pub(crate) target: Arc<Target>,
    pub(crate) key: Digest,
    began: Instant,
    cancel: Option<CancelToken>,
    state: State,
    process: ProcessId,
}

enum State {
    /// Another caller on this host holds the lock.
    Locked(LockWaiter, Miss),
    /// Another host has the lease.
    Leased(Leased),
    /// The pending key was resumed or dropped.
    Ended,
}

/// A key that no other caller on this host holds, while another host may have the lease.
pub(crate) struct Leased {
    pub(crate) hold: Hold,
    pub(crate) miss: Miss,
    /// Has the board ask for the key. `None` before the first look.
    pub(crate) watch: Option<Watch>,
    /// The last look-up in the local store.
    pub(crate) looked: Instant,
}

/// The state of the key's lock on this host while its caller requests a lease.
pub(crate) enum Hold {
    /// Held by an attempt.
    Locked(KeyLock),
    /// Held by a pending key that is resumed regularly.
    Kept(Arc<KeptLock>),
    /// Taken for each attempt only.
    Parked,
    /// Not taken, for this reason.
    Unlocked(UnsharedReason),
}

/// The state of a pending key that is resumed.
pub(crate) enum Resumed {
    Locked(LockWaiter, Miss),
    Leased(Leased),
    /// The pending key cannot be resumed.
    Ended,
}

impl PendingKey {
    pub(crate) fn locked(
        target: &Arc<Target>,
        key: &Digest,
        began: Instant,
        waiter: LockWaiter,
        miss: Miss,
    ) -> Self {
        Self::new(target, key, began, State::Locked(waiter, miss))
    }

    fn new(target: &Arc<Target>, key: &Digest, began: Instant, state: State) -> Self {
        let process = ProcessId::current();
        Self { target: Arc::clone(target), key: *key, began, cancel: None, state, process }
    }

    /// Creates a pending key that another host has leased. Its lock is kept if the process may have more files open.
    pub(crate) fn leased(target: &Arc<Target>, key: &Digest, began: Instant, mut leased: Leased) -> Self {
        leased.hold = match leased.hold {
            Hold::Locked(lock) => {
                KeptLock::new(lock, &target.shared.kept_locks).map_or(Hold::Parked, Hold::Kept)
            }
            Hold::Kept(kept) => {
                kept.resumed();
                Hold::Kept(kept)
            }
            other => other,
        };
        Self::new(target, key, began, State::Leased(leased))
    }

    pub(crate) fn with_cancel(mut self, cancel: Option<&CancelToken>) -> Self {
        self.cancel = cancel.cloned();
        self
    }

    /// Returns the key.
    pub fn key(&self) -> &Digest {
        &self.key
    }

    /// Returns the time since the wait began.
    pub fn waited(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// Whether another host builds the entry, and not another process of this host.
    pub fn waits_for_host(&self) -> bool {
        match &self.state {
            State::Leased(leased) => leased.watch.as_ref().is_some_and(Watch::is_wait),
            State::Locked(..) | State::Ended => false,
        }
    }

    /// Whether the key's lease can be claimed, and the caller has not tried that yet.
    pub(crate) fn is_claimable(&self) -> bool {
        matches!(&self.state, State::Leased(leased) if leased.watch.is_none())
    }

    /// Counts a time in which the caller did nothing but wait.
    pub fn count_lost(&self, time: Duration) {
        let lost_to_host = self.waits_for_host();
        let counter = if lost_to_host { Counter::LostToHosts } else { Counter::LostToProcesses };
        self.target.tally.add_time(counter, time);
    }

    /// Whether the holder is stale: it gave no heartbeat for `timeout`. A holder on another host gives a heartbeat when it
    /// renews its lease.
    pub fn is_stale(&mut self, timeout: Duration) -> bool {
        match &mut self.state {
            State::Locked(waiter, _) => waiter.is_stale(timeout),
            State::Leased(leased) => leased.is_stale(timeout),
            State::Ended => true,
        }
    }

    /// Releases the key's lock on this host, if this caller holds it while another host builds. For a caller that will not
    /// resume the key for some time: until then, other callers on this host can call the remote tier. The next
    /// [`resume`](crate::TargetCache::resume) locks the key again.
    pub fn park(&mut self) {
        if let State::Leased(leased) = &mut self.state
            && let Hold::Kept(kept) = &leased.hold
        {
            drop(kept.take());
        }
    }

    /// Ends the wait with a ticket: the caller builds, and other callers may build the same entry.
    pub fn into_unshared(mut self) -> Ticket {
        let (lock, miss) = match mem::replace(&mut self.state, State::Ended) {
            State::Locked(waiter, miss) => {
                self.cancel_wait(waiter);
                (None, miss)
            }
            State::Leased(Leased { hold, miss, .. }) => (hold.into_lock(), miss),
            State::Ended => (None, Miss::Absent),
        };
        Ticket::new(&self.target, &self.key, miss, lock, self.cancel.take())
    }

    pub(crate) fn resume(mut self) -> Resumed {
        match mem::replace(&mut self.state, State::Ended) {
            State::Locked(waiter, miss) => Resumed::Locked(waiter, miss),
            State::Leased(leased) => Resumed::Leased(leased),
            State::Ended => Resumed::Ended,
        }
    }

    fn cancel_wait(&self, waiter: LockWaiter) {
        // The parent of a forked child counts its own wait.
        if let Some(store) = self.target.store.as_ref().filter(|_| self.process.is_current()) {
            store.cancel_wait(waiter);
        }
    }
}

impl Drop for PendingKey {
    /// Counts a wait that ends without the key.
    fn drop(&mut self) {
        if let State::Locked(waiter, _) = mem::replace(&mut self.state, State::Ended) {
            self.cancel_wait(waiter);
        }
    }
}

impl Leased {
    pub(crate) fn new(hold: Hold, miss: Miss, watch: Option<Watch>) -> Self {
        Self { hold, miss, watch, looked: Instant::now() }
    }

    /// Whether another attempt may bring something.
    pub(crate) fn is_due(&self) -> bool {
        let has_news = self.watch.as_ref().is_none_or(Watch::has_news);
        let may_be_local = match &self.hold {
            Hold::Kept(kept) => !kept.is_held(),
            Hold::Parked | Hold::Unlocked(_) => true,
            Hold::Locked(_) => false,
        };
        has_news || may_be_local && self.looked.elapsed() >= LOOK_AGAIN
    }

    /// Whether the lease holder gave no heartbeat for `timeout`, or none is known.
    pub(crate) fn is_stale(&self, timeout: Duration) -> bool {
        let alive = self.watch.as_ref().and_then(Watch::alive_at);
        alive.is_none_or(|alive| alive.elapsed() >= timeout)
    }

    /// Whether the local store had no entry.
    pub(crate) fn was_absent(&self) -> bool {
        matches!(self.miss, Miss::Absent)
    }

    pub(crate) fn lock(&self) -> Option<&KeyLock> {
        match &self.hold {
            Hold::Locked(lock) => Some(lock),
            Hold::Kept(_) | Hold::Parked | Hold::Unlocked(_) => None,
        }
    }
}

impl Hold {
    /// Returns the state at the beginning of an attempt.
    pub(crate) fn for_attempt(self) -> Self {
        match self {
            Self::Kept(kept) => kept.take().map_or(Self::Parked, Self::Locked),
            other => other,
        }
    }

    /// Returns the lock, if it is held.
    pub(crate) fn into_lock(self) -> Option<KeyLock> {
        match self {
            Self::Locked(lock) => Some(lock),
            Self::Kept(kept) => kept.take(),
            Self::Parked | Self::Unlocked(_) => None,
        }
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
