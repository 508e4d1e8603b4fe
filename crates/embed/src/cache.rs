//! A cache of files for one framework.

use std::fmt;
use std::time::{Duration, Instant};

use opkeep_cache::CancelToken;
use opkeep_kernel_entry::is_for_others;
use opkeep_store::is_target_name;

use crate::config::FileCacheConfig;
use crate::error::EmbedError;
use crate::process::Opened;
use crate::target::TargetFiles;

/// The longest time for which uploads are waited for: no clock can state every time.
const LONGEST_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// The files of one framework in a store. Clones share their state. Any thread may use it, and so may forked children.
#[derive(Clone)]
pub struct FileCache(Opened);

impl FileCache {
    /// Opens the cache. A store that cannot be used is a warning, and every caller makes its files.
    ///
    /// # Errors
    /// The framework's name is not valid, or the mode requires a store that cannot be used.
    pub fn open(mut config: FileCacheConfig) -> Result<Self, EmbedError> {
        config.cache.is_for_others = is_for_others;
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

    /// Waits until the published files are in the remote cache, for `limit` at most, or until `cancel` is cancelled. Then sends what
    /// earlier processes left of the targets that this one has opened. Returns the number of groups that are not sent: the next process
    /// sends them. A program that ends calls this; it returns at once if there is no remote cache, and in a forked child that has
    /// published nothing.
    pub fn finish_uploads(&self, limit: Duration, cancel: Option<&CancelToken>) -> usize {
        if self.config().cache.remote.is_none() {
            return 0;
        }
        let Some(state) = self.0.used_here() else { return 0 };
        let deadline = Instant::now() + limit.min(LONGEST_LIMIT);
        let in_progress = self.finish_own_uploads(limit, cancel);
        // Those in progress count as well, unless there is no store that has their marks.
        state.cache.push_unsent(Some(deadline), cancel).left.max(in_progress)
    }

    /// Waits in the same way until what this process published is sent, and sends nothing of other processes. Returns the number of uploads
    /// that have not ended; one that failed has ended, and has a mark in the store. For an exit that waits no longer than others need.
    pub fn finish_own_uploads(&self, limit: Duration, cancel: Option<&CancelToken>) -> usize {
        if self.config().cache.remote.is_none() {
            return 0;
        }
        let deadline = Instant::now() + limit.min(LONGEST_LIMIT);
        self.0.used_here().map_or(0, |state| state.cache.finish_uploads(deadline, cancel))
    }

    /// Waits for uploads as [`finish_uploads`](Self::finish_uploads) does, for [`FileCacheConfig::close_limit`] at most. For the end of a
    /// program: the cache can still be used.
    pub fn close(&self) -> usize {
        self.finish_uploads(self.config().close_limit, None)
    }

    /// The settings. Which entries are for other hosts is decided by this crate.
    pub fn config(&self) -> &FileCacheConfig {
        &self.0.config
    }
}

impl fmt::Debug for FileCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileCache").field("config", &self.0.config).finish_non_exhaustive()
    }
}
