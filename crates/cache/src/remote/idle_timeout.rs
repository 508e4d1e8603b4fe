//! The end of a call to an engine that neither sends nor takes anything.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::call_clock::micros;

/// The time for which a call goes on while its engine is idle: it sends no byte, and takes none. A large object over a slow link takes as
/// long as it takes, since each byte is progress. Threads share it.
#[derive(Debug)]
pub struct IdleTimeout<'a> {
    limit: Duration,
    own: Activity,
    /// The longest time for which the engine was idle, in microseconds.
    longest: AtomicU64,
    /// The activity of all calls.
    all: Option<&'a Activity>,
}

/// The last time at which an engine was active.
#[derive(Debug)]
pub(crate) struct Activity {
    origin: Instant,
    /// In microseconds since `origin`.
    last: AtomicU64,
}

impl<'a> IdleTimeout<'a> {
    /// Begins a call that ends when its engine was idle for `limit`.
    pub fn new(limit: Duration) -> Self {
        Self { limit, own: Activity::new(), longest: AtomicU64::new(0), all: None }
    }

    /// The same, for a call that counts for `all`.
    pub(crate) fn counted_in(self, all: &'a Activity) -> Self {
        Self { all: Some(all), ..self }
    }

    /// Records that the engine sent or took something.
    pub(super) fn note(&self, now: Instant) {
        self.longest.fetch_max(micros(self.own.idle(now)), Ordering::Relaxed);
        self.resume(now);
    }

    /// Begins to wait anew at `now`.
    pub(super) fn resume(&self, now: Instant) {
        self.own.note(now);
        self.all.inspect(|all| all.note(now));
    }

    /// Returns the time that is left at `now`.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.limit.saturating_sub(self.own.idle(now))
    }

    /// Returns the longest time for which the engine was idle until `now`.
    pub(super) fn longest(&self, now: Instant) -> Duration {
        self.own.idle(now).max(Duration::from_micros(self.longest.load(Ordering::Relaxed)))
    }
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self { origin: Instant::now(), last: AtomicU64::new(0) }
    }

    fn note(&self, now: Instant) {
        self.last.fetch_max(micros(now.saturating_duration_since(self.origin)), Ordering::Relaxed);
    }

    /// Returns the time at `now` for which the engine is idle.
    pub(crate) fn idle(&self, now: Instant) -> Duration {
        let last = Duration::from_micros(self.last.load(Ordering::Relaxed));
        now.saturating_duration_since(self.origin).saturating_sub(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_progress() {
        let (all, second) = (Activity::new(), Duration::from_secs(1));
        let idle = IdleTimeout::new(second * 2).counted_in(&all);
        let began = idle.own.origin;
        for number in 1..=10 {
            assert_eq!(idle.left(began + second * number), second);
            idle.note(began + second * number);
        }
        let end = began + second * 12;
        assert_eq!((idle.left(end), idle.longest(end)), (Duration::ZERO, second * 2));
        idle.note(began + second * 15);
        assert_eq!(
            (idle.left(began + second * 15), idle.longest(began + second * 16)),
            (second * 2, second * 5)
        );
        assert!(all.idle(began + second * 15) <= second);
        idle.resume(began + second * 25);
        let end = began + second * 26;
        assert_eq!((idle.left(end), idle.longest(end)), (second, second * 5));
    }
}
