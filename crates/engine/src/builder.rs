//! The builder: what a framework sets up once and calls.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opkeep_backend::{Backend, Context};
use opkeep_descriptor::{BuildSpec, Descriptor};
use opkeep_framework_cache::FrameworkFiles;
use opkeep_fs::CancelToken;
use opkeep_kernel_meta::{DEFAULT_PATIENCE, View, ViewError};
use opkeep_store::{CacheMode, StoreConfig, resolve_path};

use crate::digests::JobDigestCache;
use crate::event::{Event, Observer};
use crate::in_view::PlacementCache;
use crate::infos::InfoTextCache;
use crate::memory::MemoryCache;
use crate::one::Opened;
use crate::plan::BuildPlan;
use crate::stuck::ContendedLock;
use crate::view_group::ViewGroup;
use crate::warnings::BackendWarnings;
use crate::{BuildError, FileDigestCache};

/// So many kernels are worth a thread: with a view, whose descriptors are compared, they take a millisecond.
const EACH_READS: usize = 24;

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

/// Where kernels are put for a framework, and what may be done there.
#[derive(Clone, Debug)]
pub(crate) struct ViewSetting {
    pub(crate) place: ViewPlace,
    pub(crate) policy: ViewPolicy,
    pub(crate) group: Option<ViewGroup>,
}

/// Which directory.
#[derive(Clone, Debug)]
pub(crate) enum ViewPlace {
    /// That of a rank.
    Rank(ViewConfig),
    /// This one.
    Dir(PathBuf),
}

/// What a build may do in the directory where a framework looks for its kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewPolicy {
    /// Kernels that we did not write may be replaced, too, and releases by kernels for debugging. What is not ours goes to
    /// quarantine first.
    pub replace: bool,
    /// The user did not choose the target that descriptors are built for. Then a directory that holds a kernel that is not
    /// ours is left as it is, but for kernels that are for the chip that their descriptor names.
    pub guessed_target: bool,
}

/// Builds operators with one backend and one store.
pub struct Builder {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) store: Option<StoreConfig>,
    pub(crate) mode: CacheMode,
    jobs: Option<NonZeroUsize>,
    machine_jobs: Option<NonZeroUsize>,
    pub(crate) niceness: u8,
    pub(crate) fail_fast: bool,
    pub(crate) keep_artifacts: bool,
    pub(crate) trust_imported: bool,
    pub(crate) deadline: Option<Duration>,
    pub(crate) observer: Option<Arc<Observer>>,
    pub(crate) backend_warnings: Arc<BackendWarnings>,
    pub(crate) cancel: CancelToken,
    pub(crate) view: Option<ViewPlace>,
    pub(crate) view_policy: ViewPolicy,
    view_group: Option<ViewGroup>,
    pub(crate) work_dir: PathBuf,
    /// Kernels that were asked for one at a time.
    pub(crate) memory: MemoryCache,
    pub(crate) opened: Opened,
    /// Which operators' kernels are in the view by that.
    pub(crate) in_view: PlacementCache,
    /// Who keeps it locked, and how long that is waited for.
    pub(crate) stuck: ContendedLock,
    pub(crate) view_patience: Duration,
    /// What is put where a framework looks for it.
    pub(crate) digests: JobDigestCache,
    pub(crate) infos: InfoTextCache,
    concurrency: OnceLock<NonZeroUsize>,
    processors: OnceLock<NonZeroUsize>,
}

