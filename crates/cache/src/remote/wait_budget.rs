//! The time that a caller waits for the answers of an engine.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The time that the calls of one caller to a remote tier may take together. When it is used up, the caller goes on without the
/// tier: an engine that answers too slowly costs no more time than the caller has set. Threads share it.
#[derive(Debug)]
pub struct WaitBudget {
    limit: Duration,
    /// In microseconds.
    used: AtomicU64,
    has_warned: AtomicBool,
}

impl WaitBudget {
    /// Creates a budget of `limit`. With none, the tier is not called, without a warning.
    pub fn new(limit: Duration) -> Self {
        Self { limit, used: AtomicU64::new(0), has_warned: AtomicBool::new(limit.is_zero()) }
    }

    /// Returns the time that calls have taken so far.
    pub fn used(&self) -> Duration {
        Duration::from_micros(self.used.load(Ordering::Relaxed))
    }

    pub(crate) fn left(&self) -> Duration {
        self.limit.saturating_sub(self.used())
    }

    pub(crate) fn charge(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.used.fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns the warning that the budget is used up, once.
    pub(crate) fn warning(&self) -> Option<String> {
        let is_first = !self.has_warned.swap(true, Ordering::Relaxed);
        is_first.then(|| {
            let seconds = self.limit.as_secs_f64();
            format!("the answers of the remote cache took {seconds:.1} s, the limit for them")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_used_up_and_warns_once() {
        let budget = WaitBudget::new(Duration::from_secs(2));
        budget.charge(Duration::from_millis(1500));
        assert_eq!((budget.used(), budget.left()), (Duration::from_millis(1500), Duration::from_millis(500)));
        budget.charge(Duration::from_secs(9));
        assert_eq!(budget.left(), Duration::ZERO);
        assert!(budget.warning().is_some_and(|text| text.contains("2.0 s")));
        assert_eq!(budget.warning(), None);
        let none = WaitBudget::new(Duration::ZERO);
        assert_eq!((none.left(), none.warning()), (Duration::ZERO, None));
    }
}
