//! The processor time of a thread.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The processor time of the thread that started it. For tests of how time grows with size: other work on the machine
/// does not count.
#[derive(Clone, Copy, Debug)]
pub struct CpuTime(Duration);

impl CpuTime {
    /// Starts the measurement.
    pub fn start() -> Self {
        Self(now())
    }

    /// The processor time that this thread has used since the start.
    pub fn elapsed(self) -> Duration {
        now().saturating_sub(self.0)
    }
}

fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
