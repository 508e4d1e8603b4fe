//! The duty to build an entry.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opkeep_digest::Digest;
use opkeep_fs::CancelToken;
use opkeep_store::{EntryBuilder, KeyLock, PutOutcome};

use crate::error::PublishError;
use crate::failure::Failure;
use crate::miss::Miss;
use crate::remote::{HeldLease, Limits};
use crate::tiers::Target;

/// The duty to build the entry under a key, while others wait.
///
/// A ticket that is dropped gives it up without a reason: one of the waiters builds. It ends with the process, too. The
/// copy in a forked child releases nothing when it is dropped; the ticket is its parent's.
#[must_use = "the waiters build if it is dropped"]
pub struct Ticket {
    target: Arc<Target>,
    key: Digest,
    miss: Miss,
    /// Released before the lock: the next caller on this host would otherwise meet this lease.
    lease: Option<HeldLease>,
    lock: Option<KeyLock>,
    cancel: Option<CancelToken>,
}

/// The places where [`Ticket::publish`] wrote an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// In the local store; `None` if that is not written.
    pub local: Option<PutOutcome>,
    /// Whether it is in the remote tier.
    pub remote: bool,
}

impl Ticket {
    pub(crate) fn new(
        target: &Arc<Target>,
        key: &Digest,
        miss: Miss,
        lock: Option<KeyLock>,
        cancel: Option<CancelToken>,
    ) -> Self {
        Self { target: Arc::clone(target), key: *key, miss, lock, lease: None, cancel }
    }

    pub(crate) fn with_lease(mut self, lease: HeldLease) -> Self {
        self.lease = Some(lease);
        self
    }

    /// The key.
    pub fn key(&self) -> &Digest {
        &self.key
    }

    /// Why no entry was taken.
    pub fn miss(&self) -> &Miss {
        &self.miss
    }

    /// Whether [`publish`](Self::publish) writes the entry anywhere.
    pub fn is_kept(&self) -> bool {
        self.target.written_store().is_some() || self.target.written_remote().is_some()
    }

    /// Shows the waiters on this host that the holder is alive. That is the holder's duty: a waiter builds for itself if the
    /// last heartbeat is older than its [`Query::stale_after`](crate::Query::stale_after). Needed once a second by a holder
    /// that does not build yet, and during builds that take longer than the waiters allow for. Leases are renewed without it.
    pub fn heartbeat(&self) {
        self.lock.iter().for_each(KeyLock::heartbeat);
    }

    /// Counts a build that took `time`, whether or not its result is published.
    pub fn count_build(&self, time: Duration) {
        if let Some(store) = self.target.store.as_ref().filter(|store| store.is_writable()) {
            store.count_compile(time);
        }
    }

    /// Writes the entry to the local store, which ends the wait of this host's waiters, then to the remote tier, which is
    /// best effort: it ends when the token of the ticket's [`Query`](crate::Query::cancel) is cancelled.
    ///
    /// # Errors
    /// The local store could not write it.
    pub fn publish(self, members: &EntryBuilder<'_>) -> Result<Published, PublishError> {
        self.publish_within(members, None)
    }

    /// As [`publish`](Self::publish), and waits for the remote tier until `deadline` at most.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub fn publish_before(
        self,
        members: &EntryBuilder<'_>,
        deadline: Instant,
    ) -> Result<Published, PublishError> {
        self.publish_within(members, Some(deadline))
    }

    fn publish_within(
        self,
        members: &EntryBuilder<'_>,
        deadline: Option<Instant>,
    ) -> Result<Published, PublishError> {
        let Self { target, key, miss, lock, lease, cancel } = self;
        let local = target.put(&key, members, &miss);
        drop(lock);
        let remote = target.put_remote(&key, members, Limits { deadline, cancel: cancel.as_ref() });
        drop(lease);
        Ok(Published { local: local?, remote })
    }

    /// Gives the ticket up for a reason that the waiters would meet as well: those on this host fail with it at once. Callers
    /// that come later build for themselves. Drop the ticket if the next attempt may succeed.
    pub fn abandon(self, failure: Failure) {
        drop(self.lease);
        if let Some(lock) = self.lock {
            lock.release_with_failure(&failure.encode());
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("key", &self.key)
            .field("miss", &self.miss)
            .field("is_locked", &self.lock.is_some())
            .field("is_leased", &self.lease.is_some())
            .finish_non_exhaustive()
    }
}
