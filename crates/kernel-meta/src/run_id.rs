//! The name of a run of repair.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opkeep_fs::date_of_day;

/// The name of a run of repair. The quarantines of all caches that the run repairs have this name, so that the run can
/// be undone as a whole.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(String);

impl RunId {
    /// Returns the name of a run that begins now: `<UTC>-<process>`.
    pub fn now() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (stamp, process) = (stamp(since), std::process::id());
        Self(match NEXT.fetch_add(1, Ordering::Relaxed) {
            0 => format!("{stamp}-{process}"),
            number => format!("{stamp}-{process}-{number}"),
        })
    }

    /// Returns the name as text.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Returns whether `name` is that of a run's directory. Other programs may have directories beside it.
    pub fn is_dir_name(name: &OsStr) -> bool {
        let parts = |name: &str| {
            let (stamp, numbers) = name.split_once('-')?;
            let is_stamp = stamp.len() == STAMP.len()
                && stamp.bytes().zip(STAMP.bytes()).all(|(found, model)| match model {
                    b'0' => found.is_ascii_digit(),
                    _ => found == model,
                });
            let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            (is_stamp && numbers.split('-').all(is_number)).then_some(())
        };
        name.to_str().and_then(parts).is_some()
    }

    /// Returns the run to which the directory `name` belongs, and a key for the order of its directories: one run may
    /// have several, such as `<UTC>-<process>` and `<UTC>-<process>-2`.
    pub fn order_of(name: &OsStr) -> (String, Vec<u64>) {
        let name = name.to_string_lossy();
        let (stamp, numbers) = name.split_once('-').unwrap_or((&name, ""));
        let mut numbers = numbers.split('-');
        let run = format!("{stamp}-{}", numbers.next().unwrap_or_default());
        (run, numbers.map(|number| number.parse().unwrap_or(0)).collect())
    }
}

/// The format of the time in a name, with 0 for any digit.
const STAMP: &str = "00000000T000000.000Z";

/// Returns a time since 1970 as UTC text, in which later times are greater: `20260901T120000.000Z`.
fn stamp(since: Duration) -> String {
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date_of_day(days.try_into().unwrap_or(i64::MAX));
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}.{:03}Z", since.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_dates() {
        for (seconds, expected) in [
            (0, "19700101T000000.000Z"),
            (951_782_400, "20000229T000000.000Z"),
            (1_735_689_599, "20241231T235959.000Z"),
            (4_107_542_400, "21000301T000000.000Z"),
        ] {
            assert_eq!(stamp(Duration::from_secs(seconds)), expected);
        }
        let (first, second) = (RunId::now(), RunId::now());
        assert_ne!(first, second);
        assert!(
            [first.name(), second.name(), "20260901T120000.000Z-1-2-3"]
                .iter()
                .all(|name| RunId::is_dir_name(OsStr::new(name)))
        );
        for other in
            ["", "zzz", "20260901T120000.000Z", "20260901T120000.000Z-", "20260901T120000.000Z-1-x", "old-1"]
        {
            assert!(!RunId::is_dir_name(OsStr::new(other)), "{other}");
        }
    }
}
