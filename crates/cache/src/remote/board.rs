//! What a process knows of the missing entries of one target: which of them arrived, and which hosts have their leases. All callers
//! that wait for keys of the target share it, so one call asks for all of them.
//!
//! A thread asks while callers wait, at the times of a [`PollSchedule`]. A caller that begins a key asks itself, unless the board is
//! fresh; the call asks for all other missing keys of the plan as well. So a key that another host builds costs no call of its own.
//!
//! An entry is fetched once. While one thread asks for it, others that need it wait for the answer. What arrives goes to the caller
//! that waits for it, or to a receiver that stores it at once; it is not asked for again. What
//! another process of this host has stored is not asked for either.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opkeep_digest::Digest;

use super::answer_size::Sizes;
use super::arrived::{Arrivals, bytes_of};
use super::asked::Asked;
use super::board_state::{MAX_ARRIVED_BYTES, State};
use super::call::{Limits, guarded};
use super::client::RemoteClient;
use super::entry_names::EntryNames;
use super::lease::{LeaseReading, LeaseStep, OnFailure, Poll, Question};
use super::object::{LeaseToken, LeaseValue, ObjectName};
use super::problems::CallFailure;
use crate::random::random_number;
use crate::refusal::{Refusal, RefusalKind, WRONG_ENTRY};
use crate::running_time::RunningTime;
use crate::tally::AnswerWait;
use crate::timer::{Timed, Timer};
use crate::wait_budget::WaitBudget;

/// The time for which a caller waits until another thread has the answer that it needs. Lock holders give a heartbeat only before and
/// after such a wait.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// The time between two checks of the limits of such a wait.
const CHECK_LIMITS: Duration = Duration::from_millis(10);
/// The maximum number of leases on one key that a call asks for.
const LEASES_OF_KEY: usize = 2;
/// The time between two visits while all entries that callers wait for are on their way to them.
const NOTHING_MISSING: Duration = Duration::from_millis(20);

/// Whether the local store has an entry that can be used.
pub(crate) type IsStored = Arc<dyn Fn(&Digest) -> bool + Send + Sync>;

/// The missing entries of one target, as one process knows them.
pub(super) struct Board {
    pub(super) client: Arc<RemoteClient>,
    /// The boards of all targets, which one thread visits.
    pub(super) boards: Arc<Timer<Board>>,
    entries: EntryNames,
    on_failure: OnFailure,
    is_stored: IsStored,
    state: Mutex<State>,
    /// Answers arrived, or entries were stored.
    pub(super) changed: Condvar,
}

/// What a caller that begins a key learns.
pub(crate) enum LookOutcome {
    /// The board knows what there is to know: its news say it.
    Known,
    /// The entry was stored in the local store since the caller looked there. `is_own`: this process has fetched it.
    Stored { is_own: bool },
}

impl Board {
    pub(super) fn new(
        client: Arc<RemoteClient>,
        boards: Arc<Timer<Board>>,
        entries: EntryNames,
        on_failure: OnFailure,
        is_stored: IsStored,
    ) -> Arc<Self> {
        let (state, changed) = (Mutex::new(State::new(client.lease_ttl())), Condvar::new());
        Arc::new(Self { client, boards, entries, on_failure, is_stored, state, changed })
    }

    /// Sets the plan: `keys` are all keys of a build, of which the local store lacks `missing`.
    pub(super) fn plan(&self, keys: &[Digest], missing: &[Digest]) {
        let counter = self.entries.names.progress(keys);
        // The caller looked into the store a while ago: what is stored since is not missing.
        let known = self.locked().fetched_or_built(missing);
        let (stored, evicted): (Vec<_>, Vec<_>) = known.into_iter().partition(|key| (self.is_stored)(key));
        let stored: HashSet<_> = stored.into_iter().collect();
        let missing: Vec<_> = missing.iter().copied().filter(|key| !stored.contains(key)).collect();
        let mut state = self.locked();
        state.counter = Some(counter);
        state.table.plan(&missing, &evicted);
        state.table.prune(Instant::now());
    }

    /// Returns the counter of the plan.
    pub(super) fn counter(&self) -> Option<ObjectName> {
        self.locked().counter.clone()
    }

