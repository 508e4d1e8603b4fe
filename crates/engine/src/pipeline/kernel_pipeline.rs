//! The state that the steps of the pipeline share.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use opkeep_cache::{Accept, TargetCache, WaitBudget};
use opkeep_descriptor::ResolvedSpec;
use opkeep_fs::CancelToken;
use opkeep_kernel_entry::StoredExpectations;
use opkeep_store::{Entry, Statistics, TargetStore};

use crate::event::Event;
use crate::expectations::JudgedEntry;
use crate::explain::untrusted::UntrustedEntries;
use crate::plan::{BuildPlan, KeyedKernel, PlannedKernel};
use crate::ready::ReadyKernel;
use crate::report::KernelReport;
use crate::runtime::Runtime;
use crate::setup::Setup;
use crate::{BuildError, KernelError, Outcome, Tier, WarningKind};

/// The bounds of the time for which a build waits at its end until its kernels are in the remote cache: it waits no longer than it
/// compiled. The next build sends the others.
const UPLOAD_LIMITS: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(10));
/// The same for a build that needed nothing from the remote cache. It waits only if earlier builds left something to send.
const WARM_LIMIT: Duration = Duration::from_secs(1);
/// The same for a build that was cancelled: a lease that is not released by then keeps other hosts waiting.
const CANCELLED_LIMIT: Duration = Duration::from_secs(1);

/// The time that may be lost to the remote tier before the missing kernels are known.
const EARLY_LIMIT: Duration = Duration::from_secs(2);

/// The pipeline of a build, which takes kernels from the cache, or compiles them.
pub(crate) struct KernelPipeline<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) cancel: &'a CancelToken,
    pub(crate) runtime: &'a Runtime,
    pub(super) targets: Vec<TargetCache>,
    /// The name of the first kernel that failed; set only if a failure ends the build.
    pub(super) failed: OnceLock<String>,
    /// The time that the build may lose to the remote tier.
    pub(super) wait_budget: WaitBudget,
}

/// The reason why a kernel is not taken from the store.
pub(crate) struct MissReason {
    pub(crate) reason: String,
    /// Whether the entry is damaged or invalid.
    pub(crate) damaged: bool,
    /// Whether there is a store, and it has no entry of the kernel.
    pub(crate) absent: bool,
    /// Why an entry is not used that an untrusted user could have written.
    pub(crate) untrusted: Option<Box<UntrustedEntries>>,
}

