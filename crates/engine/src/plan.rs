//! From requests to kernels: effective specs, keys, equal jobs merged.

use std::collections::HashMap;
use std::sync::Arc;

use opbuild_backend::{BackendError, FileDigests, Support};
use opbuild_descriptor::{BuildSpec, EffectiveSpec, Job, KernelName, Key, KeyParts};
use opbuild_digest::{Digest, Fingerprint};

use crate::builder::Builder;
use crate::{BuildError, JobError, Request};

/// What is to be built.
pub(crate) struct Plan<'a> {
    pub(crate) kernels: Vec<Planned<'a>>,
    /// The kernel of each request.
    pub(crate) kernel_of: Vec<usize>,
    /// What all kernels share; none until a job is to have a key.
    toolchain: Option<Arc<Fingerprint>>,
}

/// A kernel to be built.
pub(crate) struct Planned<'a> {
    pub(crate) job: &'a Job,
    pub(crate) asked_by: Vec<&'a str>,
    pub(crate) state: State,
}

/// Whether a kernel can be built.
pub(crate) enum State {
    /// It has a key.
    Keyed(Box<Keyed>),
    /// The backend does not take it.
    Refused(Arc<JobError>),
}

/// What follows from a job once the backend takes it.
pub(crate) struct Keyed {
    pub(crate) spec: EffectiveSpec,
    pub(crate) parts: KeyParts,
    pub(crate) key: Key,
    pub(crate) name: KernelName,
}

/// What makes two requests one kernel: the job, the spec, and where the operators' sources are looked for.
type Identity<'a> = (Digest, usize, Vec<Option<&'a str>>);

/// Specs, each once: a network's operators all have the same.
#[derive(Default)]
struct Specs<'a>(Vec<&'a BuildSpec>);

impl<'a> Specs<'a> {
    fn number(&mut self, spec: &'a BuildSpec) -> usize {
        self.0.iter().position(|known| *known == spec).unwrap_or_else(|| {
            self.0.push(spec);
            self.0.len() - 1
        })
    }
}

impl<'a> Plan<'a> {
    /// Plans `requests`.
    ///
    /// # Errors
    /// The backend has no toolchain, so nothing has a key.
    pub(crate) fn new(
        builder: &Builder,
        requests: &'a [Request],
        files: &dyn FileDigests,
    ) -> Result<Self, BuildError> {
        let mut plan =
            Self { kernels: Vec::new(), kernel_of: Vec::with_capacity(requests.len()), toolchain: None };
        let mut known: HashMap<Identity<'a>, usize> = HashMap::new();
        let mut by_key: HashMap<Key, usize> = HashMap::new();
        let mut specs = Specs::default();
        for request in requests {
            let job = &request.descriptor.job;
            let digest = job.digest();
            let places = job.ops.iter().map(|op| op.module_path.as_deref()).collect();
            let identity: Identity<'a> = (digest, specs.number(&request.spec), places);
            let at = match known.get(&identity) {
                Some(at) => *at,
                None => {
                    let state = plan.state(builder, request, digest, files)?;
                    // Requests that differ in what does not matter to this backend have one key after all.
                    let same = state.as_ref().ok().and_then(|keyed| by_key.get(&keyed.key)).copied();
                    same.unwrap_or_else(|| plan.add(request, state, &mut by_key))
                }
            };
            known.insert(identity, at);
            plan.kernels[at].asked_by.push(request.name());
            plan.kernel_of.push(at);
        }
        Ok(plan)
    }

    fn add(
        &mut self,
        request: &'a Request,
        state: Result<Keyed, BackendError>,
        by_key: &mut HashMap<Key, usize>,
    ) -> usize {
        let at = self.kernels.len();
        let state = match state {
            Ok(keyed) => {
                by_key.insert(keyed.key, at);
                State::Keyed(Box::new(keyed))
            }
            Err(error) => State::Refused(Arc::new(error.into())),
        };
        self.kernels.push(Planned { job: &request.descriptor.job, asked_by: Vec::new(), state });
        at
    }

    /// The exact targets of the kernels, each once.
    pub(crate) fn targets(&self) -> Vec<String> {
        let mut targets: Vec<String> =
            self.kernels.iter().filter_map(Planned::keyed).map(|keyed| keyed.spec.target.clone()).collect();
        targets.sort_unstable();
        targets.dedup();
        targets
    }

    fn state(
        &mut self,
        builder: &Builder,
        request: &Request,
        digest: Digest,
        files: &dyn FileDigests,
    ) -> Result<Result<Keyed, BackendError>, BuildError> {
        let backend = &builder.backend;
        let job = &request.descriptor.job;
        let spec = match backend.resolve(&request.spec) {
            Ok(spec) => spec,
            Err(error) => return Ok(Err(error)),
        };
        if let Support::No(reason) = backend.supports(job, &spec) {
            return Ok(Err(reason.into()));
        }
        let toolchain = match &self.toolchain {
            Some(toolchain) => Arc::clone(toolchain),
            None => Arc::clone(self.toolchain.insert(Arc::new(backend.toolchain(files)?))),
        };
        let op_sources = match backend.op_sources(job, &spec, files) {
            Ok(op_sources) => op_sources,
            Err(error) => return Ok(Err(error)),
        };
        let parts = KeyParts::of_digest(backend.name(), digest, &spec, toolchain, op_sources);
        let key = parts.key();
        Ok(Ok(Keyed { name: KernelName::new(job, &key), spec, parts, key }))
    }
}

impl Planned<'_> {
    pub(crate) fn keyed(&self) -> Option<&Keyed> {
        match &self.state {
            State::Keyed(keyed) => Some(keyed),
            State::Refused(_) => None,
        }
    }

    /// The types of the operators, joined.
    pub(crate) fn op_type(&self) -> String {
        self.job.ops.iter().map(|op| op.op_type.as_str()).collect::<Vec<_>>().join("+")
    }

    /// The kernel's name, or who asked for it.
    pub(crate) fn name(&self) -> &str {
        match &self.state {
            State::Keyed(keyed) => keyed.name.as_str(),
            State::Refused(_) => self.asked_by.first().copied().unwrap_or("(nameless)"),
        }
    }
}
