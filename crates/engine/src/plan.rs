//! From requests to kernels: effective specs, keys, equal jobs merged.

use std::collections::HashMap;

use opbuild_backend::{BackendError, FileDigests, Support};
use opbuild_descriptor::{EffectiveSpec, Job, KernelName, Key, KeyParts};
use opbuild_digest::{Digest, Fingerprint};

use crate::builder::Builder;
use crate::{BuildError, Request};

/// What is to be built.
pub(crate) struct Plan {
    pub(crate) kernels: Vec<Planned>,
    /// The kernel of each request.
    pub(crate) kernel_of: Vec<usize>,
    /// What all kernels share; none if no kernel has a key.
    pub(crate) toolchain: Option<Fingerprint>,
}

/// A kernel to be built.
pub(crate) struct Planned {
    pub(crate) job: Job,
    pub(crate) asked_by: Vec<String>,
    pub(crate) state: State,
}

/// Whether a kernel can be built.
pub(crate) enum State {
    /// It has a key.
    Keyed(Box<Keyed>),
    /// The backend does not take it.
    Refused(std::sync::Mutex<Option<BackendError>>),
}

/// What follows from a job once the backend takes it.
pub(crate) struct Keyed {
    pub(crate) spec: EffectiveSpec,
    pub(crate) parts: KeyParts,
    pub(crate) key: Key,
    pub(crate) name: KernelName,
}

/// What makes two requests one kernel.
#[derive(PartialEq, Eq, Hash)]
enum Identity {
    Key(Key),
    Refused(Digest, String),
}

impl Plan {
    /// Plans `requests`.
    ///
    /// # Errors
    /// The backend has no toolchain, so nothing has a key.
    pub(crate) fn new(
        builder: &Builder,
        requests: &[Request],
        files: &dyn FileDigests,
    ) -> Result<Self, BuildError> {
        let mut plan =
            Self { kernels: Vec::new(), kernel_of: Vec::with_capacity(requests.len()), toolchain: None };
        let mut known: HashMap<Identity, usize> = HashMap::new();
        for request in requests {
            let state = plan.state(builder, request, files)?;
            let identity = match &state {
                Ok(keyed) => Identity::Key(keyed.key),
                Err(_) => Identity::Refused(request.descriptor.job.digest(), format!("{:?}", request.spec)),
            };
            let at = *known.entry(identity).or_insert_with(|| {
                plan.kernels.push(Planned {
                    job: request.descriptor.job.clone(),
                    asked_by: Vec::new(),
                    state: match state {
                        Ok(keyed) => State::Keyed(Box::new(keyed)),
                        Err(error) => State::Refused(std::sync::Mutex::new(Some(error))),
                    },
                });
                plan.kernels.len() - 1
            });
            plan.kernels[at].asked_by.push(request.name().to_owned());
            plan.kernel_of.push(at);
        }
        Ok(plan)
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
            Some(toolchain) => toolchain.clone(),
            None => self.toolchain.insert(backend.toolchain(files)?).clone(),
        };
        let op_sources = match backend.op_sources(job, &spec, files) {
            Ok(op_sources) => op_sources,
            Err(error) => return Ok(Err(error)),
        };
        let parts = KeyParts::new(backend.name(), job, &spec, toolchain, op_sources);
        let key = parts.key();
        Ok(Ok(Keyed { name: KernelName::new(job, &key), spec, parts, key }))
    }
}

impl Planned {
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
            State::Refused(_) => self.asked_by.first().map_or("(nameless)", String::as_str),
        }
    }
}
