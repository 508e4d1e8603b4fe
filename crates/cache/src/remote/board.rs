//! What a process knows of the missing entries of one target: which of them arrived, and which hosts have their leases. All callers
//! that wait for keys of the target share it, so one call asks for all of them.
//!
//! A thread asks while callers wait, at the times of a [`PollSchedule`]. A caller that begins a key asks itself, unless the board is
//! fresh; the call asks for all other missing keys of the plan as well. So a key that another host builds costs no call of its own.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opkeep_digest::Digest;
use opkeep_fs::ProcessId;
use opkeep_store::Entry;

use super::call::{Limits, guarded};
use super::client::{RemoteClient, checked};
use super::lease::{BatchOutcome, LeaseObserver, LeaseReading, LeaseStep, OnFailure, Poll, PollSchedule};
use super::names::ObjectNames;
use super::object::{LeaseToken, LeaseValue, ObjectName};
use crate::random::random_number;
use crate::timer::{Timed, Timer};

/// The time for which a caller that begins a key believes the board.
const FRESH: Duration = Duration::from_millis(250);
/// The maximum size of the entries that arrived for keys that no caller has begun.
const MAX_UNCLAIMED_BYTES: u64 = 64 << 20;

/// The missing entries of one target, as one process knows them.
pub(super) struct Board {
    client: Arc<RemoteClient>,
    /// The boards of all targets, which one thread visits.
    boards: Arc<Timer<Board>>,
    names: ObjectNames,
    on_failure: OnFailure,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rows: HashMap<Digest, Row>,
    /// The counter of the plan.
    counter: Option<ObjectName>,
    /// The schedule of the thread, while callers wait.
    schedule: Option<PollSchedule>,
    /// Whether the thread will visit the board.
    is_scheduled: bool,
    unclaimed_bytes: u64,
    /// The keys whose entries in the engine are wrong: an own entry replaces them.
    refused: HashSet<Digest>,
}

#[derive(Default)]
struct Row {
    leases: LeaseObserver,
    /// The time at which the last answered call began.
    asked: Option<Instant>,
    entry: Option<Box<Entry>>,
    /// The number of callers that wait for the key.
    watches: usize,
    /// Whether the key belongs to the plan, and no caller has finished it.
    is_planned: bool,
}

/// What the board knows of a key.
pub(crate) enum News {
    /// Its entry arrived.
    Entry(Box<Entry>),
    /// There is no entry, and this follows from the leases.
    Step(LeaseStep),
}

/// The interest of one caller in a key that another host builds. The board asks for the key until this is dropped.
pub(crate) struct Watch {
    board: Arc<Board>,
    key: Digest,
    process: ProcessId,
}

/// The object that a call asks for.
#[derive(Clone, Copy)]
enum Asked {
    Entry(usize),
    /// A lease: the index of the key, and the number above the observed generation.
    Lease(usize, usize),
}

impl Board {
    pub(super) fn new(
        client: Arc<RemoteClient>,
        boards: Arc<Timer<Board>>,
        names: ObjectNames,
        on_failure: OnFailure,
    ) -> Arc<Self> {
        Arc::new(Self { client, boards, names, on_failure, state: Mutex::default() })
    }

    /// Sets the plan: `keys` are all keys of a build, of which the local store lacks `missing`.
    pub(super) fn plan(&self, keys: &[Digest], missing: &[Digest]) {
        let counter = self.names.progress(keys);
        let mut state = self.locked();
        state.counter = Some(counter);
        state.rows.values_mut().for_each(|row| row.is_planned = false);
        for key in missing {
            state.rows.entry(*key).or_default().is_planned = true;
        }
        state.prune();
    }

    /// Returns the counter of the plan.
    pub(super) fn counter(&self) -> Option<ObjectName> {
        self.locked().counter.clone()
    }

