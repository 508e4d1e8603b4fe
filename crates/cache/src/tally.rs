//! What one cache counts of one target: the uses of the remote tier, and the time that was lost. The store's statistics get the same
//! counts, in memory, and are written once. A hit in the local store counts nothing here.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use opkeep_store::{Counter, Statistics, TargetStore};

use crate::event::{CacheEvent, Events};
use crate::per_process::PerProcess;

/// The counts of one target, and the function that gets events.
pub(crate) struct Tally {
    counts: [AtomicU64; Counter::COUNT],
    store: Option<TargetStore>,
    calls: PerProcess<CallClock>,
    events: Events,
}

impl Tally {
    pub(crate) fn new(store: Option<TargetStore>, events: Events) -> Self {
        let calls = PerProcess::new(CallClock::new());
        Self { counts: [const { AtomicU64::new(0) }; Counter::COUNT], store, calls, events }
    }

    pub(crate) fn add(&self, counter: Counter, number: u64) {
        self.counts[counter as usize].fetch_add(number, Ordering::Relaxed);
        self.store.iter().for_each(|store| store.count(counter, number));
    }

    pub(crate) fn add_time(&self, counter: Counter, time: Duration) {
        self.add(counter, micros(time));
    }

    /// Returns what was counted since the cache was opened.
    pub(crate) fn counted(&self) -> Statistics {
        Statistics::of(&self.counts.each_ref().map(|count| count.load(Ordering::Relaxed)))
    }

    pub(crate) fn notify(&self, event: CacheEvent<'_>) {
        self.events.notify(event);
    }

    /// Counts the time until the result is dropped as lost to the remote tier. The same time of several callers counts once.
    pub(crate) fn wait_for_answer(&self) -> AnswerWait<'_> {
        self.clock().begin();
        AnswerWait { tally: self }
    }

    fn clock(&self) -> &CallClock {
        self.calls.get(CallClock::new)
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tally").field("counted", &self.counted()).finish_non_exhaustive()
    }
}

/// A caller's wait for an answer of the remote tier.
pub(crate) struct AnswerWait<'a> {
    tally: &'a Tally,
}

impl Drop for AnswerWait<'_> {
    fn drop(&mut self) {
        if let Some(time) = self.tally.clock().end() {
            self.tally.add_time(Counter::LostToRemote, time);
        }
    }
}

/// Measures the time in which at least one caller waits.
struct CallClock {
    origin: Instant,
    waiting: AtomicUsize,
    /// The time since `origin` at which the first of those who wait began, in microseconds.
    began: AtomicU64,
}

impl CallClock {
    fn new() -> Self {
        Self { origin: Instant::now(), waiting: AtomicUsize::new(0), began: AtomicU64::new(0) }
    }

    fn begin(&self) {
        let now = micros(self.origin.elapsed());
        if self.waiting.fetch_add(1, Ordering::SeqCst) == 0 {
            self.began.store(now, Ordering::SeqCst);
        }
    }

    /// Returns the time since the first caller began, if no other one waits.
    fn end(&self) -> Option<Duration> {
        // Read before: as soon as no caller waits, the next one writes its own time.
        let began = self.began.load(Ordering::SeqCst);
        let is_last = self.waiting.fetch_sub(1, Ordering::SeqCst) == 1;
        is_last.then(|| Duration::from_micros(micros(self.origin.elapsed()).saturating_sub(began)))
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn the_same_time_of_several_callers_counts_once() {
        let tally = Tally::new(None, Events::default());
        let (pause, began) = (Duration::from_millis(20), Instant::now());
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let _wait = tally.wait_for_answer();
                    thread::sleep(pause);
                });
            }
        });
        let lost = Duration::from_micros(tally.counted().lost_remote_micros);
        assert!(lost >= pause && lost <= began.elapsed(), "{lost:?}");
        drop(tally.wait_for_answer());
        assert!(Duration::from_micros(tally.counted().lost_remote_micros) >= lost);
    }
}
