//! The engine: a backend, its settings, and the state between calls.

use std::sync::Arc;
use std::time::Duration;

use opkeep_backend::{Backend, Context};
use opkeep_fs::CancelToken;
use opkeep_kernel_meta::DEFAULT_LOCK_TIMEOUT;

use crate::config::Config;
use crate::event::Event;
use crate::file_digests::FileDigestCache;
use crate::memory::cache::MemoryCache;
use crate::runtime::SharedRuntime;
use crate::setup::Setup;
use crate::view::contended::ContendedLock;
use crate::view::info_text::InfoTextCache;
use crate::view::placed::PlacementCache;

/// Builds operators with one backend and one store.
///
/// The settings of an engine do not change: [`with_config`](Self::with_config) creates a new engine. Creating an engine
/// is cheap: it opens nothing before the first request for a kernel.
pub struct Engine {
    pub(crate) state: Arc<EngineState>,
    pub(crate) cancel: CancelToken,
}

/// The state that the handles on one engine share.
pub(crate) struct EngineState {
    pub(crate) setup: Setup,
    /// The kernels of [`Engine::get_or_build`].
    pub(crate) memory: MemoryCache,
    pub(crate) shared_runtime: SharedRuntime,
    /// The operators whose kernels [`Engine::get_or_build`] put into the view.
    pub(crate) placements: PlacementCache,
    pub(crate) contended: ContendedLock,
    pub(crate) view_lock_timeout: Duration,
    pub(crate) infos: InfoTextCache,
}

impl Engine {
    /// Creates an engine that compiles with `backend`.
    pub fn new(backend: Arc<dyn Backend>, config: Config) -> Self {
        let setup = Setup::new(backend, config, None);
        Self { state: Arc::new(EngineState::new(setup)), cancel: CancelToken::new() }
    }

    /// Returns the engine with an observer, and with nothing in memory. `observer` is called on the thread on which an
    /// event happens.
    #[must_use]
    pub fn with_observer(self, observer: impl Fn(Event<'_>) + Send + Sync + 'static) -> Self {
        let setup = &self.state.setup;
        let setup = setup.with(setup.config.clone(), Some(Arc::new(observer)));
        Self { state: Arc::new(EngineState::new(setup)), cancel: self.cancel }
    }

    /// Returns a handle on the same engine. When `cancel` is cancelled, calls through this handle compile nothing more:
    /// running compilers are killed, finished kernels are kept, and the rest is
    /// [cancelled](crate::Outcome::Cancelled). Kernels that are stored already may still be returned. The engine itself
    /// and its other handles stay usable.
    #[must_use]
    pub fn with_cancel(&self, cancel: CancelToken) -> Self {
        Self { state: Arc::clone(&self.state), cancel }
    }

    /// Returns a new engine with the same backend, observer and cancel token, and with changed settings. It shares no
    /// other state, except that each warning of the backend is reported once.
    #[must_use]
    pub fn with_config(&self, change: impl FnOnce(&mut Config)) -> Self {
        let setup = &self.state.setup;
        let mut config = setup.config.clone();
        change(&mut config);
        let setup = setup.with(config, setup.observer.clone());
        Self { state: Arc::new(EngineState::new(setup)), cancel: self.cancel.clone() }
    }

    /// Returns the backend.
    pub fn backend(&self) -> &dyn Backend {
        &*self.state.setup.backend
    }

    /// Returns the settings.
    pub fn config(&self) -> &Config {
        &self.state.setup.config
    }

    /// Makes the backend start to identify its toolchain, and returns at once. Call it on the thread that will build:
    /// when this thread ends, the programs that the backend started end, too.
    pub fn warm_up(&self) {
        let (digests, setup) = (FileDigestCache::default(), &self.state.setup);
        setup.backend.warm_up(&Context::new(&digests, &self.cancel, &*setup.backend_warnings));
    }
}

impl EngineState {
    fn new(setup: Setup) -> Self {
        Self {
            memory: MemoryCache::new(setup.config.memory_bytes, setup.config.fs.clock()),
            setup,
            shared_runtime: SharedRuntime::default(),
            placements: PlacementCache::default(),
            contended: ContendedLock::default(),
            view_lock_timeout: DEFAULT_LOCK_TIMEOUT,
            infos: InfoTextCache::default(),
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("backend", &self.state.setup.backend.name())
            .field("config", &self.state.setup.config)
            .finish_non_exhaustive()
    }
}
