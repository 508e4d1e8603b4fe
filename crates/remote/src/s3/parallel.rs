//! Requests at the same time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use opkeep_cache::RemoteError;

/// The maximum number of requests of one call at the same time.
const MOST_REQUESTS: usize = 8;

/// Runs `work` for each number below `count`, several at the same time, and calls `done` in this thread as each ends. After an error
/// nothing more is begun; what has ended counts.
pub(super) fn for_each<T: Send>(
    count: usize,
    work: impl Fn(usize) -> Result<T, RemoteError> + Sync,
    mut done: impl FnMut(usize, T),
) -> Result<(), RemoteError> {
    if count <= 1 {
        return (0..count).try_for_each(|index| work(index).map(|value| done(index, value)));
    }
    let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let workers = MOST_REQUESTS.min(count);
    let (sender, answers) = sync_channel(workers);
    let run = |sender: SyncSender<_>| {
        while !has_failed.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                break;
            }
            let answer = work(index);
            has_failed.fetch_or(answer.is_err(), Ordering::Relaxed);
            // The caller has left if `done` has panicked.
            let _ = sender.send((index, answer));
        }
    };
    thread::scope(|scope| {
        // Dropped before the threads are awaited, so that none waits for this thread if `done` panics.
        let answers = answers;
        let spawn = |_| {
            let (sender, run) = (sender.clone(), &run);
            let thread = thread::Builder::new().name("opkeep-s3".to_owned());
            thread.spawn_scoped(scope, move || run(sender)).err()
        };
        let failures: Vec<_> = (0..workers).filter_map(spawn).collect();
        drop(sender);
        if let Some(error) = failures.first().filter(|_| failures.len() == workers) {
            return Err(RemoteError::Unreachable { reason: format!("no thread for a request: {error}") });
        }
        let mut first_error = None;
        for (index, answer) in answers {
            match answer {
                Ok(value) => done(index, value),
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        first_error.map_or(Ok(()), Err)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn each_number_once_and_several_at_the_same_time() {
        for count in [0, 1, 2, 8, 100] {
            let mut done = BTreeSet::new();
            let answer = for_each(
                count,
                |index| Ok(index * 2),
                |index, value| {
                    assert!(value == index * 2 && done.insert(index));
                },
            );
            assert_eq!((answer, done), (Ok(()), (0..count).collect()));
        }
        let all = Barrier::new(MOST_REQUESTS);
        let answer = for_each(MOST_REQUESTS, |_| Ok(all.wait().is_leader()), |_, _| {});
        assert_eq!(answer, Ok(()));
    }

    #[test]
    fn an_error_ends_the_rest() {
        let began = AtomicUsize::new(0);
        let mut done = 0;
        let answer = for_each(
            100_000,
            |index| {
                began.fetch_add(1, Ordering::Relaxed);
                if index == 50 { Err(RemoteError::TimedOut) } else { Ok(()) }
            },
            |_, ()| done += 1,
        );
        assert_eq!(answer, Err(RemoteError::TimedOut));
        let began = began.into_inner();
        assert!(done + 1 == began && began < 100_000, "{done} of {began}");
    }

    #[test]
    fn a_caller_that_panics_leaves_no_thread_waiting() {
        let panicked = std::panic::catch_unwind(|| for_each(1000, Ok, |_, _| panic!("a caller that panics")));
        assert!(panicked.is_err());
    }
}
