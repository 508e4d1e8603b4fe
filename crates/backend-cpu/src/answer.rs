//! What the compiler is asked once, whoever wants to know, and however many at a time.

use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use opbuild_backend::{BackendError, Cancel};

/// Who waits for another's question asks at least so often whether it still has to.
const PAUSE: Duration = Duration::from_millis(5);

/// An answer, once there is one. Errors are kept too: a machine without a compiler is asked once. That nobody waited for
/// the answer is none: the next one asks again.
pub(crate) struct Answer<T> {
    kept: OnceLock<Result<T, (String, String)>>,
    /// Whether somebody is asking.
    asking: Mutex<bool>,
    asked: Condvar,
}

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Self { kept: OnceLock::new(), asking: Mutex::default(), asked: Condvar::new() }
    }
}

impl<T> Answer<T> {
    /// The answer, which `ask` gives if it is not there; of several who want it one asks.
    pub(crate) fn get(
        &self,
        cancel: &Cancel,
        ask: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<&T, BackendError> {
        if let Some(kept) = self.kept.get() {
            return told(kept);
        }
        let _turn = self.turn(cancel)?;
        // It may have come in between.
        if let Some(kept) = self.kept.get() {
            return told(kept);
        }
        let answer = match ask() {
            Err(BackendError::Cancelled) => return Err(BackendError::Cancelled),
            Err(BackendError::Toolchain { problem, way_out }) => Err((problem, way_out)),
            Err(other) => Err((other.to_string(), "check the compiler's installation".to_owned())),
            Ok(answer) => Ok(answer),
        };
        told(self.kept.get_or_init(|| answer))
    }

    /// Whether there is one, or somebody is asking.
    pub(crate) fn is_asked_for(&self) -> bool {
        // In this order: whoever ends asking has left the answer before.
        *self.locked() || self.is_there()
    }

    fn is_there(&self) -> bool {
        self.kept.get().is_some()
    }

    /// The turn to ask, once nobody else does; none if there is an answer by then.
    fn turn(&self, cancel: &Cancel) -> Result<Option<Turn<'_, T>>, BackendError> {
        let mut asking = self.locked();
        loop {
            if self.is_there() {
                return Ok(None);
            }
            if cancel.is_cancelled() {
                return Err(BackendError::Cancelled);
            }
            if !*asking {
                *asking = true;
                return Ok(Some(Turn(self)));
            }
            (asking, _) = self.asked.wait_timeout(asking, PAUSE).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn locked(&self) -> MutexGuard<'_, bool> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who asks. Its turn ends with this, also if it panics and leaves no answer.
struct Turn<'a, T>(&'a Answer<T>);

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        *self.0.locked() = false;
        self.0.asked.notify_all();
    }
}

fn told<T>(kept: &Result<T, (String, String)>) -> Result<&T, BackendError> {
    kept.as_ref().map_err(|(problem, way_out)| BackendError::Toolchain {
        problem: problem.clone(),
        way_out: way_out.clone(),
    })
}
