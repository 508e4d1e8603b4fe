//! The remote tier of a cache, and its part for one target.

use std::fmt;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use opkeep_digest::Digest;
use opkeep_store::Counter;

use super::answer_size::Sizes;
use super::arrival::{Arrival, Asking, News};
use super::board::{Board, IsStored, LookOutcome};
use super::bundles::PlanBundles;
use super::call::Limits;
use super::client::{Existing, PutFailure, RemoteClient};
use super::config::RemoteConfig;
use super::engine::{ClaimAnswer, ExclusiveCreate, RemoteObject};
use super::entry_names::EntryNames;
use super::lease::{HeldLease, HeldLeases, LeaseReading, LeaseStep, OnFailure};
use super::object::ObjectName;
use super::problems::CallFailure;
use super::watch::Watch;
use crate::event::{CacheEvent, Events};
use crate::per_process::PerProcess;
use crate::refusal::RefusalKind;
use crate::signing::Sendable;
use crate::tally::Tally;
use crate::timer::Timer;

/// The maximum time of the call that advances a counter, which is a hint.
const LONGEST_ADVANCE: Duration = Duration::from_secs(1);

/// The remote tier of a cache.
pub(crate) struct RemoteTier {
    client: Arc<RemoteClient>,
    leases: PerProcess<Arc<HeldLeases>>,
    /// The boards of all targets, which one thread visits.
    boards: Arc<Timer<Board>>,
}

impl RemoteTier {
    pub(crate) fn new(config: RemoteConfig) -> Arc<Self> {
        let boards = Timer::new(config.call_timeout);
        // Its own calls only release leases, which is counted nowhere.
        let tally = Arc::new(Tally::new(None, Events::default()));
        let client = Arc::new(RemoteClient::new(config, tally));
        let leases = PerProcess::new(HeldLeases::new(Arc::clone(&client)));
        Arc::new(Self { client, leases, boards })
    }

    pub(crate) fn client(&self) -> &RemoteClient {
        &self.client
    }

    fn leases(&self) -> &Arc<HeldLeases> {
        self.leases.get(|| HeldLeases::new(Arc::clone(&self.client)))
    }

    fn board(
        &self,
        client: &Arc<RemoteClient>,
        entries: &EntryNames,
        on_failure: &OnFailure,
        is_stored: &IsStored,
    ) -> Arc<Board> {
        let (client, boards) = (Arc::clone(client), Arc::clone(&self.boards));
        Board::new(client, boards, entries.clone(), Arc::clone(on_failure), Arc::clone(is_stored))
    }
}

impl fmt::Debug for RemoteTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.fmt(f)
    }
}

/// The part of a remote tier for one target.
pub(crate) struct RemoteTarget {
    tier: Arc<RemoteTier>,
    client: Arc<RemoteClient>,
    entries: EntryNames,
    board: PerProcess<Arc<Board>>,
    bundles: PlanBundles,
    on_failure: OnFailure,
    is_stored: IsStored,
}

/// An entry that is stored in the engine.
pub(crate) struct SentEntry<'a> {
    pub(crate) key: &'a Digest,
    pub(crate) entry: &'a Sendable,
}

/// A bundle that the engine returned.
pub(crate) struct FoundBundle {
    pub(crate) content: Vec<u8>,
    /// Whether it has the name of the one that this host would store.
    pub(crate) is_own: bool,
}

/// The answer to the claim of a lease.
pub(crate) enum Claimed {
    Granted(HeldLease),
    /// Another host has it.
    Held,
    /// There is no lease: the caller builds without one.
    None,
}

impl RemoteTarget {
    /// Creates the part for the target whose objects are `entries`, and whose calls count in `tally`. `on_failure` is called with the
    /// cause of each failure on another thread. `is_stored` says what need not be asked for.
    pub(crate) fn new(
        tier: Arc<RemoteTier>,
        entries: EntryNames,
        tally: &Arc<Tally>,
        on_failure: OnFailure,
        is_stored: IsStored,
    ) -> Self {
        let client = Arc::new(tier.client.for_target(Arc::clone(tally)));
        let board = PerProcess::new(tier.board(&client, &entries, &on_failure, &is_stored));
        Self { tier, client, entries, board, bundles: PlanBundles::default(), on_failure, is_stored }
    }

    pub(crate) fn client(&self) -> &RemoteClient {
        &self.client
    }

    pub(crate) fn tally(&self) -> &Tally {
        self.client.tally()
    }

    fn board(&self) -> &Arc<Board> {
        let new = || self.tier.board(&self.client, &self.entries, &self.on_failure, &self.is_stored);
        self.board.get(new)
    }

