//! What one host knows of the keys that it misses, and what it asks the engine next. Nothing here calls an engine or reads a clock.
//!
//! A *batch* is one call that asks for entries and leases; the caller makes it, and reports what arrived. A key is *watched* while a
//! caller waits for it, and *planned* while it belongs to a build that has not finished it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use opkeep_digest::Digest;

use super::observer::{LeaseObserver, LeaseReading, LeaseStep};
use super::schedule::{BatchOutcome, Poll, PollSchedule};
use crate::remote::object::{LeaseToken, LeaseValue};

/// The time for which a caller that begins a key believes what is known.
const FRESH: Duration = Duration::from_millis(250);
/// The same, as a multiple of the time of the call: an engine that is slow, or has many hosts, is asked less often.
const FRESH_CALLS: u32 = 4;

/// The keys that one host misses. `E` is what the host keeps of an entry that arrived.
#[derive(Clone, Debug)]
pub struct LeaseTable<E> {
    ttl: Duration,
    rows: HashMap<Digest, Row<E>>,
    /// The times of the next calls, while callers wait.
    schedule: Option<PollSchedule>,
}

#[derive(Clone, Debug)]
struct Row<E> {
    leases: LeaseObserver,
    /// The time until which what is known of the key is fresh.
    fresh_until: Option<Instant>,
    entry: Option<E>,
    /// The number of callers that wait for the key.
    watches: usize,
    /// Whether the key belongs to the plan, and no caller has finished it.
    is_planned: bool,
}

/// One call for several keys: its questions, and the answers so far.
#[derive(Clone, Debug)]
pub struct LeaseBatch {
    asked: Instant,
    keys: Vec<Digest>,
    questions: Vec<Question>,
    readings: Vec<Vec<LeaseReading>>,
}

/// An object that a batch asks for. `key` is the index of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Question {
    /// The entry.
    #[non_exhaustive]
    Entry {
        /// The index of the key.
        key: usize,
    },
    /// A lease.
    #[non_exhaustive]
    Lease {
        /// The index of the key.
        key: usize,
        /// The generation.
        generation: u64,
    },
}

impl LeaseBatch {
    /// Returns the keys.
    pub fn keys(&self) -> &[Digest] {
        &self.keys
    }

    /// Returns what the call asks for.
    pub fn questions(&self) -> &[Question] {
        &self.questions
    }

    /// Records the content of the lease that the question at `at` asks for. A lease that is not recorded does not exist.
    pub fn found_lease(&mut self, at: usize, content: &[u8]) {
        let Some(Question::Lease { key, .. }) = self.questions.get(at).copied() else { return };
        let first = self.questions[..at].iter().rposition(|question| !question.is_lease_of(key));
        let above = at - first.map_or(0, |before| before + 1);
        self.readings[key][above] = LeaseReading::new(Some(content));
    }
}

impl Question {
    fn is_lease_of(self, wanted: usize) -> bool {
        matches!(self, Self::Lease { key, .. } if key == wanted)
    }
}

impl<E> LeaseTable<E> {
    /// Creates an empty table of a host that takes over leases without a heartbeat after `ttl`.
    pub fn new(ttl: Duration) -> Self {
        Self { ttl, rows: HashMap::new(), schedule: None }
    }

    fn row(&mut self, key: &Digest) -> &mut Row<E> {
        self.rows.entry(*key).or_default()
    }

    /// Sets the plan: the keys of a build that the host misses.
    pub fn plan(&mut self, missing: &[Digest]) {
        self.rows.values_mut().for_each(|row| row.is_planned = false);
        for key in missing {
            self.row(key).is_planned = true;
        }
    }

    /// Returns the keys that a caller asks for that begins `key`: all missing ones of which nothing fresh is known. `None`: what
    /// is known of `key` is fresh.
    pub fn look(&mut self, key: &Digest, now: Instant) -> Option<Vec<Digest>> {
        let row = self.row(key);
        if row.entry.is_some() || row.is_fresh(now) {
            return None;
        }
        let is_wanted = |(other, row): &(&Digest, &Row<E>)| {
            *other == key || (row.watches > 0 || row.is_planned) && !row.is_fresh(now)
        };
        Some(self.rows.iter().filter(is_wanted).map(|(key, _)| *key).collect())
    }

    /// Returns the keys for whose entries callers wait.
    pub fn watched(&self) -> Vec<Digest> {
        self.rows.iter().filter(|(_, row)| row.is_awaited()).map(|(key, _)| *key).collect()
    }

