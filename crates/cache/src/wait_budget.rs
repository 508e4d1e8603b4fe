//! The time that a caller may lose to an engine.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

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
    /// The number of calls that are announced.
    callers: AtomicUsize,
    owes_warning: AtomicBool,
    has_warned: AtomicBool,
}

impl WaitBudget {
    /// Creates a budget of `limit`. With none, the tier is not called, without a warning.
    pub fn new(limit: Duration) -> Self {
        let (used, has_warned) = (AtomicU64::new(0), AtomicBool::new(limit.is_zero()));
        let (limit, threads) = (AtomicU64::new(micros(limit)), AtomicU32::new(1));
        let (callers, owes_warning) = Default::default();
        Self { limit, used, threads, clock: CallClock::new(), callers, owes_warning, has_warned }
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
            limit => Duration::from_micros(limit.saturating_sub(self.used.load(Ordering::SeqCst))),
        }
    }

    pub(crate) fn is_unlimited(&self) -> bool {
        self.limit.load(Ordering::Relaxed) == u64::MAX
    }

    /// Returns the maximum time of a call that begins now.
    pub(crate) fn left_for_call(&self) -> Duration {
        self.left().saturating_mul(self.threads.load(Ordering::Relaxed))
    }

    /// Announces a call, or a wait for one of another thread or process, until the result is dropped. For each of them, before the look at
    /// what is left.
    pub(crate) fn enter(&self) -> InCall<'_> {
        self.callers.fetch_add(1, Ordering::SeqCst);
        InCall(self)
    }

    /// Begins a wait at `now`.
    pub(crate) fn begin_wait_at(&self, now: Instant) {
        self.clock.begin_at(now);
    }

    /// Charges a wait that took `time`, without the time in which this process was `suspended`.
    pub(crate) fn end_wait_at(&self, now: Instant, time: Duration, suspended: Duration) {
        self.clock.end_at(now, suspended);
        let share = time / self.threads.load(Ordering::Relaxed);
        self.used.fetch_add(micros(share), Ordering::SeqCst);
    }

    /// Records that a call was not made, or ended early, since the budget is used up.
    pub(crate) fn owe_warning(&self) {
        self.owes_warning.store(true, Ordering::SeqCst);
    }

    /// Whether a reason was reported.
    pub(crate) fn has_warned(&self) -> bool {
        self.has_warned.load(Ordering::SeqCst)
    }

    /// Whether no reason was reported before. For a reason in place of the warning.
    pub(crate) fn is_first_reason(&self) -> bool {
        !self.has_warned.swap(true, Ordering::SeqCst)
    }

    /// Returns the warning that the budget is used up, once. It has the time in which at least one thread waited, as a summary has: so it is
    /// due when no thread waits any more, and the caller that ends last gets it.
    pub(crate) fn warning(&self) -> Option<String> {
        let is_due = self.owes_warning.load(Ordering::SeqCst) && self.callers.load(Ordering::SeqCst) == 0;
        (is_due && self.is_first_reason()).then(|| {
            let waited = self.clock.waited().as_secs_f64();
            let limit = Duration::from_micros(self.limit.load(Ordering::Relaxed)).as_secs_f64();
            format!(
                "the remote cache is too slow: its answers took {waited:.1} s, and the limit is {limit:.1} s"
            )
        })
    }
}

/// A call within a budget.
#[derive(Debug)]
pub(crate) struct InCall<'a>(&'a WaitBudget);

impl Drop for InCall<'_> {
    fn drop(&mut self) {
        self.0.callers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::AnswerWait;

    fn call(budget: &WaitBudget, time: Duration) {
        AnswerWait::begin(None, Some(budget)).end(time, Duration::ZERO);
    }

    /// Its number has the time of all of them.
    #[test]
    fn a_warning_waits_for_the_calls_in_progress() {
        let budget = WaitBudget::new(Duration::from_secs(1));
        let (first, second) = (budget.enter(), budget.enter());
        call(&budget, Duration::from_secs(1));
        drop(first);
        budget.owe_warning();
        assert_eq!(budget.warning(), None, "the second one is in progress");
        drop(second);
        assert!(budget.warning().is_some() && budget.warning().is_none());
        // If none is owed, a call that ends last warns of nothing.
        let answered = WaitBudget::new(Duration::from_secs(1));
        call(&answered, Duration::from_secs(1));
        assert_eq!((answered.left(), answered.warning()), (Duration::ZERO, None));
    }

    #[test]
    fn a_budget_is_used_up_and_warns_once() {
        let budget = WaitBudget::new(Duration::from_secs(2));
        call(&budget, Duration::from_millis(1500));
        assert_eq!((budget.used(), budget.left()), (Duration::from_millis(1500), Duration::from_millis(500)));
        call(&budget, Duration::from_secs(9));
        assert_eq!(budget.left(), Duration::ZERO);
        budget.owe_warning();
        assert!(budget.warning().is_some_and(|text| text.ends_with("and the limit is 2.0 s")));
        assert_eq!(budget.warning(), None);
        let none = WaitBudget::new(Duration::ZERO);
        none.owe_warning();
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
