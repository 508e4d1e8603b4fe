//! The plan of a build: turns requests into kernels with resolved specs and keys, and merges equal jobs.

pub(crate) mod job_digests;
mod job_map;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;
use opkeep_backend::{BackendError, Context};
use opkeep_descriptor::{BuildSpec, Job, KernelName, Key, KeyParts, ResolvedSpec};
use opkeep_digest::{Digest, Fingerprint};

use crate::setup::Setup;
use crate::{BuildError, KernelError, Request};
use job_digests::JobDigestCache;
use job_map::JobMapKey;

/// The kernels of a set of requests.
pub(crate) struct BuildPlan<'a> {
    pub(crate) kernels: Vec<PlannedKernel<'a>>,
    /// The kernel of each request: an index into `kernels`.
    pub(crate) kernel_of: Vec<usize>,
}

/// A kernel to be built.
pub(crate) struct PlannedKernel<'a> {
    pub(crate) job: &'a Job,
    pub(crate) requested_by: Vec<&'a str>,
    pub(crate) state: KeyState,
}

/// The key of a kernel, or the reason why it has none.
pub(crate) enum KeyState {
    /// The backend accepts the job.
    Keyed(Box<KeyedKernel>),
    /// The backend refuses the job.
    Refused(Box<Refused>),
}

/// A job that the backend refuses.
pub(crate) struct Refused {
    pub(crate) error: Arc<KernelError>,
    job: Digest,
    /// The resolved spec, if the options are valid. It is needed to find a kernel that a framework compiled.
    spec: Option<ResolvedSpec>,
}

/// The key of a job that the backend accepts, with the parts of the key and the kernel's name.
pub(crate) struct KeyedKernel {
    pub(crate) spec: ResolvedSpec,
    pub(crate) parts: KeyParts,
    pub(crate) key: Key,
    pub(crate) name: KernelName,
}

/// The properties that requests of one kernel share: the job's digest, the spec's index, and the paths of the
/// operators' sources.
type Identity<'a> = (Digest, usize, Vec<Option<&'a str>>);

/// Requests with different jobs or specs, in the order of the requests.
#[derive(Default)]
struct Distinct<'a> {
    /// The first request of each job and spec, with the index of the spec.
    requests: Vec<(&'a Request, usize)>,
    /// For each request, the index of its job and spec in `requests`.
    index_of: Vec<usize>,
}

/// Computes the keys of jobs.
struct Planner<'a> {
    setup: &'a Setup,
    cx: &'a Context<'a>,
    /// The toolchain's fingerprint; unset until a job needs a key.
    toolchain: OnceLock<Arc<Fingerprint>>,
    /// Whether the digests of jobs are kept for the next build.
    keeps_digests: bool,
}

impl<'a> BuildPlan<'a> {
    /// Plans `requests`.
    ///
    /// # Errors
    /// The backend has no toolchain, so nothing has a key.
    pub(crate) fn new(setup: &Setup, requests: &'a [Request], cx: &Context<'_>) -> Result<Self, BuildError> {
        let distinct = Distinct::of(requests);
        // The memory cache remembers single requests, and more jobs than the digest cache holds would only evict each
        // other.
        let keeps_digests = (2..=JobDigestCache::MAX_KNOWN).contains(&distinct.requests.len());
        let planner = Planner { setup, cx, toolchain: OnceLock::new(), keeps_digests };
        let states = planner.states(&distinct.requests)?;
        let mut plan = Self { kernels: Vec::new(), kernel_of: Vec::with_capacity(requests.len()) };
        let mut known: HashMap<Identity<'a>, usize> = HashMap::new();
        let mut by_key: HashMap<Key, usize> = HashMap::new();
        let mut kernels = Vec::with_capacity(states.len());
        for ((request, spec), (digest, state)) in distinct.requests.into_iter().zip(states) {
            let job = &request.descriptor.job;
            let paths = job.ops.iter().map(|op| op.module_path.as_deref()).collect();
            let at = *known.entry((digest, spec, paths)).or_insert_with(|| {
                // Requests that differ only in options without effect on this backend have the same key.
                let same = state.as_ref().ok().and_then(|keyed| by_key.get(&keyed.key)).copied();
                same.unwrap_or_else(|| plan.add(job, digest, state, &mut by_key))
            });
            kernels.push(at);
        }
        for (request, index) in requests.iter().zip(distinct.index_of) {
            let at = kernels[index];
            plan.kernels[at].requested_by.push(request.name());
            plan.kernel_of.push(at);
        }
        Ok(plan)
    }

