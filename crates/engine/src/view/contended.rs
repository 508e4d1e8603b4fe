//! A view whose lock was waited for in vain.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use opkeep_kernel_meta::ViewError;

use crate::schedule::job_tokens::{Heartbeat, heartbeat_at};

/// Who kept a view locked for longer than one waits: a stopped process, as a rule. Who asks for kernels one by one does
/// not wait for it again each time, but goes on without the view as long as that one has the lock.
#[derive(Default)]
pub(crate) struct ContendedLock(Mutex<Option<(PathBuf, Heartbeat)>>);

impl ContendedLock {
    /// Whether the one that was waited for still is the last who took the lock. It writes its time into the lock's.
    pub(crate) fn is_known(&self) -> bool {
        self.locked().as_ref().is_some_and(|(lock, beat)| heartbeat_at(lock) == Some(*beat))
    }

    /// Notes what came of asking for the lock.
    pub(crate) fn note(&self, placed: &Result<(), ViewError>) {
        *self.locked() = match placed {
            Err(ViewError::Locked { path, .. }) => heartbeat_at(path).map(|beat| (path.clone(), beat)),
            _ => None,
        };
    }

    /// What is known, also after a panic elsewhere: each change to it is whole.
    fn locked(&self) -> MutexGuard<'_, Option<(PathBuf, Heartbeat)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
