//! Doing something to many items with a bounded number of threads.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Calls `work` with each of `items`, on up to `threads` threads, until somebody gives up. The results in no order, and
/// whether it was given up before the last.
pub(crate) fn each<'i, I: Sync, T: Send>(
    items: &'i [I],
    threads: NonZeroUsize,
    cancelled: &(dyn Fn() -> bool + Sync),
    work: impl Fn(&'i I) -> Option<T> + Sync,
) -> (Vec<T>, bool) {
    let next = AtomicUsize::new(0);
    let run = || {
        let (mut done, mut gave_up) = (Vec::new(), false);
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            gave_up = cancelled();
            if gave_up {
                break;
            }
            done.extend(work(item));
        }
        (done, gave_up)
    };
    std::thread::scope(|scope| {
        // Where no more threads are to be had, those there are do the work.
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, run).ok();
        let helpers: Vec<_> = (1..threads.get().min(items.len())).map_while(start).collect();
        let (mut done, mut gave_up) = run();
        for helper in helpers {
            match helper.join() {
                Ok((more, also)) => {
                    done.extend(more);
                    gave_up |= also;
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        (done, gave_up)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_done_once_whatever_the_threads() {
        let items: Vec<usize> = (0..100).collect();
        for threads in [1, 2, 7, 1000] {
            let threads = NonZeroUsize::new(threads).unwrap();
            let odd = |item: &usize| (item % 2 == 1).then_some(*item);
            let (mut done, gave_up) = each(&items, threads, &|| false, odd);
            done.sort_unstable();
            assert_eq!(done, (0..100).filter(|item| item % 2 == 1).collect::<Vec<_>>());
            assert!(!gave_up);
        }
        assert_eq!(each(&items[..0], NonZeroUsize::MIN, &|| true, |_| Some(1)), (Vec::new(), false));
    }

    #[test]
    fn whoever_gives_up_is_done() {
        let items = [(); 100];
        let left = AtomicUsize::new(10);
        let cancelled = || left.load(Ordering::Relaxed) == 0;
        let work =
            |(): &()| left.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).ok();
        let (done, gave_up) = each(&items, NonZeroUsize::new(3).unwrap(), &cancelled, work);
        assert!(gave_up && done.len() == 10, "{done:?}");
    }
}