    /// Asks for the missing keys, unless the board is fresh for `key`. Returns whether the engine answered.
    pub(super) fn look(&self, key: &Digest, limits: Limits<'_>) -> Result<bool, String> {
        let keys = {
            let mut state = self.locked();
            let row = state.rows.entry(*key).or_default();
            if row.entry.is_some() || row.asked.is_some_and(|asked| asked.elapsed() < FRESH) {
                return Ok(true);
            }
            let wanted = |(other, row): (&Digest, &Row)| {
                (other == key || row.watches > 0 || row.is_planned).then_some(*other)
            };
            state.rows.iter().filter_map(wanted).collect()
        };
        self.ask(keys, true, limits).map(|answered| answered.is_some())
    }

    /// Asks for the leases on `keys`, whose entries are known to be missing.
    pub(super) fn look_for_leases(&self, keys: &[Digest], limits: Limits<'_>) -> Result<(), String> {
        self.ask(keys.to_vec(), false, limits).map(drop)
    }

    /// Asks for the entry of `key` and the lease above `generation`, whatever the board knows. For the holder of a lease: the last
    /// holder may have published the entry, and a newcomer may have claimed a generation that others took over.
    pub(super) fn look_again(
        &self,
        key: &Digest,
        generation: u64,
        limits: Limits<'_>,
    ) -> Result<Option<LeaseReading>, String> {
        let names = [self.names.entry(key), self.names.lease(key, generation + 1)];
        let (mut above, mut entry) = (None, None);
        let answer = self.client.get_many(&names, limits, &mut |at, content| match at {
            0 => entry = Some(content),
            _ => above = Some(content),
        });
        match entry.map(|content| checked(content, key)) {
            Some(Ok(entry)) => {
                let mut state = self.locked();
                let row = state.rows.entry(*key).or_default();
                (row.entry, row.asked) = (Some(Box::new(entry)), Some(Instant::now()));
            }
            Some(Err(why)) if self.refuse(key) => self.warn_of_entry(&why),
            Some(Err(_)) | None => {}
        }
        Ok(answer?.then(|| LeaseReading::new(above.as_deref())))
    }

    /// Makes one call for the leases on `keys` and, if `has_entries`, for their entries. Returns whether it changed what the board knows; `None` if the engine did not answer.
    fn ask(&self, keys: Vec<Digest>, has_entries: bool, limits: Limits<'_>) -> Result<Option<bool>, String> {
        let (ttl, asked) = (self.client.lease_ttl(), Instant::now());
        let (mut names, mut wanted) = (Vec::new(), Vec::new());
        {
            let has_leases = self.client.may_have_leases();
            let mut state = self.locked();
            for (index, key) in keys.iter().enumerate() {
                let row = state.rows.entry(*key).or_default();
                if has_entries {
                    names.push(self.names.entry(key));
                    wanted.push(Asked::Entry(index));
                }
                let (first, count) = row.leases.generations(asked, ttl);
                for above in 0..if has_leases { count } else { 0 } {
                    names.push(self.names.lease(key, first.saturating_add(above as u64)));
                    wanted.push(Asked::Lease(index, above));
                }
            }
        }
        let mut entries: Vec<Option<Result<Entry, String>>> = keys.iter().map(|_| None).collect();
        let mut readings = vec![Vec::new(); keys.len()];
        for at in &wanted {
            if let Asked::Lease(index, _) = at {
                readings[*index].push(LeaseReading::Absent);
            }
        }
        let answer = self.client.get_many(&names, limits, &mut |at, content| match wanted[at] {
            Asked::Entry(index) => entries[index] = Some(checked(content, &keys[index])),
            Asked::Lease(index, above) => readings[index][above] = LeaseReading::new(Some(&content)),
        });
        let mut had_news = false;
        let mut wrong = None;
        let mut state = self.locked();
        for ((key, entry), readings) in keys.iter().zip(entries).zip(readings) {
            if let Some(Err(why)) = &entry
                && state.refused.insert(*key)
            {
                wrong = Some(why.clone());
            }
            let unclaimed = state.unclaimed_bytes;
            let Some(row) = state.rows.get_mut(key) else { continue };
            if let Some(Ok(entry)) = entry {
                had_news = true;
                let bytes = entry.file_bytes();
                if row.watches > 0 || unclaimed + bytes <= MAX_UNCLAIMED_BYTES {
                    row.entry = Some(Box::new(entry));
                }
            }
            // If the engine did not answer for all names, an object that did not arrive may exist.
            if let Ok(true) = answer {
                let before = row.leases.step(ttl);
                row.leases.note(asked, &readings);
                row.asked = Some(asked);
                had_news |= row.leases.step(ttl) != before;
            }
        }
        state.unclaimed_bytes = state.count_unclaimed();
        drop(state);
        if let Some(why) = wrong {
            self.warn_of_entry(&why);
        }
        Ok(answer?.then_some(had_news))
    }

