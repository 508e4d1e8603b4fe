//! Calls to a file system, which may never return.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use opkeep_cache::{RemoteContext, RemoteError};

use crate::left_behind::LeftBehind;

/// The longest time between two looks at the token.
const SLICE: Duration = Duration::from_millis(50);
/// The answers that a thread may be ahead of its caller.
const MAX_WAITING: usize = 4;

/// The calls of one client.
#[derive(Debug, Default)]
pub(super) struct Calls(LeftBehind);

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
        context.time_left()?;
        if self.0.are_too_many() {
            return Err(RemoteError::TimedOut);
        }
        let (sender, receiver) = sync_channel(MAX_WAITING);
        let (thread_side, _caller_side) = self.0.begin();
        let body = move || {
            // A send fails if the caller has left.
            let end = act(&|part| drop(sender.send(Message::Part(part))));
            drop(thread_side);
            let _ = sender.send(Message::End(end));
        };
        let spawned = thread::Builder::new().name("shared-directory".to_owned()).spawn(body);
        spawned
            .map_err(|error| RemoteError::Unreachable { reason: format!("no thread for a call: {error}") })?;
        loop {
            match receiver.recv_timeout(context.time_left()?.min(SLICE)) {
                Ok(Message::Part(found)) => {
                    context.note_progress();
                    part(found);
                }
                Ok(Message::End(end)) => return end,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(RemoteError::Invalid { reason: "the thread of a call ended".to_owned() });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use opkeep_cache::CancelToken;

    use super::*;
    use crate::left_behind::MAX_LEFT_BEHIND;

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
        while calls.0.count() > 0 {
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
        assert_eq!(calls.0.count(), 0);
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
