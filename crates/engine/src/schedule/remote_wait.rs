//! The time for which a remote tier is waited for.

use std::num::NonZeroUsize;
use std::time::Duration;

/// The time that a compile is assumed to take if no compile on this machine is known.
const USUAL_COMPILE: Duration = Duration::from_secs(1);
/// The shortest time for which a remote tier is waited for, however short the compiles are: a connection takes a while.
const SHORTEST_WAIT: Duration = Duration::from_secs(2);

/// Returns the longest time for which a remote tier is waited for: as long as `threads` threads need for the compiles that are
/// `expected` to take so long.
pub(crate) fn longest_wait(
    expected: impl Iterator<Item = Option<Duration>>,
    threads: NonZeroUsize,
) -> Duration {
    let (mut sum, mut longest) = (Duration::ZERO, SHORTEST_WAIT);
    for expected in expected.map(|expected| expected.unwrap_or(USUAL_COMPILE)) {
        sum = sum.saturating_add(expected);
        longest = longest.max(expected);
    }
    longest.max(sum / u32::try_from(threads.get()).unwrap_or(u32::MAX))
}
