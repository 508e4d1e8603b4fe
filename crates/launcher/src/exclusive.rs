//! Commands that write one file exclude each other.
//!
//! What a command wrote is read when it has ended. Another command that wrote into the same file by then would have its bytes stored as the
//! first one's result. So a command holds its outputs from before the look-up until they are stored, or until a hit has written them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use opkeep_digest::Hasher;
use opkeep_embed::{CancelToken, FileKey, Held, HeldKey, TargetFiles};

use crate::environment::{HOLDS, OBSERVED};
use crate::error::LauncherError;
use crate::reason::Reason;
use crate::task::{Task, real_name};

/// The longest time for which other callers wait for a run: a whole one may take two hours.
pub(crate) const HOLD_LIMIT: Duration = Duration::from_secs(3 * 3600);

/// The outputs that a command holds.
pub(crate) struct Exclusive {
    held: Vec<HeldKey>,
    /// Whether another command may write one of them.
    is_shared: bool,
}

impl Exclusive {
    /// Waits until no other launcher holds an output of the task, and holds them. All are taken before the ticket of the task, and in one
    /// order, so that no two commands wait for each other.
    pub(crate) fn hold(
        task: &Task<'_>,
        files: &TargetFiles,
        cancel: &CancelToken,
    ) -> Result<Self, LauncherError> {
        // The outer command may hold the same output, and ends after this one.
        let is_inner =
            |(name, _): &(OsString, OsString)| [OBSERVED, HOLDS].iter().any(|known| name == *known);
        let limit = if task.run.env.iter().any(is_inner) { Duration::ZERO } else { HOLD_LIMIT };
        let deadline = Instant::now() + limit;
        let mut paths: Vec<_> = task.exclusive.iter().map(|path| real_name(path)).collect();
        paths.sort_unstable();
        paths.dedup();
        let mut exclusive = Self { held: Vec::new(), is_shared: false };
        for path in paths {
            let mut hasher = Hasher::new("opkeep launcher output");
            hasher.bytes(path.as_os_str().as_bytes());
            let key = FileKey::new(*hasher.finish().as_bytes()).with_name("output");
            match files.hold(&key, deadline, cancel) {
                Ok(Held::Held(held)) => exclusive.held.push(held),
                Ok(Held::Cancelled) => return Err(LauncherError::Cancelled),
                // Nothing could be stored, or the file system has no locks.
                Ok(Held::Unsupported) => {}
                Ok(Held::NotHeld) | Err(_) => exclusive.is_shared = true,
            }
        }
        Ok(exclusive)
    }

    /// Checks that the outputs are this command's alone.
    ///
    /// # Errors
    /// Another command may have written one of them: the result is not kept.
    pub(crate) fn check(&self) -> Result<(), Reason> {
        match self.is_shared || !self.held.iter().all(HeldKey::is_own) {
            true => Err(Reason::Store("another command may write the same output".to_owned())),
            false => Ok(()),
        }
    }
}
