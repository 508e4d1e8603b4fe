//! Threads for calls of the system that may never return, such as one to a file system whose server is gone. Its caller leaves such a
//! thread behind at the end of its own call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use opkeep_cache::fs::ForkMark;

/// The number of threads left behind after which no further call begins: each would leave one more. Threads that are awaited do not count,
/// since a machine with many processors makes as many calls at once.
pub(crate) const MAX_LEFT_BEHIND: usize = 16;

/// The number of threads that one client has left behind.
#[derive(Debug, Default)]
pub(crate) struct LeftBehind {
    count: Arc<AtomicUsize>,
    fork: ForkMark,
}

impl LeftBehind {
    /// Whether no further call is to begin.
    pub(crate) fn are_too_many(&self) -> bool {
        if self.fork.is_first_in_child() {
            // Those threads are the parent's.
            self.count.store(0, Ordering::Relaxed);
        }
        self.count.load(Ordering::Relaxed) >= MAX_LEFT_BEHIND
    }

    /// Begins a call. Each side is dropped at its end: the thread is left behind while the caller's has ended, and its own has not.
    pub(crate) fn begin(&self) -> (ThreadSide, CallerSide) {
        let side = Side { count: Arc::clone(&self.count), has_other_ended: Arc::default() };
        (ThreadSide(side.clone()), CallerSide(side))
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

#[derive(Clone)]
struct Side {
    count: Arc<AtomicUsize>,
    /// Set by the side that ends first.
    has_other_ended: Arc<AtomicBool>,
}

impl Side {
    /// Returns whether the other side has ended before.
    fn end(&self) -> bool {
        self.has_other_ended.swap(true, Ordering::AcqRel)
    }
}

/// The thread that makes the call.
pub(crate) struct ThreadSide(Side);

/// The caller, which waits for it or leaves.
pub(crate) struct CallerSide(Side);

impl Drop for ThreadSide {
    fn drop(&mut self) {
        if self.0.end() {
            self.0.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for CallerSide {
    fn drop(&mut self) {
        // It counts before the thread can take it off again.
        self.0.count.fetch_add(1, Ordering::Relaxed);
        if self.0.end() {
            self.0.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_counts_from_the_end_of_its_caller_to_its_own() {
        let left_behind = LeftBehind::default();
        let (thread, caller) = left_behind.begin();
        drop(thread);
        assert_eq!(left_behind.count(), 0, "it is awaited");
        drop(caller);
        assert_eq!(left_behind.count(), 0);
        let calls: Vec<_> = (0..2 * MAX_LEFT_BEHIND).map(|_| left_behind.begin()).collect();
        assert!(!left_behind.are_too_many(), "all are awaited");
        let mut threads: Vec<_> = calls.into_iter().map(|(thread, _)| thread).collect();
        assert_eq!((left_behind.count(), left_behind.are_too_many()), (2 * MAX_LEFT_BEHIND, true));
        threads.truncate(MAX_LEFT_BEHIND - 1);
        assert_eq!((left_behind.count(), left_behind.are_too_many()), (MAX_LEFT_BEHIND - 1, false));
    }
}
