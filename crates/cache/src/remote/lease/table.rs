//! What one host knows of the keys that it misses, and what it asks the engine next. Nothing here calls an engine or reads a clock.
//!
//! A *batch* is one call that asks for entries and leases; the caller makes it, and reports what arrived. A key is *watched* while a
//! caller waits for it, and *planned* while it belongs to a build that has not finished it.
//!
//! An entry that a call asks for, that has arrived, or that the host has, is in no other batch: so each is fetched once.

use std::collections::HashMap;
use std::mem;
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
    entry: EntryState<E>,
    /// The number of callers that wait for the key.
    watches: usize,
    /// Whether the key belongs to the plan, and no caller has finished it.
    is_planned: bool,
    /// Whether the local store had no entry when a caller began the key: one that is there now is new.
    was_absent: bool,
}

/// What a host knows of the entry of one key.
#[derive(Clone, Debug)]
enum EntryState<E> {
    /// It is missing, as far as the host knows.
    Missing,
    /// A call asks for it.
    Asked,
    /// It arrived, and is in memory. Once it is judged, it is for a caller that begins the key.
    Arrived { entry: E, is_judged: bool },
    /// It is being judged before it is stored. `is_used`: it is accepted, so the local store may have it at any moment.
    Judged { is_used: bool },
    /// It is in the local store, and no caller has begun the key since. `is_own`: this process has fetched it.
    Stored { is_own: bool },
    /// A caller has it, or builds it.
    Finished,
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
            let row = self.row(key);
            row.is_planned = true;
            if let EntryState::Stored { .. } | EntryState::Finished = row.entry {
                row.entry = EntryState::Missing;
            }
        }
    }

    /// Whether another caller has asked for the entry of `key` and has no answer yet, or the entry is being judged.
    pub fn is_on_its_way(&self, key: &Digest) -> bool {
        let state = self.rows.get(key).map(|row| &row.entry);
        matches!(state, Some(EntryState::Asked | EntryState::Judged { .. }))
    }

    /// Returns the keys that a caller asks for that begins `key`: all missing ones of which nothing fresh is known. `None`: what
    /// is known of `key` is fresh at `now`, or was found out later.
    pub fn look(&mut self, key: &Digest, now: Instant) -> Option<Vec<Digest>> {
        let row = self.row(key);
        if let EntryState::Stored { is_own: false } = row.entry {
            // The caller has looked it up, and does not use it.
            row.entry = EntryState::Missing;
        }
        if row.has_entry() || row.is_fresh(now) {
            return None;
        }
        let is_wanted = |(other, row): &(&Digest, &Row<E>)| {
            let is_missing = matches!(row.entry, EntryState::Missing);
            *other == key || is_missing && (row.watches > 0 || row.is_planned) && !row.is_fresh(now)
        };
        Some(self.rows.iter().filter(is_wanted).map(|(key, _)| *key).collect())
    }

    /// Returns the keys whose entries are asked for because callers wait for them. Those come first of which nothing new was known for
    /// the longest time.
    pub fn watched(&self) -> Vec<Digest> {
        let watched = self.rows.iter().filter(|(_, row)| row.is_awaited());
        let mut watched: Vec<_> = watched.map(|(key, row)| (row.fresh_until, *key)).collect();
        watched.sort_unstable();
        watched.into_iter().map(|(_, key)| key).collect()
    }

    /// Begins a batch for `keys`, which asks for their entries, their leases, or both. It asks for no entry that is on its way, or has
    /// arrived. A batch ends by [`answered`](Self::answered) or [`unanswered`](Self::unanswered).
    pub fn batch(&mut self, keys: Vec<Digest>, entries: bool, leases: bool, now: Instant) -> LeaseBatch {
        let (mut questions, mut readings) = (Vec::new(), Vec::with_capacity(keys.len()));
        let ttl = self.ttl;
        for (key, digest) in keys.iter().enumerate() {
            let row = self.row(digest);
            if entries && row.begin_asking() {
                questions.push(Question::Entry { key });
            }
            let (first, count) = row.leases.generations(now, ttl);
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
        self.unanswered(batch);
        had_news
    }

    /// Ends a batch that the engine did not answer as a whole: the entries that did not arrive may be asked for again.
    pub fn unanswered(&mut self, batch: &LeaseBatch) {
        let asked = batch.questions.iter().filter_map(|question| match question {
            Question::Entry { key } => batch.keys.get(*key),
            Question::Lease { .. } => None,
        });
        asked.for_each(|key| self.end_asking(key));
    }

    /// Records that a call asks for the entry of `key`, unless one does, or the entry has arrived. Returns whether that is so.
    pub fn begin_asking(&mut self, key: &Digest) -> bool {
        self.row(key).begin_asking()
    }

    /// Records the end of that call.
    pub fn end_asking(&mut self, key: &Digest) {
        let row = self.rows.get_mut(key);
        row.filter(|row| matches!(row.entry, EntryState::Asked)).into_iter().for_each(|row| {
            row.entry = EntryState::Missing;
        });
    }

    /// Records an entry that arrived for a key that is known and not finished.
    pub fn note_entry(&mut self, key: &Digest, entry: E) {
        if let Some(row) = self.rows.get_mut(key)
            && matches!(row.entry, EntryState::Asked | EntryState::Missing)
        {
            row.entry = EntryState::Arrived { entry, is_judged: false };
        }
    }

    /// Records an entry that the answer to a call of its own, which ends at `now`, brought.
    pub fn note_own_entry(&mut self, key: &Digest, entry: E, now: Instant) {
        let row = self.row(key);
        row.entry = EntryState::Arrived { entry, is_judged: true };
        row.fresh_until = now.checked_add(FRESH);
    }

    /// Takes the entry that arrived. A caller takes it once.
    pub fn take_entry(&mut self, key: &Digest) -> Option<E> {
        let row = self.rows.get_mut(key).filter(|row| matches!(row.entry, EntryState::Arrived { .. }))?;
        match mem::replace(&mut row.entry, EntryState::Finished) {
            EntryState::Arrived { entry, .. } => Some(entry),
            _ => None,
        }
    }

    /// Returns an entry to the table, for a caller that begins the key.
    pub fn put_back(&mut self, key: &Digest, entry: E) {
        self.row(key).entry = EntryState::Arrived { entry, is_judged: true };
    }

    /// Takes an entry that arrived and was not judged, in order to store it. [`judged`](Self::judged) follows.
    pub fn take_arrival(&mut self) -> Option<(Digest, E)> {
        let is_new = |row: &Row<E>| matches!(row.entry, EntryState::Arrived { is_judged: false, .. });
        let key = self.rows.iter().find(|(_, row)| is_new(row)).map(|(key, _)| *key)?;
        let row = self.rows.get_mut(&key)?;
        match mem::replace(&mut row.entry, EntryState::Judged { is_used: false }) {
            EntryState::Arrived { entry, .. } => Some((key, entry)),
            _ => None,
        }
    }

    /// Whether the entry of `key` is being judged.
    pub fn is_judged(&self, key: &Digest) -> bool {
        self.rows.get(key).is_some_and(Row::is_judged)
    }

    /// Records that an entry that was taken to be judged is used: it is stored next.
    pub fn judged_used(&mut self, key: &Digest) {
        if let Some(row) = self.rows.get_mut(key)
            && row.is_judged()
        {
            row.entry = EntryState::Judged { is_used: true };
        }
    }

    /// Records what became of an entry that was taken to be judged: it is in the local store, or missing as before.
    pub fn judged(&mut self, key: &Digest, is_stored: bool) {
        if let Some(row) = self.rows.get_mut(key)
            && row.is_judged()
        {
            row.entry = if is_stored { EntryState::Stored { is_own: true } } else { EntryState::Missing };
        }
    }

    /// Records that the local store had no entry when a caller began `key`.
    pub fn note_absent(&mut self, key: &Digest) {
        self.row(key).was_absent = true;
    }

    /// Whether an entry of `key` in the local store is one that no caller has seen.
    pub fn would_be_new(&self, key: &Digest) -> bool {
        self.rows.get(key).is_none_or(|row| row.watches == 0 || row.was_absent)
    }

    /// Records that the local store has the entries of `keys`, which another process fetched or built.
    pub fn note_stored(&mut self, keys: &[Digest]) {
        for key in keys {
            if let Some(row) = self.rows.get_mut(key)
                && matches!(row.entry, EntryState::Missing)
            {
                row.entry = EntryState::Stored { is_own: false };
            }
        }
    }

    /// Records that this process has fetched the entry of `key`, and the local store has it.
    pub fn note_fetched(&mut self, key: &Digest) {
        let row = self.row(key);
        if matches!(row.entry, EntryState::Missing | EntryState::Finished) {
            row.entry = EntryState::Stored { is_own: true };
        }
    }

    /// Whether the entry of `key` was stored since a caller began the key; `Some(true)` if this process has fetched it. Says so once.
    pub fn take_stored(&mut self, key: &Digest) -> Option<bool> {
        let row = self.rows.get_mut(key)?;
        let EntryState::Stored { is_own } = row.entry else { return None };
        row.entry = EntryState::Finished;
        Some(is_own)
    }

    /// Records that a caller has found the entry of `key` in the local store, and uses it. Returns whether this process has fetched it,
    /// which it says once. An entry is in the store a moment before the thread that stores it records that.
    pub fn take_found(&mut self, key: &Digest) -> bool {
        let Some(row) = self.rows.get_mut(key) else { return false };
        let (EntryState::Stored { is_own } | EntryState::Judged { is_used: is_own }) = row.entry else {
            return false;
        };
        if is_own || !row.is_judged() {
            row.entry = EntryState::Finished;
        }
        is_own
    }

    /// Records that a caller continues without the entry that it took: it is missing.
    pub fn refused(&mut self, key: &Digest) {
        if let Some(row) = self.rows.get_mut(key)
            && matches!(row.entry, EntryState::Finished)
        {
            row.entry = EntryState::Missing;
        }
    }

    /// Returns the entries that arrived for keys for which no caller waits.
    pub fn unclaimed(&self) -> impl Iterator<Item = &E> {
        self.rows.values().filter(|row| row.watches == 0).filter_map(|row| match &row.entry {
            EntryState::Arrived { entry, .. } => Some(entry),
            _ => None,
        })
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
            row.entry = EntryState::Finished;
        }
        self.prune(now);
    }

    /// Removes what no caller needs any more.
    pub fn prune(&mut self, now: Instant) {
        // A caller may have asked for the key, and act on the answer at this moment.
        let is_asked = |row: &Row<E>| matches!(row.entry, EntryState::Asked) || row.is_judged();
        self.rows.retain(|_, row| row.is_planned || row.watches > 0 || row.is_fresh(now) || is_asked(row));
    }

    /// Begins a wait for `key`. `has_hints`: there is a plan, and the engine has counters. `random` differs between hosts.
    pub fn watch(&mut self, key: &Digest, has_hints: bool, now: Instant, random: u64) {
        let row = self.row(key);
        if row.watches == 0 && matches!(row.entry, EntryState::Finished) {
            row.entry = EntryState::Missing;
        }
        row.watches += 1;
        if self.schedule.is_none() {
            let missing = self.count_watched();
            self.schedule = Some(PollSchedule::new(now, missing, has_hints, self.ttl, random));
        }
    }

    /// Ends a wait for `key`.
    pub fn unwatch(&mut self, key: &Digest, now: Instant) {
        if let Some(row) = self.rows.get_mut(key) {
            row.watches = row.watches.saturating_sub(1);
            if row.watches > 0 && matches!(row.entry, EntryState::Finished) {
                row.entry = EntryState::Missing;
            }
        }
        self.prune(now);
    }

    /// Returns the next call and its time, while callers wait.
    ///
    /// A caller that took an entry may refuse it, and waits on: so its wait ends with [`unwatch`](Self::unwatch) only.
    pub fn next_call(&mut self) -> Option<(Instant, Poll)> {
        if !self.rows.values().any(|row| row.watches > 0) {
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
        self.rows.values().filter(|row| row.is_awaited()).count()
    }

    fn stale_at(&self) -> Option<Instant> {
        let is_waited = |row: &&Row<E>| row.watches > 0 && row.leases.step(self.ttl) == LeaseStep::Wait;
        self.rows.values().filter(is_waited).filter_map(|row| row.leases.stale_at(self.ttl)).min()
    }
}

