//! The resources of a build: the cache, the work directories, and the records of earlier builds.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use opkeep_backend::Context;
use opkeep_cache::{Cache, CacheConfig, CacheEvent, OnEvent};
use opkeep_fs::{CancelToken, NotPrivate};
use opkeep_store::CacheMode;

use crate::event::Event;
use crate::expectations::KernelRules;
use crate::schedule::compile_times::CompileTimes;
use crate::schedule::force_group::ForceGroup;
use crate::schedule::job_tokens::JobTokens;
use crate::setup::Setup;
use crate::warning::WarningKind;
use crate::warning_log::WarningLog;
use crate::work_dir::WorkDirs;
use crate::{BuildError, FileDigestCache};

/// The resources of a build. Each build opens its own; requests of single kernels share one.
pub(crate) struct Runtime {
    pub(crate) warnings: Arc<WarningLog>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) rules: KernelRules,
    /// The work directories. Without them nothing can be compiled, but stored kernels can be used.
    pub(crate) work_dirs: io::Result<WorkDirs>,
    pub(crate) file_digests: FileDigestCache,
    pub(crate) compile_times: CompileTimes,
    pub(crate) tokens: JobTokens,
    /// The overlapping builds with [`CacheMode::Force`]: kernels made since the first of them began are not compiled
    /// again.
    pub(crate) group: ForceGroup,
}

/// The runtime for kernels that are requested one at a time, opened at the first request.
#[derive(Default)]
pub(crate) struct SharedRuntime(Mutex<Option<Arc<Runtime>>>);

impl SharedRuntime {
    /// Returns the runtime. Opens it if necessary.
    pub(crate) fn get_or_open(&self, setup: &Setup) -> Result<Arc<Runtime>, BuildError> {
        let mut opened = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = &*opened {
            return Ok(Arc::clone(runtime));
        }
        let warnings = setup.warning_log();
        let runtime = Runtime::open_with(setup, &warnings).map(|runtime| {
            let runtime = Arc::new(runtime);
            Arc::clone(opened.insert(runtime))
        });
        // Unlocked before the report, since the observer may request a kernel.
        drop(opened);
        warnings.report();
        runtime
    }

    /// Closes the runtime: the next request opens a new one.
    pub(crate) fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Runtime {
    /// Opens a runtime for one build.
    pub(crate) fn open(setup: &Setup) -> Result<Self, BuildError> {
        let warnings = setup.warning_log();
        let opened = Self::open_with(setup, &warnings);
        warnings.report();
        opened
    }

    fn open_with(setup: &Setup, warnings: &Arc<WarningLog>) -> Result<Self, BuildError> {
        setup.config.check_directories()?;
        let began = SystemTime::now();
        warnings.warn_pending();
        let cache = open_cache(setup, warnings)?;
        let work_dirs = WorkDirs::open(&setup.work_dir);
        let open = |work: &WorkDirs| FileDigestCache::open_with(setup.config.fs.clone(), work.file_digests());
        let file_digests = work_dirs.as_ref().map(open).unwrap_or_default();
        let answers = work_dirs.as_ref().ok().and_then(WorkDirs::answers);
        let file_digests = file_digests.with_answers(answers);
        let compile_times = CompileTimes::new(work_dirs.as_ref().ok().map(WorkDirs::compile_times));
        if let Some(warning) = work_dirs.as_ref().ok().and_then(WorkDirs::warning) {
            warnings.warn_once(WarningKind::WorkDir, &warning);
        }
        let subdir_or_warn = |subdir: fn(&WorkDirs) -> Result<PathBuf, NotPrivate>, consequence: &str| {
            let warn = |why| {
                let text = format!("{why}: without it {consequence}");
                warnings.warn_once(WarningKind::WorkDir, &text);
            };
            subdir(work_dirs.as_ref().ok()?).map_err(warn).ok()
        };
        let token_dir =
            subdir_or_warn(WorkDirs::job_tokens, "this build does not count the compilers of other builds");
        let tokens = JobTokens::new(token_dir, setup.machine_jobs());
        let group = match &setup.config.store {
            Some(config) if setup.config.mode == CacheMode::Force => {
                let groups = subdir_or_warn(
                    WorkDirs::groups,
                    "other builds with the mode force compile the same again",
                );
                ForceGroup::join(groups.as_deref(), &config.root, began)
            }
            _ => ForceGroup::alone(began),
        };
        let rules = KernelRules::new(&*setup.backend);
        let (cache, warnings) = (Arc::new(cache), Arc::clone(warnings));
        Ok(Self { warnings, cache, rules, work_dirs, file_digests, compile_times, tokens, group })
    }

    /// Returns the context for a call to the backend.
    pub(crate) fn context<'a>(&'a self, cancel: &'a CancelToken) -> Context<'a> {
        Context::new(&self.file_digests, cancel, &*self.warnings)
    }

    /// Writes the file digests and the compile times. Best effort: without them, the next build determines them again.
    pub(crate) fn save(&self) {
        self.file_digests.save();
        self.compile_times.save();
    }
}

/// Opens the cache, whose warnings go to the build's log.
fn open_cache(setup: &Setup, warnings: &Arc<WarningLog>) -> Result<Cache, BuildError> {
    let log = Arc::clone(warnings);
    let mut config = CacheConfig::default();
    config.store.clone_from(&setup.config.store);
    config.remote.clone_from(&setup.config.remote);
    config.is_for_others = opkeep_kernel_entry::is_for_others;
    config.trust.clone_from(&setup.config.trust);
    config.mode = setup.config.mode;
    config.on_warning = Some(Arc::new(move |kind, text| match kind.into() {
        // Each invalid limit needs a fix of its own.
        WarningKind::Limits => log.warn_each(WarningKind::Limits, &[text.to_owned()]),
        kind => log.warn_once(kind, text),
    }));
    let observer = setup.observer.clone();
    config.on_event = observer.map(|observer| -> OnEvent {
        Arc::new(move |event| {
            let event = match event {
                CacheEvent::Sent { entries: kernels, bytes, .. } => Event::Sent { kernels, bytes },
                CacheEvent::NotSent { entries: kernels, is_refused, reason, .. } => {
                    Event::NotSent { kernels, is_refused, reason }
                }
                CacheEvent::Paused => Event::RemotePaused,
                CacheEvent::Resumed => Event::RemoteResumed,
                _ => return,
            };
            observer(event);
        })
    });
    Ok(Cache::open(config)?)
}
