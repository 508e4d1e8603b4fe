//! The reasons why kernels would be hits or misses, without a build.

pub(crate) mod causes;
pub(crate) mod former;
pub(crate) mod in_build;
mod kind;
pub(crate) mod nearest;
pub(crate) mod nearest_entry;
pub(crate) mod other_targets;
mod rank;
pub(crate) mod remote;
mod toolchain_text;
pub(crate) mod untrusted;

use std::collections::BTreeMap;
use std::sync::Arc;

use opkeep_backend::Context;
use opkeep_cache::RemoteStatus;
use opkeep_descriptor::Key;
use opkeep_fs::CancelToken;
use opkeep_kernel_entry::Provenance;
use opkeep_store::{Access, CacheMode, Lookup, Miss, Store, StoreError, TargetStore};

use crate::engine::Engine;
use crate::import_query::{self, ImportQuery};
use crate::plan::{BuildPlan, KeyState, KeyedKernel, PlannedKernel};
use crate::setup::Setup;
use crate::{BuildError, FileDigestCache, KernelError, Request};
use causes::MissExplanation;
use former::StoreHistory;
use nearest::NearestSearch;
use remote::ReadOnlyCache;
use untrusted::UntrustedEntries;

/// The status of one kernel in the cache.
#[derive(Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The kernel's name; if the backend refuses the job, the name of the first request for it.
    pub name: String,
    /// The kernel's key, if the backend accepts the job.
    pub key: Option<Key>,
    /// The types of the kernel's operators, joined.
    pub op_type: String,
    /// The names of the requests for the kernel.
    pub requested_by: Vec<String>,
    /// Whether the kernel is a hit or a miss, with the reason.
    pub status: CacheStatus,
    /// The provenance of the imported kernel that is the hit, or that would be one if imported kernels were
    /// [trusted](crate::Config::trust_imported).
    pub imported: Option<Provenance>,
    /// The reason why an imported kernel of the same job cannot be used.
    pub imported_problem: Option<String>,
    /// What the remote tier has of a kernel that is a miss, if there is a remote tier.
    pub remote: Option<RemoteStatus>,
}

/// Whether a kernel would be taken from the store.
#[derive(Debug)]
#[non_exhaustive]
pub enum CacheStatus {
    /// The kernel is in the store.
    Hit,
    /// The kernel would be compiled, for this reason.
    Miss(MissExplanation),
    /// The kernel has debug options: it would be compiled, and not stored.
    Bypassed,
    /// The backend refuses the job.
    Unsupported(Arc<KernelError>),
}

impl Engine {
    /// Reports what [`build`](Self::build) would do with each kernel. Compiles nothing and writes nothing.
    ///
    /// The kernels that the store lacks are looked up in the remote tier, in one call for each target. Engines answer only with
    /// whole entries, so these are fetched and judged as by a build, and dropped. A remote tier that does not answer is no error.
    ///
    /// # Errors
    /// The backend has no toolchain, so nothing has a key.
    pub fn explain(&self, requests: &[Request]) -> Result<Vec<Explanation>, BuildError> {
        let digests = FileDigestCache::default();
        let Setup { backend_warnings, .. } = &self.state.setup;
        let cx = Context::new(&digests, &self.cancel, &**backend_warnings);
        let plan = BuildPlan::new(&self.state.setup, requests, &cx)?;
        let stores = StoreTargets::of(&self.state.setup, &plan);
        let mut explanations: Vec<Explanation> =
            plan.kernels.iter().map(|planned| stores.explanation(planned)).collect();
        stores.add_nearest(&plan, &mut explanations, &self.cancel);
        if let Some(cache) = &stores.cache {
            let is_miss = |at: &usize| matches!(explanations[*at].status, CacheStatus::Miss { .. });
            let missing = (0..explanations.len()).filter(is_miss);
            let found = cache.look_remote(&self.state.setup, &plan, missing, &self.cancel);
            found.into_iter().for_each(|(at, status)| explanations[at].remote = Some(status));
        }
        Ok(explanations)
    }
}

/// The part of the store for each target of a plan, or the reason why it cannot be used.
struct StoreTargets<'a> {
    setup: &'a Setup,
    store: Option<Store>,
    targets: BTreeMap<String, Result<TargetStore, String>>,
    /// The remote tier and the trusted keys, if the build uses any.
    cache: Option<ReadOnlyCache>,
}

impl<'a> StoreTargets<'a> {
    fn of(setup: &'a Setup, plan: &BuildPlan<'_>) -> Self {
        let store = match &setup.config.store {
            Some(config) => {
                let opened = Store::open(config.clone().with_access(Access::ReadOnly));
                opened.map_err(|error| match error {
                    // The build creates it.
                    StoreError::NoStore { path } => format!("there is no store at `{}`", path.display()),
                    error => error.to_string(),
                })
            }
            None => Err("there is no store".to_owned()),
        };
        let open = |target: &String| {
            let store = store.as_ref().map_err(Clone::clone)?.target(target);
            store.map_err(|error| error.to_string())
        };
        let targets = opkeep_order::map(
            plan.stored_targets().into_iter().map(|target| (target.clone(), open(&target))),
        );
        Self { setup, targets, store: store.ok(), cache: ReadOnlyCache::open(setup) }
    }

