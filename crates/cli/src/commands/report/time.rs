//! Times and durations as text.

use std::time::{Duration, SystemTime};

use opkeep_fs::date_of_day;

/// Returns the Unix time in milliseconds.
pub(super) fn millis(time: SystemTime) -> u64 {
    u64::try_from(opkeep_fs::unix(time).as_millis()).unwrap_or(u64::MAX)
}

/// `2026-11-28 12:31:05 UTC`
pub(super) fn utc(millis: u64) -> String {
    let (seconds, day) = (millis / 1000 % 86_400, millis / 86_400_000);
    let (year, month, of_month) = date_of_day(day.try_into().unwrap_or(i64::MAX));
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{of_month:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// `640 µs`, `95 ms`, `12.3 s`, `2 min 5 s`, `3 h 7 min`
pub(super) fn duration(micros: u64) -> String {
    let tenths = micros.saturating_add(50_000) / 100_000;
    let seconds = micros.saturating_add(500_000) / 1_000_000;
    match micros {
        0 => "0 s".to_owned(),
        1..1000 => format!("{micros} µs"),
        1000..999_500 => format!("{} ms", (micros + 500) / 1000),
        _ if tenths < 600 => format!("{}.{} s", tenths / 10, tenths % 10),
        _ if seconds < 3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// `3 days ago`, with the largest unit of which there is one.
pub(super) fn ago(age: Duration) -> String {
    let seconds = age.as_secs();
    let (count, unit) = match seconds {
        0..60 => return "less than a minute ago".to_owned(),
        60..3600 => (seconds / 60, "minute"),
        3600..86_400 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{} ago", crate::ui::text::counted(count, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_164_799, "2024-02-28 23:59:59 UTC"),
            (1_709_251_200, "2024-03-01 00:00:00 UTC"),
            (1_764_331_265, "2025-11-28 12:01:05 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(seconds * 1000), text);
        }
        assert!(utc(u64::MAX).ends_with("UTC"));
    }

    #[test]
    fn durations_have_the_unit_that_fits() {
        for (micros, text) in [
            (0, "0 s"),
            (640, "640 µs"),
            (1499, "1 ms"),
            (999_499, "999 ms"),
            (999_500, "1.0 s"),
            (12_349_000, "12.3 s"),
            (59_949_999, "59.9 s"),
            (59_950_000, "1 min 0 s"),
            (125_000_000, "2 min 5 s"),
            (11_220_000_000, "3 h 7 min"),
        ] {
            assert_eq!(duration(micros), text, "{micros}");
        }
        assert_eq!(ago(Duration::from_secs(7200)), "2 hours ago");
    }
}
