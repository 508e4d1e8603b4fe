//! Leases that are claimed before their caller begins the keys.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use opkeep_digest::Digest;

use crate::plan_lease::PlanLease;
use crate::remote::RemoteTarget;
use crate::remote::lease::HeldLease;

/// Leases that were claimed together, for the keys that their caller begins next. Those that are left are released in one call.
pub(crate) struct ClaimedLeases {
    remote: Option<Arc<RemoteTarget>>,
    leases: Mutex<HashMap<Digest, ClaimedLease>>,
}

/// A lease, which holds: no other host has taken over, and there is no entry.
pub(crate) struct ClaimedLease {
    pub(crate) generation: u64,
    pub(crate) lease: HeldLease,
    pub(crate) is_takeover: bool,
}

impl ClaimedLeases {
    pub(crate) fn new(remote: Option<Arc<RemoteTarget>>, leases: HashMap<Digest, ClaimedLease>) -> Self {
        Self { remote, leases: Mutex::new(leases) }
    }

    /// Takes the lease on `key` of this generation.
    pub(crate) fn take(&self, key: &Digest, generation: u64) -> Option<ClaimedLease> {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let has_it = leases.get(key).is_some_and(|claimed| claimed.generation == generation);
        if has_it { leases.remove(key) } else { None }
    }

    /// Returns the generation of the lease on `key`, if it was claimed: then the engine was asked for its entry.
    pub(crate) fn generation(&self, key: &Digest) -> Option<u64> {
        let leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.get(key).map(|claimed| claimed.generation)
    }
}

impl Drop for ClaimedLeases {
    fn drop(&mut self) {
        let Some(remote) = &self.remote else { return };
        let left = std::mem::take(self.leases.get_mut().unwrap_or_else(PoisonError::into_inner));
        let left = left.into_values().map(|claimed| PlanLease::new(claimed.lease, remote));
        PlanLease::release_all(left.collect(), remote, 0);
    }
}

impl fmt::Debug for ClaimedLeases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaimedLeases").finish_non_exhaustive()
    }
}
