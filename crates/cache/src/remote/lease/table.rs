//! What one host knows of the keys that it misses, and what it asks the engine next. Nothing here calls an engine or reads a clock.
//!
//! A *batch* is one call that asks for entries and leases; the caller makes it, and reports what arrived. A key is *watched* while a
//! caller waits for it, and *planned* while it belongs to a build that has not finished it.
//!
//! An entry that a call asks for, that has arrived, or that the host has, is in no other batch: so each is fetched once.

use std::time::{Duration, Instant};

use opkeep_digest::Digest;

use super::batch::{LeaseBatch, Question};
use super::observer::{LeaseReading, LeaseStep};
use super::row::{EntryState, Row};
use super::rows::Rows;
use super::schedule::{BatchOutcome, Poll, PollSchedule};
use crate::remote::object::{LeaseToken, LeaseValue};

/// The time for which a caller that begins a key believes what is known.
pub(super) const FRESH: Duration = Duration::from_millis(250);
/// The same, as a multiple of the time of the call: an engine that is slow, or has many hosts, is asked less often.
const FRESH_CALLS: u32 = 4;

/// The keys that one host misses. `E` is what the host keeps of an entry that arrived.
#[derive(Clone, Debug)]
pub struct LeaseTable<E> {
    ttl: Duration,
    pub(super) rows: Rows<E>,
    /// The number of claims that found the lease of another host. After such a claim, what is known of leases that seem to be free is
    /// not fresh any more.
    pub(super) claims: u64,
    /// The times of the next calls, while callers wait.
    schedule: Option<PollSchedule>,
}

impl<E> LeaseTable<E> {
    /// Creates an empty table of a host that takes over leases without a heartbeat after `ttl`.
    pub fn new(ttl: Duration) -> Self {
        Self { ttl, rows: Rows::new(), claims: 0, schedule: None }
    }

    /// Sets the plan: the keys of a build that the host misses. The local store had the entries of those that are `evicted`.
    pub fn plan(&mut self, missing: &[Digest], evicted: &[Digest]) {
        self.rows.change_all(|row| row.is_planned = false);
        for key in missing {
            self.rows.change(key, |row| row.is_planned = true);
        }
        for key in evicted {
            self.rows.change(key, |row| {
                if row.is_finished() {
                    (row.entry, row.fresh_until) = (EntryState::Missing, None);
                }
            });
        }
    }

    /// Whether the host has the entry of `key`, or builds it, as far as the table knows.
    pub fn is_finished(&self, key: &Digest) -> bool {
        self.rows.get(key).is_some_and(Row::is_finished)
    }

    /// Returns the keys that a caller asks for that begins `key`: all missing ones of which nothing fresh is known. `None`: what
    /// is known of `key` is fresh at `now`, or was found out later.
    pub fn look(&mut self, key: &Digest, now: Instant) -> Option<Vec<Digest>> {
        self.rows.change(key, |row| {
            if let EntryState::Stored { is_own: false } = row.entry {
                // The caller has looked it up, and does not use it.
                row.entry = EntryState::Missing;
            }
        });
        if self.rows.get(key).is_some_and(|row| row.has_entry() || self.is_fresh(row, now)) {
            return None;
        }
        let is_wanted = |(other, row): &(&Digest, &Row<E>)| {
            let is_missing = matches!(row.entry, EntryState::Missing);
            *other == key || is_missing && (row.watches > 0 || row.is_planned) && !self.is_fresh(row, now)
        };
        Some(self.rows.iter().filter(is_wanted).map(|(key, _)| *key).collect())
    }

    /// Returns the keys whose entries are asked for because callers wait for them. Those come first of which nothing new was known for
    /// the longest time.
    pub fn watched(&self) -> Vec<Digest> {
        let watched = self.rows.iter().filter(|(_, row)| row.is_awaited());
        let mut watched: Vec<_> = watched.map(|(key, row)| (row.fresh_until, *key)).collect();
        opkeep_order::sort(&mut watched);
        watched.into_iter().map(|(_, key)| key).collect()
    }

