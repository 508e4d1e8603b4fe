//! The time for which a process runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::call_clock::micros;

/// The longest time between two readings of a process that runs: a wait takes turns of some 50 ms.
const LONGEST_TURN: Duration = Duration::from_millis(500);

/// The time since its creation for which this process ran. While a user suspends the process, or the machine stands still, no thread
/// waits for an engine, and what it sent meanwhile is found afterwards.
///
/// A wait reads it a few times a second; the rest of a longer time between two readings does not count, and neither does what the
/// process does in between. Threads share it.
#[derive(Debug)]
pub(crate) struct RunningTime {
    origin: Instant,
    /// The time of the last reading since `origin`, in microseconds.
    read: AtomicU64,
    /// The time that does not count, in microseconds.
    stopped: AtomicU64,
    /// The part of it in which the process was suspended, in microseconds.
    suspended: AtomicU64,
}

impl RunningTime {
    pub(crate) fn new() -> Self {
        let (read, stopped, suspended) = Default::default();
        Self { origin: Instant::now(), read, stopped, suspended }
    }

    /// Returns the time for which the process ran until `now`.
    pub(crate) fn at(&self, now: Instant) -> Duration {
        let time = micros(now.saturating_duration_since(self.origin));
        let turn = time.saturating_sub(self.read.fetch_max(time, Ordering::Relaxed));
        let rest = turn.saturating_sub(micros(LONGEST_TURN));
        self.suspended.fetch_add(rest, Ordering::Relaxed);
        let stopped = self.stopped.fetch_add(rest, Ordering::Relaxed).saturating_add(rest);
        Duration::from_micros(time.saturating_sub(stopped))
    }

    /// Returns the time that did not count so far.
    pub(crate) fn stopped(&self) -> Duration {
        Duration::from_micros(self.stopped.load(Ordering::Relaxed))
    }

    /// Returns the time so far in which the process was suspended.
    pub(crate) fn suspended(&self) -> Duration {
        Duration::from_micros(self.suspended.load(Ordering::Relaxed))
    }

    /// Goes on after the process did something else since the last reading, which does not count.
    pub(crate) fn resume(&self, now: Instant) {
        let time = micros(now.saturating_duration_since(self.origin));
        let turn = time.saturating_sub(self.read.fetch_max(time, Ordering::Relaxed));
        self.stopped.fetch_add(turn, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn origin(&self) -> Instant {
        self.origin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_does_not_count() {
        let time = RunningTime::new();
        let (began, millis) = (time.origin, Duration::from_millis);
        assert_eq!(time.at(began + millis(400)), millis(400));
        assert_eq!(time.at(began + millis(900)), millis(900));
        assert_eq!(time.stopped(), Duration::ZERO);
        let later = began + Duration::from_secs(3600);
        assert_eq!(time.at(later), millis(1400));
        assert_eq!(time.at(later), millis(1400), "it is left out once");
        assert_eq!(time.at(later + millis(50)), millis(1450));
        assert_eq!(time.stopped(), Duration::from_secs(3600) - millis(1400));
        let busy = later + Duration::from_secs(10);
        time.resume(busy);
        assert_eq!(time.at(busy), millis(1450), "the process did something else");
        assert_eq!(time.stopped(), Duration::from_secs(3610) - millis(1450));
        assert_eq!(time.suspended(), Duration::from_secs(3600) - millis(1400), "it was busy after that");
    }
}