    /// Returns what the board knows of `key`. An entry is returned once.
    pub(super) fn news(&self, key: &Digest) -> News {
        let ttl = self.client.lease_ttl();
        let mut state = self.locked();
        let row = state.rows.entry(*key).or_default();
        match row.entry.take() {
            Some(entry) => News::Entry(entry),
            None => News::Step(row.leases.step(ttl)),
        }
    }

    /// Records that the claim of a lease found that of another host.
    pub(super) fn note_held(&self, key: &Digest, asked: Instant, generation: u64, value: Option<LeaseValue>) {
        let mut state = self.locked();
        let row = state.rows.entry(*key).or_default();
        row.leases.note_held(asked, generation, value);
        row.asked = Some(asked);
    }

    /// Returns the stale leases on `key` below `generation`.
    pub(super) fn below(&self, key: &Digest, generation: u64) -> Vec<(ObjectName, LeaseToken)> {
        let below = self.locked().rows.get(key).map(|row| row.leases.below(generation)).unwrap_or_default();
        below.into_iter().map(|(generation, token)| (self.names.lease(key, generation), token)).collect()
    }

    /// Records that the entry in the engine is wrong. Returns whether that is new.
    pub(super) fn refuse(&self, key: &Digest) -> bool {
        self.locked().refused.insert(*key)
    }

    /// Whether the entry in the engine is wrong.
    pub(super) fn is_refused(&self, key: &Digest) -> bool {
        self.locked().refused.contains(key)
    }

    /// Records that the entry in the engine is this host's.
    pub(super) fn replaced(&self, key: &Digest) {
        self.locked().refused.remove(key);
    }

    /// Records that the caller has the key's entry, or builds it.
    pub(super) fn finished(&self, key: &Digest) {
        let mut state = self.locked();
        if let Some(row) = state.rows.get_mut(key) {
            (row.is_planned, row.asked) = (false, None);
        }
        state.prune();
    }

    /// Has the thread ask for `key`.
    pub(super) fn watch(self: &Arc<Self>, key: &Digest) -> Watch {
        let now = Instant::now();
        let is_new = {
            let mut state = self.locked();
            let ttl = self.client.lease_ttl();
            state.rows.entry(*key).or_default().watches += 1;
            if state.schedule.is_none() {
                let has_hints = state.counter.is_some() && self.client.has_counters();
                let missing = state.count_watched();
                state.schedule = Some(PollSchedule::new(now, missing, has_hints, ttl, random_number()));
            }
            !std::mem::replace(&mut state.is_scheduled, true)
        };
        if is_new && !self.boards.add(now, self) {
            self.locked().is_scheduled = false;
        }
        Watch { board: Arc::clone(self), key: *key, process: ProcessId::current() }
    }

