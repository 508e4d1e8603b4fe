//! Many entries of the remote tier in one call: they are checked, judged and written to the local store as they arrive.

use std::collections::{HashSet, VecDeque};
use std::mem;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use opkeep_digest::Digest;
use opkeep_store::{Entry, TargetStore};

use crate::byte_queue::ByteQueue;
use crate::miss::Miss;
use crate::query::{Accept, Query};
use crate::refusal::{Refusal, WRONG_ENTRY};
use crate::remote::{self, Asking, CallFailure, News, ObjectName, RemoteTarget};
use crate::tiers::Target;

/// The maximum number of threads that check entries during a call.
const MAX_THREADS: usize = 4;
/// The maximum size of the contents that arrived and that no thread has begun to check: then no more is received.
const MAX_WAITING_BYTES: usize = 32 << 20;

/// The outcome of [`TargetCache::fetch`](crate::TargetCache::fetch).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FetchReport {
    /// The keys whose entries are in the local store now, in no order. The caller has judged them, except those that another process
    /// of this host fetched meanwhile. If the local store is not written, the caller has seen all of them when it judged them.
    pub fetched: Vec<Digest>,
    /// The size of the entries that arrived, in bytes.
    pub bytes: u64,
    /// The keys whose entries are not valid, or that the caller replaces, with the reason for people. A build of this process
    /// replaces the entry in the remote tier.
    pub refused: Vec<(Digest, String)>,
    /// The keys that neither the local store nor the remote tier has, as far as the engine answered.
    pub missing: Vec<Digest>,
}

/// What became of one entry.
enum Arrival {
    Fetched,
    Refused(String),
    /// The caller ignored it, or there is none.
    Ignored,
}

impl Arrival {
    /// Of the entries of several signers, the one with the highest rank counts.
    fn rank(&self) -> u8 {
        match self {
            Self::Ignored => 0,
            Self::Refused(_) => 1,
            Self::Fetched => 2,
        }
    }
}

/// The judgement of the entries of one key, of which each signer may have stored one. Several threads have them, and the caller judges
/// one after the other, until it takes one.
#[derive(Default)]
struct KeyTurn(Mutex<TurnState>);

#[derive(Default)]
struct TurnState {
    is_judging: bool,
    is_fetched: bool,
    /// Those that arrived while another thread had its turn, which judges them as well.
    waiting: VecDeque<Box<Entry>>,
}

impl KeyTurn {
    /// Returns `entry` if it is this thread's turn. [`end`](Self::end) follows.
    fn begin(&self, entry: Box<Entry>) -> Option<Box<Entry>> {
        let mut state = self.locked();
        if state.is_fetched {
            return None;
        }
        if mem::replace(&mut state.is_judging, true) {
            state.waiting.push_back(entry);
            return None;
        }
        Some(entry)
    }

    /// Records what became of an entry. Returns the next one, if one is needed.
    fn end(&self, arrival: &Arrival) -> Option<Box<Entry>> {
        let mut state = self.locked();
        state.is_fetched = matches!(arrival, Arrival::Fetched);
        if state.is_fetched {
            state.waiting.clear();
        }
        let next = state.waiting.pop_front();
        state.is_judging = next.is_some();
        next
    }

    fn locked(&self) -> MutexGuard<'_, TurnState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Target {
    /// Returns those of `keys` that the local store lacks, by the heads of its entries.
    pub(crate) fn lacking(&self, keys: &[Digest]) -> Vec<Digest> {
        keys.iter().copied().filter(|key| self.open_entry(key).is_none()).collect()
    }

