//! The trait that a kernel compiler implements.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use opkeep_artifact::{Artifact, ArtifactCheck, Expectations};
use opkeep_descriptor::{BuildSpec, Job, KernelName, ResolvedSpec, debug_enabled};
use opkeep_digest::{Fingerprint, PartChange};
use opkeep_ops::Graph;

use crate::context::Context;
use crate::error::{BackendError, Unsupported};
use crate::loader::Loader;

/// A kernel compiler.
///
/// # Contract
///
/// * Equal jobs, resolved specs, toolchain and op-source fingerprints, and kernel names give equal bytes, up to the
///   nondeterminism of the toolchain itself. Whatever else can change the bytes belongs in one of those.
/// * Nothing that cannot change the bytes is in a fingerprint: the same toolchain in another directory has the same one.
/// * A call that its [`Context`] cancels returns [`BackendError::Cancelled`] soon, and ends the programs that it started.
///   A later call is not affected.
/// * [`compile`](Self::compile) writes only below its work directory, may be called from many threads at once, and leaves
///   no process behind when it returns, however it returns. If the calling process is killed, the compiler that it started
///   ends too; programs that the compiler started in turn may run to their own end, in the work directory.
pub trait Backend: Send + Sync {
    /// A stable lower-case word. It is part of every key and never changes.
    fn name(&self) -> &'static str;

    /// Versions and digests of everything that all kernels of this backend depend on.
    ///
    /// Called at the start of a build and again after each compile, so it must be cheap when nothing changed: digest
    /// files through [`Context::files`], which remembers them.
    ///
    /// # Errors
    /// [`BackendError::Toolchain`], if there is no usable toolchain.
    fn toolchain(&self, cx: &Context<'_>) -> Result<Fingerprint, BackendError>;

    /// The fingerprint of the inputs that only this job's kernel has: the operator's own sources.
    ///
    /// # Errors
    /// [`BackendError::Unsupported`], if the backend does not compile the job; this needs no toolchain. Sources that are
    /// missing or cannot be read.
    fn op_sources(
        &self,
        cx: &Context<'_>,
        job: &Job,
        spec: &ResolvedSpec,
    ) -> Result<Fingerprint, BackendError>;

    /// Returns changes of [`toolchain`](Self::toolchain) as people are to see them: of parts that are numbered, a new one gives the others new
    /// numbers, and they did not change. Keys do not depend on it. The default implementation returns the changes as they are.
    fn align_changes(&self, changes: Vec<PartChange>) -> Vec<PartChange> {
        changes
    }

    /// Whether a change of a part of [`toolchain`](Self::toolchain) or [`op_sources`](Self::op_sources) follows from changes of other
    /// parts, such as what a compiler resolves from its arguments. Explanations of misses name the other changes; if there are none,
    /// these. Keys do not depend on it. The default implementation knows no such part.
    fn is_consequence(&self, _change: &PartChange) -> bool {
        false
    }

    /// Returns a change of a part in words for people, such as `file pre.h: other content`, if its name does not say what it is. Keys do not
    /// depend on it. The default implementation has no words of its own.
    fn describe_change(&self, _change: &PartChange) -> Option<String> {
        None
    }

    /// The expectations of every kernel for `spec`. There is no default implementation: it could only be too lax or too
    /// strict.
    fn expectations(&self, spec: &ResolvedSpec) -> Expectations;

    /// Compiles one job.
    ///
    /// # Errors
    /// [`BackendError`]; a failure carries the command, its exit status, the end of its output and the path of its log.
    fn compile(&self, cx: &Context<'_>, request: &CompileRequest<'_>) -> Result<Artifact, BackendError>;

    /// The options of `spec` as they take effect: options without effect are dropped, every default is filled in.
    ///
    /// The default implementation keeps every option as given.
    ///
    /// # Errors
    /// [`BackendError::Option`], for a value out of its range.
    fn resolve(&self, _cx: &Context<'_>, spec: &BuildSpec) -> Result<ResolvedSpec, BackendError> {
        let options = spec.options.keys().filter_map(|name| Some((name.clone(), spec.option(name)?)));
        Ok(ResolvedSpec {
            target: spec.target.clone(),
            options: options.collect(),
            debug: debug_enabled(spec),
        })
    }

    /// Whether the backend compiles `job`, for listings only: [`op_sources`](Self::op_sources) decides for a build. The
    /// answer is pure and quick. The default implementation does not know.
    fn supports(&self, _job: &Job, _spec: &ResolvedSpec) -> Support {
        Support::Unknown
    }

    /// The checks that [`expectations`](Self::expectations) name and the validator does not have. The default
    /// implementation has none.
    fn checks(&self) -> Vec<Arc<dyn ArtifactCheck>> {
        Vec::new()
    }

    /// Starts slow work that [`toolchain`](Self::toolchain) will need, without waiting for it. The caller builds on the
    /// same thread, because children end with the thread that started them. A failure is reported by `toolchain`. The
    /// default implementation does nothing.
    fn warm_up(&self, _cx: &Context<'_>) {}

    /// Rewrites a network for the target: element types, formats, conversions between them. The default implementation
    /// changes nothing.
    ///
    /// # Errors
    /// A network that the target cannot run.
    fn rewrite_graph(
        &self,
        _cx: &Context<'_>,
        graph: Graph,
        _spec: &ResolvedSpec,
    ) -> Result<Graph, BackendError> {
        Ok(graph)
    }

    /// The names of all options that [`resolve`](Self::resolve) understands, also of those without effect, so that a
    /// caller can refuse a misspelt one. Options of descriptors are not limited to them. The default implementation has
    /// none.
    fn option_names(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// The names among [`option_names`](Self::option_names) that change no kernel of this backend: descriptors of frameworks
    /// have them for other targets. The default implementation has none.
    fn ignored_options(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Checks the value of an option that a user gives for all kernels. Options of descriptors are not checked: they may
    /// be meant for another program. The default implementation accepts any value.
    ///
    /// # Errors
    /// [`BackendError::Option`].
    fn check_option(&self, _name: &str, _value: &str) -> Result<(), BackendError> {
        Ok(())
    }

    /// How many compiles at once make sense on this machine. The default implementation returns the number of processors.
    fn concurrency(&self) -> NonZeroUsize {
        std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
    }

    /// The loader for kernels of this backend, if this host can run them.
    fn loader(&self) -> Option<&dyn Loader> {
        None
    }
}

/// Whether a backend compiles a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Support {
    /// It does.
    Yes,
    /// It does not, and why.
    No(Unsupported),
    /// Only the compiler knows.
    Unknown,
}

/// A job to compile.
#[derive(Clone, Copy, Debug)]
pub struct CompileRequest<'a> {
    /// The job.
    pub job: &'a Job,
    /// The spec that it is built for.
    pub spec: &'a ResolvedSpec,
    /// The kernel's name: the stem of its files and the beginning of its symbol.
    pub name: &'a KernelName,
    /// An empty directory of its own, the only place to write.
    pub work_dir: &'a Path,
}