    /// Begins a batch for `keys`, which asks for their entries, their leases, or both.
    pub fn batch(&mut self, keys: Vec<Digest>, entries: bool, leases: bool, now: Instant) -> LeaseBatch {
        let (mut questions, mut readings) = (Vec::new(), Vec::with_capacity(keys.len()));
        let ttl = self.ttl;
        for (key, digest) in keys.iter().enumerate() {
            if entries {
                questions.push(Question::Entry { key });
            }
            let (first, count) = self.row(digest).leases.generations(now, ttl);
            let count = if leases { count } else { 0 };
            let generations = (0..count as u64).map(|above| first.saturating_add(above));
            questions.extend(generations.map(|generation| Question::Lease { key, generation }));
            readings.push(vec![LeaseReading::Absent; count]);
        }
        LeaseBatch { asked: now, keys, questions, readings }
    }

    /// Records a batch that the engine answered as a whole, at `now`. Returns whether it changed what the host does next.
    ///
    /// If the engine did not answer for all names, an object that did not arrive may exist: then nothing is recorded.
    pub fn answered(&mut self, batch: &LeaseBatch, now: Instant) -> bool {
        let (ttl, mut had_news) = (self.ttl, false);
        let fresh_until = fresh_until(batch.asked, now);
        for (key, readings) in batch.keys.iter().zip(&batch.readings) {
            // A key that the caller has finished meanwhile is in no row.
            let Some(row) = self.rows.get_mut(key) else { continue };
            let before = row.leases.step(ttl);
            row.leases.note(batch.asked, readings);
            row.fresh_until = fresh_until;
            had_news |= row.leases.step(ttl) != before;
        }
        had_news
    }

    /// Records an entry that arrived for a key that is known.
    pub fn note_entry(&mut self, key: &Digest, entry: E) {
        if let Some(row) = self.rows.get_mut(key) {
            row.entry = Some(entry);
        }
    }

    /// Records an entry that the answer to a call of its own, which ends at `now`, brought.
    pub fn note_own_entry(&mut self, key: &Digest, entry: E, now: Instant) {
        let row = self.row(key);
        (row.entry, row.fresh_until) = (Some(entry), now.checked_add(FRESH));
    }

    /// Takes the entry that arrived. A caller takes it once.
    pub fn take_entry(&mut self, key: &Digest) -> Option<E> {
        self.rows.get_mut(key).and_then(|row| row.entry.take())
    }

    /// Returns the entries that arrived for keys for which no caller waits.
    pub fn unclaimed(&self) -> impl Iterator<Item = &E> {
        self.rows.values().filter(|row| row.watches == 0).filter_map(|row| row.entry.as_ref())
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
        row.is_none_or(|row| row.entry.is_some() || row.leases.step(self.ttl) != LeaseStep::Wait)
    }

    /// Whether the lease on `key` can be claimed, and its entry has not arrived.
    pub fn is_claimable(&self, key: &Digest) -> bool {
        let is_claim = matches!(self.step(key), LeaseStep::Claim { .. });
        is_claim && self.rows.get(key).is_none_or(|row| row.entry.is_none())
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
        let ttl = self.ttl;
        let seems_free =
            |row: &&mut Row<E>| matches!(row.leases.step(ttl), LeaseStep::Claim { .. }) && row.watches == 0;
        self.rows.values_mut().filter(seems_free).for_each(|row| row.fresh_until = None);
        let row = self.row(key);
        row.leases.note_held(asked, generation, value);
        row.fresh_until = fresh_until(asked, now);
    }

    /// Records that the process that had a lease is dead.
    pub fn note_dead(&mut self, key: &Digest, generation: u64, token: LeaseToken) {
        self.row(key).leases.note_dead(generation, token);
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
        if let Some(row) = self.rows.get_mut(key) {
            (row.is_planned, row.fresh_until) = (false, None);
        }
        self.prune(now);
    }

    /// Removes what no caller needs any more.
    pub fn prune(&mut self, now: Instant) {
        // A caller may have asked for the key, and act on the answer at this moment.
        self.rows.retain(|_, row| row.is_planned || row.watches > 0 || row.is_fresh(now));
    }

    /// Begins a wait for `key`. `has_hints`: there is a plan, and the engine has counters. `random` differs between hosts.
    pub fn watch(&mut self, key: &Digest, has_hints: bool, now: Instant, random: u64) {
        self.row(key).watches += 1;
        if self.schedule.is_none() {
            let missing = self.count_watched();
            self.schedule = Some(PollSchedule::new(now, missing, has_hints, self.ttl, random));
        }
    }

    /// Ends a wait for `key`.
    pub fn unwatch(&mut self, key: &Digest, now: Instant) {
        if let Some(row) = self.rows.get_mut(key) {
            row.watches = row.watches.saturating_sub(1);
        }
        self.prune(now);
    }

