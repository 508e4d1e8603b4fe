//! A queue between the thread that receives contents and those that work on them. It has a bound in bytes: a thread that receives faster
//! than the others work waits for them.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The queue.
pub(crate) struct ByteQueue<T> {
    limit: usize,
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    items: VecDeque<(T, usize)>,
    bytes: usize,
    /// The number of workers.
    workers: usize,
    has_ended: bool,
}

/// One thread that takes items.
pub(crate) struct Worker<'a, T>(&'a ByteQueue<T>);

impl<T> ByteQueue<T> {
    /// Creates a queue for items of `limit` bytes together, or for one that is larger.
    pub(crate) fn new(limit: usize) -> Self {
        let state = State { items: VecDeque::new(), bytes: 0, workers: 0, has_ended: false };
        Self { limit, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Registers a worker. Register each before it runs: [`push`](Self::push) waits only for those.
    pub(crate) fn worker(&self) -> Worker<'_, T> {
        self.locked().workers += 1;
        Worker(self)
    }

    /// Adds an item of `bytes` bytes, once there is room for it. Returns it if there is no worker, or all have panicked.
    pub(crate) fn push(&self, item: T, bytes: usize) -> Option<T> {
        let mut state = self.locked();
        while state.workers > 0 && !state.items.is_empty() && state.bytes + bytes > self.limit {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.workers == 0 {
            return Some(item);
        }
        state.items.push_back((item, bytes));
        state.bytes += bytes;
        drop(state);
        self.changed.notify_all();
        None
    }

    /// Ends the queue: the workers get what is left.
    pub(crate) fn end(&self) {
        self.locked().has_ended = true;
        self.changed.notify_all();
    }

    fn locked(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Worker<'_, T> {
    /// Waits for the next item; `None` at the end.
    pub(crate) fn next(&self) -> Option<T> {
        let mut state = self.0.locked();
        loop {
            if let Some((item, bytes)) = state.items.pop_front() {
                state.bytes -= bytes;
                drop(state);
                self.0.changed.notify_all();
                return Some(item);
            }
            if state.has_ended {
                return None;
            }
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Drop for Worker<'_, T> {
    fn drop(&mut self) {
        self.0.locked().workers -= 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn a_fast_thread_waits_for_the_workers() {
        let (queue, taken) = (ByteQueue::new(10), AtomicUsize::new(0));
        let mut most = 0;
        thread::scope(|scope| {
            for _ in 0..2 {
                let worker = queue.worker();
                let taken = &taken;
                scope.spawn(move || {
                    while let Some(bytes) = worker.next() {
                        taken.fetch_add(bytes, Ordering::SeqCst);
                    }
                });
            }
            for bytes in [4, 4, 4, 25, 1, 10, 0].repeat(50) {
                assert_eq!(queue.push(bytes, bytes), None);
                let state = queue.locked();
                let largest = state.items.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
                most = most.max(state.bytes.saturating_sub(largest.max(10)));
            }
            queue.end();
        });
        assert_eq!((taken.into_inner(), most), (48 * 50, 0));
    }

    #[test]
    fn without_workers_items_come_back() {
        let queue = ByteQueue::new(1);
        assert_eq!(queue.push("a", 5), Some("a"));
        let worker = queue.worker();
        assert_eq!(queue.push("b", 5), None);
        thread::scope(|scope| {
            // It waits for room until the last worker has gone.
            let pushing = scope.spawn(|| queue.push("c", 5));
            drop(worker);
            assert_eq!(pushing.join().unwrap(), Some("c"));
        });
    }
}
