//! The time in which at least one caller waits.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Measures the time in which at least one caller waits: the same time of several callers counts once.
#[derive(Debug)]
pub(crate) struct CallClock {
    origin: Instant,
    waiting: AtomicUsize,
    /// The time since `origin` at which the first of those who wait began, in microseconds.
    began: AtomicU64,
    /// The time of all waits that have ended, in microseconds.
    ended: AtomicU64,
}

impl CallClock {
    pub(crate) fn new() -> Self {
        let (waiting, began, ended) = Default::default();
        Self { origin: Instant::now(), waiting, began, ended }
    }

    pub(crate) fn begin(&self) {
        let now = micros(self.origin.elapsed());
        if self.waiting.fetch_add(1, Ordering::SeqCst) == 0 {
            self.began.store(now, Ordering::SeqCst);
        }
    }

    /// Returns the time since the first caller began, if no other one waits.
    pub(crate) fn end(&self) -> Option<Duration> {
        // Read before: as soon as no caller waits, the next one writes its own time.
        let began = self.began.load(Ordering::SeqCst);
        let is_last = self.waiting.fetch_sub(1, Ordering::SeqCst) == 1;
        is_last.then(|| {
            let time = micros(self.origin.elapsed()).saturating_sub(began);
            self.ended.fetch_add(time, Ordering::Relaxed);
            Duration::from_micros(time)
        })
    }

    /// Returns the time of all waits, that of the callers who still wait included.
    pub(crate) fn waited(&self) -> Duration {
        let running = match self.waiting.load(Ordering::SeqCst) {
            0 => 0,
            _ => micros(self.origin.elapsed()).saturating_sub(self.began.load(Ordering::SeqCst)),
        };
        Duration::from_micros(self.ended.load(Ordering::Relaxed).saturating_add(running))
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
                clock.begin();
                thread::sleep(pause);
                assert!(clock.waited() >= pause);
                clock.end()
            };
            let waits: Vec<_> = (0..8).map(|_| scope.spawn(wait)).collect();
            waits.into_iter().filter_map(|wait| wait.join().unwrap()).sum()
        });
        assert!(ended >= pause && ended <= began.elapsed(), "{ended:?}");
        assert_eq!(clock.waited(), ended);
    }
}
