//! The state of a ticket, shared with the thread that renews it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use opkeep_cache::{EntryBuilder, Ticket};
use opkeep_digest::Digest;
use opkeep_kernel_entry::GroupKey;

use crate::error::EmbedError;
use crate::holders::{HeldKey, Holders};

/// A ticket, shared with the thread that renews it.
pub(crate) struct Held {
    pub(crate) key: GroupKey,
    hold_limit: Duration,
    /// The tickets of the process that got this one.
    holders: &'static Holders,
    /// Its entry in that list.
    pub(crate) listed: HeldKey,
    /// `None` when the ticket has ended.
    ticket: Mutex<Option<Ticket>>,
}

impl Held {
    /// The state of a ticket that the calling thread got.
    pub(crate) fn new(key: GroupKey, digest: Digest, ticket: Ticket, hold_limit: Duration) -> Self {
        let holders = Holders::current();
        Self { key, hold_limit, holders, listed: holders.add(digest), ticket: Mutex::new(Some(ticket)) }
    }

    pub(crate) fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// Gives the waiters a heartbeat; at the limit, ends their waits. Returns whether the ticket is to be renewed again.
    pub(crate) fn renew(&self) -> bool {
        let mut ticket = self.locked();
        if self.remaining().is_zero() {
            ticket.iter_mut().for_each(Ticket::release_lock);
            return false;
        }
        ticket.iter().for_each(Ticket::heartbeat);
        ticket.is_some()
    }

    /// The time for which the ticket keeps others waiting from now on.
    pub(crate) fn remaining(&self) -> Duration {
        self.hold_limit.saturating_sub(self.listed.began.elapsed())
    }

    /// Whether the ticket is held, and by this process.
    pub(crate) fn check(&self) -> Result<(), EmbedError> {
        self.check_process()?;
        match *self.locked() {
            Some(_) => Ok(()),
            None => Err(EmbedError::TicketEnded),
        }
    }

    /// Checks whether the ticket is held by this process, for a cache that keeps an entry that was found.
    pub(crate) fn check_found(&self, members: &EntryBuilder<'_>) -> Result<(), EmbedError> {
        self.check_process()?;
        let ticket = self.locked();
        let checked = ticket.as_ref().ok_or(EmbedError::TicketEnded)?.check_found(members);
        checked.map_err(|reason| EmbedError::Publish(reason.into()))
    }

    /// In a forked child, the lock of the ticket's state may be held for ever by a thread that does not exist there.
    fn check_process(&self) -> Result<(), EmbedError> {
        let process = self.holders.process;
        match process.is_current() {
            true => Ok(()),
            false => Err(EmbedError::Forked { owner: process.number() }),
        }
    }

    /// Takes the ticket, which ends this one.
    pub(crate) fn take(&self) -> Result<Ticket, EmbedError> {
        self.check_process()?;
        let ticket = self.locked().take().ok_or(EmbedError::TicketEnded)?;
        self.holders.remove(&self.listed);
        Ok(ticket)
    }

    fn locked(&self) -> MutexGuard<'_, Option<Ticket>> {
        self.ticket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Ok(ticket) = self.take() {
            drop(ticket);
        }
    }
}
