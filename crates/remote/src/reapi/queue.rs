//! The order of calls, and the number of those in progress. Servers have a limit for all of their clients together, often a small
//! one, and refuse what is above it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::failure::Failure;
use super::status::{Code, Status};

/// The number of calls in progress before anything is known of a server.
const FIRST_WINDOW: usize = 16;
/// The time for which a server may refuse every call before the refusal counts.
const WAIT_LIMIT: Duration = Duration::from_secs(2);
/// The longest waits after the first refusal in a row, and after many.
const FIRST_WAIT: Duration = Duration::from_millis(25);
const LONGEST_WAIT: Duration = Duration::from_millis(400);

/// The number of calls that a server takes from this client at the same time, by what it refused before.
pub(super) struct Window(AtomicUsize);

impl Default for Window {
    fn default() -> Self {
        Self(AtomicUsize::new(FIRST_WINDOW))
    }
}

impl Window {
    fn size(&self) -> usize {
        self.0.load(Ordering::Relaxed).max(1)
    }

    /// A server that took this many calls may take one more.
    fn grow(&self, in_progress: usize, most: usize) {
        if in_progress == self.size() && in_progress < most {
            self.0.store(in_progress + 1, Ordering::Relaxed);
        }
    }

    fn shrink(&self) {
        self.0.store(self.size() / 2, Ordering::Relaxed);
    }
}

/// Calls that are not yet answered, by their numbers.
pub(super) struct Queue<'a> {
    waiting: VecDeque<usize>,
    /// The maximum number in progress.
    most: usize,
    window: &'a Window,
    refused: Option<Refused>,
    /// That the server processes no further call over this connection. Those that it has begun are answered.
    end: Option<Failure>,
}

/// That the server refused the last calls because it has too many.
struct Refused {
    since: Instant,
    /// The time before which nothing is begun.
    until: Instant,
    /// The longest wait after the next refusal.
    next_wait: Duration,
}

impl<'a> Queue<'a> {
    pub(super) fn new(waiting: Vec<usize>, most: usize, window: &'a Window) -> Self {
        Self { waiting: waiting.into(), most, window, refused: None, end: None }
    }

