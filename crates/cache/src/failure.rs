//! The failure that a holder of a key leaves to its waiters.

use std::time::Duration;

/// Why a build failed that would fail for the waiters as well.
///
/// A failure for lack of time holds only for waiters that have no more time, so it carries the limit that it met.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The reason, for people.
    pub reason: String,
    /// The time limit that was exceeded, if the build failed for that.
    pub time_limit: Option<Duration>,
}

impl Failure {
    /// A failure that does not depend on time.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), time_limit: None }
    }

    /// A build that exceeded `limit`.
    pub fn timed_out(reason: impl Into<String>, limit: Duration) -> Self {
        Self { reason: reason.into(), time_limit: Some(limit) }
    }

    /// The text in the lock's file: the limit in milliseconds or nothing, and the reason.
    pub(crate) fn encode(&self) -> String {
        let limit = self.time_limit.map(|limit| limit.as_millis().to_string()).unwrap_or_default();
        format!("{limit}\n{}", self.reason)
    }

    /// Reads what [`encode`](Self::encode) wrote. `None` if it does not hold for a waiter whose own limit is `limit`.
    pub(crate) fn for_waiter(text: &str, limit: Option<Duration>) -> Option<Self> {
        let (exceeded, reason) = text.split_once('\n')?;
        let Ok(millis) = exceeded.parse::<u64>() else { return Some(Self::new(reason)) };
        let exceeded = Duration::from_millis(millis);
        let holds = limit.is_some_and(|limit| limit.as_millis() <= u128::from(millis));
        holds.then(|| Self::timed_out(reason, exceeded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_time_holds_for_waiters_with_no_more_time() {
        let second = Duration::from_secs(1);
        let read = |text: &str, limit| Failure::for_waiter(text, limit).map(|failure| failure.reason);
        let left = Failure::timed_out("too slow", second).encode();
        assert_eq!(read(&left, Some(second)).as_deref(), Some("too slow"));
        assert_eq!(read(&left, Some(second / 2)).as_deref(), Some("too slow"));
        assert_eq!(read(&left, Some(second * 2)), None);
        assert_eq!(read(&left, None), None);
        let left = Failure::new("kernel.c:1: error\nand more").encode();
        assert_eq!(read(&left, Some(second)).as_deref(), Some("kernel.c:1: error\nand more"));
        assert_eq!(read(&left, None).as_deref(), Some("kernel.c:1: error\nand more"));
        assert_eq!(read("no line", Some(second)), None);
    }
}
