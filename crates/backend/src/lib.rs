//! The trait that a kernel compiler implements.
//!
//! A [`Backend`] turns one [`Job`] into one [`Artifact`]. It never sees the store, other jobs, or the network as a
//! whole; it is told where to write, how long it may take, and how to notice that nobody waits any more.
//!
//! Only six methods are required, and four of them are about saying, before anything is compiled, what would make the
//! bytes differ: [`name`](Backend::name), [`toolchain`](Backend::toolchain), [`op_sources`](Backend::op_sources) and
//! [`supports`](Backend::supports). Loading and running is a second trait, [`Loader`]: a host that only compiles is
//! not a half-implemented backend.
//!
//! Compiling takes milliseconds to minutes, so backends are used as `dyn Backend` and are synchronous: the engine
//! brings the threads.
//!
//! This crate does no I/O and names no vendor.

mod error;
mod loader;
mod registry;
mod slot;

pub use error::{BackendError, Unsupported};
pub use loader::{Buffer, Kernel, Loader};
pub use registry::{Entry, Registry};
pub use slot::Slot;

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use opkeep_artifact::{Artifact, ArtifactCheck, Expectations};
use opkeep_descriptor::{BuildSpec, Job, KernelName, ResolvedSpec};
use opkeep_digest::{Digest, Fingerprint};
use opkeep_fs::CancelToken;
use opkeep_ops::Graph;

/// A kernel compiler.
///
/// # Contract
///
/// * Equal jobs, effective specs, toolchain and op-source fingerprints, and kernel names give equal bytes, up to what
///   the toolchain itself leaves to chance. Whatever else could change the bytes belongs in one of those.
/// * Nothing that cannot change the bytes is in a fingerprint: the same toolchain in another folder has the same one.
/// * [`compile`](Self::compile) writes only below its work folder, may be called from many threads at once, and leaves
///   no process behind when it returns, however it returns. If its caller is killed, the compiler it started ends too;
///   what that compiler had started in turn may run to its own end, in the work folder.
/// * [`supports`](Self::supports) is pure and quick.
pub trait Backend: Send + Sync {
    /// A stable lower-case word. It is part of every key and never changes.
    fn name(&self) -> &'static str;

    /// What all kernels of this backend depend on: versions and digests of everything that takes part.
    ///
    /// Called at the start of a build and again after each compile, so it must be cheap when nothing changed: digest
    /// files through `files`, which remembers them.
    ///
    /// # Errors
    /// [`BackendError::Toolchain`], if there is no usable toolchain.
    fn toolchain(&self, files: &dyn FileDigests) -> Result<Fingerprint, BackendError>;

    /// Called by who will ask for the toolchain soon, on the same thread, and has something else to do first: what takes
    /// long can be begun, and must not be waited for. What goes wrong is told to who asks for the toolchain. As provided,
    /// nothing.
    fn look_ahead(&self) {}

    /// What only this job's kernel depends on: the operator's own sources.
    ///
    /// # Errors
    /// Sources that are missing or cannot be read.
    fn op_sources(
        &self,
        job: &Job,
        spec: &ResolvedSpec,
        files: &dyn FileDigests,
    ) -> Result<Fingerprint, BackendError>;

    /// Whether `job` can be compiled for `spec`.
    fn supports(&self, job: &Job, spec: &ResolvedSpec) -> Support;

    /// [`op_sources`](Self::op_sources) of a job, unless [`supports`](Self::supports) says no: as provided, one is asked
    /// after the other. For backends that come by both in one go.
    ///
    /// # Errors
    /// [`BackendError::Unsupported`], if it does; else those of `op_sources`.
    fn admit(
        &self,
        job: &Job,
        spec: &ResolvedSpec,
        files: &dyn FileDigests,
    ) -> Result<Fingerprint, BackendError> {
        match self.supports(job, spec) {
            Support::No(reason) => Err(reason.into()),
            Support::Yes | Support::Maybe => self.op_sources(job, spec, files),
        }
    }

    /// What every kernel for `spec` must look like.
    fn expectations(&self, spec: &ResolvedSpec) -> Expectations;

    /// The checks that [`expectations`](Self::expectations) name and the validator does not have. As provided, none.
    fn checks(&self) -> Vec<Arc<dyn ArtifactCheck>> {
        Vec::new()
    }

