//! The date of a day.

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

#[cfg(test)]
mod tests {
    use super::*;

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