impl Builder {
    /// A builder without a store: it compiles everything.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            backend,
            store: None,
            mode: CacheMode::Enable,
            jobs: None,
            machine_jobs: None,
            niceness: 0,
            fail_fast: false,
            keep_artifacts: true,
            trust_imported: false,
            deadline: Some(Duration::from_secs(600)),
            observer: None,
            backend_warnings: Arc::default(),
            cancel: CancelToken::new(),
            view: None,
            view_policy: ViewPolicy::default(),
            view_group: None,
            work_dir: temporary(),
            memory: MemoryCache::default(),
            opened: Opened::default(),
            in_view: PlacementCache::default(),
            digests: JobDigestCache::default(),
            stuck: ContendedLock::default(),
            view_patience: DEFAULT_PATIENCE,
            infos: InfoTextCache::default(),
            concurrency: OnceLock::new(),
            processors: OnceLock::new(),
        }
    }

    /// Uses the store at `config.root`. Whether it is written is decided by the mode.
    #[must_use]
    pub fn store(mut self, config: StoreConfig) -> Self {
        self.store = Some(config);
        self.anew()
    }

    /// Sets how many bytes of kernels [`get_or_build`](Self::get_or_build) remembers; 256 MiB otherwise. Those that were
    /// used last stay.
    #[must_use]
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = MemoryCache::new(bytes);
        self
    }

    /// Sets the cache mode; [`CacheMode::Enable`] otherwise.
    #[must_use]
    pub fn mode(mut self, mode: CacheMode) -> Self {
        self.mode = mode;
        self.anew()
    }

    /// Sets how many compilers this process runs at once; otherwise the backend says.
    #[must_use]
    pub fn jobs(mut self, jobs: NonZeroUsize) -> Self {
        self.jobs = Some(jobs);
        self.anew()
    }

    /// Sets how many compilers all builds of this user run at once on this machine, if they have one
    /// [`work_dir`](Self::work_dir); otherwise as many as the backend says, or as [`jobs`](Self::jobs) if that is more.
    #[must_use]
    pub fn machine_jobs(mut self, jobs: NonZeroUsize) -> Self {
        self.machine_jobs = Some(jobs);
        self.anew()
    }

    /// Lets the compilers of [`build`](Self::build) ask for less of the processor than others, as `nice` does: 0, as it is
    /// without, to 19. It then compiles on threads of its own only. [`get_or_build`](Self::get_or_build) compiles on the
    /// caller's thread, whose niceness is the caller's affair.
    #[must_use]
    pub fn niceness(mut self, niceness: u8) -> Self {
        self.niceness = niceness.min(19);
        self
    }

    /// Ends a build with the first kernel that fails: what is being compiled is finished and kept, and nothing more is
    /// begun. Otherwise everything else is built.
    #[must_use]
    pub fn fail_fast(mut self, fail_fast: bool) -> Self {
        self.fail_fast = fail_fast;
        self
    }

    /// Sets whether [`BuildReport`](crate::BuildReport) holds the kernels themselves; it does otherwise. Without, a build
    /// of any number of kernels needs no more memory than a few of them: take them from the observer as they come, or
    /// from the view.
    #[must_use]
    pub fn keep_artifacts(mut self, keep: bool) -> Self {
        self.keep_artifacts = keep;
        self
    }

    /// Sets whether imported kernels are reused; they are not otherwise. What they were
    /// compiled by and from is not known, only what their descriptors say: job, target, options. A kernel of ours comes
    /// before an imported one, and the modes hold as ever.
    #[must_use]
    pub fn trust_imported(mut self, trust: bool) -> Self {
        self.trust_imported = trust;
        self.anew()
    }

    /// Sets how long one compile may take; ten minutes otherwise. `None` is for ever.
    #[must_use]
    pub fn deadline(mut self, deadline: Option<Duration>) -> Self {
        self.deadline = deadline;
        self.anew()
    }

    /// Has `observer` told what happens, from whichever thread it happens on.
    #[must_use]
    pub fn observer(mut self, observer: impl Fn(Event<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Lets `cancel` end the build: running compilers are killed, also those that are only asked what they are, and
    /// finished kernels are kept.
    #[must_use]
    pub fn cancel(mut self, cancel: CancelToken) -> Self {
        self.cancel = cancel;
        // What is open obeys the one before.
        self.opened = Opened::default();
        self
    }

    /// Puts the kernels where a framework looks for them.
    #[must_use]
    pub fn view(mut self, view: ViewConfig) -> Self {
        self.view = Some(ViewPlace::Rank(view));
        self.anew()
    }

    /// Puts the kernels into the directory `dir`, whatever it is called, in place of one of a rank.
    #[must_use]
    pub fn view_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.view = Some(ViewPlace::Dir(dir.into()));
        self.anew()
    }

    /// Sets what may be done where kernels are put for a framework. As it is without, kernels that are not ours are left.
    #[must_use]
    pub fn view_policy(mut self, policy: ViewPolicy) -> Self {
        self.view_policy = policy;
        self.anew()
    }

    /// Sets with which builds of other backends this one shares the directory where kernels are put. If unset, each build
    /// is alone.
    #[must_use]
    pub fn view_group(mut self, group: ViewGroup) -> Self {
        self.view_group = Some(group);
        self.anew()
    }

    /// Where kernels are put for a framework, if that is wanted.
    pub(crate) fn view_setting(&self) -> Option<ViewSetting> {
        let place = self.view.clone()?;
        Some(ViewSetting { place, policy: self.view_policy, group: self.view_group.clone() })
    }

    /// Sets where compilers work; the system's temporary folder otherwise.
    #[must_use]
    pub fn work_dir(mut self, base: impl Into<PathBuf>) -> Self {
        self.work_dir = base.into();
        self.anew()
    }

    /// Lets the backend start what its toolchain's fingerprint takes, without waiting for it. Call this on the thread that
    /// builds.
    pub fn warm_up(&self) {
        let memo = FileDigestCache::default();
        self.backend.warm_up(&Context::new(&memo, &self.cancel, &*self.backend_warnings));
    }

    /// Nothing that was opened or remembered under other settings is used.
    fn anew(mut self) -> Self {
        self.opened = Opened::default();
        self.in_view = PlacementCache::default();
        self.memory.clear();
        self
    }

    /// How many threads build.
    pub(crate) fn threads(&self) -> NonZeroUsize {
        self.jobs.unwrap_or_else(|| self.concurrency())
    }

    /// How many compilers may run on this machine. Who asks for more in one process means it.
    pub(crate) fn compilers(&self) -> NonZeroUsize {
        self.machine_jobs.unwrap_or_else(|| self.concurrency().max(self.threads()))
    }

    /// What the backend says, asked once: it asks the system, which takes as long as a few hits.
    fn concurrency(&self) -> NonZeroUsize {
        *self.concurrency.get_or_init(|| self.backend.concurrency())
    }

    /// How many threads make the keys of so many kernels, or look them up. A few are done sooner than a thread is
    /// started, and on a busy machine a thread that has little to do is waited for in vain.
    pub(crate) fn lookup_threads(&self, kernels: usize) -> NonZeroUsize {
        match NonZeroUsize::new(kernels / EACH_READS) {
            Some(wanted) if wanted > NonZeroUsize::MIN => wanted.min(self.processors()),
            _ => NonZeroUsize::MIN,
        }
    }

    fn processors(&self) -> NonZeroUsize {
        let ask = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        *self.processors.get_or_init(ask)
    }

    /// The targets whose part of the store is needed.
    pub(crate) fn stored_targets(&self, plan: &BuildPlan<'_>) -> Vec<String> {
        if self.trust_imported { plan.stored_targets() } else { plan.targets() }
    }

    pub(crate) fn tell(&self, event: Event<'_>) {
        if let Some(observer) = &self.observer {
            observer(event);
        }
    }
}