    fn add(
        &mut self,
        job: &'a Job,
        digest: Digest,
        state: Result<KeyedKernel, Unkeyed>,
        by_key: &mut HashMap<Key, usize>,
    ) -> usize {
        let at = self.kernels.len();
        let state = match state {
            Ok(keyed) => {
                by_key.insert(keyed.key, at);
                KeyState::Keyed(Box::new(keyed))
            }
            Err((error, spec)) => {
                KeyState::Refused(Box::new(Refused { error: Arc::new(error.into()), job: digest, spec }))
            }
        };
        self.kernels.push(PlannedKernel { job, requested_by: Vec::new(), state });
        at
    }

    /// Returns the keys of all kernels for `target` that have entries.
    pub(crate) fn stored_keys(&self, target: &str) -> Vec<Digest> {
        let of_target = self
            .kernels
            .iter()
            .filter(|planned| planned.keyed().is_some_and(|keyed| keyed.spec.target == target));
        of_target.filter_map(PlannedKernel::stored_key).copied().collect()
    }

    /// Returns the exact targets of the kernels, each once.
    pub(crate) fn targets(&self) -> Vec<String> {
        each_once(
            self.kernels.iter().filter_map(PlannedKernel::keyed).map(|keyed| keyed.spec.target.as_str()),
        )
    }

    /// Returns the [`targets`](Self::targets), and the targets of refused jobs, whose kernels may be imported ones.
    pub(crate) fn stored_targets(&self) -> Vec<String> {
        each_once(self.kernels.iter().filter_map(PlannedKernel::spec).map(|spec| spec.target.as_str()))
    }
}

fn each_once<'t>(targets: impl Iterator<Item = &'t str>) -> Vec<String> {
    let targets: BTreeSet<&str> = opkeep_order::set(targets);
    targets.into_iter().map(str::to_owned).collect()
}

impl<'a> Distinct<'a> {
    /// Groups `requests` by job and spec, without digests of jobs: most nodes of a network equal another one.
    fn of(requests: &'a [Request]) -> Self {
        let mut distinct = Self { requests: Vec::new(), index_of: Vec::with_capacity(requests.len()) };
        let mut known: HashMap<(JobMapKey<'_>, usize), usize, RandomState> = HashMap::default();
        // Each spec once: the operators of a network usually share one.
        let mut specs: Vec<&BuildSpec> = Vec::new();
        for request in requests {
            let spec = specs.iter().position(|known| **known == request.spec).unwrap_or_else(|| {
                specs.push(&request.spec);
                specs.len() - 1
            });
            let at = *known.entry((JobMapKey(&request.descriptor.job), spec)).or_insert_with(|| {
                distinct.requests.push((request, spec));
                distinct.requests.len() - 1
            });
            distinct.index_of.push(at);
        }
        distinct
    }
}

/// The reason why the backend refuses a job, and the job's resolved spec, if the options are valid.
type Unkeyed = (BackendError, Option<ResolvedSpec>);

/// The digest of a job, and its key if the backend accepts it.
type Found = (Digest, Result<KeyedKernel, Unkeyed>);

impl Planner<'_> {
    fn states(&self, requests: &[(&Request, usize)]) -> Result<Vec<Found>, BuildError> {
        let mut states = Vec::with_capacity(requests.len());
        let mut requests = requests.iter().map(|(request, _)| *request);
        // On one thread until the toolchain is known, so that a missing toolchain is searched for only once.
        while self.toolchain.get().is_none()
            && let Some(request) = requests.next()
        {
            states.push(self.state(request)?);
        }
        let rest: Vec<&Request> = requests.collect();
        let lookup_threads = self.setup.lookup_threads(rest.len());
        for found in opkeep_fs::map(rest.len(), lookup_threads, || false, |at| self.state(rest[at])).results {
            states.push(found?);
        }
        Ok(states)
    }