    /// Fetches the entries that the local store is `lacking`, and makes `keys` the plan for which other hosts are waited for. `looks_again`:
    /// what another process has stored since is not lacking any more.
    pub(crate) fn fetch(
        &self,
        keys: &[Digest],
        mut lacking: Vec<Digest>,
        looks_again: bool,
        query: &Query<'_>,
    ) -> FetchReport {
        let mut report = FetchReport::default();
        let turning = self.read_remote().filter(|_| !lacking.is_empty());
        let turn = turning.map(|remote| self.fetch_turn(remote, keys, query));
        if turn.as_ref().is_some_and(|turn| looks_again || turn.has_waited) {
            lacking.retain(|key| match self.open_entry(key) {
                Some(_) => {
                    report.fetched.push(*key);
                    false
                }
                None => true,
            });
        }
        if let Some(remote) = self.used_remote() {
            remote.plan(keys, &lacking);
        }
        let asking = self.read_remote().map(|remote| remote.begin_asking(&lacking));
        let others = self.asked_by_others(&lacking, asking.as_ref());
        let lacking = asking.as_ref().map_or(lacking, |asking| asking.keys().to_vec());
        self.estimate_sizes();
        let lacking = self.fetch_bundle(keys, lacking, query, &mut report);
        self.fetch_entries(&lacking, query, &mut report);
        drop(asking);
        if let (Some(turn), Some(remote)) = (turn, self.read_remote()) {
            turn.end(remote);
        }
        self.wait_for_others(others, query, &mut report);
        if let Some(remote) = self.leases()
            && !report.missing.is_empty()
            && let Err(why) = remote.look_for_leases(&report.missing, query.limits())
        {
            self.remote_failed(why);
        }
        report
    }

    /// Returns the keys that other threads of this process ask for.
    fn asked_by_others(&self, lacking: &[Digest], asking: Option<&Asking>) -> Vec<Digest> {
        let Some(asking) = asking.filter(|asking| asking.keys().len() < lacking.len()) else {
            return Vec::new();
        };
        let own: HashSet<_> = asking.keys().iter().collect();
        lacking.iter().filter(|key| !own.contains(key)).copied().collect()
    }

    /// Waits for the entries that other threads ask for.
    fn wait_for_others(&self, keys: Vec<Digest>, query: &Query<'_>, report: &mut FetchReport) {
        for key in keys {
            let Some(remote) = self.read_remote() else { return };
            remote.wait_for_others(&key, query.limits());
            match self.arrived_for_others(remote, &key, query) {
                Arrival::Fetched => report.fetched.push(key),
                Arrival::Refused(why) => report.refused.push((key, why)),
                Arrival::Ignored => report.missing.push(key),
            }
        }
    }

    fn arrived_for_others(&self, remote: &RemoteTarget, key: &Digest, query: &Query<'_>) -> Arrival {
        let mut outcome = Arrival::Ignored;
        loop {
            if self.open_entry(key).is_some() {
                return Arrival::Fetched;
            }
            let next = match remote.news(key, query.limits()) {
                News::Arrived(arrival) => self.all_arrived(arrival, query),
                News::Stored { .. } => continue,
                News::Step(_) => return outcome,
            };
            if next.rank() > outcome.rank() {
                outcome = next;
            }
        }
    }

    fn all_arrived(&self, mut arrival: remote::Arrival, query: &Query<'_>) -> Arrival {
        let mut outcome = Arrival::Ignored;
        while outcome.rank() < Arrival::Fetched.rank()
            && let Some(entry) = arrival.next()
        {
            let next = self.arrived(entry, query);
            if next.rank() > outcome.rank() {
                outcome = next;
            }
        }
        outcome
    }

    /// Has the first call ask for few entries if those of the local store are large.
    fn estimate_sizes(&self) {
        if let Some(remote) = self.read_remote().filter(|remote| !remote.entries().sizes().are_known())
            && let Some(estimate) = self.store.as_ref().and_then(TargetStore::estimate)
        {
            let entries = usize::try_from(estimate.entries).unwrap_or(usize::MAX);
            remote.entries().sizes().note(0, entries, estimate.bytes);
        }
    }

    /// Fetches entries, in as few calls as an engine can answer.
    fn fetch_entries(&self, mut keys: &[Digest], query: &Query<'_>, report: &mut FetchReport) {
        let Some(remote) = self.read_remote() else {
            return report.missing.extend(keys);
        };
        while !keys.is_empty() {
            let (part, later) = keys.split_at(remote.entries().keys_of_call(0).min(keys.len()));
            let (answer, missing) = self.take_arriving(remote, part, query, report, |found| {
                remote.get_entries(part, query.limits(), found)
            });
            if let Err(why) = answer {
                self.remote_failed(why);
            }
            self.warn_of_pause(remote);
            report.missing.extend(missing);
            keys = later;
        }
    }

