//! What one cache counts of one target: the uses of the remote tier, and the time that was lost. The store's statistics get the same
//! counts, in memory, and are written once. A hit in the local store counts nothing here.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opkeep_store::{Counter, Statistics, TargetStore};

use crate::call_clock::{CallClock, in_order, micros};
use crate::event::{CacheEvent, Events};
use crate::per_process::PerProcess;
use crate::wait_budget::WaitBudget;

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
        AnswerWait::begin(Some(self), None)
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

/// A caller's wait for an answer of the remote tier. The tally and the caller's budget see the same time.
pub(crate) struct AnswerWait<'a> {
    tally: Option<&'a Tally>,
    budget: Option<&'a WaitBudget>,
    charged: Duration,
    suspended: Duration,
}

impl<'a> AnswerWait<'a> {
    /// Begins a wait that `tally` counts as lost, and for which `budget` is charged.
    pub(crate) fn begin(tally: Option<&'a Tally>, budget: Option<&'a WaitBudget>) -> Self {
        in_order(|now| {
            tally.inspect(|tally| tally.clock().begin_at(now));
            budget.inspect(|budget| budget.begin_wait_at(now));
        });
        Self { tally, budget, charged: Duration::ZERO, suspended: Duration::ZERO }
    }

    /// Ends the wait, in which this process was suspended for the `suspended` time. The budget is charged `time`, which is without that.
    pub(crate) fn end(mut self, time: Duration, suspended: Duration) {
        (self.charged, self.suspended) = (time, suspended);
    }
}

impl Drop for AnswerWait<'_> {
    fn drop(&mut self) {
        let Self { tally, budget, charged, suspended } = *self;
        let lost = in_order(|now| {
            budget.inspect(|budget| budget.end_wait_at(now, charged, suspended));
            tally.and_then(|tally| tally.clock().end_at(now, suspended))
        });
        if let (Some(tally), Some(time)) = (tally, lost) {
            tally.add_time(Counter::LostToRemote, time);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

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
