//! Calls to a file system, which may never return.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use opkeep_cache::fs::ForkMark;
use opkeep_cache::{CancelToken, RemoteContext, RemoteError};

/// The longest time between two looks at the token.
const SLICE: Duration = Duration::from_millis(50);
/// The most calls that may be in progress after their callers have left.
const MAX_LEFT_BEHIND: usize = 16;
/// The answers that a thread may be ahead of its caller.
const MAX_WAITING: usize = 4;

/// The calls of one client.
#[derive(Debug, Default)]
pub(super) struct Calls(Arc<LeftBehind>);

/// The number of calls in progress whose callers have left.
#[derive(Debug, Default)]
struct LeftBehind {
    count: AtomicUsize,
    fork: ForkMark,
}

impl LeftBehind {
    fn is_too_many(&self) -> bool {
        if self.fork.is_first_in_child() {
            // Those threads are the parent's.
            self.count.store(0, Ordering::Relaxed);
        }
        self.count.load(Ordering::Relaxed) >= MAX_LEFT_BEHIND
    }
}

enum Message<P, T> {
    Part(P),
    End(Result<T, RemoteError>),
}

impl Calls {
    /// Runs `act` in a thread. What it sends on the way is given to `part`, in this thread.
    pub(super) fn run<P: Send + 'static, T: Send + 'static>(
        &self,
        context: &RemoteContext<'_>,
        act: impl FnOnce(&dyn Fn(P)) -> Result<T, RemoteError> + Send + 'static,
        mut part: impl FnMut(P),
    ) -> Result<T, RemoteError> {
        if context.cancel.is_some_and(CancelToken::is_cancelled) {
            return Err(RemoteError::Cancelled);
        }
        if Instant::now() >= context.deadline || self.0.is_too_many() {
            return Err(RemoteError::TimedOut);
        }
        let (sender, receiver) = sync_channel(MAX_WAITING);
        let (thread_side, caller_side) = sides(&self.0);
        let body = move || {
            // A send fails if the caller has left.
            let end = act(&|part| drop(sender.send(Message::Part(part))));
            drop(thread_side);
            let _ = sender.send(Message::End(end));
        };
        let spawned = thread::Builder::new().name("shared-directory".to_owned()).spawn(body);
        spawned
            .map_err(|error| RemoteError::Unreachable { reason: format!("no thread for a call: {error}") })?;
        let _caller = caller_side;
        loop {
            let left = context.deadline.saturating_duration_since(Instant::now());
            match receiver.recv_timeout(left.min(SLICE)) {
                Ok(Message::Part(found)) => part(found),
                Ok(Message::End(end)) => return end,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(RemoteError::Invalid { reason: "the thread of a call ended".to_owned() });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if context.cancel.is_some_and(CancelToken::is_cancelled) {
                return Err(RemoteError::Cancelled);
            }
            if Instant::now() >= context.deadline {
                return Err(RemoteError::TimedOut);
            }
        }
    }
}

/// Returns the two sides of a call. It is left behind from the end of the caller's side to the end of the thread's.
fn sides(left_behind: &Arc<LeftBehind>) -> (ThreadSide, CallerSide) {
    let side = || Arc::clone(left_behind);
    let has_ended = Arc::default();
    (ThreadSide(side(), Arc::clone(&has_ended)), CallerSide(side(), has_ended))
}

/// The thread of a call in progress. The flag is set by the side that ends first.
struct ThreadSide(Arc<LeftBehind>, Arc<AtomicBool>);

/// The caller that waits for it, or leaves.
struct CallerSide(Arc<LeftBehind>, Arc<AtomicBool>);

impl Drop for ThreadSide {
    fn drop(&mut self) {
        if self.1.swap(true, Ordering::AcqRel) {
            self.0.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for CallerSide {
    fn drop(&mut self) {
        // Before the thread can take it off again.
        self.0.count.fetch_add(1, Ordering::Relaxed);
        if self.1.swap(true, Ordering::AcqRel) {
            self.0.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn context(time: Duration, cancel: Option<&CancelToken>) -> RemoteContext<'_> {
        RemoteContext::new(Instant::now() + time, cancel)
    }

    #[test]
    fn parts_come_before_the_end() {
        let mut parts = Vec::new();
        let act = |send: &dyn Fn(u32)| {
            (0..100).for_each(send);
            Ok("end")
        };
        let end = Calls::default().run(&context(Duration::from_secs(60), None), act, |part| parts.push(part));
        assert_eq!((end, parts), (Ok("end"), (0..100).collect()));
    }

    #[test]
    fn a_call_that_hangs_is_left_behind() {
        let calls = Calls::default();
        let hang = |end: std::sync::mpsc::Receiver<()>| {
            move |_: &dyn Fn(())| {
                let _ = end.recv();
                Ok(())
            }
        };
        let mut ends = Vec::new();
        for _ in 0..MAX_LEFT_BEHIND {
            let (end, ended) = channel();
            ends.push(end);
            let answer = calls.run(&context(Duration::from_millis(10), None), hang(ended), |()| {});
            assert_eq!(answer, Err(RemoteError::TimedOut));
        }
        // No more threads hang than that.
        let began = Instant::now();
        let more = calls.run(&context(Duration::from_secs(60), None), |_: &dyn Fn(())| Ok(()), |()| {});
        assert_eq!(more, Err(RemoteError::TimedOut));
        assert!(began.elapsed() < Duration::from_secs(30));
        drop(ends);
        while calls.0.count.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
        assert_eq!(
            calls.run(&context(Duration::from_secs(60), None), |_: &dyn Fn(())| Ok(()), |()| {}),
            Ok(())
        );
    }

    /// A machine with many processors makes as many calls at once.
    #[test]
    fn calls_that_are_awaited_have_no_limit() {
        let (calls, begun, is_over) =
            (Calls::default(), AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
        let count = 4 * MAX_LEFT_BEHIND;
        let begun = Arc::new(begun);
        let together = || {
            let (begun, is_over) = (Arc::clone(&begun), Arc::clone(&is_over));
            move |_: &dyn Fn(())| {
                begun.fetch_add(1, Ordering::SeqCst);
                while begun.load(Ordering::SeqCst) < count && !is_over.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                Ok(())
            }
        };
        let answers: Vec<_> = thread::scope(|scope| {
            let call = |_| {
                scope.spawn(|| {
                    let answer = calls.run(&context(Duration::from_secs(60), None), together(), |()| {});
                    // The others need not wait for one that failed.
                    is_over.fetch_or(answer.is_err(), Ordering::SeqCst);
                    answer
                })
            };
            let callers: Vec<_> = (0..count).map(call).collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).collect()
        });
        assert_eq!(answers, vec![Ok(()); count]);
        assert_eq!(calls.0.count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_cancelled_call_ends() {
        let (cancel, (end, ended)) = (CancelToken::default(), channel::<()>());
        cancel.cancel();
        let act = move |_: &dyn Fn(())| {
            let _ = ended.recv();
            Ok(())
        };
        let answer = Calls::default().run(&context(Duration::from_secs(60), Some(&cancel)), act, |()| {});
        assert_eq!(answer, Err(RemoteError::Cancelled));
        drop(end);
    }

    #[test]
    fn a_panic_is_an_error() {
        let act = |_: &dyn Fn(())| -> Result<(), RemoteError> { std::panic::resume_unwind(Box::new(())) };
        let answer = Calls::default().run(&context(Duration::from_secs(60), None), act, |()| {});
        assert!(matches!(answer, Err(RemoteError::Invalid { .. })));
    }
}
