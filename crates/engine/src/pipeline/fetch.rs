//! The second look-up of the kernels in a build: those that the store lacks, in the remote tier, all in one call.

use std::collections::HashMap;
use std::sync::Mutex;

use opkeep_cache::{Accept, RemotePolicy};
use opkeep_digest::Digest;
use opkeep_store::Entry;

use super::kernel_pipeline::{KernelPipeline, MissReason};
use crate::Outcome;
use crate::event::Event;
use crate::plan::{BuildPlan, PlannedKernel};
use crate::ready::ReadyKernel;
use crate::report::KernelReport;

impl KernelPipeline<'_> {
    /// Takes kernels that are missing from the remote tier, in one call for each target. Calls `taken` with the index of each in the
    /// plan, on several threads. The other ones are built, under their locks, which look them up again.
    pub(crate) fn fetch(
        &self,
        plan: &BuildPlan<'_>,
        missing: &[(usize, MissReason)],
        taken: &(dyn Fn(usize, KernelReport) + Sync),
    ) {
        let config = &self.setup.config;
        let is_read = config.remote.as_ref().is_some_and(|remote| remote.policy != RemotePolicy::Off);
        if missing.is_empty() || !is_read || !config.mode.reads() {
            return;
        }
        // A damaged entry is quarantined under its lock, before another one takes its place.
        let wanted: HashMap<&Digest, usize> = missing
            .iter()
            .filter(|(_, miss)| !miss.damaged)
            .filter_map(|(at, _)| Some((stored_key(&plan.kernels[*at])?, *at)))
            .collect();
        for target in &self.targets {
            let is_of = |planned: &&PlannedKernel<'_>| {
                planned.keyed().is_some_and(|keyed| keyed.spec.target == target.name())
            };
            let keys: Vec<Digest> =
                plan.kernels.iter().filter(is_of).filter_map(stored_key).copied().collect();
            if !keys.iter().any(|key| wanted.contains_key(key)) {
                continue;
            }
            let accept = |entry: &Entry| match wanted.get(entry.key()) {
                Some(at) => self.take_fetched(*at, &plan.kernels[*at], entry, taken),
                None => Accept::Ignore,
            };
            target.fetch(&keys, &self.query(&accept));
        }
    }

    /// Judges an entry from the remote tier, and reports its kernel.
    fn take_fetched(
        &self,
        at: usize,
        planned: &PlannedKernel<'_>,
        entry: &Entry,
        taken: &(dyn Fn(usize, KernelReport) + Sync),
    ) -> Accept {
        let Some(keyed) = planned.keyed() else { return Accept::Ignore };
        let found = Mutex::new(None);
        let accept = self.accept(keyed, entry, &found);
        if let Ok(Some(ready)) = found.into_inner() {
            self.setup.notify(Event::Hit { kernel: planned.name(), artifact: &ready.artifact });
            let ready = ReadyKernel { outcome: Outcome::Reused, from_remote: true, ..ready };
            taken(at, KernelReport::new(planned, Ok(ready)));
        }
        accept
    }
}

/// Returns the key of a kernel that has entries: a kernel with debug options has none.
fn stored_key<'p>(planned: &'p PlannedKernel<'_>) -> Option<&'p Digest> {
    planned.keyed().filter(|keyed| !keyed.spec.debug).map(|keyed| keyed.key.digest())
}
