//! The time that a caller may lose to an engine.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::call_clock::{CallClock, micros};

/// The time that one caller, such as a build, may lose to the calls to a remote tier, whether these are answered or not. When it is used
/// up, the caller goes on without the tier: an engine whose answers are too slow costs no more time than the caller has set. Threads
/// share it.
///
/// A call ends earlier if the engine is idle for [`RemoteConfig::idle_timeout`](crate::RemoteConfig::idle_timeout), after which the tier
/// is paused. So an engine that hangs uses up little of a large budget.
#[derive(Debug)]
pub struct WaitBudget {
    /// In microseconds; [`u64::MAX`] for no limit.
    limit: AtomicU64,
    /// The time of the calls, each divided by the number of threads, in microseconds.
    used: AtomicU64,
    threads: AtomicU32,
    clock: CallClock,
    has_warned: AtomicBool,
}

impl WaitBudget {
    /// Creates a budget of `limit`. With none, the tier is not called, without a warning.
    pub fn new(limit: Duration) -> Self {
        let (used, has_warned) = (AtomicU64::new(0), AtomicBool::new(limit.is_zero()));
        let (limit, threads) = (AtomicU64::new(micros(limit)), AtomicU32::new(1));
        Self { limit, used, threads, clock: CallClock::new(), has_warned }
    }

    /// Creates a budget for a caller that has no other way than to wait: a call ends at its timeout only.
    pub fn unlimited() -> Self {
        Self::new(Duration::MAX)
    }

    /// Replaces the limit, which counts from the beginning.
    pub fn set_limit(&self, limit: Duration) {
        self.limit.store(micros(limit), Ordering::Relaxed);
    }

    /// From now on, `threads` threads do the caller's work: what one of them waits costs the caller a part of that.
    pub fn share_among(&self, threads: u32) {
        self.threads.store(threads.max(1), Ordering::Relaxed);
    }

    /// Returns the time that is lost so far.
    pub fn used(&self) -> Duration {
        Duration::from_micros(self.used.load(Ordering::Relaxed))
    }

    /// Returns the time that may still be lost.
    pub fn left(&self) -> Duration {
        match self.limit.load(Ordering::Relaxed) {
            u64::MAX => Duration::MAX,
            limit => Duration::from_micros(limit.saturating_sub(self.used.load(Ordering::Relaxed))),
        }
    }

    pub(crate) fn is_unlimited(&self) -> bool {
        self.limit.load(Ordering::Relaxed) == u64::MAX
    }

    /// Returns the maximum time of a call that begins now.
    pub(crate) fn left_for_call(&self) -> Duration {
        self.left().saturating_mul(self.threads.load(Ordering::Relaxed))
    }

    /// Begins a call, or a wait for one of another thread or process.
    pub(crate) fn begin_wait(&self) {
        self.clock.begin();
    }

    /// Charges a call or a wait that took `time`, without the time in which this process was `suspended`.
    pub(crate) fn end_wait(&self, time: Duration, suspended: Duration) {
        self.clock.end(suspended);
        let share = time / self.threads.load(Ordering::Relaxed);
        self.used.fetch_add(micros(share), Ordering::Relaxed);
    }

    /// Returns the warning that the budget is used up, once. It has the time in which at least one thread waited, as a summary has.
    pub(crate) fn warning(&self) -> Option<String> {
        let is_first = !self.has_warned.swap(true, Ordering::Relaxed);
        is_first.then(|| {
            let waited = self.clock.waited().as_secs_f64();
            let limit = Duration::from_micros(self.limit.load(Ordering::Relaxed)).as_secs_f64();
            format!(
                "the remote cache is too slow: its answers took {waited:.1} s, and the limit is {limit:.1} s"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(budget: &WaitBudget, time: Duration) {
        budget.begin_wait();
        budget.end_wait(time, Duration::ZERO);
    }

    #[test]
    fn a_budget_is_used_up_and_warns_once() {
        let budget = WaitBudget::new(Duration::from_secs(2));
        call(&budget, Duration::from_millis(1500));
        assert_eq!((budget.used(), budget.left()), (Duration::from_millis(1500), Duration::from_millis(500)));
        call(&budget, Duration::from_secs(9));
        assert_eq!(budget.left(), Duration::ZERO);
        assert!(budget.warning().is_some_and(|text| text.ends_with("and the limit is 2.0 s")));
        assert_eq!(budget.warning(), None);
        let none = WaitBudget::new(Duration::ZERO);
        assert_eq!((none.left(), none.warning()), (Duration::ZERO, None));
    }

    /// What one of eight threads waits costs an eighth of it.
    #[test]
    fn threads_share_a_budget() {
        let budget = WaitBudget::new(Duration::from_secs(2));
        call(&budget, Duration::from_secs(1));
        budget.set_limit(Duration::from_secs(3));
        budget.share_among(8);
        assert_eq!(budget.left_for_call(), Duration::from_secs(16));
        call(&budget, Duration::from_secs(8));
        assert_eq!((budget.used(), budget.left()), (Duration::from_secs(2), Duration::from_secs(1)));
    }

    #[test]
    fn a_caller_that_must_wait_has_no_limit() {
        let budget = WaitBudget::unlimited();
        call(&budget, Duration::from_secs(1 << 40));
        assert!(budget.is_unlimited());
        assert_eq!((budget.left(), budget.left_for_call()), (Duration::MAX, Duration::MAX));
    }
}