    /// Makes all calls, and passes their answers to `done`.
    pub(super) async fn run<T, F: Future<Output = Result<T, Failure>>>(
        mut self,
        call: impl Fn(usize) -> F,
        mut done: impl FnMut(usize, T),
    ) -> Result<(), Failure> {
        let mut in_progress: Vec<(usize, Pin<Box<F>>)> = Vec::new();
        poll_fn(|waker| {
            loop {
                while in_progress.len() < self.most.min(self.window.size())
                    && let Some(number) = self.next(Instant::now())
                {
                    in_progress.push((number, Box::pin(call(number))));
                }
                if in_progress.is_empty() && (self.waiting.is_empty() || self.end.is_some()) {
                    return Poll::Ready(self.end.take().map_or(Ok(()), Err));
                }
                if !self.poll(&mut in_progress, &mut done, waker)? {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Polls the calls in progress. Returns whether one of them ended.
    fn poll<T, F: Future<Output = Result<T, Failure>>>(
        &mut self,
        in_progress: &mut Vec<(usize, Pin<Box<F>>)>,
        done: &mut impl FnMut(usize, T),
        waker: &mut Context<'_>,
    ) -> Result<bool, Failure> {
        let (before, mut at) = (in_progress.len(), 0);
        while let Some((number, call)) = in_progress.get_mut(at) {
            let Poll::Ready(answer) = call.as_mut().poll(waker) else {
                at += 1;
                continue;
            };
            let number = *number;
            in_progress.swap_remove(at);
            match answer {
                Ok(value) => {
                    self.refused = None;
                    self.window.grow(before, self.most);
                    done(number, value);
                }
                Err(Failure::Status(status))
                    if is_temporary(&status) && self.waits(Instant::now(), status.retry_after) =>
                {
                    self.waiting.push_back(number);
                }
                Err(failure @ Failure::Unprocessed(_)) => self.end = Some(failure),
                Err(failure) => return Err(failure),
            }
        }
        Ok(in_progress.len() < before)
    }

    fn next(&mut self, now: Instant) -> Option<usize> {
        let may_begin =
            self.end.is_none() && self.refused.as_ref().is_none_or(|refused| now >= refused.until);
        if may_begin { self.waiting.pop_front() } else { None }
    }

    /// Records that a call was refused, and when the server wants it again. Returns whether it is made again.
    fn waits(&mut self, now: Instant, retry_after: Option<Duration>) -> bool {
        self.window.shrink();
        let refused = self.refused.get_or_insert(Refused { since: now, until: now, next_wait: FIRST_WAIT });
        let retry_after = retry_after.unwrap_or_default();
        if now.saturating_duration_since(refused.since).saturating_add(retry_after) > WAIT_LIMIT {
            return false;
        }
        // Calls that were begun together and are refused together count once.
        if now >= refused.until {
            refused.until = now + jittered(refused.next_wait);
            refused.next_wait = (refused.next_wait * 2).min(LONGEST_WAIT);
        }
        refused.until = refused.until.max(now + retry_after);
        true
    }
}

/// Whether the call is to be made again after a while.
fn is_temporary(status: &Status) -> bool {
    match status.code {
        Code::RESOURCE_EXHAUSTED => true,
        // Without a time, the server is gone, or its proxy has no other one.
        Code::UNAVAILABLE => status.retry_after.is_some(),
        _ => false,
    }
}

/// Between half of a time and all of it, so that many hosts do not come again together.
fn jittered(time: Duration) -> Duration {
    let random = RandomState::new().hash_one(0) % 1024;
    time / 2 + time / 2048 * u32::try_from(random).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::pin::pin;
    use std::task::Waker;
    use std::thread;

    use super::*;

    fn run<F: Future<Output = Result<usize, Failure>>>(
        count: usize,
        most: usize,
        window: &Window,
        call: impl Fn(usize) -> F,
    ) -> (Result<(), Failure>, Vec<usize>) {
        let mut done = Vec::new();
        let queue = Queue::new((0..count).collect(), most, window);
        let answer = {
            let mut work = pin!(queue.run(call, |number, value| {
                assert_eq!(number, value);
                done.push(number);
            }));
            loop {
                match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(answer) => break answer,
                    Poll::Pending => thread::yield_now(),
                }
            }
        };
        done.sort_unstable();
        (answer, done)
    }

    fn exhausted() -> Failure {
        Status::new(Code::RESOURCE_EXHAUSTED, "too many calls").into()
    }

    /// A server that takes `limit` calls at the same time, each of which lasts for some polls.
    #[test]
    fn calls_that_a_server_refuses_are_made_again() {
        for limit in [1, 2, 5] {
            let (open, refusals) = (Cell::new(0), Cell::new(0));
            let window = Window::default();
            let call = |number: usize| {
                let (open, refusals) = (&open, &refusals);
                async move {
                    if open.get() == limit {
                        refusals.set(refusals.get() + 1);
                        return Err(exhausted());
                    }
                    open.set(open.get() + 1);
                    let mut polls = 0;
                    poll_fn(|_| {
                        polls += 1;
                        if polls > 3 { Poll::Ready(()) } else { Poll::Pending }
                    })
                    .await;
                    open.set(open.get() - 1);
                    Ok(number)
                }
            };
            let (answer, done) = run(100, 64, &window, call);
            assert_eq!((answer, done), (Ok(()), (0..100).collect()));
            assert!((1..200).contains(&refusals.get()), "{} refusals", refusals.get());
        }
    }

    #[test]
    fn a_server_that_refuses_everything_has_failed() {
        let began = Instant::now();
        let call = |_| async { Err(exhausted()) };
        let (answer, done) = run(20, 64, &Window::default(), call);
        assert_eq!((answer, done), (Err(exhausted()), vec![]));
        assert!(began.elapsed() >= WAIT_LIMIT);
    }

    #[test]
    fn a_server_says_when_it_wants_a_call_again() {
        let unavailable = |retry_after: Option<Duration>| {
            let mut status = Status::new(Code::UNAVAILABLE, "starting");
            status.retry_after = retry_after;
            Failure::Status(status)
        };
        let run_once = |retry_after: Option<Duration>| {
            let calls = Cell::new(0);
            let call = |number: usize| {
                calls.set(calls.get() + 1);
                let is_first = calls.get() == 1;
                async move { if is_first { Err(unavailable(retry_after)) } else { Ok(number) } }
            };
            let began = Instant::now();
            let (answer, _) = run(1, 64, &Window::default(), call);
            (answer, calls.get(), began.elapsed())
        };
        let wait = Duration::from_millis(300);
        let (answer, calls, took) = run_once(Some(wait));
        assert_eq!((answer, calls), (Ok(()), 2));
        assert!(took >= wait);
        for other in [None, Some(WAIT_LIMIT + wait), Some(Duration::MAX)] {
            let (answer, calls, _) = run_once(other);
            assert_eq!((answer, calls), (Err(unavailable(other)), 1));
        }
    }

    #[test]
    fn no_more_than_allowed_are_in_progress() {
        for (most, expected) in [(1, 1), (3, 3), (64, FIRST_WINDOW)] {
            let (open, highest) = (Cell::new(0), RefCell::new(0));
            let call = |number: usize| {
                let (open, highest) = (&open, &highest);
                open.set(open.get() + 1);
                highest.replace_with(|highest| open.get().max(*highest));
                let mut is_begun = false;
                async move {
                    poll_fn(|_| match std::mem::replace(&mut is_begun, true) {
                        true => Poll::Ready(()),
                        false => Poll::Pending,
                    })
                    .await;
                    open.set(open.get() - 1);
                    Ok(number)
                }
            };
            let (answer, done) = run(expected, most, &Window::default(), call);
            assert_eq!((answer, done.len()), (Ok(()), expected));
            assert_eq!(highest.into_inner(), expected);
        }
    }

    #[test]
    fn calls_in_progress_are_answered_if_no_further_one_is() {
        let begun = Cell::new(0);
        let call = |number: usize| {
            begun.set(begun.get() + 1);
            let mut polls = 0;
            async move {
                if number == 3 {
                    return Err(Failure::Unprocessed("no more".to_owned()));
                }
                poll_fn(|_| {
                    polls += 1;
                    if polls > number { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
                Ok(number)
            }
        };
        let (answer, done) = run(100, 10, &Window::default(), call);
        assert_eq!(answer, Err(Failure::Unprocessed("no more".to_owned())));
        assert_eq!((done, begun.get()), (vec![0, 1, 2, 4, 5, 6, 7, 8, 9], 10));
    }

    #[test]
    fn another_error_ends_everything() {
        let began = Cell::new(0);
        let call = |number: usize| {
            began.set(began.get() + 1);
            async move { if number == 5 { Err(Failure::invalid("five")) } else { Ok(number) } }
        };
        let (answer, done) = run(1000, 64, &Window::default(), call);
        assert_eq!(answer, Err(Failure::invalid("five")));
        assert!(done.len() < 100 && began.get() < 100, "{done:?}");
    }
}
