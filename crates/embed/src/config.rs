//! The settings of a cache of files.

use std::time::Duration;

use opkeep_cache::{CacheConfig, CacheMode, OnWarning, StoreConfig};

const CLOSE_LIMIT: Duration = Duration::from_secs(10);
const REMOTE_LIMIT: Duration = Duration::from_secs(10);

/// The settings of a cache.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FileCacheConfig {
    /// The store and the mode in which it is used, the remote cache, and the keys.
    pub cache: CacheConfig,
    /// The framework's name: the namespace of its keys.
    pub framework: String,
    /// The longest time for which [`FileCache::close`](crate::FileCache::close) waits for uploads: 10 seconds by default.
    pub close_limit: Duration,
    /// The time that the calls of one request to the remote cache may take together: 10 seconds by default. After that, the caller goes
    /// on without it: an engine whose answers are slow, but not slow enough to fail, costs no more than that.
    pub remote_limit: Duration,
}

impl FileCacheConfig {
    /// Settings for the files of `framework` in `store`, which is read and written.
    pub fn new(store: StoreConfig, framework: impl Into<String>) -> Self {
        Self {
            cache: CacheConfig::new(store),
            framework: framework.into(),
            close_limit: CLOSE_LIMIT,
            remote_limit: REMOTE_LIMIT,
        }
    }

    /// These settings, with another mode.
    #[must_use]
    pub fn with_mode(mut self, mode: CacheMode) -> Self {
        self.cache.mode = mode;
        self
    }

    /// These settings, with a function that is called for each warning.
    #[must_use]
    pub fn with_on_warning(mut self, on_warning: OnWarning) -> Self {
        self.cache.on_warning = Some(on_warning);
        self
    }
}