    /// Returns the next call and its time, while callers wait.
    pub fn next_call(&mut self) -> Option<(Instant, Poll)> {
        if self.count_watched() == 0 {
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

    /// Returns the number of keys for whose entries callers wait.
    fn count_watched(&self) -> usize {
        self.rows.values().filter(|row| row.is_awaited()).count()
    }

    fn stale_at(&self) -> Option<Instant> {
        let is_waited = |row: &&Row<E>| row.watches > 0 && row.leases.step(self.ttl) == LeaseStep::Wait;
        self.rows.values().filter(is_waited).filter_map(|row| row.leases.stale_at(self.ttl)).min()
    }
}

impl<E> Row<E> {
    fn is_awaited(&self) -> bool {
        self.watches > 0 && self.entry.is_none()
    }

    fn is_fresh(&self, now: Instant) -> bool {
        self.fresh_until.is_some_and(|until| now < until)
    }
}

impl<E> Default for Row<E> {
    fn default() -> Self {
        let (leases, fresh_until) = (LeaseObserver::default(), None);
        Self { leases, fresh_until, entry: None, watches: 0, is_planned: false }
    }
}

/// Returns the time until which an answer is fresh that came at `now`, in a call that began at `asked`.
fn fresh_until(asked: Instant, now: Instant) -> Option<Instant> {
    let call = now.saturating_duration_since(asked);
    now.checked_add(FRESH.max(call * FRESH_CALLS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn keys() -> [Digest; 3] {
        [b"a", b"b", b"c"].map(|name| Digest::of(name))
    }

    fn value(holder: u8) -> LeaseValue {
        LeaseValue::new(LeaseToken::new([holder; 16]), 0)
    }

    #[test]
    fn a_look_asks_for_all_missing_keys_of_the_plan_unless_it_was_made_just_now() {
        let (mut table, now, [a, b, c]) = (LeaseTable::<()>::new(TTL), Instant::now(), keys());
        table.plan(&[a, b]);
        let mut asked = table.look(&c, now).unwrap();
        asked.sort_unstable();
        let mut all = keys().to_vec();
        all.sort_unstable();
        assert_eq!(asked, all);
        let batch = table.batch(asked, true, true, now);
        assert!(!table.answered(&batch, now), "no host has a lease, as before");
        assert_eq!(table.look(&a, now + FRESH / 2), None);
        assert_eq!(table.look(&a, now + FRESH).map(|keys| keys.len()), Some(2));
        // Another host claims at the same time: what seemed to be free may not be any more.
        table.note_held(&c, [now; 2], 0, Some(value(1)));
        let mut asked = table.look(&a, now + FRESH / 2).unwrap();
        asked.sort_unstable();
        let mut free = vec![a, b];
        free.sort_unstable();
        assert_eq!(asked, free);
        table.finished(&b, now);
        assert_eq!(table.look(&a, now + FRESH).map(|keys| keys.contains(&b)), Some(false));
    }

    #[test]
    fn answers_belong_to_the_questions_of_their_key() {
        let (mut table, now, [a, b, c]) = (LeaseTable::<()>::new(TTL), Instant::now(), keys());
        table.plan(&keys());
        table.note_held(&b, [now; 2], 0, Some(value(1)));
        let mut batch = table.batch(vec![a, b, c], true, true, now);
        let entry = |key| Question::Entry { key };
        let lease = |key, generation| Question::Lease { key, generation };
        // The holder of the second one is alive, so its next generation is of no interest.
        let expected =
            [entry(0), lease(0, 0), lease(0, 1), entry(1), lease(1, 0), entry(2), lease(2, 0), lease(2, 1)];
        assert_eq!(batch.questions(), expected);
        batch.found_lease(4, value(1).to_string().as_bytes());
        batch.found_lease(7, value(2).to_string().as_bytes());
        assert!(table.answered(&batch, now));
        let first = LeaseStep::Claim { generation: 0 };
        assert_eq!([a, b, c].map(|key| table.step(&key)), [first, LeaseStep::Wait, LeaseStep::Wait]);
        assert_eq!(table.below(&c, 2), [(1, value(2).token)]);
    }

    #[test]
    fn a_wait_ends_with_the_entry() {
        let (mut table, now, [a, b, _]) = (LeaseTable::new(TTL), Instant::now(), keys());
        assert_eq!(table.next_call(), None);
        table.watch(&a, true, now, 0);
        table.watch(&b, true, now, 0);
        assert_eq!((table.watched().len(), table.next_call().unwrap().1), (2, Poll::Hint));
        table.note_entry(&a, "entry");
        assert_eq!((table.watched(), table.has_news(&a)), (vec![b], true));
        assert_eq!((table.take_entry(&a), table.take_entry(&a)), (Some("entry"), None));
        table.unwatch(&a, now);
        table.unwatch(&b, now);
        assert_eq!((table.watched().len(), table.next_call()), (0, None));
        assert!(table.rows.is_empty(), "nothing is kept of what no caller needs");
    }
}
