//! The failure that the holder of a key passes on to the waiters.

use std::time::Duration;

/// The failure of a build that would fail for the waiters as well.
///
/// A timeout would repeat only for waiters with the same time limit or a shorter one, so it is passed on with the limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The reason, for people.
    pub reason: String,
    /// The time limit, if the build timed out.
    pub time_limit: Option<Duration>,
}

impl Failure {
    /// Creates a failure that does not depend on time.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), time_limit: None }
    }

    /// Creates the failure of a build that exceeded `limit`.
    pub fn timed_out(reason: impl Into<String>, limit: Duration) -> Self {
        Self { reason: reason.into(), time_limit: Some(limit) }
    }

    /// Returns the text for the lock's file: the limit in milliseconds or nothing, and the reason.
    pub(crate) fn encode(&self) -> String {
        let limit = self.time_limit.map(|limit| limit.as_millis().to_string()).unwrap_or_default();
        format!("{limit}\n{}", self.reason)
    }

    /// Reads the text of [`encode`](Self::encode). Returns `None` if a waiter whose own limit is `limit` may succeed.
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
    fn a_timeout_is_shared_by_waiters_with_no_more_time() {
        let second = Duration::from_secs(1);
        let read = |text: &str, limit| Failure::for_waiter(text, limit).map(|failure| failure.reason);
        let text = Failure::timed_out("too slow", second).encode();
        assert_eq!(read(&text, Some(second)).as_deref(), Some("too slow"));
        assert_eq!(read(&text, Some(second / 2)).as_deref(), Some("too slow"));
        assert_eq!(read(&text, Some(second * 2)), None);
        assert_eq!(read(&text, None), None);
        let text = Failure::new("kernel.c:1: error\nand more").encode();
        assert_eq!(read(&text, Some(second)).as_deref(), Some("kernel.c:1: error\nand more"));
        assert_eq!(read(&text, None).as_deref(), Some("kernel.c:1: error\nand more"));
        assert_eq!(read("no line", Some(second)), None);
    }
}