    /// Sets the plan of the build: all of its keys, and those that the local store lacks.
    pub(crate) fn plan(&self, keys: &[Digest], missing: &[Digest]) {
        self.board().plan(keys, missing);
    }

    /// Asks for `key` and other missing keys, unless that was done since `fresh_since`, or a moment before; or a moment ago, if there
    /// is no such time. `is_seen`: the caller does not use the entry that the local store has. The error is for people.
    pub(crate) fn look(
        &self,
        key: &Digest,
        fresh_since: Option<Instant>,
        is_seen: bool,
        limits: Limits<'_>,
    ) -> Result<LookOutcome, CallFailure> {
        self.board().look(key, fresh_since, is_seen, limits)
    }

    /// Begins a call for the entries of `keys`, those that no other thread asks for.
    pub(crate) fn begin_asking(&self, keys: &[Digest]) -> Asking {
        self.board().begin_asking(keys)
    }

    /// Waits while another thread asks for the entry of `key`, or judges it.
    pub(crate) fn wait_for_others(&self, key: &Digest, limits: Limits<'_>) {
        let _ = self.board().wait_for_others(key, limits);
    }

    /// Waits for an entry that arrived, to judge and store it. `None` if `has_ended` is set.
    pub(crate) fn next_arrival(&self, has_ended: &AtomicBool) -> Option<Arrival> {
        self.board().next_arrival(has_ended)
    }

    /// Wakes all who wait for arrivals: a flag of theirs is set.
    pub(crate) fn end_receiving(&self) {
        self.board().end_receiving();
    }

    /// Records that a caller uses the entry of `key` in the local store. Returns whether this process has fetched it, which it says once.
    pub(crate) fn take_found(&self, key: &Digest) -> bool {
        self.board().take_found(key)
    }

    pub(crate) fn entries(&self) -> &EntryNames {
        &self.entries
    }

    /// Requests the entries of `keys`, and calls `found` with the index of the key, the content and the name of each as it arrives:
    /// several signers may have stored one each.
    pub(crate) fn get_entries(
        &self,
        keys: &[Digest],
        limits: Limits<'_>,
        found: &mut dyn FnMut(usize, Vec<u8>, &ObjectName),
    ) -> Result<bool, CallFailure> {
        let names: Vec<_> = keys.iter().flat_map(|key| self.entries.of(key)).collect();
        let count = self.entries.count();
        let mut sizes = Sizes::default();
        let answer = self.client().get_many(&names, limits, &mut |at, content| {
            sizes.add(&content);
            found(at / count, content, &names[at]);
        })?;
        sizes.note(self.entries.sizes(), keys.len(), answer);
        Ok(answer)
    }

    /// Requests the bundles of a plan, of each signer that counts. `None`: the engine did not answer.
    pub(crate) fn get_bundles(
        &self,
        plan: &Digest,
        limits: Limits<'_>,
    ) -> Result<Option<Vec<FoundBundle>>, CallFailure> {
        let (names, own) = (self.entries.bundles_of(plan), self.entries.own_bundle(plan));
        let mut found: Vec<_> = names.iter().map(|_| None).collect();
        let answered =
            self.client().get_many(&names, limits, &mut |at, content| found[at] = Some(content))?;
        let named = found.into_iter().zip(names);
        let bundles =
            named.filter_map(|(content, name)| Some(FoundBundle { content: content?, is_own: name == own }));
        Ok(answered.then(|| bundles.collect()))
    }

    /// Stores the bundle of a plan. Returns whether it is in the engine now.
    pub(crate) fn put_bundle(
        &self,
        plan: &Digest,
        bundle: &[u8],
        replaces: bool,
        limits: Limits<'_>,
    ) -> Result<bool, CallFailure> {
        let (name, existing) =
            (self.entries.own_bundle(plan), if replaces { Existing::Replace } else { Existing::Keep });
        // A bundle of another host stays. If it is wrong, the next reader replaces it.
        let stored = self.client().store(&[RemoteObject::new(&name, bundle)], existing, limits, &|_, _| true);
        stored.map_err(|failure| failure.reason)
    }

    /// Whether a host has stored a bundle of the plan a moment ago: since this one looked for it.
    pub(crate) fn has_new_bundle(&self, plan: &Digest, limits: Limits<'_>) -> Result<bool, CallFailure> {
        if !self.client().has_counters() {
            return Ok(false);
        }
        let count = self.client().progress(&self.entries.new_bundles(plan), limits)?;
        Ok(count.flatten().is_some_and(|count| count > 0))
    }