    /// Makes a call for the entries of `keys`, and takes them as they arrive. Returns its answer, and the keys whose entries did not
    /// arrive, or are not for the caller.
    pub(crate) fn take_arriving<T>(
        &self,
        remote: &RemoteTarget,
        keys: &[Digest],
        query: &Query<'_>,
        report: &mut FetchReport,
        call: impl FnOnce(&mut dyn FnMut(usize, Vec<u8>, &ObjectName)) -> Result<T, CallFailure>,
    ) -> (Result<T, CallFailure>, Vec<Digest>) {
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MAX_THREADS);
        let turns: Vec<_> = keys.iter().map(|_| KeyTurn::default()).collect();
        let take = |(at, content, name): (usize, Vec<u8>, ObjectName), arrivals: &mut Vec<_>| {
            let entry = match self.received(remote, &keys[at], content, &name) {
                Ok(entry) => entry,
                Err(refusal) => return arrivals.push((at, Arrival::Refused(refusal.reason))),
            };
            let mut judged = turns[at].begin(entry);
            while let Some(entry) = judged {
                let arrival = self.arrived(entry, query);
                judged = turns[at].end(&arrival);
                arrivals.push((at, arrival));
            }
        };
        let queue = ByteQueue::new(MAX_WAITING_BYTES);
        let (answer, arrivals) = thread::scope(|scope| {
            let _end = EndQueue(&queue);
            let start = |_| {
                let worker = queue.worker();
                let work = move || {
                    let mut arrivals = Vec::new();
                    while let Some(arrived) = worker.next() {
                        take(arrived, &mut arrivals);
                    }
                    arrivals
                };
                thread::Builder::new().name("remote-fetch".to_owned()).spawn_scoped(scope, work).ok()
            };
            let helpers: Vec<_> = (0..threads.min(keys.len())).map_while(start).collect();
            let mut arrivals = Vec::new();
            let answer = call(&mut |at, content, name| {
                report.bytes += content.len() as u64;
                let bytes = content.len();
                // If no thread can be started, this one does the work.
                let left = queue.push((at, content, name.clone()), bytes);
                left.into_iter().for_each(|left| take(left, &mut arrivals));
            });
            queue.end();
            for helper in helpers {
                match helper.join() {
                    Ok(more) => arrivals.extend(more),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            (answer, arrivals)
        });
        let mut outcomes: Vec<_> = keys.iter().map(|_| Arrival::Ignored).collect();
        for (at, arrival) in arrivals {
            if arrival.rank() > outcomes[at].rank() {
                outcomes[at] = arrival;
            }
        }
        let mut missing = Vec::new();
        for (key, outcome) in keys.iter().zip(outcomes) {
            match outcome {
                Arrival::Fetched => report.fetched.push(*key),
                Arrival::Refused(why) => report.refused.push((*key, why)),
                Arrival::Ignored => missing.push(*key),
            }
        }
        (answer, missing)
    }

    /// Checks the content of an object.
    fn received(
        &self,
        remote: &RemoteTarget,
        key: &Digest,
        content: Vec<u8>,
        name: &ObjectName,
    ) -> Result<Box<Entry>, Refusal> {
        remote.entries().checked(content, key, name).map(Box::new).inspect_err(|refusal| {
            if remote.refuse(key, refusal.kind) {
                self.remote_is_wrong(&refusal.reason, WRONG_ENTRY);
            }
        })
    }

    fn arrived(&self, entry: Box<Entry>, query: &Query<'_>) -> Arrival {
        let verdict = (query.accept)(&entry);
        let refused = match &verdict {
            Accept::Replace(reason) => Some(reason.clone()),
            Accept::Take | Accept::Validated { .. } | Accept::Ignore => None,
        };
        match (self.judged(entry, verdict, &Miss::Absent), refused) {
            (Some(_), _) => Arrival::Fetched,
            (None, Some(why)) => Arrival::Refused(why),
            (None, None) => Arrival::Ignored,
        }
    }
}

/// Ends the queue, also if the call panics.
struct EndQueue<'a, T>(&'a ByteQueue<T>);

impl<T> Drop for EndQueue<'_, T> {
    fn drop(&mut self) {
        self.0.end();
    }
}
