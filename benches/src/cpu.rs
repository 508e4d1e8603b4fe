//! Processor time, which does not count other processes.

use std::io;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::files::read_stat;

/// The processor time of this process so far, with all of its threads.
pub fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let part = |number: i64| u64::try_from(number).unwrap_or_default();
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}

/// The processor time of the children of this process, and of their children, as far as they have ended and were
/// awaited; in hundredths of a second.
///
/// # Errors
/// The kernel does not report it.
pub fn children_cpu() -> io::Result<Duration> {
    let stat = read_stat()?;
    // The name is in parentheses, and may contain anything.
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    let ticks: Option<Vec<u64>> =
        fields.split_whitespace().skip(13).take(2).map(|field| field.parse().ok()).collect();
    let ticks = ticks.filter(|ticks| ticks.len() == 2);
    let ticks = ticks.ok_or_else(|| io::Error::other("no times where the kernel should say them"))?;
    let each = Duration::from_secs(1) / u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100);
    Ok(each * u32::try_from(ticks.iter().sum::<u64>()).unwrap_or(u32::MAX))
}
