//! When a host that waits for entries of others asks the engine. Nothing here calls an engine or reads a clock.
//!
//! A *hint* is one reading of the plan's counter: cheap, and possibly wrong, since plans overlap and engines lose counters. A
//! *batch* reads the missing entries and their leases. A batch comes at every third of a time to live, and earlier if the counter
//! has grown by enough, or a lease may have become stale. If an engine has no counters, batches alone come: soon at first, and less
//! often while they bring nothing, since some engines charge for each object that is asked for.

use std::time::{Duration, Instant};

/// The pause between two hints grows with the wait, within these bounds.
const HINTS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));
/// A pause is at most this part of the wait so far.
const HINT_SHARE: u32 = 5;
/// The shortest pause between two batches without hints.
const SHORTEST_BATCH: Duration = Duration::from_millis(250);
/// The same for each missing entry.
const BATCH_PER_ENTRY: Duration = Duration::from_millis(4);
/// If the counter grew by one of so many missing entries, a batch follows at once.
const ENOUGH_SHARE: usize = 8;
/// The time after the last batch at which a batch follows if the counter grew at all.
const LATEST_AFTER_HINT: Duration = Duration::from_millis(500);
/// The shortest pause before a batch that may show that a holder is stale.
const SHORTEST_STALE: Duration = Duration::from_millis(5);

/// The times of the next calls of one wait.
#[derive(Clone, Debug)]
pub struct PollSchedule {
    began: Instant,
    batched: Instant,
    next_batch: Instant,
    next_hint: Option<Instant>,
    /// The pause before the next batch without hints.
    pause: Duration,
    missing: usize,
    counter: Option<u64>,
    /// The counter at the last batch.
    counter_then: Option<u64>,
}

/// A call of a host that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// Read the counter.
    Hint,
    /// Read the missing entries and their leases.
    Batch,
}

/// The outcome of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchOutcome {
    /// The number of entries that are still missing.
    pub missing: usize,
    /// Whether the batch changed what the host knows.
    pub had_news: bool,
    /// The earliest time at which a lease may be stale.
    pub stale_at: Option<Instant>,
}

impl PollSchedule {
    /// Creates the schedule of a wait for `missing` entries that begins now, and whose batch has just come. `has_hints`: there is
    /// a plan, and the engine has counters. `random` differs between hosts.
    pub fn new(now: Instant, missing: usize, has_hints: bool, ttl: Duration, random: u64) -> Self {
        let mut schedule = Self {
            began: now,
            batched: now,
            next_batch: now,
            next_hint: has_hints.then_some(now + jitter(HINTS.0, random)),
            pause: SHORTEST_BATCH,
            missing,
            counter: None,
            counter_then: None,
        };
        schedule.batched(now, BatchOutcome { missing, had_news: true, stale_at: None }, ttl, random);
        schedule
    }

    /// Returns the next call and its time.
    pub fn next(&self) -> (Instant, Poll) {
        match self.next_hint.filter(|hint| *hint < self.next_batch) {
            Some(hint) => (hint, Poll::Hint),
            None => (self.next_batch, Poll::Batch),
        }
    }

    /// Has a batch come at `at`, or before.
    pub fn batch_at(&mut self, at: Instant) {
        self.next_batch = self.next_batch.min(at);
    }

    /// Records a batch at `now`.
    pub fn batched(&mut self, now: Instant, outcome: BatchOutcome, ttl: Duration, random: u64) {
        let longest = ttl / 3;
        self.missing = outcome.missing;
        self.counter_then = self.counter;
        self.batched = now;
        let shortest =
            (BATCH_PER_ENTRY * u32::try_from(outcome.missing).unwrap_or(u32::MAX)).max(SHORTEST_BATCH);
        self.pause = if outcome.had_news { shortest } else { (self.pause * 3 / 2).max(shortest) };
        let pause = if self.next_hint.is_some() { longest } else { self.pause.min(longest) };
        self.next_batch = now + jitter(pause, random);
        if let Some(stale_at) = outcome.stale_at {
            self.batch_at(stale_at.max(now + SHORTEST_STALE.min(longest)));
        }
    }

    /// Records a hint at `now`. `None`: the engine has no counters.
    pub fn hinted(&mut self, now: Instant, counter: Option<u64>, random: u64) {
        let Some(counter) = counter else {
            self.next_hint = None;
            return self.batch_at(self.batched + self.pause);
        };
        self.counter = Some(counter);
        // Before the first hint nothing is known of the counter: whatever it counts may have come since the last batch.
        let then = *self.counter_then.get_or_insert(0);
        // A counter that an engine lost begins again: that is a change, too.
        let grown = usize::try_from(counter.abs_diff(then)).unwrap_or(usize::MAX);
        if grown > 0 {
            let is_enough = grown.saturating_mul(ENOUGH_SHARE) >= self.missing;
            self.batch_at(if is_enough { now } else { self.batched + LATEST_AFTER_HINT });
        }
        let wait = now.saturating_duration_since(self.began);
        let longest = (wait / HINT_SHARE).clamp(HINTS.0 * 2, HINTS.1);
        self.next_hint = Some(now + HINTS.0 + (longest - HINTS.0).mul_f64(fraction(random)));
    }