    /// Begins a batch for `keys`, which asks for their entries, their leases, or both. It asks for no entry that is on its way, or has
    /// arrived. At the end of the call, [`answered`](Self::answered) records the answer, if there is one, and
    /// [`end_asking`](Self::end_asking) each key that it asked for.
    pub fn batch(&mut self, keys: Vec<Digest>, entries: bool, leases: bool, now: Instant) -> LeaseBatch {
        let (mut questions, mut readings) = (Vec::new(), Vec::with_capacity(keys.len()));
        let ttl = self.ttl;
        for (key, digest) in keys.iter().enumerate() {
            let (is_asked, (first, count)) = self
                .rows
                .change(digest, |row| (entries && row.begin_asking(), row.leases.generations(now, ttl)));
            if is_asked {
                questions.push(Question::Entry { key });
            }
            let count = if leases { count } else { 0 };
            let generations = (0..count as u64).map(|above| first.saturating_add(above));
            questions.extend(generations.map(|generation| Question::Lease { key, generation }));
            readings.push(vec![LeaseReading::Absent; count]);
        }
        let is_dropped = vec![false; keys.len()];
        LeaseBatch { asked: now, keys, questions, readings, is_dropped }
    }

    /// Records a batch that the engine answered as a whole, at `now`. Returns whether it changed what the host does next.
    ///
    /// If the engine did not answer for all names, an object that did not arrive may exist: then nothing is recorded.
    pub fn answered(&mut self, batch: &LeaseBatch, now: Instant) -> bool {
        let (ttl, mut had_news) = (self.ttl, false);
        let (claims, fresh_until) = (self.claims, fresh_until(batch.asked, now));
        for ((key, readings), is_dropped) in batch.keys.iter().zip(&batch.readings).zip(&batch.is_dropped) {
            // A key that the caller has finished meanwhile is in no row.
            let is_new = self.rows.change_known(key, |row| {
                let before = row.leases.step(ttl);
                row.leases.note(batch.asked, readings);
                (row.fresh_until, row.claims_then) = (fresh_until.filter(|_| !is_dropped), claims);
                row.leases.step(ttl) != before
            });
            had_news |= is_new.unwrap_or(false);
        }
        had_news
    }

    /// Whether callers wait for the key.
    pub fn is_watched(&self, key: &Digest) -> bool {
        self.rows.get(key).is_some_and(|row| row.watches > 0)
    }

    /// Returns what follows from the leases on `key`.
    pub fn step(&self, key: &Digest) -> LeaseStep {
        self.rows.get(key).map_or(LeaseStep::Claim { generation: 0 }, |row| row.leases.step(self.ttl))
    }

    /// Whether there is something to do for `key`: its entry arrived, or its lease can be claimed.
    pub fn has_news(&self, key: &Digest) -> bool {
        let row = self.rows.get(key);
        row.is_none_or(|row| {
            row.has_entry() || !row.is_judged() && row.leases.step(self.ttl) != LeaseStep::Wait
        })
    }

    /// Whether the lease on `key` can be claimed, and its entry has not arrived.
    pub fn is_claimable(&self, key: &Digest) -> bool {
        let is_claim = matches!(self.step(key), LeaseStep::Claim { .. });
        is_claim && self.rows.get(key).is_none_or(|row| !row.has_entry() && !row.is_judged())
    }

    /// Returns the time of the last heartbeat of the holder, as this host noticed it.
    pub fn alive_at(&self, key: &Digest) -> Option<Instant> {
        self.rows.get(key).and_then(|row| row.leases.alive_at())
    }

    /// Records that the claim of a lease, in a call from `asked` to `now`, found that of another host.
    ///
    /// Other hosts are claiming, so what is known of leases that seemed to be free is not fresh any more: the next look asks for all
    /// of them in one call. Otherwise, each host of a thousand that begin at the same time would try to claim each key.
    pub fn note_held(
        &mut self,
        key: &Digest,
        [asked, now]: [Instant; 2],
        generation: u64,
        value: Option<LeaseValue>,
    ) {
        self.claims += 1;
        let claims = self.claims;
        self.rows.change(key, |row| {
            row.leases.note_held(asked, generation, value);
            (row.fresh_until, row.claims_then) = (fresh_until(asked, now), claims);
        });
    }

    /// Records that the process that had a lease is dead.
    pub fn note_dead(&mut self, key: &Digest, generation: u64, token: LeaseToken) {
        self.rows.change(key, |row| row.leases.note_dead(generation, token));
    }

    /// Returns the stale leases on `key` below `generation`.
    pub fn below(&self, key: &Digest, generation: u64) -> Vec<(u64, LeaseToken)> {
        self.rows.get(key).map(|row| row.leases.below(generation)).unwrap_or_default()
    }

