//! Times and durations as text.

use std::time::{Duration, SystemTime};

pub(super) use opkeep_fs::utc;

/// Returns the Unix time in milliseconds.
pub(super) fn millis(time: SystemTime) -> u64 {
    u64::try_from(opkeep_fs::unix(time).as_millis()).unwrap_or(u64::MAX)
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
