//! Dates.

/// Returns the year, the month and the day of the month of the day that is `days` days after 1970-01-01, in the Gregorian calendar.
pub fn date_of_day(days: i64) -> (i64, i64, i64) {
    // Years begin in March, so that a leap day is the last day of its year; the year 0 began 719,468 days before 1970.
    let days = days.saturating_add(719_468);
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// Returns a point in time as text, in UTC: `2026-11-28 12:31:05 UTC`. `millis` is the Unix time in milliseconds.
pub fn utc(millis: u64) -> String {
    let (seconds, day) = (millis / 1000 % 86_400, millis / 86_400_000);
    let (year, month, of_month) = date_of_day(day.try_into().unwrap_or(i64::MAX));
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{of_month:02} {hour:02}:{minute:02}:{second:02} UTC")
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

    /// Each day of 800 years follows the day before, by the rule of leap years.
    #[test]
    fn days_follow_each_other() {
        let is_leap = |year: i64| year % 4 == 0 && year % 100 != 0 || year % 400 == 0;
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..292_194 {
            assert_eq!(date_of_day(days), (year, month, day), "day {days}");
            let february = if is_leap(year) { 29 } else { 28 };
            let length = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month as usize - 1];
            (year, month, day) = match (day < length, month < 12) {
                (true, _) => (year, month, day + 1),
                (false, true) => (year, month + 1, 1),
                (false, false) => (year + 1, 1, 1),
            };
        }
        assert_eq!(date_of_day(-1), (1969, 12, 31));
    }
}
