//! The end of a call to an engine that neither sends nor takes anything.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::call_clock::micros;
use crate::running_time::RunningTime;

/// The time for which a call goes on while its engine is idle: it sends no byte, and takes none. A large object over a slow link takes as
/// long as it takes, since each byte is progress. The time in which this process was stopped does not count. Threads share it.
#[derive(Debug)]
pub struct IdleTimeout<'a> {
    limit: Duration,
    time: RunningTime,
    /// The time at which the engine was last active, in microseconds of `time`.
    last: AtomicU64,
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
        let (last, longest) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { limit, time: RunningTime::new(), last, longest, all: None }
    }

    /// The same, for a call that counts for `all`.
    pub(crate) fn counted_in(self, all: &'a Activity) -> Self {
        Self { all: Some(all), ..self }
    }

    /// Records that the engine sent or took something.
    pub(super) fn note(&self, now: Instant) {
        self.longest.fetch_max(micros(self.idle(now)), Ordering::Relaxed);
        self.begin_wait(now);
    }

    /// Begins to wait anew at `now`, after the process did something else.
    pub(super) fn resume(&self, now: Instant) {
        self.time.resume(now);
        self.begin_wait(now);
    }

    /// Returns the time that is left at `now`. A call that waits asks for it a few times a second.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.limit.saturating_sub(self.idle(now))
    }

    /// Returns the longest time for which the engine was idle until `now`.
    pub(super) fn longest(&self, now: Instant) -> Duration {
        self.idle(now).max(Duration::from_micros(self.longest.load(Ordering::Relaxed)))
    }

    /// Returns the time of the call in which this process was stopped.
    pub(super) fn stopped(&self) -> Duration {
        self.time.stopped()
    }

    /// Returns the part of that time in which this process was suspended.
    pub(super) fn suspended(&self) -> Duration {
        self.time.suspended()
    }

    fn begin_wait(&self, now: Instant) {
        self.last.fetch_max(micros(self.time.at(now)), Ordering::Relaxed);
        self.all.inspect(|all| all.note(now));
    }

    fn idle(&self, now: Instant) -> Duration {
        self.time.at(now).saturating_sub(Duration::from_micros(self.last.load(Ordering::Relaxed)))
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

    const TURN: Duration = Duration::from_millis(250);

    /// A wait, which asks for the time that is left a few times a second.
    fn wait(idle: &IdleTimeout<'_>, from: Instant, turns: u32) -> Instant {
        for turn in 1..=turns {
            idle.left(from + TURN * turn);
        }
        from + TURN * turns
    }

    #[test]
    fn each_byte_is_progress() {
        let (all, second) = (Activity::new(), Duration::from_secs(1));
        let idle = IdleTimeout::new(second * 2).counted_in(&all);
        let mut now = idle.time.origin();
        for _ in 1..=10 {
            now = wait(&idle, now, 4);
            assert_eq!(idle.left(now), second);
            idle.note(now);
        }
        now = wait(&idle, now, 8);
        assert_eq!((idle.left(now), idle.longest(now)), (Duration::ZERO, second * 2));
        now = wait(&idle, now, 12);
        idle.note(now);
        assert_eq!((idle.left(now), idle.longest(now)), (second * 2, second * 5));
        assert!(all.idle(now) <= second);
        idle.resume(now + second * 10);
        now = wait(&idle, now + second * 10, 4);
        assert_eq!((idle.left(now), idle.longest(now)), (second, second * 5));
    }

    /// A user suspends the process for an hour, while an answer is on its way.
    #[test]
    fn a_stop_of_the_process_is_no_idle_time() {
        let (hour, second) = (Duration::from_secs(3600), Duration::from_secs(1));
        let idle = IdleTimeout::new(second * 2);
        let later = wait(&idle, idle.time.origin(), 2) + hour;
        assert_eq!(idle.left(later), second);
        assert!(idle.stopped() < hour && idle.stopped() >= hour - second);
        idle.note(later);
        assert_eq!((idle.left(later), idle.longest(later)), (second * 2, second));
        let end = wait(&idle, later, 8);
        assert_eq!(idle.left(end), Duration::ZERO, "a wait that goes on");
    }
}
