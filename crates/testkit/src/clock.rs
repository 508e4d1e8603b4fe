//! A clock that a test moves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use opkeep_fs::Clock;

/// The machine's clock, moved by a test.
#[derive(Debug, Default)]
pub struct TestClock {
    /// Milliseconds.
    ahead: AtomicU64,
    behind: Duration,
}

impl TestClock {
    /// A clock that is `behind` the machine's: so it can be moved without a time in the future.
    pub fn behind(behind: Duration) -> Self {
        Self { behind, ..Self::default() }
    }

    /// Moves the clock on.
    pub fn advance(&self, time: Duration) {
        self.ahead.fetch_add(time.as_millis() as u64, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> SystemTime {
        SystemTime::now() - self.behind + Duration::from_millis(self.ahead.load(Ordering::SeqCst))
    }
}
