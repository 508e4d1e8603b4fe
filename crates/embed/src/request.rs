//! One request for a group: its conditions, as the cache takes them, and its result.

use std::time::Instant;

use opkeep_cache::{Accept, Claim, Digest, PendingKey, Query, TargetCache, Ticket, Wait, WaitBudget};
use opkeep_kernel_entry::GroupKey;
use opkeep_store::Entry;

use crate::accept::Judge;
use crate::claim::{GroupClaim, UnsharedReason};
use crate::error::EmbedError;
use crate::group::FileGroup;
use crate::holders::Holders;
use crate::options::Options;
use crate::process::Process;
use crate::ticket::GroupTicket;

/// A request of the calling thread.
pub(crate) struct Request<'a> {
    pub(crate) state: &'a Process,
    pub(crate) target: &'a TargetCache,
    pub(crate) judge: &'a Judge<'a>,
    pub(crate) options: &'a Options<'a>,
    /// The time for calls to the remote cache, if the options have none.
    pub(crate) budget: WaitBudget,
}

impl Request<'_> {
    /// Returns the files of a group, or a ticket to make them. Waits if the options allow it, and if this thread may wait.
    pub(crate) fn get_or_begin(&self, key: GroupKey) -> Result<GroupClaim, EmbedError> {
        let options = self.options;
        let (digest, holders, began) = (key.digest(), Holders::current(), Instant::now());
        let holds_ticket = holders.has_own();
        // A thread that waits for this one may hold that ticket, whenever it got it.
        let other_blocks = || {
            let held = holders.oldest_of_others(&digest).map(|held| held.max(began).elapsed());
            held.is_some_and(|held| held >= options.wait_with_ticket)
        };
        let continues = || {
            options.on_poll.iter().for_each(|on_poll| on_poll());
            let own_blocks = began.elapsed() >= options.wait_in_process && holders.has(&digest);
            !other_blocks() && !own_blocks
        };
        let wait = match options.wait && !holds_ticket {
            true => Wait::ForHolder { on_wait: options.on_wait },
            false => Wait::Never,
        };
        let accept = |entry: &Entry| self.judge.accept(entry);
        let mut query = self.query(&accept);
        query.on_poll = Some(&continues);
        query.wait = wait;
        let claim = self.target.get_or_begin(&digest, &query)?;
        Ok(self.result(&key, &digest, claim).unwrap_or_else(|pending| {
            let reason = match (holds_ticket, options.wait) {
                (true, _) => UnsharedReason::HoldsTicket,
                (false, true) if other_blocks() => UnsharedReason::ProcessHoldsTicket,
                (false, true) => UnsharedReason::ProcessMakesFiles,
                (false, false) => UnsharedReason::NoWait,
            };
            let ticket = self.ticket(key, digest, pending.into_unshared(), false);
            GroupClaim::Unshared(ticket, reason)
        }))
    }

    /// Returns the same for keys in their order, until there are `max_tickets` tickets, without a wait: [`GroupClaim::Pending`] while
    /// another caller makes the files. `None`: the key is not begun. The request began at `began`.
    pub(crate) fn try_begin(
        &self,
        keys: &[GroupKey],
        max_tickets: usize,
        began: Instant,
    ) -> Result<Vec<Option<GroupClaim>>, EmbedError> {
        let accept = |entry: &Entry| self.judge.accept(entry);
        let digests: Vec<_> = keys.iter().map(GroupKey::digest).collect();
        let mut query = self.query(&accept);
        query.fresh_since = Some(began);
        let claims = self.target.get_or_begin_many(&digests, max_tickets, &query)?;
        let keyed = keys.iter().zip(digests).zip(claims);
        let begun = keyed.map(|((key, digest), claim)| {
            claim.map(|claim| self.result(key, &digest, claim).unwrap_or(GroupClaim::Pending))
        });
        Ok(begun.collect())
    }

    /// Returns the conditions as the cache takes them, without a wait.
    pub(crate) fn query<'q>(&'q self, accept: &'q (dyn Fn(&Entry) -> Accept + Sync)) -> Query<'q> {
        let options = self.options;
        let mut query = Query::new(accept);
        query.deadline = options.deadline;
        query.cancel = options.cancel;
        query.wait_budget = Some(options.wait_budget.unwrap_or(&self.budget));
        query.wait_limit = Some(options.wait_for_host);
        query.stale_after = options.stale_after;
        query.hold_limit = Some(options.hold_limit);
        query.stays_here = options.stays_here;
        query
    }

    /// Returns the result of a claim. The error is a key that another caller holds.
    fn result(&self, key: &GroupKey, digest: &Digest, claim: Claim) -> Result<GroupClaim, Box<PendingKey>> {
        let ticket = |begun, is_shared| self.ticket(key.clone(), *digest, begun, is_shared);
        Ok(match claim {
            Claim::Hit(hit) => GroupClaim::Hit(FileGroup::new(hit.entry, hit.source)),
            Claim::Build(begun) => GroupClaim::Begin(ticket(begun, true)),
            Claim::Unshared(begun, reason) => {
                GroupClaim::Unshared(ticket(begun, false), UnsharedReason::Cache(reason))
            }
            Claim::Pending(pending) => return Err(Box::new(pending)),
            Claim::HolderFailed(failure) => GroupClaim::HolderFailed(failure.reason),
            Claim::TimedOut(_) => GroupClaim::TimedOut,
            // `Claim` may have more variants later, of which none is a hit or a ticket.
            _ => GroupClaim::Cancelled,
        })
    }

    fn ticket(&self, key: GroupKey, digest: Digest, ticket: Ticket, is_shared: bool) -> GroupTicket {
        let Options { hold_limit, stays_here, .. } = *self.options;
        GroupTicket::new(self.state, key, digest, ticket, hold_limit, is_shared).staying_here(stays_here)
    }
}
