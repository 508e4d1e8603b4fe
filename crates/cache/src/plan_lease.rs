//! A lease, whose end is progress of the plan.

use std::fmt;
use std::sync::Arc;

use opkeep_fs::ProcessId;

use crate::remote::RemoteTarget;
use crate::remote::lease::HeldLease;

/// A lease of a caller that builds. However it ends, other hosts with the same plan look for the entry, or one of them takes over.
pub(crate) struct PlanLease {
    lease: Option<HeldLease>,
    remote: Arc<RemoteTarget>,
    process: ProcessId,
}

impl PlanLease {
    pub(crate) fn new(lease: HeldLease, remote: &Arc<RemoteTarget>) -> Self {
        Self { lease: Some(lease), remote: Arc::clone(remote), process: ProcessId::current() }
    }

    /// Releases leases in one call for each remote tier, and reports their progress.
    pub(crate) fn release_each(leases: Vec<Self>) {
        let mut of_remotes: Vec<(Arc<RemoteTarget>, Vec<Self>)> = Vec::new();
        for lease in leases {
            match of_remotes.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &lease.remote)) {
                Some((_, leases)) => leases.push(lease),
                None => of_remotes.push((Arc::clone(&lease.remote), vec![lease])),
            }
        }
        of_remotes.into_iter().for_each(|(remote, leases)| Self::release_all(leases, &remote, 0));
    }

    /// Releases leases in one call, and reports the progress of `progress` keys, or of as many as there are leases, in another one.
    pub(crate) fn release_all(leases: Vec<Self>, remote: &RemoteTarget, progress: usize) {
        let progress = progress.max(leases.len());
        HeldLease::release_all(leases.into_iter().filter_map(|mut lease| lease.lease.take()));
        if progress > 0 {
            remote.advance(progress as u64);
        }
    }
}

impl Drop for PlanLease {
    fn drop(&mut self) {
        let Some(lease) = self.lease.take() else { return };
        drop(lease);
        if self.process.is_current() {
            self.remote.advance(1);
        }
    }
}

impl fmt::Debug for PlanLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanLease").finish_non_exhaustive()
    }
}
