//! A view whose lock could not be taken in time.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use opkeep_kernel_meta::ViewError;

use crate::schedule::job_tokens::{Heartbeat, heartbeat_at};

/// The lock of a view whose holder, usually a stopped process, kept it beyond the wait timeout. While the same holder
/// has the lock, requests of single kernels continue without the view.
#[derive(Default)]
pub(crate) struct ContendedLock(Mutex<Option<(PathBuf, Heartbeat)>>);

impl ContendedLock {
    /// Whether the same holder still has the lock. Each holder sets the modification time of the lock file.
    pub(crate) fn is_known(&self) -> bool {
        self.locked().as_ref().is_some_and(|(lock, beat)| heartbeat_at(lock) == Some(*beat))
    }

    /// Records the outcome of an attempt to write to the view.
    pub(crate) fn note(&self, placed: &Result<(), ViewError>) {
        *self.locked() = match placed {
            Err(ViewError::Locked { path, .. }) => heartbeat_at(path).map(|beat| (path.clone(), beat)),
            _ => None,
        };
    }

    /// The record. A panic elsewhere leaves it consistent.
    fn locked(&self) -> MutexGuard<'_, Option<(PathBuf, Heartbeat)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