    /// Asks for the missing keys, unless the board is fresh for `key` now, or was at `fresh_since`. `is_seen`: the caller does not use the
    /// entry that the local store has.
    pub(super) fn look(
        &self,
        key: &Digest,
        fresh_since: Option<Instant>,
        is_seen: bool,
        limits: Limits<'_>,
    ) -> Result<LookOutcome, CallFailure> {
        let find = || if is_seen { None } else { self.find_stored(key, limits) };
        if let Some(stored) = find() {
            return Ok(stored);
        }
        let wanted = self.locked().look(key, fresh_since);
        if let Some(mut keys) = wanted {
            // The callers that begin the others ask for them.
            let own = keys.iter().position(|other| other == key);
            own.into_iter().for_each(|own| keys.swap(0, own));
            keys.truncate(self.keys_of_call(true));
            self.skip_stored(&mut keys, Some(key));
            self.ask(&keys, true, is_seen.then_some(key), limits)?;
        }
        // Another thread may have begun to ask for it since, or stored it.
        Ok(find().unwrap_or(LookOutcome::Known))
    }

    /// Waits while another thread asks for the entry of `key`, or judges it. Returns whether the local store has an entry since the
    /// caller's look-up: it may be another process's.
    fn find_stored(&self, key: &Digest, limits: Limits<'_>) -> Option<LookOutcome> {
        let has_waited = self.wait_for_others(key, limits);
        let is_own = self.locked().fetched.has(key);
        ((has_waited || is_own) && (self.is_stored)(key)).then_some(LookOutcome::Stored { is_own })
    }

    /// Removes the keys that the local store has now. A caller has looked up `own` there.
    fn skip_stored(&self, keys: &mut Vec<Digest>, own: Option<&Digest>) {
        let mut stored = keys.clone();
        {
            let table = &self.locked().table;
            stored.retain(|key| Some(key) != own && table.would_be_new(key));
        }
        stored.retain(|key| (self.is_stored)(key));
        if !stored.is_empty() {
            let found: HashSet<_> = stored.iter().collect();
            keys.retain(|key| !found.contains(key));
            self.locked().table.note_stored(&stored);
        }
    }