    /// Has hosts that finish the plan a moment later send no bundle. Best effort.
    pub(crate) fn note_new_bundle(&self, plan: &Digest) {
        self.advance_counter(&self.entries.new_bundles(plan), 1);
    }

    /// Returns the plans for which this process found no bundle.
    pub(crate) fn bundles(&self) -> &PlanBundles {
        &self.bundles
    }

    /// Asks for the leases on `keys`, whose entries are known to be missing.
    pub(crate) fn look_for_leases(&self, keys: &[Digest], limits: Limits<'_>) -> Result<(), CallFailure> {
        if self.has_leases(limits)? == Some(true) {
            self.board().look_for_leases(keys, limits)?;
        }
        Ok(())
    }

    /// Returns what is known of `key`.
    pub(crate) fn news(&self, key: &Digest, limits: Limits<'_>) -> News {
        self.board().news(key, limits)
    }

    /// Whether the engine has leases. `None`: it did not answer.
    pub(crate) fn has_leases(&self, limits: Limits<'_>) -> Result<Option<bool>, CallFailure> {
        let known = self.client().capabilities(limits)?;
        Ok(known.map(|known| known.exclusive_create != ExclusiveCreate::None))
    }

    /// Returns what follows from the leases on `key`.
    pub(crate) fn step(&self, key: &Digest) -> LeaseStep {
        self.board().step(key)
    }

    /// Claims `generation` of the lease on `key`. A granted lease is renewed for `hold_limit` at most.
    pub(crate) fn claim(
        &self,
        key: &Digest,
        generation: u64,
        hold_limit: Duration,
        limits: Limits<'_>,
    ) -> Result<Claimed, CallFailure> {
        let mut answers = self.claim_many(&[(*key, generation)], hold_limit, limits)?;
        Ok(answers.pop().unwrap_or(Claimed::None))
    }

