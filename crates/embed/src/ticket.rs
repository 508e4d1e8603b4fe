//! The duty to make the files of a group.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opkeep_cache::{Failure, Ticket};
use opkeep_digest::Digest;
use opkeep_kernel_entry::GroupKey;

use crate::error::EmbedError;
use crate::held::Held;
use crate::new_group::NewGroup;
use crate::process::Process;
use crate::renewal::Renewal;

/// The duty to make the files of a group, while other callers wait.
///
/// Clones are one ticket. It ends when it is published or abandoned, or when the last clone is dropped; then one of the
/// waiters makes the files. Any thread may end it.
#[derive(Clone)]
#[must_use = "if it is dropped, a waiter makes the files"]
pub struct GroupTicket {
    held: Arc<Held>,
    renewal: Arc<Renewal>,
    /// Whether the request stated that the files work on this machine only.
    stays_here: bool,
}

impl GroupTicket {
    /// Takes charge of `ticket`. A shared ticket is renewed.
    pub(crate) fn new(
        state: &Process,
        key: GroupKey,
        digest: Digest,
        ticket: Ticket,
        hold_limit: Duration,
        is_shared: bool,
    ) -> Self {
        let held = Arc::new(Held::new(key, digest, ticket, hold_limit));
        if is_shared {
            state.renewal.add(&held);
        }
        Self { held, renewal: Arc::clone(&state.renewal), stays_here: false }
    }

    pub(crate) fn staying_here(mut self, stays_here: bool) -> Self {
        self.stays_here = stays_here;
        self
    }

    /// The parts of the key.
    pub fn key(&self) -> &GroupKey {
        &self.held.key
    }

    /// Whether the ticket can be published: it has not ended, and it belongs to this process.
    pub fn is_held(&self) -> bool {
        self.held.is_held()
    }

    /// Publishes files that this caller made: all of them, or none. Ends the ticket, and with it the waits. A thread sends the files to the remote cache,
    /// unless they work on this machine only; see [`FileCache::finish_uploads`](crate::FileCache::finish_uploads). Returns whether the
    /// store keeps files under the key now; one that is only read keeps nothing. If another caller published files while this one was stopped, and
    /// so was stale, those stay, unless the ticket was given to replace files that were found.
    ///
    /// # Errors
    /// The group is not valid: then the ticket stays. The store cannot be written: then the ticket has ended, and the caller
    /// can use the files that it made. The ticket has ended before, or belongs to the parent of this process.
    pub fn publish(&self, group: &NewGroup<'_>) -> Result<bool, EmbedError> {
        // Checked and validated before the ticket is taken: meanwhile it is renewed.
        self.held.check()?;
        let compile_time = self.held.listed.began.elapsed();
        group.validate(&self.held.key.target)?;
        let mut record = group.record(self.held.key.clone(), Some(compile_time));
        record.is_local |= self.stays_here;
        let encoded = group.encode(&record);
        let ticket = self.held.take()?;
        ticket.count_build(record.compile_time.unwrap_or(compile_time));
        let published = ticket.publish(&encoded.builder());
        self.renewal.ended();
        Ok(published?.local.is_some())
    }

    /// Keeps files that the caller found and did not make, such as in the directory of a framework: in the store of this machine only,
    /// whatever [`NewGroup::is_local`] says, and without a signature. Otherwise as [`publish`](Self::publish); no compile is counted.
    ///
    /// # Errors
    /// As [`publish`](Self::publish). The cache has a signing key, or takes only what is signed: then the ticket stays, and the caller makes
    /// the files.
    pub fn keep_found(&self, group: &NewGroup<'_>) -> Result<bool, EmbedError> {
        group.validate(&self.held.key.target)?;
        let mut record = group.record(self.held.key.clone(), None);
        record.is_local = true;
        let encoded = group.encode(&record);
        // Checked before the ticket is taken.
        self.held.check_found(&encoded.builder())?;
        let kept = self.held.take()?.keep_found(&encoded.builder());
        self.renewal.ended();
        Ok(kept?.is_some())
    }

    /// Ends the ticket. If `failure` is given, the waiters fail for the same reason at once; for a failure that would repeat.
    /// If not, one of the waiters makes the files. An ended ticket stays as it is.
    ///
    /// # Errors
    /// The ticket belongs to the parent of this process.
    pub fn abandon(&self, failure: Option<&str>) -> Result<(), EmbedError> {
        match (self.held.take(), failure) {
            (Ok(ticket), Some(reason)) => ticket.abandon(Failure::new(reason)),
            (Ok(ticket), None) => drop(ticket),
            (Err(EmbedError::TicketEnded), _) => {}
            (Err(error), _) => return Err(error),
        }
        self.renewal.ended();
        Ok(())
    }

    /// Ends tickets; one of the waiters of each makes the files. Other hosts get to know of all of them in one call. Tickets that have
    /// ended, or that belong to the parent of this process, stay as they are.
    pub fn abandon_all(tickets: impl IntoIterator<Item = Self>) {
        let tickets: Vec<_> = tickets.into_iter().collect();
        Ticket::drop_all(tickets.iter().filter_map(|ticket| ticket.held.take().ok()));
        tickets.iter().for_each(|ticket| ticket.renewal.ended());
    }
}

impl fmt::Debug for GroupTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupTicket")
            .field("key", &self.held.key)
            .field("is_held", &self.is_held())
            .finish_non_exhaustive()
    }
}
