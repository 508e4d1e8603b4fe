//! What the remote tier has of the kernels that the store lacks, and whether only signed kernels count.

use std::collections::HashMap;

use opkeep_cache::{Accept, Cache, CacheConfig, Query, RemotePolicy, RemoteStatus, TargetCache, WaitBudget};
use opkeep_digest::Digest;
use opkeep_fs::CancelToken;
use opkeep_kernel_entry::is_for_others;
use opkeep_store::{Access, CacheMode, Entry, Store};

use crate::expectations::KernelRules;
use crate::plan::{BuildPlan, KeyedKernel};
use crate::schedule::remote_wait::longest_wait;
use crate::setup::Setup;

/// The cache of an explanation, which writes nothing: neither the store nor the remote tier.
pub(super) struct ReadOnlyCache {
    cache: Cache,
    has_remote: bool,
}

impl ReadOnlyCache {
    /// `None`: the build would use no remote tier, and demands no signatures.
    pub(super) fn open(setup: &Setup) -> Option<Self> {
        let settings = &setup.config;
        let remote = settings.remote.clone().filter(|remote| remote.policy != RemotePolicy::Off);
        let remote = remote.filter(|_| settings.mode.reads());
        let demands_signatures = settings.trust.policy.trusted_keys().is_some();
        if remote.is_none() && !demands_signatures {
            return None;
        }
        let mut config = CacheConfig::default();
        let store = settings.store.clone().map(|store| store.with_access(Access::ReadOnly));
        config.store = store.filter(|store| Store::open(store.clone()).is_ok());
        if config.store.is_some() {
            config.mode = CacheMode::ReadOnly;
        }
        let has_remote = remote.is_some();
        config.remote = remote.map(|mut remote| {
            remote.policy = RemotePolicy::Read;
            remote
        });
        config.is_for_others = is_for_others;
        config.trust.clone_from(&settings.trust);
        Some(Self { cache: Cache::open(config).ok()?, has_remote })
    }

    /// Returns the part of the cache for a target, if only signed kernels count.
    pub(super) fn trusted_target(&self, target: &str) -> Option<TargetCache> {
        let target = self.cache.target(target).ok()?;
        (target.demands_signatures() && target.store().is_some()).then_some(target)
    }

    /// Returns what the remote tier has of each of the `missing` kernels of a plan, after one call for each target.
    pub(super) fn look_remote(
        &self,
        setup: &Setup,
        plan: &BuildPlan<'_>,
        missing: impl Iterator<Item = usize>,
        cancel: &CancelToken,
    ) -> Vec<(usize, RemoteStatus)> {
        let mut found = Vec::new();
        let missing = missing.filter_map(|at| Some((at, plan.kernels[at].keyed()?)));
        let missing: Vec<(usize, &KeyedKernel)> = missing.collect();
        if !self.has_remote || missing.is_empty() {
            return found;
        }
        let rules = KernelRules::new(&*setup.backend);
        let budget = WaitBudget::new(longest_wait(missing.iter().map(|_| None), setup.threads()));
        for target in plan.targets() {
            let of_target: Vec<_> =
                missing.iter().filter(|(_, keyed)| keyed.spec.target == target).copied().collect();
            let Ok(cache) = self.cache.target(&target) else { continue };
            let wanted: HashMap<&Digest, &KeyedKernel> =
                of_target.iter().map(|(_, keyed)| (keyed.key.digest(), *keyed)).collect();
            let accept = |entry: &Entry| match wanted.get(entry.key()) {
                Some(keyed) => match rules.judge(&*setup.backend, keyed, entry) {
                    Ok(judged) => judged.accept,
                    Err(error) => Accept::Replace(error.to_string()),
                },
                None => Accept::Ignore,
            };
            let mut query = Query::new(&accept);
            (query.cancel, query.wait_budget) = (Some(cancel), Some(&budget));
            let keys: Vec<Digest> = of_target.iter().map(|(_, keyed)| *keyed.key.digest()).collect();
            let statuses = cache.peek_remote(&keys, &query);
            found.extend(of_target.iter().map(|(at, _)| *at).zip(statuses));
        }
        found
    }
}
