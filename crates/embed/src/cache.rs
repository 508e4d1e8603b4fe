//! A cache of files for one framework.

use std::fmt;

use opkeep_store::is_target_name;

use crate::config::FileCacheConfig;
use crate::error::EmbedError;
use crate::process::Opened;
use crate::target::TargetFiles;

/// The files of one framework in a store. Clones share their state. Any thread may use it, and so may forked children.
#[derive(Clone)]
pub struct FileCache(Opened);

impl FileCache {
    /// Opens the cache. A store that cannot be used is a warning, and every caller makes its files.
    ///
    /// # Errors
    /// The framework's name is not valid, or the mode requires a store that cannot be used.
    pub fn open(config: FileCacheConfig) -> Result<Self, EmbedError> {
        // A framework's name follows the rules of a target's.
        if !is_target_name(&config.framework) {
            return Err(EmbedError::FrameworkName { name: config.framework });
        }
        Ok(Self(Opened::open(config)?))
    }

    /// Returns the files for the target `name`, such as `cuda-sm_90`.
    ///
    /// # Errors
    /// The name is not valid, or the mode requires the store, and its part for this target cannot be used.
    pub fn target(&self, name: &str) -> Result<TargetFiles, EmbedError> {
        self.0.current()?.cache.target(name)?;
        Ok(TargetFiles::new(self.0.clone(), name))
    }

    /// The settings.
    pub fn config(&self) -> &FileCacheConfig {
        &self.0.config
    }
}

impl fmt::Debug for FileCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileCache").field("config", &self.0.config).finish_non_exhaustive()
    }
}
