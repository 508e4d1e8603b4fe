//! The duty to build an entry.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opkeep_digest::Digest;
use opkeep_fs::{CancelToken, ProcessId};
use opkeep_store::{EntryBuilder, KeyLock, PutOutcome};

use crate::error::{FoundError, PublishError};
use crate::failure::Failure;
use crate::miss::Miss;
use crate::plan_lease::PlanLease;
use crate::publish::Publication;
use crate::remote::lease::HeldLease;
use crate::tiers::Target;

/// The duty to build the entry under a key, while other callers wait.
///
/// If a ticket is dropped, or its process exits, one of the waiters builds the entry. The ticket belongs to the process that
/// got it. Whatever a forked child does with its copy, nothing is published, counted or released, and the lock ends with the
/// parent even if the child runs on.
#[must_use = "if it is dropped, a waiter builds the entry"]
pub struct Ticket {
    target: Arc<Target>,
    key: Digest,
    miss: Miss,
    /// The lease. It is released before the lock; otherwise the next caller on this host would find the lease held.
    lease: Option<PlanLease>,
    lock: Option<KeyLock>,
    cancel: Option<CancelToken>,
    process: ProcessId,
    is_takeover: bool,
}

/// The places where [`Ticket::publish`] wrote an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// The outcome in the local store; `None` if that is not written.
    pub local: Option<PutOutcome>,
    /// Whether the entry is in the remote tier, or is being sent to it.
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
        let process = ProcessId::current();
        let (lease, is_takeover) = Default::default();
        Self { target: Arc::clone(target), key: *key, miss, lock, lease, cancel, process, is_takeover }
    }

    pub(crate) fn with_lease(mut self, lease: HeldLease, is_takeover: bool) -> Self {
        self.is_takeover = is_takeover;
        self.lease = self.target.remote.as_ref().map(|remote| PlanLease::new(lease, remote));
        self
    }

    /// Returns the key.
    pub fn key(&self) -> &Digest {
        &self.key
    }

    /// Whether this process got the ticket, and not its parent before a fork.
    pub fn is_own(&self) -> bool {
        self.process.is_current()
    }

    /// Whether the caller took over the lease of another host, which gave no heartbeat. A lease that a dead process of this host left
    /// does not count.
    pub fn is_takeover(&self) -> bool {
        self.is_takeover
    }

    /// Returns the reason why the caller got no entry.
    pub fn miss(&self) -> &Miss {
        &self.miss
    }

    /// Whether [`publish`](Self::publish) writes the entry anywhere.
    pub fn is_kept(&self) -> bool {
        self.target.written_store().is_some() || self.target.written_remote().is_some()
    }

    /// Gives the waiters on this host a heartbeat. If the last heartbeat is older than a waiter's
    /// [`Query::stale_after`](crate::Query::stale_after), that waiter builds. So call this once a second until the build
    /// begins, and during builds that take longer than that time. Leases are renewed without it.
    pub fn heartbeat(&self) {
        self.lock.iter().for_each(KeyLock::heartbeat);
    }

    /// Ends the waits on this host: a waiter gets a ticket of its own. This one can still be published; if the other one is
    /// published before, that entry stays, unless this ticket was given to replace an entry that was found. For a caller that
    /// has kept the others waiting for as long as it may. Leases end by themselves.
    pub fn release_lock(&mut self) {
        self.lock = None;
    }

    /// Counts a build that took `time`, even if its result is not published.
    pub fn count_build(&self, time: Duration) {
        let store = self.target.store.as_ref().filter(|store| store.is_writable() && self.is_own());
        if let Some(store) = store {
            store.count_compile(time);
        }
    }

    /// Checks whether [`keep_found`](Self::keep_found) keeps an entry, for a caller that otherwise builds it with this ticket.
    ///
    /// # Errors
    /// The reason why it does not.
    pub fn check_found(&self, members: &EntryBuilder<'_>) -> Result<(), FoundError> {
        self.target.trust.check_found(members)
    }

    /// Writes an entry that this caller built to the local store, which ends the waits on this host, and has it sent to the remote tier by another
    /// thread, which is best effort: see [`Cache::finish_uploads`](crate::Cache::finish_uploads). An entry that [other hosts cannot
    /// use](crate::CacheConfig::is_for_others) is not sent.
    ///
    /// # Errors
    /// The local store could not write the entry, or this process is a forked child of the ticket's.
    pub fn publish(self, members: &EntryBuilder<'_>) -> Result<Published, PublishError> {
        self.publish_within(members, None)
    }

    /// Writes an entry to the local store that the caller found and did not build, such as in the cache of a framework. Only
    /// [`publish`](Self::publish) signs and sends: this entry gets no signature, stays on this host, and must state that by its members
    /// ([`CacheConfig::is_for_others`](crate::CacheConfig::is_for_others)), so that no later process sends it. Returns the outcome in the local
    /// store; `None` if that is not written.
    ///
    /// # Errors
    /// Those of [`check_found`](Self::check_found); the local store could not write it; or this process is a forked child of the ticket's.
    pub fn keep_found(self, members: &EntryBuilder<'_>) -> Result<Option<PutOutcome>, PublishError> {
        if !self.is_own() {
            return Err(PublishError::Forked);
        }
        self.check_found(members)?;
        let Self { target, key, miss, .. } = &self;
        let local = target.put(key, members, miss.overwrite())?;
        target.keep_here(key);
        Ok(local)
    }

    /// Publishes the entry as [`publish`](Self::publish) does, and waits until it is in the remote tier, until `deadline` at most, or
    /// until the token of the ticket's [`Query`](crate::Query::cancel) is cancelled.
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
        if !self.is_own() {
            return Err(PublishError::Forked);
        }
        let Self { target, key, miss, lock, lease, cancel, process: _, is_takeover: _ } = self;
        let Publication { local, upload } = target.publish(&key, members, miss.overwrite(), lock, lease);
        if let (Some(upload), Some(deadline)) = (&upload, deadline) {
            target.shared.uploads().finish_one(upload, deadline, cancel.as_ref());
        }
        let remote = upload.is_some_and(|upload| match deadline {
            Some(_) => upload.is_sent(),
            None => upload.is_sent_or_waits(),
        });
        Ok(Published { local: local?, remote })
    }

    /// Drops tickets. Leases of one remote tier are released in one call.
    pub fn drop_all(tickets: impl IntoIterator<Item = Self>) {
        let mut tickets: Vec<_> = tickets.into_iter().filter(Self::is_own).collect();
        // Before the locks, as for one.
        PlanLease::release_each(tickets.iter_mut().filter_map(|ticket| ticket.lease.take()).collect());
    }

    /// Ends the ticket with a failure that would repeat: all waiters on this host fail with the same reason at once. Later
    /// callers try to build. If the next attempt may succeed, drop the ticket instead.
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
