//! How much a processor had to do: what others do on the machine meanwhile does not count.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Measures the processor time of the thread that began it. For tests of how time grows with size: a clock on the wall
/// would say how busy the machine is.
#[derive(Clone, Copy, Debug)]
pub struct Work(Duration);

impl Work {
    /// Begins to count.
    pub fn begin() -> Self {
        Self(so_far())
    }

    /// What this thread has worked since.
    pub fn spent(self) -> Duration {
        so_far().saturating_sub(self.0)
    }
}

fn so_far() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
