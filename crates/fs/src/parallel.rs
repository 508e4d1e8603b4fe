//! Work on many items with a bounded number of threads.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The result of [`map`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mapped<T> {
    /// The results in the order of the items, without those of items that were not reached.
    pub results: Vec<T>,
    /// Whether it was cancelled before the last item.
    pub is_cancelled: bool,
}

/// Calls `work` with each index below `items`, on up to `threads` threads, until `is_cancelled`. The calling thread
/// works, too; if the system cannot start a thread, the others do its work. A panic of `work` continues in the caller.
pub fn map<T: Send>(
    items: usize,
    threads: NonZeroUsize,
    is_cancelled: impl Fn() -> bool + Sync,
    work: impl Fn(usize) -> T + Sync,
) -> Mapped<T> {
    let (next, cancelled) = (AtomicUsize::new(0), AtomicBool::new(false));
    // One place for each result: vectors that grow in each thread, and are joined later, take several times the memory.
    let places: Vec<Mutex<Option<T>>> = (0..items).map(|_| Mutex::new(None)).collect();
    let run = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(place) = places.get(index) else { return };
            if is_cancelled() {
                cancelled.store(true, Ordering::Relaxed);
                return;
            }
            let result = work(index);
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        }
    };
    let threads = threads.get().min(items);
    match threads {
        0 | 1 => run(),
        _ => std::thread::scope(|scope| {
            let start = |_| std::thread::Builder::new().spawn_scoped(scope, run).ok();
            let helpers: Vec<_> = (1..threads).map_while(start).collect();
            run();
            for helper in helpers {
                if let Err(panic) = helper.join() {
                    std::panic::resume_unwind(panic);
                }
            }
        }),
    }
    let result = |place: Mutex<Option<T>>| place.into_inner().unwrap_or_else(PoisonError::into_inner);
    let results = places.into_iter().filter_map(result).collect();
    Mapped { results, is_cancelled: cancelled.into_inner() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_for_any_number_of_threads() {
        for threads in [1, 2, 7, 1000] {
            let threads = NonZeroUsize::new(threads).unwrap();
            let mapped = map(100, threads, || false, |i| i * i);
            assert_eq!(mapped.results, (0..100).map(|i| i * i).collect::<Vec<_>>());
            assert!(!mapped.is_cancelled);
        }
        assert_eq!(
            map(0, NonZeroUsize::MIN, || true, |i| i),
            Mapped { results: vec![], is_cancelled: false }
        );
    }

    #[test]
    fn no_work_begins_once_it_is_cancelled() {
        let left = AtomicUsize::new(10);
        let is_cancelled = || left.load(Ordering::Relaxed) == 0;
        let take =
            |_| left.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        let mapped = map(100, NonZeroUsize::new(3).unwrap(), is_cancelled, take);
        let done = mapped.results.iter().filter(|taken| **taken).count();
        assert!(mapped.is_cancelled && done == 10, "{mapped:?}");
    }
}
