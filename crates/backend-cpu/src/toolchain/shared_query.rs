//! A question to the compiler that is asked once for all callers, and again when its answer no longer holds.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use opkeep_backend::{BackendError, FailedTool};
use opkeep_fs::CancelToken;

/// Threads that wait for another's question look this often whether they still have to.
const PAUSE: Duration = Duration::from_millis(5);

/// An answer, once there is one. That there is no usable compiler is kept too: a machine without one is asked once. A
/// question that was cancelled, or failed by the state of the machine, has no answer: the next caller asks again.
pub(crate) struct SharedQuery<T> {
    state: Mutex<State<T>>,
    asked: Condvar,
}

struct State<T> {
    kept: Option<Kept<T>>,
    /// Whether a thread is asking.
    is_asked: bool,
}

type Kept<T> = Result<Arc<T>, Unusable>;

/// Why there is no usable compiler.
#[derive(Clone)]
struct Unusable {
    problem: String,
    help: String,
    tool: Option<Box<FailedTool>>,
}

impl<T> Default for SharedQuery<T> {
    fn default() -> Self {
        Self { state: Mutex::new(State { kept: None, is_asked: false }), asked: Condvar::new() }
    }
}

impl<T> SharedQuery<T> {
    /// The answer if there is one for which `holds`, else the one that `ask` gives; of several callers one asks.
    pub(crate) fn get(
        &self,
        cancel: &CancelToken,
        holds: impl Fn(&T) -> bool,
        ask: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<Arc<T>, BackendError> {
        if let Some(kept) = self.kept(&holds) {
            return given(kept);
        }
        let _turn = self.turn(cancel)?;
        // Another may have asked in between.
        if let Some(kept) = self.kept(&holds) {
            return given(kept);
        }
        let answer = match ask() {
            Err(BackendError::Toolchain { problem, help, tool }) => Err(Unusable { problem, help, tool }),
            Err(other) => return Err(other),
            Ok(answer) => Ok(Arc::new(answer)),
        };
        self.locked().kept = Some(answer.clone());
        given(answer)
    }

    /// Whether there is an answer, or a thread is asking.
    pub(crate) fn is_asked_for(&self) -> bool {
        let state = self.locked();
        state.is_asked || state.kept.is_some()
    }

    fn kept(&self, holds: impl Fn(&T) -> bool) -> Option<Kept<T>> {
        // Looking whether it holds takes a while, in which others may do the same.
        let kept = self.locked().kept.clone()?;
        kept.as_ref().map_or(true, |answer| holds(answer)).then_some(kept)
    }

    /// The turn to ask, once no other thread does.
    fn turn(&self, cancel: &CancelToken) -> Result<Turn<'_, T>, BackendError> {
        let mut state = self.locked();
        loop {
            if cancel.is_cancelled() {
                return Err(BackendError::Cancelled);
            }
            if !state.is_asked {
                state.is_asked = true;
                return Ok(Turn(self));
            }
            (state, _) = self.asked.wait_timeout(state, PAUSE).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn locked(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turn of a thread that asks. It ends with this, also if the thread panics and leaves no answer.
struct Turn<'a, T>(&'a SharedQuery<T>);

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        self.0.locked().is_asked = false;
        self.0.asked.notify_all();
    }
}

fn given<T>(kept: Kept<T>) -> Result<Arc<T>, BackendError> {
    kept.map_err(|Unusable { problem, help, tool }| BackendError::Toolchain { problem, help, tool })
}
