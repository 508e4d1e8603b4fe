//! Many keys that one caller begins: their leases are claimed in one call, and confirmed in another one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use opkeep_digest::Digest;

use crate::claim::Claim;
use crate::claimed_leases::{ClaimedLease, ClaimedLeases};
use crate::error::CacheError;
use crate::pending::PendingKey;
use crate::protocol::{Protocol, hold_limit};
use crate::query::{Query, Wait};
use crate::remote::lease::{HeldLease, LeaseStep};
use crate::remote::{CallFailure, Claimed, RemoteTarget};
use crate::tiers::Target;

impl Target {
    /// Begins keys in their order, until the caller has `max_tickets` tickets. `None`: a key that is not begun.
    pub(crate) fn begin_many(
        self: &Arc<Self>,
        keys: &[Digest],
        max_tickets: usize,
        query: &Query<'_>,
    ) -> Result<Vec<Option<Claim>>, CacheError> {
        let mut claims: Vec<Option<Claim>> = keys.iter().map(|_| None).collect();
        let (mut next, mut tickets) = (0, 0);
        // The locks of many keys may take longer than an answer is believed. With a lease in hand, its entry is looked for again.
        let fresh_since = query.fresh_since.or_else(|| Some(Instant::now()));
        let query = &Query { fresh_since, ..*query };
        // A claim that finds another host's lease brings no ticket: then there is another round.
        while next < keys.len() && tickets < max_tickets {
            let locked = self.lock_some(keys, &mut next, (&mut tickets, max_tickets), query, &mut claims)?;
            let wanted: Vec<_> = locked.iter().map(|(_, pending)| *pending.key()).collect();
            let claimed = self.claim_leases(&wanted, query);
            let query = Query { claimed: Some(&claimed), wait: Wait::Never, ..*query };
            for (at, pending) in locked {
                let claim = Protocol::new(self, &keys[at], &query).poll(pending);
                tickets += usize::from(is_ticket(&claim));
                claims[at] = Some(claim);
            }
        }
        Ok(claims)
    }

    /// Locks the next keys whose leases can be claimed, as many as the caller may still have tickets.
    fn lock_some(
        self: &Arc<Self>,
        keys: &[Digest],
        next: &mut usize,
        (tickets, max_tickets): (&mut usize, usize),
        query: &Query<'_>,
        claims: &mut [Option<Claim>],
    ) -> Result<Vec<(usize, PendingKey)>, CacheError> {
        let mut locked = Vec::new();
        let claims_nothing = |_: &dyn Fn() -> bool| false;
        let query = Query { before_claim: Some(&claims_nothing), wait: Wait::Never, ..*query };
        while let Some(key) = keys.get(*next).filter(|_| *tickets + locked.len() < max_tickets) {
            match Protocol::new(self, key, &query).begin()? {
                Claim::Pending(pending) if pending.is_claimable() => locked.push((*next, pending)),
                claim => {
                    *tickets += usize::from(is_ticket(&claim));
                    claims[*next] = Some(claim);
                }
            }
            *next += 1;
        }
        Ok(locked)
    }

    /// Claims the leases on `keys` in one call, and looks for their entries with the leases in hand in another one.
    fn claim_leases(&self, keys: &[Digest], query: &Query<'_>) -> ClaimedLeases {
        let none = || ClaimedLeases::new(self.remote.clone(), HashMap::new());
        let Some(remote) = self.leases().filter(|_| !query.stays_here && !keys.is_empty()) else {
            return none();
        };
        // A problem that is left is found again with the first key, which warns of it.
        let Ok(Some(true)) = remote.has_leases(query.limits()) else { return none() };
        match self.claim_all(remote, keys, query) {
            Ok(leases) => ClaimedLeases::new(self.remote.clone(), leases),
            Err(why) => {
                self.remote_failed(why);
                none()
            }
        }
    }

    fn claim_all(
        &self,
        remote: &RemoteTarget,
        keys: &[Digest],
        query: &Query<'_>,
    ) -> Result<HashMap<Digest, ClaimedLease>, CallFailure> {
        let wanted = keys.iter().filter_map(|key| match remote.step(key) {
            LeaseStep::Claim { generation } => Some((*key, generation)),
            LeaseStep::Wait | LeaseStep::Build { .. } => None,
        });
        let wanted: Vec<_> = wanted.collect();
        let is_takeover: Vec<_> =
            wanted.iter().map(|(key, generation)| remote.is_takeover(key, *generation)).collect();
        let answers = remote.claim_many(&wanted, hold_limit(query), query.limits())?;
        let mut granted = Vec::new();
        for (((key, generation), is_takeover), answer) in wanted.into_iter().zip(is_takeover).zip(answers) {
            if let Claimed::Granted(lease) = answer {
                granted.push((key, ClaimedLease { generation, lease, is_takeover }));
            }
        }
        let held: Vec<_> = granted.iter().map(|(key, claimed)| (*key, claimed.generation)).collect();
        let are_confirmed = remote.confirm_many(&held, query.limits()).unwrap_or_else(|why| {
            // As for one key: without an answer, nothing is known of another host.
            self.remote_failed(why);
            vec![true; held.len()]
        });
        let (mut confirmed, mut lost) = (HashMap::new(), Vec::new());
        for ((key, claimed), is_confirmed) in granted.into_iter().zip(are_confirmed) {
            match is_confirmed {
                true => drop(confirmed.insert(key, claimed)),
                false => lost.push(claimed.lease),
            }
        }
        HeldLease::release_all(lost);
        Ok(confirmed)
    }
}

fn is_ticket(claim: &Claim) -> bool {
    matches!(claim, Claim::Build(_) | Claim::Unshared(..))
}
