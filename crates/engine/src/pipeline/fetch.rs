//! The second look-up of the kernels in a build: those that the store lacks, in the remote tier, in few calls.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::time::Duration;

use opkeep_cache::{Accept, RemotePolicy, TargetCache};
use opkeep_digest::Digest;
use opkeep_store::{CacheMode, Entry};

use super::kernel_pipeline::{KernelPipeline, MissReason};
use crate::Outcome;
use crate::plan::{BuildPlan, PlannedKernel};
use crate::ready::ReadyKernel;
use crate::report::KernelReport;

impl KernelPipeline<'_> {
    /// Whether kernels are looked up in a remote tier.
    pub(crate) fn reads_remote(&self) -> bool {
        let config = &self.setup.config;
        let is_read = config.remote.as_ref().is_some_and(|remote| remote.policy != RemotePolicy::Off);
        is_read && config.mode.reads()
    }

    /// Returns the reason why there is no usable entry, for a build that must not compile.
    pub(crate) fn why_not_cached(&self, missing: &MissReason) -> String {
        let remote = self.setup.config.remote.as_ref().filter(|_| self.reads_remote());
        match remote {
            Some(remote) => format!(
                "{}, and the remote cache `{}` did not return it",
                missing.reason,
                remote.engine.location()
            ),
            None => missing.reason.clone(),
        }
    }

    /// Takes kernels that are missing from the remote tier, in few calls for each target. Calls `taken` with the index of each in the
    /// plan, on several threads. The other ones are built, under their locks, which look them up again.
    ///
    /// All calls of the build, these and later ones, take no longer than `longest`, the time that `threads` threads need to compile
    /// what is missing.
    pub(crate) fn fetch(
        &self,
        plan: &BuildPlan<'_>,
        missing: &[(usize, MissReason)],
        (longest, threads): (Duration, NonZeroUsize),
        taken: &(dyn Fn(usize, KernelReport) + Sync),
    ) {
        self.limit_waits(longest);
        let wanted = wanted(plan, missing);
        for target in &self.targets {
            let is_of = |planned: &&PlannedKernel<'_>| {
                planned.keyed().is_some_and(|keyed| keyed.spec.target == target.name())
            };
            let keys = plan.stored_keys(target.name());
            if !keys.iter().any(|key| wanted.contains_key(key)) {
                continue;
            }
            let accept = |entry: &Entry| match wanted.get(entry.key()) {
                Some(at) => self.take_fetched(*at, &plan.kernels[*at], entry, taken),
                None => Accept::Ignore,
            };
            let query = self.query(&accept);
            let lacking = missing.iter().map(|(at, _)| &plan.kernels[*at]).filter(is_of);
            let lacking = lacking.filter_map(PlannedKernel::stored_key).copied().collect();
            target.fetch_lacking(&keys, lacking, &query);
        }
        // No kernel was compiled meanwhile; from now on, each thread makes its own calls.
        self.wait_budget.share_among(u32::try_from(threads.get()).unwrap_or(u32::MAX));
    }

    /// Does `work`, which builds what is `missing`. Kernels that arrive from the remote tier meanwhile, before their builds begin, are
    /// judged and written to the store at once.
    pub(crate) fn storing_arrivals<T>(
        &self,
        plan: &BuildPlan<'_>,
        missing: &[(usize, MissReason)],
        work: impl FnOnce() -> T,
    ) -> T {
        if !self.reads_remote() {
            return work();
        }
        let wanted = wanted(plan, missing);
        let accept = |entry: &Entry| {
            let keyed = wanted.get(entry.key()).and_then(|at| plan.kernels[*at].keyed());
            keyed.map_or(Accept::Ignore, |keyed| self.accept(keyed, entry, &Mutex::new(None)))
        };
        TargetCache::storing_arrivals(&self.targets, &self.query(&accept), work)
    }

    /// Sets the time that the build may lose to the remote tier, instead of compiling for `time`: as long as it takes, if it must not
    /// compile.
    pub(crate) fn limit_waits(&self, time: Duration) {
        let is_required = self.setup.config.mode == CacheMode::Require;
        self.wait_budget.set_limit(if is_required { Duration::MAX } else { time });
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
            let ready = ReadyKernel { outcome: Outcome::Reused, from_remote: true, ..ready };
            self.notify_hit(planned, &ready);
            taken(at, KernelReport::new(planned, Ok(ready)));
        }
        accept
    }
}

/// Returns the keys of missing kernels, and their indices in the plan. A damaged entry is not among them: it is quarantined under its
/// lock, before another one takes its place.
fn wanted<'p>(plan: &'p BuildPlan<'_>, missing: &[(usize, MissReason)]) -> HashMap<&'p Digest, usize> {
    let intact = missing.iter().filter(|(_, miss)| !miss.damaged);
    intact.filter_map(|(at, _)| Some((plan.kernels[*at].stored_key()?, *at))).collect()
}