impl ViewPlace {
    /// The directory.
    pub(crate) fn open(&self) -> Result<View, ViewError> {
        let view = match self {
            Self::Rank(config) => View::of(&config.base, &config.rank),
            Self::Dir(dir) => View::at(dir),
        };
        Ok(view?.with_foreign_files(Arc::new(FrameworkFiles)))
    }
}

impl Builder {
    /// Refuses a directory for kernels that is the store's, or in it, or holds it. A rank's may be beside `v1`, where
    /// both are in a project.
    pub(crate) fn check_places(&self) -> Result<(), BuildError> {
        let (Some(place), Some(config)) = (&self.view, &self.store) else { return Ok(()) };
        // What cannot be a directory is reported when kernels are put there.
        let Some(view) = place.open().ok().and_then(|view| resolve_path(view.dir())) else { return Ok(()) };
        let Some(store) = resolve_path(&config.root) else { return Ok(()) };
        let own = match place {
            ViewPlace::Rank(_) if view != store => store.join("v1"),
            _ => store.clone(),
        };
        match view.starts_with(own) || store.starts_with(&view) {
            true => Err(BuildError::ViewInStore { view, store }),
            false => Ok(()),
        }
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

/// The system's directory for temporary files. Programs run in other directories than ours, so a relative one is resolve_path;
/// one that is empty is none.
fn temporary() -> PathBuf {
    std::path::absolute(std::env::temp_dir()).unwrap_or_else(|_| PathBuf::from("/tmp"))
}