    /// Whether the host that claims `generation` takes over from another host.
    pub fn is_takeover(&self, key: &Digest, generation: u64) -> bool {
        self.rows.get(key).map_or(generation > 0, |row| row.leases.is_takeover(generation))
    }

    /// Records that the host has the key's entry, or builds it.
    pub fn finished(&mut self, key: &Digest, now: Instant) {
        self.rows.change_known(key, |row| {
            (row.is_planned, row.fresh_until) = (false, None);
            row.entry = EntryState::Finished;
        });
        self.prune(now);
    }

    /// Removes what no caller needs any more.
    pub fn prune(&mut self, now: Instant) {
        self.rows.prune(now);
    }

    /// Begins a wait for `key`. `has_hints`: there is a plan, and the engine has counters. `random` differs between hosts.
    pub fn watch(&mut self, key: &Digest, has_hints: bool, now: Instant, random: u64) {
        self.rows.change(key, |row| {
            if row.watches == 0 && matches!(row.entry, EntryState::Finished) {
                row.entry = EntryState::Missing;
            }
            row.watches += 1;
        });
        if self.schedule.is_none() {
            let missing = self.count_watched();
            self.schedule = Some(PollSchedule::new(now, missing, has_hints, self.ttl, random));
        }
    }

    /// Ends a wait for `key`.
    pub fn unwatch(&mut self, key: &Digest, now: Instant) {
        self.rows.change_known(key, |row| {
            row.watches = row.watches.saturating_sub(1);
            if row.watches > 0 && matches!(row.entry, EntryState::Finished) {
                row.entry = EntryState::Missing;
            }
        });
        self.prune(now);
    }

    /// Returns the next call and its time, while callers wait.
    ///
    /// A caller that took an entry may refuse it, and waits on: so its wait ends with [`unwatch`](Self::unwatch) only.
    pub fn next_call(&mut self) -> Option<(Instant, Poll)> {
        if !self.rows.are_watched() {
            self.schedule = None;
        }
        self.schedule.as_ref().map(PollSchedule::next)
    }

    /// Records a batch for the watched keys, whose answer came at `now`, and returns the time of the next call.
    pub fn batched(&mut self, now: Instant, had_news: bool, random: u64) -> Option<Instant> {
        let outcome = BatchOutcome { missing: self.count_watched(), had_news, stale_at: self.stale_at() };
        let ttl = self.ttl;
        self.change_schedule(|schedule| schedule.batched(now, outcome, ttl, random))
    }

    /// Records that the plan's counter was `counter` at `now`, and returns the time of the next call. `None`: the engine has none.
    pub fn hinted(&mut self, now: Instant, counter: Option<u64>, random: u64) -> Option<Instant> {
        self.change_schedule(|schedule| schedule.hinted(now, counter, random))
    }

    /// Records that a call failed at `now`, and returns the time of the next call.
    pub fn failed(&mut self, now: Instant, random: u64) -> Option<Instant> {
        self.change_schedule(|schedule| schedule.failed(now, random))
    }

    fn change_schedule(&mut self, change: impl FnOnce(&mut PollSchedule)) -> Option<Instant> {
        let schedule = self.schedule.as_mut()?;
        change(schedule);
        Some(schedule.next().0)
    }

    /// Returns the number of keys whose entries are missing while callers wait for them.
    fn count_watched(&self) -> usize {
        self.rows.iter().filter(|(_, row)| row.is_awaited()).count()
    }

    fn stale_at(&self) -> Option<Instant> {
        let rows = self.rows.iter().map(|(_, row)| row).filter(|row| row.watches > 0);
        let waited = rows.filter(|row| row.leases.step(self.ttl) == LeaseStep::Wait);
        waited.filter_map(|row| row.leases.stale_at(self.ttl)).min()
    }

    fn is_fresh(&self, row: &Row<E>, now: Instant) -> bool {
        let is_believed = row.claims_then == self.claims || row.watches > 0 || {
            let seems_free = matches!(row.leases.step(self.ttl), LeaseStep::Claim { .. });
            !seems_free
        };
        is_believed && row.fresh_until.is_some_and(|until| now < until)
    }
}

/// Returns the time until which an answer is fresh that came at `now`, in a call that began at `asked`.
fn fresh_until(asked: Instant, now: Instant) -> Option<Instant> {
    let call = now.saturating_duration_since(asked);
    now.checked_add(FRESH.max(call * FRESH_CALLS))
}

#[cfg(test)]
mod tests;