    /// Records that a call failed at `now`.
    pub fn failed(&mut self, now: Instant, random: u64) {
        let at = now + jitter(SHORTEST_BATCH, random);
        self.next_batch = self.next_batch.max(at);
        self.next_hint = self.next_hint.map(|hint| hint.max(at));
    }
}

/// Returns three quarters of `pause` to all of it.
fn jitter(pause: Duration, random: u64) -> Duration {
    pause.mul_f64(0.75 + 0.25 * fraction(random))
}

/// Returns a number from 0 to below 1.
fn fraction(random: u64) -> f64 {
    f64::from(u32::try_from(random >> 32).unwrap_or(0)) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn millis(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    fn outcome(missing: usize, had_news: bool) -> BatchOutcome {
        BatchOutcome { missing, had_news, stale_at: None }
    }

    /// Numbers that are spread over all 64 bits.
    fn spread(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn hints_come_every_20_to_250_ms_and_a_batch_at_a_third_of_the_time_to_live() {
        let began = Instant::now();
        let mut schedule = PollSchedule::new(began, 1, true, TTL, u64::MAX);
        let (mut now, mut hints, mut longest) = (began, 0_u64, Duration::ZERO);
        while let (at, Poll::Hint) = schedule.next() {
            if hints > 0 {
                let pause = at - now;
                assert!((millis(20)..=millis(250)).contains(&pause), "{pause:?}");
                longest = longest.max(pause);
            }
            now = at;
            hints += 1;
            schedule.hinted(now, Some(0), spread(hints));
        }
        assert!(longest > millis(200), "{longest:?}");
        assert!((millis(7500)..=TTL / 3).contains(&(schedule.next().0 - began)));
        assert!((50..200).contains(&hints), "{hints}");
    }

    #[test]
    fn a_counter_that_grew_by_enough_brings_a_batch_at_once() {
        let now = Instant::now();
        for (missing, grown, pause) in [(1, 1, 0), (8, 1, 0), (9, 1, 500), (100, 12, 500), (100, 13, 0)] {
            let mut schedule = PollSchedule::new(now, missing, true, TTL, 0);
            schedule.hinted(now, Some(0), 0);
            assert_ne!(schedule.next().1, Poll::Batch, "no host has finished anything");
            schedule.hinted(now, Some(70), 0);
            schedule.batched(now, outcome(missing, true), TTL, 0);
            schedule.hinted(now, Some(70), 0);
            assert_ne!(schedule.next().1, Poll::Batch);
            // A lost counter is lower than before.
            for counter in [70 + grown, 70 - grown] {
                let mut schedule = schedule.clone();
                schedule.hinted(now, Some(counter), 0);
                schedule.next_hint = None;
                assert_eq!(schedule.next(), (now + millis(pause), Poll::Batch), "{missing} {counter}");
            }
        }
    }

    /// The entries may have come after the look and before the first hint.
    #[test]
    fn a_counter_that_has_grown_before_the_first_hint_brings_a_batch() {
        let now = Instant::now();
        let mut schedule = PollSchedule::new(now, 100, true, TTL, 0);
        schedule.hinted(now, Some(3), 0);
        schedule.next_hint = None;
        assert_eq!(schedule.next(), (now + LATEST_AFTER_HINT, Poll::Batch));
    }

    #[test]
    fn without_counters_batches_become_rare_until_one_has_news() {
        let mut now = Instant::now();
        let mut schedule = PollSchedule::new(now, 1, true, TTL, u64::MAX);
        schedule.hinted(now, None, u64::MAX);
        let mut pauses = Vec::new();
        for had_news in [false, false, false, true, false, false, false, false, false, false, false, false] {
            let (at, poll) = schedule.next();
            assert_eq!(poll, Poll::Batch);
            pauses.push((at - now).as_millis());
            now = at;
            schedule.batched(now, outcome(1, had_news), TTL, u64::MAX);
        }
        assert_eq!(pauses, [250, 375, 562, 843, 250, 375, 562, 843, 1265, 1898, 2847, 4271]);
        // Many entries cost much.
        schedule.batched(now, outcome(1000, true), TTL, u64::MAX);
        assert_eq!((schedule.next().0 - now).as_millis(), 4000);
    }

    #[test]
    fn a_lease_that_may_be_stale_brings_a_batch() {
        let now = Instant::now();
        let mut schedule = PollSchedule::new(now, 1, false, TTL, 0);
        let stale_at = Some(now + millis(40));
        schedule.batched(now, BatchOutcome { missing: 1, had_news: false, stale_at }, TTL, 0);
        assert_eq!(schedule.next(), (now + millis(40), Poll::Batch));
        let stale_at = Some(now);
        schedule.batched(now, BatchOutcome { missing: 1, had_news: false, stale_at }, TTL, 0);
        assert_eq!(schedule.next().0, now + SHORTEST_STALE);
    }
}
