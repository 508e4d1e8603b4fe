//! The threads that hold tickets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// The threads of this process that hold tickets.
#[derive(Clone, Default)]
pub(crate) struct Holders(Arc<Mutex<HashMap<ThreadId, usize>>>);

impl Holders {
    /// Whether the calling thread got a ticket that has not ended.
    pub(crate) fn has_current(&self) -> bool {
        self.locked().contains_key(&thread::current().id())
    }

    pub(crate) fn add(&self, thread: ThreadId) {
        *self.locked().entry(thread).or_default() += 1;
    }

    pub(crate) fn remove(&self, thread: ThreadId) {
        let mut holders = self.locked();
        if let Some(tickets) = holders.get_mut(&thread) {
            *tickets -= 1;
            if *tickets == 0 {
                holders.remove(&thread);
            }
        }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<ThreadId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