impl<E> Row<E> {
    /// Whether a caller waits for the entry, and it is asked for. If one of several callers has it, the others may have no store to
    /// find it in.
    fn is_awaited(&self) -> bool {
        match self.entry {
            EntryState::Missing => self.watches > 0,
            EntryState::Finished => self.watches > 1,
            _ => false,
        }
    }

    fn begin_asking(&mut self) -> bool {
        let begins = matches!(self.entry, EntryState::Missing | EntryState::Finished);
        if begins {
            self.entry = EntryState::Asked;
        }
        begins
    }

    /// Whether there is an entry for a caller that begins the key.
    fn has_entry(&self) -> bool {
        matches!(self.entry, EntryState::Arrived { .. } | EntryState::Stored { .. })
    }

    fn is_judged(&self) -> bool {
        matches!(self.entry, EntryState::Judged { .. })
    }

    fn is_fresh(&self, now: Instant) -> bool {
        self.fresh_until.is_some_and(|until| now < until)
    }
}

impl<E> Default for Row<E> {
    fn default() -> Self {
        let (leases, fresh_until) = (LeaseObserver::default(), None);
        Self {
            leases,
            fresh_until,
            entry: EntryState::Missing,
            watches: 0,
            is_planned: false,
            was_absent: false,
        }
    }
}

/// Returns the time until which an answer is fresh that came at `now`, in a call that began at `asked`.
fn fresh_until(asked: Instant, now: Instant) -> Option<Instant> {
    let call = now.saturating_duration_since(asked);
    now.checked_add(FRESH.max(call * FRESH_CALLS))
}

#[cfg(test)]
mod tests;
