//! A view whose lock was waited for in vain.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use opkeep_kernel_meta::ViewError;

use crate::disk::{self, Sign};

/// Who kept a view locked for longer than one waits: a stopped process, as a rule. Who asks for kernels one by one does
/// not wait for it again each time, but goes on without the view as long as that one has the lock.
#[derive(Default)]
pub(crate) struct Stuck(Mutex<Option<(PathBuf, Sign)>>);

impl Stuck {
    /// Whether the one that was waited for still is the last who took the lock. It writes its time into the lock's.
    pub(crate) fn is_known(&self) -> bool {
        self.locked().as_ref().is_some_and(|(lock, sign)| disk::sign_at(lock) == Some(*sign))
    }

    /// Notes what came of asking for the lock.
    pub(crate) fn note(&self, placed: &Result<(), ViewError>) {
        *self.locked() = match placed {
            Err(ViewError::Locked { path, .. }) => disk::sign_at(path).map(|sign| (path.clone(), sign)),
            _ => None,
        };
    }

    /// What is known, also after a panic elsewhere: each change to it is whole.
    fn locked(&self) -> MutexGuard<'_, Option<(PathBuf, Sign)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
