//! What a failed holder of a lock leaves for those who waited.
//!
//! A failure for want of time holds only for those who have no more of it, so it carries the limit it met.

use std::time::Duration;

/// The text to leave: the limit in milliseconds, if time was the reason, and the reason.
pub(crate) fn write(reason: &str, limit: Option<Duration>) -> String {
    let limit = limit.map(|limit| limit.as_millis().to_string()).unwrap_or_default();
    format!("{limit}\n{reason}")
}

/// The reason, if it is one for somebody whose own limit is `limit`.
pub(crate) fn read(left: &str, limit: Option<Duration>) -> Option<String> {
    let (met, reason) = left.split_once('\n')?;
    let holds = match met.parse::<u128>() {
        Ok(met) => limit.is_some_and(|limit| limit.as_millis() <= met),
        Err(_) => true,
    };
    holds.then(|| reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_time_is_handed_to_those_who_have_no_more() {
        let second = Duration::from_secs(1);
        let left = write("too slow", Some(second));
        assert_eq!(read(&left, Some(second)).as_deref(), Some("too slow"));
        assert_eq!(read(&left, Some(second / 2)).as_deref(), Some("too slow"));
        assert_eq!(read(&left, Some(second * 2)), None);
        assert_eq!(read(&left, None), None);
        assert_eq!(
            read(&write("kernel.c:1: error", None), Some(second)).as_deref(),
            Some("kernel.c:1: error")
        );
        assert_eq!(read("torn", Some(second)), None);
    }
}
