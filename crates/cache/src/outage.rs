//! The outage of a local store that refuses writes: they are paused, and tried again from time to time.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(600);

/// Whether writes fail for a reason that holds for all of them. Nothing here is locked, so a forked child may use its copy.
#[derive(Debug)]
pub(crate) struct Outage {
    first: Duration,
    origin: Instant,
    is_on: AtomicBool,
    /// The length of the last pause, and its end since `origin`, in milliseconds.
    pause: AtomicU64,
    end: AtomicU64,
}

impl Outage {
    /// A store that is written. The first pause of an outage takes `first`, each further one twice as long as the last.
    pub(crate) fn new(first: Duration) -> Self {
        let (pause, end) = Default::default();
        Self { first, origin: Instant::now(), is_on: AtomicBool::new(false), pause, end }
    }

    /// Whether no write is to be tried at `now`.
    pub(crate) fn is_paused(&self, now: Instant) -> bool {
        self.is_on.load(Relaxed) && self.since_origin(now) < self.end.load(Relaxed)
    }

    /// Records a failed write. Returns whether an outage begins. Writes that began before a pause do not extend it.
    pub(crate) fn failed(&self, now: Instant) -> bool {
        let (now, end, is_on) = (self.since_origin(now), self.end.load(Relaxed), self.is_on.load(Relaxed));
        if is_on && now < end {
            return false;
        }
        // An outage that soon follows another one counts as the same: a disk that is nearly full takes small entries.
        let pause = self.pause.load(Relaxed);
        let next = match pause > 0 && (is_on || now < end + pause) {
            true => pause.saturating_mul(2).min(millis(LONGEST)),
            false => millis(self.first),
        };
        if self.end.compare_exchange(end, now.saturating_add(next), Relaxed, Relaxed).is_err() {
            return false;
        }
        self.pause.store(next, Relaxed);
        !self.is_on.swap(true, Relaxed)
    }

    /// Records a write. Returns whether it ends an outage: a write that began before a pause does not.
    pub(crate) fn succeeded(&self, now: Instant) -> bool {
        self.is_on.load(Relaxed) && !self.is_paused(now) && self.is_on.swap(false, Relaxed)
    }

    fn since_origin(&self, now: Instant) -> u64 {
        millis(now.saturating_duration_since(self.origin))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_secs(30);

    /// Fails all writes that are tried from `now` on, and returns the first `count` pauses in seconds.
    fn pauses(outage: &Outage, mut now: Instant, count: usize) -> Vec<u64> {
        let mut pauses = Vec::new();
        while pauses.len() < count {
            outage.failed(now);
            let began = now;
            while outage.is_paused(now) {
                now += Duration::from_secs(1);
            }
            pauses.push((now - began).as_secs());
        }
        pauses
    }

    #[test]
    fn pauses_double_and_a_write_ends_them() {
        let (outage, now) = (Outage::new(FIRST), Instant::now());
        assert!(!outage.is_paused(now) && !outage.succeeded(now));
        assert_eq!(pauses(&outage, now, 7), [30, 60, 120, 240, 480, 600, 600]);
        let later = now + Duration::from_secs(4000);
        assert!(outage.succeeded(later) && !outage.succeeded(later));
        assert!(outage.failed(later) && outage.is_paused(later + FIRST - Duration::from_secs(1)));
        assert!(!outage.is_paused(later + FIRST));
    }

    #[test]
    fn writes_of_one_time_are_one_failure() {
        let (outage, now) = (Outage::new(FIRST), Instant::now());
        assert!(outage.failed(now) && !outage.failed(now) && !outage.failed(now + FIRST / 2));
        assert!(!outage.succeeded(now + FIRST / 2), "it began before the pause");
        assert!(outage.is_paused(now + FIRST / 2) && !outage.is_paused(now + FIRST));
        assert!(!outage.failed(now + FIRST), "the same outage");
        assert!(outage.is_paused(now + FIRST * 2));
    }

    /// Small entries are written, large ones are not: each cycle costs a warning, so the cycles become longer.
    #[test]
    fn a_disk_that_is_nearly_full_has_longer_and_longer_pauses() {
        let (outage, mut now) = (Outage::new(FIRST), Instant::now());
        for seconds in [30, 60, 120] {
            assert!(outage.failed(now));
            now += Duration::from_secs(seconds);
            assert!(outage.succeeded(now) && !outage.is_paused(now));
            now += FIRST / 2;
        }
    }
}
