//! The builder: what a framework sets up once and calls.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use opbuild_backend::{Backend, Cancel};
use opbuild_descriptor::{BuildSpec, Descriptor};
use opbuild_store::{Access, Config, Mode, Store};

use crate::event::{Event, Observer};
use crate::make::Maker;
use crate::plan::Plan;
use crate::report::{BuildReport, KernelReport};
use crate::warnings::{Cause, Warnings};
use crate::work::WorkRoot;
use crate::{BuildError, DigestMemo, Outcome, parallel, view};

/// An operator to be built.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// What was read.
    pub descriptor: Descriptor,
    /// For what it is built, if not for what the descriptor says.
    pub spec: BuildSpec,
}

impl Request {
    /// Builds `descriptor` for what it says itself.
    pub fn new(descriptor: Descriptor) -> Self {
        Self { spec: descriptor.spec.clone(), descriptor }
    }

    /// Builds it for `spec` instead.
    #[must_use]
    pub fn with_spec(mut self, spec: BuildSpec) -> Self {
        self.spec = spec;
        self
    }

    /// What to call it: the node's name, else the framework's kernel name, else its type.
    pub fn name(&self) -> &str {
        let Descriptor { job, envelope, .. } = &self.descriptor;
        let op_type = job.ops.first().map_or("(empty)", |op| op.op_type.as_str());
        let names = [envelope.full_name.as_str(), envelope.fusion_op_name.as_str(), op_type];
        names.into_iter().find(|name| !name.is_empty()).unwrap_or("(nameless)")
    }
}

/// Where kernels are put for a framework: `<base>/rank_<rank>/kernel_meta`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewConfig {
    /// The folder that holds the ranks' folders.
    pub base: PathBuf,
    /// The rank's id.
    pub rank: String,
}

/// Builds operators with one backend and one store.
pub struct Builder {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) store: Option<Config>,
    pub(crate) mode: Mode,
    jobs: Option<NonZeroUsize>,
    pub(crate) deadline: Option<Duration>,
    observer: Option<Arc<Observer>>,
    pub(crate) cancel: Cancel,
    view: Option<ViewConfig>,
    pub(crate) work_base: PathBuf,
}

