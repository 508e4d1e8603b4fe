//! Times of HTTP and S3, in seconds since 1970, without leap seconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opkeep_fs::date_of_day;

const DAY: i64 = 86_400;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A time, to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timestamp(i64);

impl Timestamp {
    /// The time of this machine's clock, moved by `offset` seconds.
    pub(super) fn now(offset: i64) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_secs()).unwrap_or_default().saturating_add(offset))
    }

    /// Returns the seconds from `earlier` to this time.
    pub(super) fn seconds_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the time from `earlier` to this time, 0 if it is later.
    pub(super) fn since(self, earlier: Self) -> Duration {
        Duration::from_secs(u64::try_from(self.seconds_since(earlier)).unwrap_or_default())
    }

    /// Returns the time as `20261127T155741Z`.
    pub(super) fn compact(self) -> String {
        let (year, month, day) = date_of_day(self.0.div_euclid(DAY));
        let seconds = self.0.rem_euclid(DAY);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
    }

    /// Parses the header `Date`, such as `Fri, 27 Nov 2026 15:57:41 GMT`.
    pub(super) fn from_http(text: &str) -> Option<Self> {
        let (_, text) = text.split_once(", ")?;
        let mut words = text.strip_suffix(" GMT")?.split(' ');
        let (day, month, year, time) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
        if words.next().is_some() {
            return None;
        }
        Self::new([number(year)?, month, number(day)?], time)
    }

    /// Parses a time of a listing, such as `2026-11-27T15:57:41.000Z`.
    pub(super) fn from_listing(text: &str) -> Option<Self> {
        let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
        let mut numbers = date.split('-').map(number);
        let (year, month, day) = (numbers.next()??, numbers.next()??, numbers.next()??);
        let time = time.split_once('.').map_or(time, |(time, _)| time);
        Self::new([year, month, day], time)
    }

    fn new([year, month, day]: [i64; 3], time: &str) -> Option<Self> {
        let mut numbers = time.split(':').map(number);
        let (hour, minute, second) = (numbers.next()??, numbers.next()??, numbers.next()??);
        let is_time = numbers.next().is_none() && hour < 24 && minute < 60 && second <= 60;
        let is_date = (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
        (is_time && is_date).then(|| Self(days(year, month, day) * DAY + hour * 3600 + minute * 60 + second))
    }
}

fn number(text: &str) -> Option<i64> {
    (text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// Returns the number of days from 1970-01-01 to a date. Years begin in March here, so that a leap day is the last day of one.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_days_come_back() {
        for day in 0..400 * 366 {
            let (year, month, of_month) = date_of_day(day);
            assert_eq!(days(year, month, of_month), day);
            let text = Timestamp(day * DAY + 3661).compact();
            let listed = format!("{}-{}-{}T01:01:01.000Z", &text[..4], &text[4..6], &text[6..8]);
            assert_eq!(Timestamp::from_listing(&listed), Some(Timestamp(day * DAY + 3661)), "{text}");
        }
    }

    #[test]
    fn known_times() {
        // By `date -u -d @1795795061`.
        let time = Timestamp(1_795_795_061);
        assert_eq!(time.compact(), "20261127T155741Z");
        assert_eq!(Timestamp::from_http("Fri, 27 Nov 2026 15:57:41 GMT"), Some(time));
        assert_eq!(Timestamp::from_listing("2026-11-27T15:57:41Z"), Some(time));
        assert_eq!(Timestamp(951_782_400).compact(), "20000229T000000Z");
        assert_eq!(time.since(Timestamp(1_795_795_000)), Duration::from_secs(61));
        assert_eq!(Timestamp(5).since(Timestamp(9)), Duration::ZERO);
    }

    #[test]
    fn other_texts_are_no_times() {
        for text in [
            "",
            "now",
            "Fri, 27 Nov 2026 15:57:41",
            "Fri, 27 XXX 2026 15:57:41 GMT",
            "Fri, 27 Nov 2026 25:57:41 GMT",
        ] {
            assert_eq!(Timestamp::from_http(text), None, "{text}");
        }
        for text in [
            "",
            "2026-11-27",
            "2026-13-27T15:57:41Z",
            "2026-11-27T15:57Z",
            "-026-11-27T15:57:41Z",
            "2026-11-27T15:57:41:1Z",
        ] {
            assert_eq!(Timestamp::from_listing(text), None, "{text}");
        }
    }
}
