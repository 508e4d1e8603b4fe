//! The state of a cache in one process. A forked child opens its own, since threads, locks and counters are its parent's.

use std::sync::Arc;
use std::time::SystemTime;

use opkeep_cache::{Cache, CacheConfig, CacheError};
use opkeep_fs::{ForkSafeCell, ProcessId};

use crate::config::FileCacheConfig;
use crate::error::EmbedError;
use crate::renewal::Renewal;

/// An open cache: its state in the process that opened it, and what forked children need to open it again.
#[derive(Clone)]
pub(crate) struct Opened {
    state: Arc<Process>,
    pub(crate) config: Arc<FileCacheConfig>,
    /// The time at which it was opened, in the first process.
    pub(crate) opened: SystemTime,
}

impl Opened {
    pub(crate) fn open(config: FileCacheConfig) -> Result<Self, EmbedError> {
        let opened = SystemTime::now();
        Ok(Self { state: Process::open(config.cache.clone())?, config: Arc::new(config), opened })
    }

    /// The state in the calling process, if that has used the cache.
    pub(crate) fn used_here(&self) -> Option<&Arc<Process>> {
        let mut state = &self.state;
        while !state.id.is_current() {
            state = state.in_child.get()?;
        }
        Some(state)
    }

    /// The state in the calling process.
    pub(crate) fn current(&self) -> Result<Arc<Process>, EmbedError> {
        self.state.current(&self.config.cache).map_err(|source| EmbedError::Reopen { source })
    }
}

/// The state of a cache in one process.
pub(crate) struct Process {
    pub(crate) cache: Cache,
    pub(crate) renewal: Arc<Renewal>,
    id: ProcessId,
    /// The state in a child that this process forked.
    in_child: ForkSafeCell<Arc<Process>>,
}

impl Process {
    fn open(config: CacheConfig) -> Result<Arc<Self>, CacheError> {
        Ok(Arc::new(Self {
            cache: Cache::open(config)?,
            renewal: Renewal::new(),
            id: ProcessId::current(),
            in_child: ForkSafeCell::new(),
        }))
    }

    /// The state in the calling process, opened as `config` states if the process was forked since.
    fn current(self: &Arc<Self>, config: &CacheConfig) -> Result<Arc<Self>, CacheError> {
        let mut state = self;
        while !state.id.is_current() {
            state = match state.in_child.get() {
                Some(opened) => opened,
                None => {
                    let opened = Self::open(config.clone())?;
                    // Another thread may be faster. A state that is not needed is closed when forks are allowed again.
                    let _unneeded = state.in_child.set(opened);
                    continue;
                }
            }
        }
        Ok(Arc::clone(state))
    }
}