impl<'a> KernelPipeline<'a> {
    pub(crate) fn new(
        setup: &'a Setup,
        cancel: &'a CancelToken,
        runtime: &'a Runtime,
        targets: Vec<String>,
    ) -> Result<Self, BuildError> {
        let open = |target: &String| runtime.cache.target(target);
        let targets = targets.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self {
            setup,
            cancel,
            runtime,
            targets,
            failed: OnceLock::new(),
            wait_budget: WaitBudget::new(EARLY_LIMIT),
        })
    }

    /// Reports that a kernel was found.
    pub(super) fn notify_hit(&self, planned: &PlannedKernel<'_>, found: &ReadyKernel) {
        let (kernel, artifact, tier) = (planned.name(), &found.artifact, Tier::of(found.from_remote));
        self.setup.notify(Event::Hit { kernel, artifact, tier });
    }

    /// Returns what the cache counted in this build.
    pub(crate) fn activity(&self) -> Statistics {
        let mut sum = Statistics::default();
        self.targets.iter().for_each(|target| sum.add(&target.activity()));
        sum
    }

    /// Returns an error if the build is cancelled, or ends with its first failure.
    pub(crate) fn ensure_running(&self) -> Result<(), KernelError> {
        if self.cancel.is_cancelled() {
            return Err(KernelError::Cancelled);
        }
        match self.failed.get() {
            Some(first) => Err(KernelError::Skipped { first: first.clone() }),
            None => Ok(()),
        }
    }

    /// Syncs a compiled kernel to disk, so that it survives a power cut.
    pub(crate) fn sync_entry(&self, kernel: &KernelReport) {
        if kernel.outcome == Outcome::Compiled
            && let Some(key) = kernel.key
        {
            self.targets.iter().for_each(|target| target.sync(&[*key.digest()]));
        }
    }

    /// Syncs all published kernels to disk, so that they survive a power cut, and writes the statistics.
    ///
    /// Waits until the kernels are in the remote cache, for a limited time, and sends those that earlier builds left. Returns the
    /// number of kernels that are still to be sent.
    pub(crate) fn finish(&self, plan: &BuildPlan<'_>, kernels: &[KernelReport]) -> usize {
        let fresh = kernels.iter().filter(|kernel| kernel.outcome == Outcome::Compiled);
        let keys: Vec<_> = fresh.filter_map(|kernel| Some(*kernel.key?.digest())).collect();
        self.targets.iter().for_each(|target| target.sync(&keys));
        let compiled: Duration = kernels.iter().filter_map(|kernel| kernel.compile_time).sum();
        let is_warm = compiled.is_zero() && self.wait_budget.used().is_zero();
        let longest = if is_warm { WARM_LIMIT } else { compiled.clamp(UPLOAD_LIMITS.0, UPLOAD_LIMITS.1) };
        let deadline = Instant::now() + longest.min(self.wait_budget.left());
        let left = self.runtime.cache.finish_uploads(deadline, Some(self.cancel));
        if left > 0 && self.cancel.is_cancelled() {
            self.runtime.cache.finish_uploads(Instant::now() + CANCELLED_LIMIT, None);
        }
        if self.reads_remote() {
            for target in &self.targets {
                target.note_plan(&plan.stored_keys(target.name()));
            }
        }
        let unsent = self.runtime.cache.push_unsent(Some(deadline), Some(self.cancel)).left;
        self.targets.iter().for_each(TargetCache::flush);
        unsent
    }

    /// Returns the kernel in an entry of the local store. If the entry was validated by other rules, it is validated
    /// again, and the validation is recorded.
    pub(super) fn take_entry(
        &self,
        keyed: &KeyedKernel,
        entry: &Entry,
        outcome: Outcome,
    ) -> Result<ReadyKernel, KernelError> {
        let (ready, accept) = self.judge_entry(keyed, entry, outcome)?;
        if accept != Accept::Take {
            let expected = self.expected(&keyed.spec);
            self.target_of(&keyed.spec.target).inspect(|target| record(&expected, target, entry));
        }
        Ok(ready)
    }

    /// Returns the kernel in an entry, and the cache's instruction for the entry.
    pub(super) fn judge_entry(
        &self,
        keyed: &KeyedKernel,
        entry: &Entry,
        outcome: Outcome,
    ) -> Result<(ReadyKernel, Accept), KernelError> {
        let JudgedEntry { artifact, digests, accept, doubt } =
            self.runtime.rules.judge(&*self.setup.backend, keyed, entry)?;
        doubt.inspect(|doubt| self.warn_of_doubt(keyed, doubt));
        let (reason, compile_time, compile_began, imported) = Default::default();
        let artifact = Arc::new(artifact);
        let saved_time = Some(entry.cost()).filter(|cost| !cost.is_zero());
        let from_remote = false;
        let ready = ReadyKernel {
            artifact,
            digests,
            outcome,
            reason,
            compile_time,
            compile_began,
            saved_time,
            imported,
            from_remote,
            kept: None,
        };
        Ok((ready, accept))
    }

    /// Warns of a valid kernel with a property that no known genuine kernel has.
    pub(super) fn warn_of_doubt(&self, keyed: &KeyedKernel, doubt: &str) {
        let text = format!("the kernel `{}` is valid, but unusual: {doubt}", keyed.name);
        self.runtime.warnings.warn_once(WarningKind::UnusualKernel, &text);
    }

    /// Returns the backend's expectations for kernels of `spec`.
    pub(crate) fn expected(&self, spec: &ResolvedSpec) -> Arc<StoredExpectations> {
        self.runtime.rules.expected(&*self.setup.backend, spec)
    }

    /// Returns the part of the store for a kernel's target, if the store can be used.
    pub(crate) fn store_of(&self, keyed: &KeyedKernel) -> Option<&TargetStore> {
        self.target_of(&keyed.spec.target)?.store()
    }

    /// Notes of each kernel that was taken from elsewhere whether the local store has its entry now. One without an entry may be evicted
    /// since, so that nothing is known of it.
    pub(crate) fn note_kept(&self, plan: &BuildPlan<'_>, kernels: &mut [KernelReport]) {
        for (planned, kernel) in plan.kernels.iter().zip(kernels) {
            let is_taken = kernel.outcome == Outcome::Shared || kernel.from_remote;
            let Some(keyed) = planned.keyed().filter(|_| is_taken && kernel.kept.is_none()) else { continue };
            let store = self.store_of(keyed);
            let is_stored = store.is_some_and(|store| store.open_entry(keyed.key.digest()).is_ok());
            kernel.kept = is_stored.then_some(true);
        }
    }

    /// Whether the kernels of a target are written to the store: it may be read-only, or another program's.
    pub(crate) fn writes_a_store(&self) -> bool {
        self.targets.iter().any(|target| target.written_store().is_some())
    }

    pub(super) fn target_of(&self, name: &str) -> Option<&TargetCache> {
        self.targets.iter().find(|target| target.name() == name)
    }
}

/// Records that an entry was validated, so that it is not validated again. Best effort: without the record, the next
/// build validates the entry again.
pub(super) fn record(expected: &StoredExpectations, target: &TargetCache, entry: &Entry) {
    if let Some(store) = target.written_store() {
        let _ = expected.record(store, entry);
    }
}