    fn state(&self, request: &Request) -> Result<Found, BuildError> {
        let job = &request.descriptor.job;
        let digest = if self.keeps_digests { self.setup.digests.of(job) } else { job.digest() };
        Ok((digest, self.keyed(job, &request.spec, digest)?))
    }

    fn keyed(
        &self,
        job: &Job,
        spec: &BuildSpec,
        digest: Digest,
    ) -> Result<Result<KeyedKernel, Unkeyed>, BuildError> {
        let Self { setup: Setup { backend, .. }, cx, .. } = *self;
        let spec = match backend.resolve(cx, spec) {
            Ok(spec) => spec,
            Err(error) => return Ok(Err((error, None))),
        };
        let toolchain = match self.toolchain.get() {
            Some(toolchain) => Arc::clone(toolchain),
            // The sources may depend on the toolchain, so the toolchain comes first.
            None => match backend.toolchain(cx) {
                Ok(toolchain) => Arc::clone(self.toolchain.get_or_init(|| Arc::new(toolchain))),
                // A job that the backend does not compile needs no toolchain.
                Err(error) => match backend.op_sources(cx, job, &spec) {
                    Err(unsupported @ BackendError::Unsupported(_)) => {
                        return Ok(Err((unsupported, Some(spec))));
                    }
                    _ => return Err(error.into()),
                },
            },
        };
        let op_sources = match backend.op_sources(cx, job, &spec) {
            Ok(op_sources) => op_sources,
            Err(error) => return Ok(Err((error, Some(spec)))),
        };
        let parts = KeyParts::of_digest(backend.name(), digest, &spec, toolchain, op_sources);
        let key = parts.key();
        Ok(Ok(KeyedKernel { name: KernelName::new(job, &key), spec, parts, key }))
    }
}

impl PlannedKernel<'_> {
    pub(crate) fn keyed(&self) -> Option<&KeyedKernel> {
        match &self.state {
            KeyState::Keyed(keyed) => Some(keyed),
            KeyState::Refused(_) => None,
        }
    }

    /// Returns the key of a kernel that has entries: a kernel with debug options has none.
    pub(crate) fn stored_key(&self) -> Option<&Digest> {
        self.keyed().filter(|keyed| !keyed.spec.debug).map(|keyed| keyed.key.digest())
    }

    /// Returns the digest of the job, and the spec, by which imported kernels are found; `None` if the job has a custom
    /// source, which no imported kernel has.
    pub(crate) fn wanted(&self) -> Option<(&Digest, &ResolvedSpec)> {
        if self.job.custom_op_source().is_some() {
            return None;
        }
        let job = match &self.state {
            KeyState::Keyed(keyed) => &keyed.parts.job,
            KeyState::Refused(refused) => &refused.job,
        };
        self.spec().map(|spec| (job, spec))
    }

    /// Returns the resolved spec, if the options are valid.
    fn spec(&self) -> Option<&ResolvedSpec> {
        match &self.state {
            KeyState::Keyed(keyed) => Some(&keyed.spec),
            KeyState::Refused(refused) => refused.spec.as_ref(),
        }
    }

    /// Returns the types of the operators, joined.
    pub(crate) fn op_type(&self) -> String {
        self.job.op_types()
    }

    /// Returns the kernel's name; if it has no key, the name of its first request.
    pub(crate) fn name(&self) -> &str {
        match &self.state {
            KeyState::Keyed(keyed) => keyed.name.as_str(),
            KeyState::Refused(_) => self.requested_by.first().copied().unwrap_or("(nameless)"),
        }
    }
}
