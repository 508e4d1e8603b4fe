//! The parts of an engine that do not change between calls.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use opkeep_backend::Backend;

use crate::config::Config;
use crate::event::{Event, Observer};
use crate::plan::job_digests::JobDigestCache;
use crate::warning_log::{BackendWarnings, WarningLog};

/// The number of look-ups that justify a thread: with a view, whose descriptors are compared, they take a millisecond.
const LOOKUPS_PER_THREAD: usize = 24;

/// A backend, the settings and an observer, and values derived from them.
pub(crate) struct Setup {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) config: Config,
    pub(crate) observer: Option<Arc<Observer>>,
    pub(crate) backend_warnings: Arc<BackendWarnings>,
    /// [`Config::work_dir`], or its default.
    pub(crate) work_dir: PathBuf,
    pub(crate) digests: JobDigestCache,
    concurrency: OnceLock<NonZeroUsize>,
    processors: OnceLock<NonZeroUsize>,
}

impl Setup {
    pub(crate) fn new(backend: Arc<dyn Backend>, config: Config, observer: Option<Arc<Observer>>) -> Self {
        Self {
            backend,
            work_dir: config.work_dir.clone().unwrap_or_else(temporary),
            config,
            observer,
            backend_warnings: Arc::default(),
            digests: JobDigestCache::default(),
            concurrency: OnceLock::new(),
            processors: OnceLock::new(),
        }
    }

    /// Returns a setup with the same backend and other settings or another observer. Each warning of the backend is
    /// still reported once.
    pub(crate) fn with(&self, config: Config, observer: Option<Arc<Observer>>) -> Self {
        let backend_warnings = Arc::clone(&self.backend_warnings);
        Self { backend_warnings, ..Self::new(Arc::clone(&self.backend), config, observer) }
    }

    /// Returns the number of threads that build.
    pub(crate) fn threads(&self) -> NonZeroUsize {
        self.config.jobs.unwrap_or_else(|| self.concurrency())
    }

    /// Returns the number of compilers that may run on this machine; by default at least the number of this process.
    pub(crate) fn machine_jobs(&self) -> NonZeroUsize {
        self.config.machine_jobs.unwrap_or_else(|| self.concurrency().max(self.threads()))
    }

    /// Returns [`Backend::concurrency`], which is called only once, since it asks the system and takes as long as a few
    /// hits.
    fn concurrency(&self) -> NonZeroUsize {
        *self.concurrency.get_or_init(|| self.backend.concurrency())
    }

    /// Returns the number of threads that compute the keys of `kernels` kernels, or look the kernels up. A few kernels
    /// take less time than the start of a thread, and on a busy machine a thread with little work only delays the
    /// build.
    pub(crate) fn lookup_threads(&self, kernels: usize) -> NonZeroUsize {
        match NonZeroUsize::new(kernels / LOOKUPS_PER_THREAD) {
            Some(wanted) if wanted > NonZeroUsize::MIN => wanted.min(self.processors()),
            _ => NonZeroUsize::MIN,
        }
    }

    /// Returns the number of processors of this process.
    pub(crate) fn processors(&self) -> NonZeroUsize {
        let ask = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        *self.processors.get_or_init(ask)
    }

    /// Returns a new log for a runtime that is about to be opened.
    pub(crate) fn warning_log(&self) -> Arc<WarningLog> {
        Arc::new(WarningLog::new(self.observer.clone(), Arc::clone(&self.backend_warnings)))
    }

    pub(crate) fn notify(&self, event: Event<'_>) {
        opkeep_trace::debug!("step of a build", event = event);
        if let Some(observer) = &self.observer {
            observer(event);
        }
    }
}

/// Returns the system's directory for temporary files. Compilers run in other directories than this process, so a
/// relative path is resolved; an empty path is replaced by `/tmp`.
fn temporary() -> PathBuf {
    std::path::absolute(std::env::temp_dir()).unwrap_or_else(|_| PathBuf::from("/tmp"))
}
