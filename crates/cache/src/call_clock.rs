//! The time in which at least one caller waits.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use opkeep_fs::{ForkSafeCell, without_fork};

/// What times are relative to. All clocks share it, so that they round the same time alike.
static ORIGIN: ForkSafeCell<Instant> = ForkSafeCell::new();
static ORDER: Mutex<()> = Mutex::new(());

/// Runs `act` with the present time, in one thread at a time: clocks that measure the same waits see them in the same order and
/// so measure the same time.
pub(crate) fn in_order<T>(act: impl FnOnce(Instant) -> T) -> T {
    without_fork(|| {
        let _held = ORDER.lock().unwrap_or_else(PoisonError::into_inner);
        act(Instant::now())
    })
}

/// Measures the time in which at least one caller waits: the same time of several callers counts once.
///
/// The time in which this process was suspended is no wait. No clock of the system leaves it out, so those who wait find it out with a
/// [`RunningTime`](crate::running_time::RunningTime), and say it at the end. A suspension concerns all of them, so the longest one counts. If
/// two waits overlap and each of them had another suspension, the shorter one counts as a wait.
#[derive(Debug)]
pub(crate) struct CallClock {
    origin: Instant,
    waiting: AtomicUsize,
    /// The time since `origin` at which the first of those who wait began, in microseconds.
    began: AtomicU64,
    /// The time since then in which this process was suspended, in microseconds.
    suspended: AtomicU64,
    /// The time of all waits that have ended, in microseconds.
    ended: AtomicU64,
}

impl CallClock {
    pub(crate) fn new() -> Self {
        let (waiting, began, suspended, ended) = Default::default();
        Self { origin: *ORIGIN.get_or_init(Instant::now), waiting, began, suspended, ended }
    }

    /// Begins a wait at `now`, the time of [`in_order`].
    pub(crate) fn begin_at(&self, now: Instant) {
        let now = self.time(now);
        if self.waiting.fetch_add(1, Ordering::SeqCst) == 0 {
            self.began.store(now, Ordering::SeqCst);
            self.suspended.store(0, Ordering::SeqCst);
        }
    }

    /// Ends a wait at `now`, the time of [`in_order`], in which this process was suspended for the `suspended` time. Returns the time
    /// since the first caller began, if no other one waits.
    pub(crate) fn end_at(&self, now: Instant, suspended: Duration) -> Option<Duration> {
        self.suspended.fetch_max(micros(suspended), Ordering::SeqCst);
        // Read before: as soon as no caller waits, the next one writes its own time.
        let time = self.running(now);
        let is_last = self.waiting.fetch_sub(1, Ordering::SeqCst) == 1;
        is_last.then(|| {
            self.ended.fetch_add(time, Ordering::Relaxed);
            Duration::from_micros(time)
        })
    }

    /// Returns the time of all waits, that of the callers who still wait included.
    pub(crate) fn waited(&self) -> Duration {
        let running = match self.waiting.load(Ordering::SeqCst) {
            0 => 0,
            _ => self.running(Instant::now()),
        };
        Duration::from_micros(self.ended.load(Ordering::Relaxed).saturating_add(running))
    }

    /// Returns the time at `now` since the first of those who wait began.
    fn running(&self, now: Instant) -> u64 {
        let since = self.time(now).saturating_sub(self.began.load(Ordering::SeqCst));
        since.saturating_sub(self.suspended.load(Ordering::SeqCst))
    }

    fn time(&self, now: Instant) -> u64 {
        micros(now.saturating_duration_since(self.origin))
    }
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn the_same_time_of_several_callers_counts_once() {
        let (clock, pause, began) = (CallClock::new(), Duration::from_millis(20), Instant::now());
        let ended: Duration = thread::scope(|scope| {
            let wait = || {
                in_order(|now| clock.begin_at(now));
                thread::sleep(pause);
                assert!(clock.waited() >= pause);
                in_order(|now| clock.end_at(now, Duration::ZERO))
            };
            let waits: Vec<_> = (0..8).map(|_| scope.spawn(wait)).collect();
            waits.into_iter().filter_map(|wait| wait.join().unwrap()).sum()
        });
        assert!(ended >= pause && ended <= began.elapsed(), "{ended:?}");
        assert_eq!(clock.waited(), ended);
    }

    /// A user suspends the process for an hour while two callers wait.
    #[test]
    fn a_suspension_of_the_process_is_no_wait() {
        let (clock, hour, second) = (CallClock::new(), Duration::from_secs(3600), Duration::from_secs(1));
        let began = clock.origin;
        clock.begin_at(began);
        clock.begin_at(began + second);
        let later = began + second * 2 + hour;
        assert_eq!(clock.end_at(later, hour), None);
        assert_eq!(clock.end_at(later + second, hour), Some(second * 3), "it counts once");
        assert_eq!(clock.waited(), second * 3);
        // The next wait has nothing of it.
        clock.begin_at(later + second * 5);
        assert_eq!(clock.end_at(later + second * 7, Duration::ZERO), Some(second * 2));
        assert_eq!(clock.waited(), second * 5);
    }
}