    /// Makes the next call, if it is due. Returns the time of the next one, if callers wait.
    fn poll(&self, time: Duration) -> Option<Instant> {
        let (poll, keys, counter) = {
            let mut state = self.locked();
            let missing = state.count_watched();
            let next = state.schedule.as_ref().filter(|_| missing > 0).map(PollSchedule::next);
            let Some((at, poll)) = next else {
                (state.schedule, state.is_scheduled) = (None, false);
                return None;
            };
            if at > Instant::now() {
                return Some(at);
            }
            let wanted = state.rows.iter().filter(|(_, row)| row.entry.is_none() && row.watches > 0);
            (poll, wanted.map(|(key, _)| *key).collect::<Vec<_>>(), state.counter.clone())
        };
        let limits = Limits { deadline: Instant::now().checked_add(time), cancel: None };
        let hint = match (poll, counter) {
            (Poll::Hint, Some(counter)) => Some(self.client.progress(&counter, limits)),
            _ => None,
        };
        let is_hint = hint.is_some();
        let answer = match hint {
            Some(Ok(Some(counter))) => Ok(Some(Ok(counter))),
            Some(Ok(None)) => Ok(None),
            Some(Err(why)) => Err(why),
            None => self.ask(keys, true, limits).map(|news| news.map(Err)),
        };
        let (now, random, ttl) = (Instant::now(), random_number(), self.client.lease_ttl());
        let mut state = self.locked();
        let (missing, stale_at) = (state.count_watched(), state.stale_at(ttl));
        let next = state.schedule.as_mut().map(|schedule| {
            match answer {
                Ok(Some(Ok(counter))) => schedule.hinted(now, counter, random),
                Ok(Some(Err(had_news))) => {
                    schedule.batched(now, BatchOutcome { missing, had_news, stale_at }, ttl, random);
                }
                Ok(None) | Err(_) => schedule.failed(now, random),
            }
            schedule.next().0
        });
        drop(state);
        if let Err(why) = answer {
            // A lost counter is no reason for a warning: the batches come nevertheless.
            let warning = format!("{why}; other hosts are waited for nevertheless");
            let _ = (!is_hint).then(|| guarded(|| (self.on_failure)(&warning)));
        }
        next
    }

    /// Warns of an invalid entry, which is as good as none.
    fn warn_of_entry(&self, why: &str) {
        let _ = guarded(|| (self.on_failure)(&format!("{why}; building without it")));
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Removes what no caller needs any more.
    fn prune(&mut self) {
        // A caller may have asked for the key, and act on the answer at this moment.
        let is_new = |row: &Row| row.asked.is_some_and(|asked| asked.elapsed() < FRESH);
        self.rows.retain(|_, row| row.is_planned || row.watches > 0 || is_new(row));
        self.unclaimed_bytes = self.count_unclaimed();
    }

    fn count_unclaimed(&self) -> u64 {
        let unclaimed = self.rows.values().filter(|row| row.watches == 0);
        unclaimed.filter_map(|row| Some(row.entry.as_ref()?.file_bytes())).sum()
    }

    /// Returns the number of keys for whose entries callers wait.
    fn count_watched(&self) -> usize {
        self.rows.values().filter(|row| row.watches > 0 && row.entry.is_none()).count()
    }

    fn stale_at(&self, ttl: Duration) -> Option<Instant> {
        let is_waited = |row: &&Row| row.watches > 0 && row.leases.step(ttl) == LeaseStep::Wait;
        self.rows.values().filter(is_waited).filter_map(|row| row.leases.stale_at(ttl)).min()
    }
}

impl Watch {
    /// Whether this process watches, and not its parent before a fork.
    pub(crate) fn is_own(&self) -> bool {
        self.process.is_current()
    }

    /// Whether there is something to do for the key: its entry arrived, or its lease can be claimed.
    pub(crate) fn has_news(&self) -> bool {
        if !self.process.is_current() {
            return true;
        }
        let ttl = self.board.client.lease_ttl();
        let state = self.board.locked();
        state
            .rows
            .get(&self.key)
            .is_none_or(|row| row.entry.is_some() || row.leases.step(ttl) != LeaseStep::Wait)
    }

    /// Returns the time of the holder's last heartbeat.
    pub(crate) fn alive_at(&self) -> Option<Instant> {
        if !self.process.is_current() {
            return None;
        }
        self.board.locked().rows.get(&self.key).and_then(|row| row.leases.alive_at())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // In a forked child the parent's board may be locked for ever.
        if self.process.is_current() {
            let mut state = self.board.locked();
            if let Some(row) = state.rows.get_mut(&self.key) {
                row.watches = row.watches.saturating_sub(1);
            }
            state.prune();
        }
    }
}

impl Timed for Board {
    const THREAD: &'static str = "remote-wait";

    fn visit(&self, share: Duration) -> Option<Instant> {
        self.poll(share)
    }
}
