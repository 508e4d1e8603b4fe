//! The time, by the clock that stamps files.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// A source of time in place of the file system's clock. For tests.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> SystemTime;
}

/// The file system's clock, continued by this machine's clock between two looks at it. The clock of a file server may
/// differ from ours by minutes.
pub struct FileClock {
    injected: Option<Arc<dyn Clock>>,
    since: Instant,
    /// Nanoseconds since 1970 by the file system's clock at `since`.
    began: AtomicU64,
}

impl FileClock {
    /// A clock with this machine's time until [`set`](Self::set) is called.
    pub fn new(injected: Option<Arc<dyn Clock>>) -> Self {
        let clock = Self { injected, since: Instant::now(), began: AtomicU64::new(0) };
        clock.set(SystemTime::now());
        clock
    }

    /// Takes `now`, the time of a file that was just touched.
    pub fn set(&self, now: SystemTime) {
        let began = unix(now).saturating_sub(self.since.elapsed());
        self.began.store(u64::try_from(began.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The time now.
    pub fn now(&self) -> SystemTime {
        match &self.injected {
            Some(clock) => clock.now(),
            None => {
                let began = Duration::from_nanos(self.began.load(Ordering::Relaxed));
                SystemTime::UNIX_EPOCH + began + self.since.elapsed()
            }
        }
    }
}

impl fmt::Debug for FileClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileClock").field("now", &self.now()).finish_non_exhaustive()
    }
}

/// The time from `then` to `now`; zero if `then` is in the future.
pub fn idle(then: SystemTime, now: SystemTime) -> Duration {
    now.duration_since(then).unwrap_or_default()
}

/// Time since 1970.
pub fn unix(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_systems_time_goes_on() {
        let clock = FileClock::new(None);
        let theirs = SystemTime::now() - Duration::from_secs(3600);
        clock.set(theirs);
        let first = clock.now();
        assert!(first >= theirs && idle(theirs, first) < Duration::from_secs(60), "{first:?}");
        std::thread::sleep(Duration::from_millis(2));
        assert!(clock.now() >= first + Duration::from_millis(2));
        assert_eq!(idle(theirs + Duration::from_secs(9), theirs), Duration::ZERO);
    }
}