    /// Compiles one job.
    ///
    /// # Errors
    /// [`BackendError`]; a failure carries the command, its exit status, the end of its output and where all of it is.
    fn compile(&self, request: &CompileRequest<'_>) -> Result<Artifact, BackendError>;

    /// The options of `spec` as they take effect: what changes nothing is dropped, every default is filled in.
    ///
    /// As provided, every option counts as it was given.
    ///
    /// # Errors
    /// [`BackendError::Option`], for a value out of its range.
    fn resolve(&self, spec: &BuildSpec) -> Result<ResolvedSpec, BackendError> {
        let options = spec.options.keys().filter_map(|name| Some((name.clone(), spec.option(name)?)));
        Ok(ResolvedSpec {
            target: spec.target.clone(),
            options: options.collect(),
            debug: asks_for_debug(spec),
        })
    }

    /// The names of all options that [`resolve`](Self::resolve) understands, also of those that change nothing here: a
    /// caller can refuse what its user misspelt. Options of descriptors are not limited to them. As provided, none.
    fn option_names(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Checks the value of an option that a user gives for all kernels. What descriptors say of an option without a meaning
    /// here is their framework's business. As provided, any value is right.
    ///
    /// # Errors
    /// [`BackendError::Option`].
    fn check_option(&self, _name: &str, _value: &str) -> Result<(), BackendError> {
        Ok(())
    }

    /// Rewrites a network for the target: element types, formats, conversions between them. As provided, nothing.
    ///
    /// # Errors
    /// A network that the target cannot run.
    fn prepare(&self, graph: Graph, _spec: &ResolvedSpec) -> Result<Graph, BackendError> {
        Ok(graph)
    }

    /// What its user should know, and was not told yet: something odd about the toolchain, or what `prepare` did that is
    /// not exact. As provided, nothing.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// How many compiles at once make sense on this machine. As provided, one a processor.
    fn concurrency(&self) -> NonZeroUsize {
        std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
    }

    /// Loads and runs kernels, where this host can.
    fn loader(&self) -> Option<&dyn Loader> {
        None
    }
}

/// Whether `spec` has debug options on: such kernels are compiled afresh each time and never stored.
pub fn asks_for_debug(spec: &BuildSpec) -> bool {
    let level = spec.option("op_debug_level").is_some_and(|level| level != "0");
    level || !spec.words("op_debug_config").is_empty()
}

/// Whether a job can be compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Support {
    /// It can.
    Yes,
    /// It cannot, and why.
    No(Unsupported),
    /// Only the compiler can tell.
    Maybe,
}

/// A job to compile.
#[derive(Clone, Copy, Debug)]
pub struct CompileRequest<'a> {
    /// What is computed.
    pub job: &'a Job,
    /// For what it is built.
    pub spec: &'a ResolvedSpec,
    /// The kernel's name: the stem of its files and the beginning of its symbol.
    pub name: &'a KernelName,
    /// An empty folder of its own, the only place to write.
    pub work_dir: &'a Path,
    /// When the compile must have ended.
    pub deadline: Option<Instant>,
    /// Says when nobody waits any more.
    pub cancel: &'a CancelToken,
}

/// What is lent to a backend that is asked for a fingerprint: digests of files, remembered for as long as the files do
/// not change.
pub trait FileDigests: Send + Sync {
    /// The SHA-256 of the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read.
    fn digest(&self, path: &Path) -> std::io::Result<Digest>;

    /// Says when nobody waits for the answer any more: who has to run a program to give it ends that program then, and
    /// answers [`BackendError::Cancelled`]. As provided, somebody always waits.
    fn cancel(&self) -> CancelToken {
        CancelToken::new()
    }

    /// What was remembered under `question`, by this process or an earlier one of the same user on this machine. Whether it
    /// still holds is for the backend to check. As provided, nothing is.
    fn recall(&self, _question: &Digest) -> Option<Vec<u8>> {
        None
    }

    /// Remembers `answer`, at best effort, in place of what was remembered under `question`. As provided, it is dropped.
    fn remember(&self, _question: &Digest, _answer: &[u8]) {}
}