    /// Does the same for several keys in one call.
    pub(crate) fn claim_many(
        &self,
        wanted: &[(Digest, u64)],
        hold_limit: Duration,
        limits: Limits<'_>,
    ) -> Result<Vec<Claimed>, CallFailure> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let (leases, asked) = (self.tier.leases(), Instant::now());
        let name = |(key, generation): &(Digest, u64)| self.entries.names.lease(key, *generation);
        let names: Vec<_> = wanted.iter().map(name).collect();
        let Some(answers) = self.client().claim(&names, &leases.value(), names.len(), limits)? else {
            return Ok(wanted.iter().map(|_| Claimed::None).collect());
        };
        let named = wanted.iter().zip(names).zip(answers);
        let claimed = named.map(|(((key, generation), name), answer)| match answer {
            ClaimAnswer::Granted => {
                opkeep_trace::debug!("lease claimed", key = key, generation = generation);
                let below = self.board().below(key, *generation);
                let (client, on_failure) = (Arc::clone(&self.client), Arc::clone(&self.on_failure));
                Claimed::Granted(leases.hold((name, *generation), below, hold_limit, client, on_failure))
            }
            ClaimAnswer::Held(value) => {
                opkeep_trace::debug!("lease held by another host", key = key, generation = generation);
                self.board().note_held(key, asked, *generation, value);
                Claimed::Held
            }
            ClaimAnswer::NotTried => Claimed::None,
        });
        Ok(claimed.collect())
    }

    /// Records that the holder of a lease is dead, a process of this host whose [note](HeldLease::note) is left.
    pub(crate) fn note_dead(&self, key: &Digest, note: &str) {
        if let Some((generation, token)) = HeldLease::parse_note(note) {
            self.board().note_dead(key, generation, token);
        }
    }

    /// Whether the host that claims `generation` takes over from another host, and not from a dead process of its own.
    pub(crate) fn is_takeover(&self, key: &Digest, generation: u64) -> bool {
        self.board().is_takeover(key, generation)
    }

    /// Looks for the entry with the lease in hand. Returns whether the lease holds: another host may have taken over from a holder
    /// of this generation.
    pub(crate) fn confirm(
        &self,
        key: &Digest,
        generation: u64,
        limits: Limits<'_>,
    ) -> Result<bool, CallFailure> {
        let confirmed = self.confirm_many(&[(*key, generation)], limits)?;
        Ok(confirmed.first().is_none_or(|is_confirmed| *is_confirmed))
    }

    /// Does the same for several leases in one call.
    pub(crate) fn confirm_many(
        &self,
        held: &[(Digest, u64)],
        limits: Limits<'_>,
    ) -> Result<Vec<bool>, CallFailure> {
        let asked = Instant::now();
        // Without an answer, nothing is known of another host.
        let above = self.board().look_again(held, limits)?.unwrap_or_default();
        let above = above.into_iter().map(Some).chain(iter::repeat(None));
        let confirmed = held.iter().zip(above).map(|((key, generation), above)| match above {
            Some(LeaseReading::Held(value)) => {
                self.board().note_held(key, asked, generation + 1, Some(value));
                false
            }
            Some(LeaseReading::Absent | LeaseReading::Invalid) | None => true,
        });
        Ok(confirmed.collect())
    }

    /// Has the board ask for `key`, which a caller waits for. `was_absent`: the local store had no entry.
    pub(crate) fn watch(&self, key: &Digest, was_absent: bool) -> Watch {
        self.board().watch(key, was_absent)
    }

    /// Records that the entry in the engine is wrong. Returns whether that is new.
    pub(crate) fn refuse(&self, key: &Digest, kind: RefusalKind) -> bool {
        self.board().refuse(key, kind)
    }

    /// Records that this process uses the entry that it has fetched, before it is stored: a caller may find it in the local store from
    /// then on.
    pub(crate) fn used(&self, key: &Digest) {
        self.board().used(key);
    }

    /// Records that this process has fetched the entry.
    pub(crate) fn fetched(&self, key: &Digest) {
        self.board().fetched(key);
    }

    /// Records that this host has the entry, or builds it.
    pub(crate) fn finished(&self, key: &Digest) {
        self.board().finished(key);
    }

    /// Whether an own entry replaces the one in the engine: what a reader refused as wrong it replaces, or a wrong entry would stay
    /// for ever.
    pub(crate) fn is_refused(&self, key: &Digest) -> bool {
        self.board().is_refused(key)
    }

    /// Whether the engine stores objects of `bytes` bytes, as far as it was asked.
    pub(crate) fn takes(&self, bytes: usize) -> bool {
        bytes as u64 <= self.client().max_object_bytes()
    }

    /// Stores entries in one call. Returns whether they are in the engine now.
    pub(crate) fn put_many(
        &self,
        entries: &[SentEntry<'_>],
        replaces: bool,
        limits: Limits<'_>,
    ) -> Result<bool, CallFailure> {
        let existing = if replaces { Existing::Replace } else { Existing::Keep };
        let names: Vec<_> =
            entries.iter().map(|sent| self.entries.names.entry_of(sent.key, sent.entry.signer())).collect();
        let named = names.iter().zip(entries);
        let objects: Vec<_> = named.map(|(name, sent)| RemoteObject::new(name, sent.entry.file())).collect();
        let is_valid =
            |at: usize, content| self.entries.checked(content, entries[at].key, &names[at]).is_ok();
        match self.client().store(&objects, existing, limits, &is_valid) {
            Ok(true) => {
                entries.iter().for_each(|sent| self.board().replaced(sent.key));
                let bytes = entries.iter().map(|sent| sent.entry.file().len() as u64).sum();
                // Those of other hosts are probably as large.
                self.entries.sizes().note(entries.len(), entries.len(), bytes);
                self.tally().add(Counter::RemotePuts, entries.len() as u64);
                self.tally().notify(CacheEvent::Sent { entries: entries.len(), bytes });
                Ok(true)
            }
            Ok(false) => {
                self.not_sent(entries.len(), false, "the remote cache is not used at the moment");
                Ok(false)
            }
            Err(PutFailure { is_refused, reason }) => {
                self.not_sent(entries.len(), is_refused, &reason.to_string());
                Err(reason)
            }
        }
    }

    /// Counts entries that are not sent, and reports the reason.
    pub(crate) fn not_sent(&self, entries: usize, is_refused: bool, reason: &str) {
        let counter = if is_refused { Counter::UploadsRefused } else { Counter::UploadsUnsent };
        self.tally().add(counter, entries as u64);
        self.tally().notify(CacheEvent::NotSent { entries, is_refused, reason });
    }

    /// Counts a failure on another thread than a caller's, and warns of it, with its `effect`, if a warning is due.
    pub(crate) fn failed(&self, why: &CallFailure, effect: &str) {
        (self.on_failure)(&format!("{why}; {effect}"), why.warn());
    }

    /// Has other hosts that wait for entries of the same plan look for them. Best effort.
    pub(crate) fn advance(&self, by: u64) {
        self.board().counter().iter().for_each(|counter| self.advance_counter(counter, by));
    }

    fn advance_counter(&self, counter: &ObjectName, by: u64) {
        let deadline = Instant::now().checked_add(LONGEST_ADVANCE);
        self.client().advance(counter, by, Limits { deadline, ..Limits::default() });
    }
}

impl fmt::Debug for RemoteTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteTarget").field("tier", &self.tier).finish_non_exhaustive()
    }
}