    fn explanation(&self, planned: &PlannedKernel<'_>) -> Explanation {
        let (name, op_type) = (planned.name().to_owned(), planned.op_type());
        let requested_by = planned.requested_by.iter().map(|name| (*name).to_owned()).collect();
        let key = planned.keyed().map(|keyed| Key::from(*keyed.key.digest()));
        let status = match &planned.state {
            KeyState::Keyed(keyed) => self.status(keyed),
            KeyState::Refused(refused) => CacheStatus::Unsupported(Arc::clone(&refused.error)),
        };
        let (imported, imported_problem, remote) = Default::default();
        let mut explanation =
            Explanation { name, key, op_type, requested_by, status, imported, imported_problem, remote };
        if let CacheStatus::Miss { .. } | CacheStatus::Unsupported(_) = explanation.status {
            self.add_imported(planned, &mut explanation);
        }
        explanation
    }

    /// Adds the imported kernel of the same job, if there is one.
    fn add_imported(&self, planned: &PlannedKernel<'_>, explanation: &mut Explanation) {
        let Some((job, spec)) = planned.wanted().filter(|(_, spec)| !spec.debug) else { return };
        let Some(Ok(store)) = self.targets.get(&spec.target) else { return };
        if !self.setup.config.mode.reads() || self.is_recompiled(planned, store) {
            return;
        }
        if self.setup.config.trust.policy.trusted_keys().is_some() {
            return;
        }
        match import_query::peek(store, &ImportQuery::new(job, spec)) {
            None => {}
            Some(Err(problem)) => explanation.imported_problem = Some(problem),
            Some(Ok(imported)) => {
                explanation.imported = Some(imported);
                if self.setup.config.trust_imported {
                    explanation.status = CacheStatus::Hit;
                }
            }
        }
    }

    /// Whether a build compiles the kernel again because the stored one is damaged.
    fn is_recompiled(&self, planned: &PlannedKernel<'_>, store: &TargetStore) -> bool {
        let is_damaged =
            |keyed: &KeyedKernel| matches!(store.peek(keyed.key.digest()), Lookup::Miss(Miss::Damaged(_)));
        self.setup.config.mode != CacheMode::Require && planned.keyed().is_some_and(is_damaged)
    }

    fn status(&self, keyed: &KeyedKernel) -> CacheStatus {
        let missed = |why: String| CacheStatus::Miss(MissExplanation::new(why));
        if keyed.spec.debug {
            return CacheStatus::Bypassed;
        }
        if !self.setup.config.mode.reads() {
            return missed(format!("cache mode is {}", self.setup.config.mode));
        }
        match self.targets.get(&keyed.spec.target) {
            Some(Ok(store)) => match self.peek(store, keyed) {
                Lookup::Hit(_) => CacheStatus::Hit,
                Lookup::Miss(miss) => {
                    let untrusted = match &miss {
                        Miss::Untrusted(error) => UntrustedEntries::of(error).map(Box::new),
                        _ => None,
                    };
                    CacheStatus::Miss(MissExplanation {
                        is_damaged: matches!(miss, Miss::Damaged(_)),
                        untrusted,
                        ..MissExplanation::new(miss.to_string())
                    })
                }
            },
            Some(Err(why)) => missed(why.clone()),
            None => missed("there is no store".to_owned()),
        }
    }

    /// Looks up a kernel in the store. With trusted keys, one that none of them signed is a miss.
    fn peek(&self, store: &TargetStore, keyed: &KeyedKernel) -> Lookup {
        let trusted = self.cache.as_ref().and_then(|cache| cache.trusted_target(&keyed.spec.target));
        let key = keyed.key.digest();
        trusted.map_or_else(|| store.peek(key), |target| target.peek(key))
    }

    /// Finds the nearest entries of absent kernels, in one pass over each target, and what is known of their own.
    fn add_nearest(&self, plan: &BuildPlan<'_>, explanations: &mut [Explanation], cancel: &CancelToken) {
        // The mode is the reason then, whatever is stored.
        if !self.setup.config.mode.reads() {
            return;
        }
        let mut searches = Vec::new();
        for (target, store) in &self.targets {
            let Ok(store) = store else { continue };
            let mut search = NearestSearch::new(store, &*self.setup.backend);
            for (at, planned) in plan.kernels.iter().enumerate() {
                if let Some(keyed) = planned.keyed().filter(|keyed| keyed.spec.target == *target)
                    && matches!(&explanations[at].status, CacheStatus::Miss(_))
                    && matches!(store.peek(keyed.key.digest()), Lookup::Miss(Miss::Absent))
                {
                    search.add(at, planned, keyed);
                }
            }
            searches.push(search);
        }
        searches.retain(|search| !search.is_empty());
        let keys = searches.iter().flat_map(NearestSearch::keys).copied().collect();
        let history = self.store.as_ref().and_then(|store| StoreHistory::read(store, &keys, &|| true));
        let history = history.unwrap_or_default();
        for mut search in searches {
            search.run(|| !cancel.is_cancelled());
            if let Some(store) = &self.store {
                search.look_elsewhere(store, || !cancel.is_cancelled());
            }
            for (at, explained) in search.explained(&history) {
                if let CacheStatus::Miss(miss) = &mut explanations[at].status {
                    let why = std::mem::take(&mut miss.why);
                    *miss = MissExplanation { why, ..explained };
                }
            }
        }
    }
}