impl Builder {
    /// A builder without a store: it compiles everything.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            backend,
            store: None,
            mode: Mode::Enable,
            jobs: None,
            deadline: Some(Duration::from_secs(600)),
            observer: None,
            cancel: Cancel::new(),
            view: None,
            work_base: std::env::temp_dir(),
        }
    }

    /// Uses the store at `config.root`. Whether it is written is decided by the mode.
    #[must_use]
    pub fn store(mut self, config: Config) -> Self {
        self.store = Some(config);
        self
    }

    /// Sets the cache mode; [`Mode::Enable`] otherwise.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets how many compilers run at once; otherwise the backend says.
    #[must_use]
    pub fn jobs(mut self, jobs: NonZeroUsize) -> Self {
        self.jobs = Some(jobs);
        self
    }

    /// Sets how long one compile may take; ten minutes otherwise. `None` is for ever.
    #[must_use]
    pub fn deadline(mut self, deadline: Option<Duration>) -> Self {
        self.deadline = deadline;
        self
    }

    /// Has `observer` told what happens, from whichever thread it happens on.
    #[must_use]
    pub fn observer(mut self, observer: impl Fn(Event<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Lets `cancel` end the build: running compilers are killed, finished kernels are kept.
    #[must_use]
    pub fn cancel(mut self, cancel: Cancel) -> Self {
        self.cancel = cancel;
        self
    }

    /// Puts the kernels where a framework looks for them.
    #[must_use]
    pub fn view(mut self, view: ViewConfig) -> Self {
        self.view = Some(view);
        self
    }

    /// Sets where compilers work; the system's temporary folder otherwise.
    #[must_use]
    pub fn work_base(mut self, base: impl Into<PathBuf>) -> Self {
        self.work_base = base.into();
        self
    }

    /// Builds `requests`. Equal ones are one kernel.
    ///
    /// # Errors
    /// Nothing could be built at all. A kernel that fails is in the report.
    pub fn build(&self, requests: &[Request]) -> Result<BuildReport, BuildError> {
        let (began, clock) = (Instant::now(), SystemTime::now());
        let warnings = Warnings::new(self.observer.clone());
        let store = self.open_store(&warnings)?;
        for notice in store.iter().flat_map(Store::limit_notices) {
            warnings.tell(Cause::Limits, &notice.to_string());
        }
        // Without a work folder nothing can be compiled, but what is in the store can be taken.
        let work = WorkRoot::open(&self.work_base);
        let memo = work.as_ref().map(|work| DigestMemo::open(work.memo())).unwrap_or_default();

        let plan = Plan::new(self, requests, &memo)?;
        self.tell(Event::Planned { operators: requests.len(), kernels: plan.kernels.len() });
        let threads = self.jobs.unwrap_or_else(|| self.backend.concurrency());
        let maker = Maker::new(self, store.as_ref(), &plan, &work, &memo, &warnings, clock)?;
        let kernels = self.make_all(&maker, &plan, threads);
        maker.finish(&kernels);
        memo.save();

        let mut report = BuildReport {
            backend: self.backend.name(),
            targets: plan.targets(),
            operators: requests.len(),
            kernel_of: plan.kernel_of,
            kernels,
            warnings: Vec::new(),
            view: None,
            elapsed: Duration::ZERO,
        };
        report.view = self.view.as_ref().map(|config| view::materialise(config, requests, &report));
        report.warnings = warnings.take();
        report.elapsed = began.elapsed();
        Ok(report)
    }

    /// Looks up every kernel, then makes those that are missing.
    fn make_all(&self, maker: &Maker<'_>, plan: &Plan<'_>, threads: NonZeroUsize) -> Vec<KernelReport> {
        let readers = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        // A few look-ups are done sooner than a thread is started.
        let readers = if plan.kernels.len() < 64 { NonZeroUsize::MIN } else { readers };
        let looked_up = parallel::map(plan.kernels.len(), readers, |at| maker.look_up(&plan.kernels[at]));
        let mut reports: Vec<Option<KernelReport>> = Vec::new();
        let mut missing = Vec::new();
        for (at, looked_up) in looked_up.into_iter().enumerate() {
            match looked_up {
                Ok(report) => reports.push(Some(report)),
                Err(miss) => {
                    missing.push((at, miss));
                    reports.push(None);
                }
            }
        }
        let made = parallel::map(missing.len(), threads, |index| {
            let (at, miss) = &missing[index];
            maker.make(&plan.kernels[*at], miss)
        });
        for ((at, _), report) in missing.into_iter().zip(made) {
            reports[at] = Some(report);
        }
        reports.into_iter().flatten().collect()
    }

    /// The store, as the mode wants it. One that cannot be used is a warning, unless the mode insists on it.
    fn open_store(&self, warnings: &Warnings) -> Result<Option<Store>, BuildError> {
        let mode = self.mode;
        if mode == Mode::Disable {
            return Ok(None);
        }
        let Some(config) = &self.store else {
            return if mode.insists() { Err(BuildError::NoStore { mode }) } else { Ok(None) };
        };
        let open = |access| Store::open(Config { access, ..config.clone() });
        if !mode.keeps() {
            let opened = open(Access::ReadOnly).map(Some);
            return match opened {
                Err(source) if mode.insists() => Err(BuildError::Store { mode, source }),
                other => Ok(other.unwrap_or_default()),
            };
        }
        let error = match open(Access::ReadWrite) {
            Ok(store) => return Ok(Some(store)),
            Err(error) => error,
        };
        // What cannot be written may still be read: a hit is never lost for that.
        match open(Access::ReadOnly) {
            Ok(store) if mode.takes() => {
                warnings.tell(Cause::Keeping, &format!("kernels are built and not kept: {error}"));
                Ok(Some(store))
            }
            _ => {
                warnings.tell(Cause::Store, &format!("building without the store: {error}"));
                Ok(None)
            }
        }
    }

    pub(crate) fn tell(&self, event: Event<'_>) {
        if let Some(observer) = &self.observer {
            observer(event);
        }
    }

    pub(crate) fn finished(&self, kernel: &str, outcome: Outcome, began: Instant) {
        self.tell(Event::Finished { kernel, outcome, elapsed: began.elapsed() });
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("backend", &self.backend.name())
            .field("store", &self.store)
            .field("mode", &self.mode)
            .field("view", &self.view)
            .finish_non_exhaustive()
    }
}