    /// Locks the board, and removes the keys that this process has fetched, unless the local store lacks them or the caller has `seen` the
    /// entry there: between a caller's look into the store and its call, another thread may have fetched an entry and stored it.
    ///
    /// A batch for `keys` that begins under the returned lock asks for no entry twice.
    pub(super) fn locked_without_fetched(
        &self,
        keys: &mut Vec<Digest>,
        seen: Option<&Digest>,
    ) -> MutexGuard<'_, State> {
        let mut checked: HashSet<Digest> = seen.into_iter().copied().collect();
        loop {
            let mut state = self.locked();
            let may_be_stored = |key: &&Digest| {
                state.fetched.has(key) && state.table.would_be_new(key) && !checked.contains(key)
            };
            let unchecked: Vec<_> = keys.iter().filter(may_be_stored).copied().collect();
            if unchecked.is_empty() {
                return state;
            }
            drop(state);
            let stored: HashSet<_> = unchecked.iter().copied().filter(|key| (self.is_stored)(key)).collect();
            keys.retain(|key| !stored.contains(key));
            state = self.locked();
            stored.iter().for_each(|key| state.note_stored(key));
            checked.extend(unchecked);
        }
    }

    /// Waits while another thread asks for the entry of `key`, or judges it. Returns whether one did.
    pub(super) fn wait_for_others(&self, key: &Digest, limits: Limits<'_>) -> bool {
        let mut state = self.locked();
        if !state.table.is_on_its_way(key) {
            return false;
        }
        let time = RunningTime::new();
        let waited = || time.at(Instant::now());
        let longest = limits.timeout_of_call(self.client.call_timeout()).min(LONGEST_WAIT);
        let _in_call = limits.budget.map(WaitBudget::enter);
        let wait = AnswerWait::begin(self.client.tally_of(limits), limits.budget);
        while state.table.is_on_its_way(key) && waited() < longest && !limits.are_over() {
            state = self.changed.wait_timeout(state, CHECK_LIMITS).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        wait.end(waited(), time.suspended());
        true
    }

    /// Asks for the leases on `keys`, whose entries are known to be missing.
    pub(super) fn look_for_leases(&self, keys: &[Digest], limits: Limits<'_>) -> Result<(), CallFailure> {
        self.ask(keys, false, None, limits).map(drop)
    }

    /// Asks for the entries of keys, unless they have arrived, and the leases above the generations that this host holds: the last
    /// holder may have published the entry, and a newcomer may have claimed a generation that others took over. Returns the readings
    /// of these leases; `None` if the engine did not answer.
    pub(super) fn look_again(
        &self,
        held: &[(Digest, u64)],
        limits: Limits<'_>,
    ) -> Result<Option<Vec<LeaseReading>>, CallFailure> {
        // The caller holds locks meanwhile, and gives no heartbeat: all waits together take no longer than one.
        let end = Instant::now() + LONGEST_WAIT;
        let waits =
            Limits { deadline: Some(limits.deadline.map_or(end, |deadline| deadline.min(end))), ..limits };
        for (key, _) in held {
            if self.wait_for_others(key, waits) && (self.is_stored)(key) {
                self.locked().note_stored(key);
            }
        }
        let mut names: Vec<_> =
            held.iter().map(|(key, generation)| self.entries.names.lease(key, generation + 1)).collect();
        // The number of the key of each name.
        let mut of: Vec<_> = (0..held.len()).collect();
        let mut asked = Asked::new(&self.state, &self.changed, Vec::new());
        for (number, (key, _)) in held.iter().enumerate() {
            if self.locked().table.begin_asking(key) {
                asked.push(*key);
                names.extend(self.entries.of(key));
                of.resize(names.len(), number);
            }
        }
        let mut above = vec![LeaseReading::new(None); held.len()];
        let mut arrivals: Vec<_> = held.iter().map(|_| Arrivals::default()).collect();
        let answer = self.client.get_many(&names, limits, &mut |at, content| match above.get_mut(at) {
            Some(above) => *above = LeaseReading::new(Some(&content)),
            None => {
                let key = &held[of[at]].0;
                arrivals[of[at]].add(at, self.entries.checked(content, key, &names[at]));
            }
        });
        let mut wrong = Vec::new();
        let mut state = self.locked();
        asked.end(&mut state);
        for ((key, _), mut arrivals) in held.iter().zip(arrivals) {
            wrong.extend(arrivals.wrong.take().map(|refusal| (key, refusal)));
            let arrived = arrivals.in_order();
            if !arrived.is_empty() {
                let bytes = bytes_of(&arrived);
                state.table.note_own_entry(key, arrived, bytes, Instant::now());
            }
        }
        drop(state);
        self.changed.notify_all();
        for (key, Refusal { kind, reason }) in wrong {
            if self.refuse(key, kind) {
                self.warn_of_entry(&reason);
            }
        }
        Ok(answer?.then_some(above))
    }

    /// Returns what follows from the leases on `key`.
    pub(super) fn step(&self, key: &Digest) -> LeaseStep {
        self.locked().table.step(key)
    }

    /// Returns the number of keys for which one call asks.
    fn keys_of_call(&self, has_entries: bool) -> usize {
        match has_entries {
            true => self.entries.keys_of_call(LEASES_OF_KEY),
            false => self.entries.keys_of_small(LEASES_OF_KEY),
        }
    }

    /// Asks for the leases on `keys` and, if `has_entries`, for their entries, in as few calls as an engine can answer. Returns whether
    /// that changed what the board knows; `None` if the engine did not answer.
    fn ask(
        &self,
        keys: &[Digest],
        has_entries: bool,
        seen: Option<&Digest>,
        limits: Limits<'_>,
    ) -> Result<Option<bool>, CallFailure> {
        let (mut had_news, mut rest) = (None, keys);
        while !rest.is_empty() {
            // While many entries wait for callers, one more is asked for: another caller may wait for that one.
            let is_full = has_entries && self.locked().table.arrived_bytes() >= MAX_ARRIVED_BYTES;
            let has_entries = has_entries && (!is_full || rest.len() == keys.len());
            let most = if is_full && has_entries { 1 } else { self.keys_of_call(has_entries) };
            let (part, later) = rest.split_at(most.min(rest.len()));
            let Some(news) = self.ask_once(part.to_vec(), has_entries, seen, limits)? else { break };
            had_news = Some(had_news.unwrap_or(false) | news);
            rest = later;
        }
        Ok(had_news)
    }

    fn ask_once(
        &self,
        mut keys: Vec<Digest>,
        has_entries: bool,
        seen: Option<&Digest>,
        limits: Limits<'_>,
    ) -> Result<Option<bool>, CallFailure> {
        let has_leases = self.client.may_have_leases() && self.entries.have_leases();
        let mut state = match has_entries {
            true => self.locked_without_fetched(&mut keys, seen),
            false => self.locked(),
        };
        if keys.is_empty() {
            return Ok(Some(true));
        }
        let mut batch = state.table.batch(keys, has_entries, has_leases, Instant::now());
        drop(state);
        let asked_keys = batch.asked_keys().copied().collect();
        let on_their_way = Asked::new(&self.state, &self.changed, asked_keys);
        let (mut names, mut asked) = (Vec::new(), Vec::new());
        for (at, question) in batch.questions().iter().enumerate() {
            match *question {
                Question::Entry { key } => names.extend(self.entries.of(&batch.keys()[key])),
                Question::Lease { key, generation } => {
                    names.push(self.entries.names.lease(&batch.keys()[key], generation));
                }
            }
            asked.resize(names.len(), at);
        }
        let mut arrivals: Vec<_> = batch.keys().iter().map(|_| Arrivals::default()).collect();
        let mut room = MAX_ARRIVED_BYTES.saturating_sub(self.locked().table.arrived_bytes());
        let (mut sizes, mut had_news) = (Sizes::default(), false);
        let answer =
            self.client.get_many(&names, limits, &mut |at, content| match batch.questions()[asked[at]] {
                Question::Entry { key } => {
                    sizes.add(&content);
                    let bytes = content.len() as u64;
                    // The first key is the one that is needed first.
                    if key > 0 && bytes > room {
                        had_news = true;
                        return batch.dropped_entry(asked[at]);
                    }
                    room = room.saturating_sub(bytes);
                    arrivals[key].add(at, self.entries.checked(content, &batch.keys()[key], &names[at]));
                }
                Question::Lease { .. } => batch.found_lease(asked[at], &content),
            });
        if has_entries {
            sizes.note(self.entries.sizes(), batch.keys().len(), matches!(answer, Ok(true)));
        }
        let mut wrong = None;
        let mut state = self.locked();
        for (key, arrivals) in batch.keys().iter().zip(arrivals) {
            if let Some(Refusal { kind, reason }) = &arrivals.wrong
                && state.refused.insert(*key)
            {
                self.client.tally().add(kind.counter(), 1);
                wrong = Some(reason.clone());
            }
            let arrived = arrivals.in_order();
            if !arrived.is_empty() {
                had_news = true;
                let bytes = bytes_of(&arrived);
                state.table.note_entry(key, arrived, bytes);
            }
        }
        // If the engine did not answer for all names, an object that did not arrive may exist.
        if let Ok(true) = answer {
            had_news |= state.table.answered(&batch, Instant::now());
        }
        on_their_way.end(&mut state);
        drop(state);
        self.changed.notify_all();
        if let Some(why) = wrong {
            self.warn_of_entry(&why);
        }
        Ok(answer?.then_some(had_news))
    }

    /// Records that a caller uses the entry of `key` in the local store. Returns whether this process has fetched it.
    pub(super) fn take_found(&self, key: &Digest) -> bool {
        self.locked().table.take_found(key)
    }

    /// Records that the claim of a lease found that of another host.
    pub(super) fn note_held(&self, key: &Digest, asked: Instant, generation: u64, value: Option<LeaseValue>) {
        self.locked().table.note_held(key, [asked, Instant::now()], generation, value);
    }

    /// Records that the process that had a lease is dead.
    pub(super) fn note_dead(&self, key: &Digest, generation: u64, token: LeaseToken) {
        self.locked().table.note_dead(key, generation, token);
    }

    /// Returns the stale leases on `key` below `generation`.
    pub(super) fn below(&self, key: &Digest, generation: u64) -> Vec<(ObjectName, LeaseToken)> {
        let below = self.locked().table.below(key, generation);
        below
            .into_iter()
            .map(|(generation, token)| (self.entries.names.lease(key, generation), token))
            .collect()
    }

    /// Whether the host that claims `generation` takes over from another host.
    pub(super) fn is_takeover(&self, key: &Digest, generation: u64) -> bool {
        self.locked().table.is_takeover(key, generation)
    }

    /// Records that the entry in the engine is wrong. Returns whether that is new.
    pub(super) fn refuse(&self, key: &Digest, kind: RefusalKind) -> bool {
        let is_new = self.locked().refused.insert(*key);
        self.client.tally().add(kind.counter(), is_new.into());
        is_new
    }

    /// Whether the entry in the engine is wrong.
    pub(super) fn is_refused(&self, key: &Digest) -> bool {
        self.locked().refused.contains(key)
    }

    /// Records that the entry in the engine is this host's.
    pub(super) fn replaced(&self, key: &Digest) {
        self.locked().refused.remove(key);
    }

    /// Records that the caller uses the entry that it has fetched, before it is stored.
    pub(super) fn used(&self, key: &Digest) {
        let mut state = self.locked();
        state.fetched.add(key);
        state.table.judged_used(key);
    }

    /// Records that the caller has fetched the key's entry.
    pub(super) fn fetched(&self, key: &Digest) {
        let mut state = self.locked();
        state.table.finished(key, Instant::now());
    }

    /// Records that the caller has the key's entry, or builds it.
    pub(super) fn finished(&self, key: &Digest) {
        self.locked().table.finished(key, Instant::now());
    }

    /// Makes the next call, if it is due. Returns the time of the next one, if callers wait.
    fn poll(&self, time: Duration) -> Option<Instant> {
        let (poll, mut keys, counter) = {
            let mut state = self.locked();
            let Some((at, poll)) = state.table.next_call() else {
                state.is_scheduled = false;
                return None;
            };
            if at > Instant::now() {
                return Some(at);
            }
            (poll, state.table.watched(), state.counter.clone())
        };
        if let Poll::Batch = poll {
            self.skip_stored(&mut keys, None);
        }
        if keys.is_empty() {
            return Instant::now().checked_add(NOTHING_MISSING);
        }
        // A caller waits for what the other host builds, and would build it if the engine hung.
        let deadline = Instant::now().checked_add(time);
        let limits = Limits { deadline, needs_progress: true, ..Limits::default() };
        let hint = match (poll, counter) {
            (Poll::Hint, Some(counter)) => Some(self.client.progress(&counter, limits)),
            _ => None,
        };
        let is_hint = hint.is_some();
        let answer = match hint {
            Some(Ok(Some(counter))) => Ok(Some(Ok(counter))),
            Some(Ok(None)) => Ok(None),
            Some(Err(why)) => Err(why),
            None => self.ask(&keys, true, None, limits).map(|news| news.map(Err)),
        };
        let (now, random) = (Instant::now(), random_number());
        let next = {
            let table = &mut self.locked().table;
            match answer {
                Ok(Some(Ok(counter))) => table.hinted(now, counter, random),
                Ok(Some(Err(had_news))) => table.batched(now, had_news, random),
                Ok(None) | Err(_) => table.failed(now, random),
            }
        };
        if let Err(why) = answer {
            // A lost counter is no reason for a warning: the batches come nevertheless.
            let warning = format!("{why}; other hosts are waited for nevertheless");
            let _ = (!is_hint).then(|| guarded(|| (self.on_failure)(&warning, why.warn())));
        }
        next
    }

    /// Warns of an invalid entry, which is as good as none.
    fn warn_of_entry(&self, why: &str) {
        let _ = guarded(|| (self.on_failure)(&format!("{why}; {WRONG_ENTRY}"), true));
    }

    pub(super) fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Timed for Board {
    const THREAD: &'static str = "remote-wait";

    fn visit(&self, share: Duration) -> Option<Instant> {
        self.poll(share)
    }
}
