//! What the compiler is asked once, whoever wants to know, and however many at a time.

use std::sync::{Mutex, OnceLock, TryLockError};
use std::time::Duration;

use opbuild_backend::{BackendError, Cancel};

/// Who waits for another's question asks at least so often whether it still has to.
const PAUSE: Duration = Duration::from_millis(5);

/// An answer, once there is one. Errors are kept too: a machine without a compiler is asked once. That nobody waited for
/// the answer is none: the next one asks again.
pub(crate) struct Answer<T> {
    kept: OnceLock<Result<T, (String, String)>>,
    asking: Mutex<()>,
}

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Self { kept: OnceLock::new(), asking: Mutex::default() }
    }
}

impl<T> Answer<T> {
    /// The answer, which `ask` gives if it is not there; of several who want it one asks.
    pub(crate) fn get(
        &self,
        cancel: &Cancel,
        ask: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<&T, BackendError> {
        let _asking = loop {
            if let Some(kept) = self.kept.get() {
                return told(kept);
            }
            match self.asking.try_lock() {
                Ok(asking) => break asking,
                // Whoever panicked left no answer.
                Err(TryLockError::Poisoned(asking)) => break asking.into_inner(),
                Err(TryLockError::WouldBlock) if cancel.is_cancelled() => {
                    return Err(BackendError::Cancelled);
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            }
        };
        // It may have come in between.
        if let Some(kept) = self.kept.get() {
            return told(kept);
        }
        if cancel.is_cancelled() {
            return Err(BackendError::Cancelled);
        }
        let answer = match ask() {
            Err(BackendError::Cancelled) => return Err(BackendError::Cancelled),
            Err(BackendError::Toolchain { problem, way_out }) => Err((problem, way_out)),
            Err(other) => Err((other.to_string(), "check the compiler's installation".to_owned())),
            Ok(answer) => Ok(answer),
        };
        told(self.kept.get_or_init(|| answer))
    }
}

fn told<T>(kept: &Result<T, (String, String)>) -> Result<&T, BackendError> {
    kept.as_ref().map_err(|(problem, way_out)| BackendError::Toolchain {
        problem: problem.clone(),
        way_out: way_out.clone(),
    })
}
