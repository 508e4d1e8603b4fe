//! Doing something to many items with a bounded number of threads.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Calls `work` with each index below `count`, on up to `threads` threads, and gives the results in order.
pub(crate) fn map<T: Send>(count: usize, threads: NonZeroUsize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = threads.get().min(count);
    if threads <= 1 {
        return (0..count).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return done;
            }
            done.push((index, work(index)));
        }
    };
    let mut done: Vec<(usize, T)> = std::thread::scope(|scope| {
        // Where no more threads are to be had, those there are do the work.
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, run).ok();
        let helpers: Vec<_> = (1..threads).map_while(start).collect();
        let mut done = run();
        for helper in helpers {
            match helper.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whatever_the_threads() {
        for threads in [1, 2, 7, 100] {
            let threads = NonZeroUsize::new(threads).unwrap();
            assert_eq!(map(50, threads, |i| i * i), (0..50).map(|i| i * i).collect::<Vec<_>>());
        }
        assert!(map(0, NonZeroUsize::MIN, |i| i).is_empty());
    }
}
