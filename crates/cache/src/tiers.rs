//! The tiers of a target, which are the local store and the remote tier: reads and writes of both. Shared by the target's
//! cache, tickets and pending keys.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;
use std::{fmt, iter};

use opkeep_digest::Digest;
use opkeep_store::{
    CacheMode, Counter, DamagedEntry, Entry, EntryBuilder, KeyLock, Lookup, OpenEntry, Overwrite, PutOutcome,
    Store, StoreError, TargetStore,
};
use opkeep_trust::SIGNATURES_MEMBER;

use crate::event::Events;
use crate::for_others::IsForOthers;
use crate::kept_lock::KeptLocks;
use crate::miss::Miss;
use crate::nothing_sent::NothingSent;
use crate::outage::Outage;
use crate::per_process::PerProcess;
use crate::query::{Accept, Query};
use crate::refusal::{RefusalKind, WRONG_ENTRY};
use crate::remote::{
    Arrival, CallFailure, EntryNames, LookOutcome, Namespace, News, ObjectNames, RemoteTarget, RemoteTier,
};
use crate::signing::{Keys, TargetTrust};
use crate::tally::Tally;
use crate::upload::Uploads;
use crate::warning::{WarningKind, Warnings};

/// The state that all targets of a cache share.
pub(crate) struct Shared {
    pub(crate) mode: CacheMode,
    pub(crate) store: Option<Store>,
    pub(crate) remote: Option<Arc<RemoteTier>>,
    pub(crate) is_for_others: IsForOthers,
    pub(crate) keys: Arc<Keys>,
    /// The namespace that entries are signed for.
    pub(crate) namespace: Namespace,
    pub(crate) warnings: Warnings,
    pub(crate) events: Events,
    /// The locks of keys that other hosts have leased.
    pub(crate) kept_locks: KeptLocks,
    /// Whether the store refuses writes. It is still read.
    pub(crate) outage: Outage,
    /// The uploads of the process that opened the cache, or of a forked child.
    pub(crate) uploads: PerProcess<Arc<Uploads>>,
}

impl Shared {
    pub(crate) fn uploads(&self) -> &Arc<Uploads> {
        self.uploads.get(|| Uploads::new(upload_limit(self.remote.as_deref())))
    }
}

/// Returns the maximum size of the entries that wait for their upload.
pub(crate) fn upload_limit(remote: Option<&RemoteTier>) -> u64 {
    remote.map_or(0, |remote| remote.client().config().upload_limit)
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mode, store, remote, .. } = self;
        f.debug_struct("Shared")
            .field("mode", mode)
            .field("store", store)
            .field("remote", remote)
            .finish_non_exhaustive()
    }
}

/// One target of a cache.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) shared: Arc<Shared>,
    pub(crate) name: String,
    pub(crate) store: Option<TargetStore>,
    pub(crate) remote: Option<Arc<RemoteTarget>>,
    pub(crate) trust: TargetTrust,
    pub(crate) tally: Arc<Tally>,
}

/// An entry that was found by a look-up in the remote tier.
pub(crate) struct FoundRemote {
    pub(crate) entry: Box<Entry>,
    /// Whether this process has fetched it. Otherwise another process of this host stored it meanwhile.
    pub(crate) is_fetched: bool,
}

/// The outcome of one look-up.
pub(crate) enum Looked {
    Taken(Box<Entry>),
    Missing(Miss),
}

impl Target {
    pub(crate) fn new(shared: Arc<Shared>, name: String, store: Option<TargetStore>) -> Self {
        let tally = Arc::new(Tally::new(store.clone(), shared.events.clone()));
        let keys = Arc::clone(&shared.keys);
        let trust = TargetTrust::new(keys, shared.namespace.clone(), &name, shared.is_for_others);
        let tier = shared.remote.as_ref().filter(|tier| tier.client().reads());
        let remote = tier.and_then(|tier| {
            let names = ObjectNames::new(&tier.client().config().namespace, &name)?;
            let (warnings, counted) = (shared.warnings.clone(), Arc::clone(&tally));
            let on_failure = move |text: &str, is_new: bool| {
                counted.add(Counter::RemoteErrors, 1);
                is_new.then(|| warnings.warn(WarningKind::Remote, text));
            };
            let entries = EntryNames::new(names, trust.clone());
            let (local, signed) = (store.clone(), trust.clone());
            let is_stored = move |key: &Digest| {
                local.as_ref().is_some_and(|local| open_trusted(local, &signed, key).is_some())
            };
            let (on_failure, is_stored) = (Arc::new(on_failure), Arc::new(is_stored));
            Some(Arc::new(RemoteTarget::new(Arc::clone(tier), entries, &tally, on_failure, is_stored)))
        });
        Self { shared, name, store, remote, trust, tally }
    }

    pub(crate) fn warn(&self, kind: WarningKind, text: impl fmt::Display) {
        self.shared.warnings.warn(kind, text);
    }

    /// Returns the local store, if entries are written there.
    pub(crate) fn written_store(&self) -> Option<&TargetStore> {
        let store = self.store.as_ref().filter(|store| store.is_writable());
        store.filter(|_| !self.shared.outage.is_paused(Instant::now()))
    }

    /// Looks up an entry in the local store for the first time. Counts a hit that the caller uses, and a miss if the query is
    /// counted.
    pub(crate) fn look(&self, key: &Digest, query: &Query<'_>) -> Looked {
        self.look_once(key, query, None).unwrap_or_else(|miss| {
            if let Some(store) = self.store.as_ref().filter(|_| query.counted) {
                store.count_miss(&miss);
                self.warn_of(&miss);
            }
            Looked::Missing(miss.into())
        })
    }

    /// Looks up an entry again, since other callers may have published it. Quarantines a damaged entry if its key is locked.
    pub(crate) fn look_again(&self, key: &Digest, query: &Query<'_>, lock: Option<&KeyLock>) -> Looked {
        self.store.iter().for_each(|store| store.refresh(key));
        self.look_once(key, query, lock).unwrap_or_else(|miss| {
            if let (opkeep_store::Miss::Damaged(entry), Some(store)) = (&miss, &self.store) {
                self.quarantine(store, key, entry, lock);
            }
            Looked::Missing(miss.into())
        })
    }

    /// Looks up an entry, under `lock` if it is given. The error is a miss, which may keep a damaged file open.
    fn look_once(
        &self,
        key: &Digest,
        query: &Query<'_>,
        lock: Option<&KeyLock>,
    ) -> Result<Looked, opkeep_store::Miss> {
        let Some(store) = &self.store else { return Ok(Looked::Missing(Miss::NoStore)) };
        let mut verdict = Accept::Ignore;
        let found = self.get_trusted(store, key, |entry| {
            verdict = (query.accept)(entry);
            matches!(verdict, Accept::Take | Accept::Validated { .. })
        });
        let entry = match found {
            Lookup::Hit(entry) => entry,
            Lookup::Miss(miss) => return Err(miss),
        };
        Ok(match verdict {
            Accept::Take => Looked::Taken(entry),
            Accept::Validated { stamp, renewed } => {
                self.restamp(&entry, stamp, &renewed, lock);
                Looked::Taken(entry)
            }
            Accept::Ignore => Looked::Missing(Miss::Ignored),
            Accept::Replace(reason) => Looked::Missing(Miss::Replaced(reason)),
        })
    }

    /// Looks up an entry in the local store, for a caller that uses it only if `is_used` returns true. An entry whose signatures do not
    /// count is a miss.
    pub(crate) fn get_trusted(
        &self,
        store: &TargetStore,
        key: &Digest,
        is_used: impl FnOnce(&Entry) -> bool,
    ) -> Lookup {
        let mut checked = Ok(());
        let found = store.get_if(key, |entry| {
            checked = self.trust.check_stored(entry);
            checked.is_ok() && is_used(entry)
        });
        match checked {
            Ok(()) => found,
            Err(reason) => {
                let reason =
                    format!("{reason}; it is replaced by a trusted entry, or one that is built here");
                let error = StoreError::Unsigned { path: store.path(key), reason };
                Lookup::Miss(opkeep_store::Miss::Untrusted(error))
            }
        }
    }

    /// Opens an entry of the local store whose signatures count, and reads no more than its head and these.
    pub(crate) fn open_entry(&self, key: &Digest) -> Option<OpenEntry<'_>> {
        open_trusted(self.store.as_ref()?, &self.trust, key)
    }

    /// Warns of a damaged entry, and quarantines it if its key is locked.
    fn quarantine(&self, store: &TargetStore, key: &Digest, entry: &DamagedEntry, lock: Option<&KeyLock>) {
        let path = store.path(key);
        let action = if lock.is_some() { "quarantined and built again" } else { "built again" };
        let text = format_args!("a damaged entry is {action}: `{}`: {}", path.display(), entry.corruption);
        self.warn(WarningKind::Corruption, text);
        if let Some(lock) = lock
            && let Err(error) = store.quarantine(key, entry, lock)
        {
            self.warn(WarningKind::Keeping, error);
        }
    }

    /// Records in the local store that the caller validated `entry`. Best effort: without the record, the next caller validates
    /// the entry again.
    fn restamp(&self, entry: &Entry, stamp: u32, renewed: &[(String, Vec<u8>)], lock: Option<&KeyLock>) {
        let Some(store) = self.written_store().filter(|_| entry.validation() < stamp) else { return };
        let renewed = borrowed(renewed);
        let _ = match lock {
            None => store.restamp_with(entry, stamp, &renewed),
            // Writing the entry computes new digests, which must not cover up damage in a lazy member.
            Some(_) if entry.names().any(|name| entry.lazy_member(name).is_err()) => Ok(()),
            Some(_) => {
                let stamped = entry.revalidated(stamp, &renewed);
                store.put_replacing(entry.key(), &stamped, Overwrite::Always).map(drop)
            }
        };
    }

    /// Warns of an entry that exists and cannot be read.
    pub(crate) fn warn_of(&self, miss: &opkeep_store::Miss) {
        if let opkeep_store::Miss::Untrusted(_) | opkeep_store::Miss::Io(_) = miss {
            self.warn(WarningKind::Reading, miss);
        }
    }

    /// Writes an entry to the local store. Returns `None` if that is not written. Emits a warning for an error.
    pub(crate) fn put(
        &self,
        key: &Digest,
        members: &EntryBuilder<'_>,
        overwrite: Overwrite,
    ) -> Result<Option<PutOutcome>, StoreError> {
        let Some(store) = self.written_store() else { return Ok(None) };
        let put = store.put_replacing(key, members, overwrite);
        match &put {
            Ok(PutOutcome::Published) if self.shared.outage.succeeded(Instant::now()) => {
                let dir = store.dir().display();
                self.warn(WarningKind::Keeping, format_args!("kernels are kept again, in `{dir}`"));
            }
            Ok(_) => {}
            Err(error) if store.stops_every_write(error) => self.pause_writing(error),
            Err(error) => self.warn(WarningKind::Keeping, format_args!("a kernel is not kept: {error}")),
        }
        put.map(Some)
    }

    /// Pauses writing to the local store, and warns of that once in an outage.
    pub(crate) fn pause_writing(&self, error: &StoreError) {
        if self.shared.outage.failed(Instant::now()) {
            self.warn(WarningKind::Keeping, format_args!("kernels are built and not kept: {error}"));
        }
    }

    /// Returns the remote tier, if the mode and the policy allow reading it.
    pub(crate) fn read_remote(&self) -> Option<&RemoteTarget> {
        self.remote.as_deref().filter(|_| self.shared.mode.reads())
    }

    /// Returns the remote tier, if the mode and the policy allow writing to it.
    pub(crate) fn written_remote(&self) -> Option<&RemoteTarget> {
        self.sending_remote().ok()
    }

    /// The same, or the reason why nothing is sent.
    pub(crate) fn sending_remote(&self) -> Result<&RemoteTarget, NothingSent> {
        let remote = self.remote.as_deref().ok_or(NothingSent::NoRemote)?;
        match (self.shared.mode.writes() && remote.client().writes(), self.shared.keys.may_send()) {
            (false, _) => Err(NothingSent::RemoteNotWritten),
            (true, false) => Err(NothingSent::NoSigningKey),
            (true, true) => Ok(remote),
        }
    }

    /// Returns the remote tier, if leases are used. A mode that does not read entries uses no leases, nor does a host that does not
    /// trust its own signing key: hosts would wait for each other without using each other's entries.
    pub(crate) fn leases(&self) -> Option<&RemoteTarget> {
        self.written_remote().filter(|_| self.shared.mode.reads() && self.shared.keys.takes_own())
    }

    /// Returns the remote tier, if it is used at all.
    pub(crate) fn used_remote(&self) -> Option<&RemoteTarget> {
        self.read_remote().or_else(|| self.written_remote())
    }

    /// Looks up an entry in the remote tier. An entry that the caller uses is written to the local store.
    pub(crate) fn look_remote(&self, key: &Digest, query: &Query<'_>, missing: &Miss) -> Option<FoundRemote> {
        let remote = self.read_remote().filter(|_| !query.stays_here)?;
        // What another thread has stored since the look-up may be damaged, or not be for this caller: then the engine is asked.
        let mut is_seen = !matches!(missing, Miss::Absent);
        loop {
            match remote.look(key, query.fresh_since, is_seen, query.limits()) {
                Ok(LookOutcome::Known) => break,
                Ok(LookOutcome::Stored { is_own }) => match self.look_stored(key, query, None) {
                    Some(entry) => return Some(FoundRemote { entry, is_fetched: is_own }),
                    None => is_seen = true,
                },
                Err(why) => {
                    self.remote_failed(why);
                    break;
                }
            }
        }
        self.warn_of_pause(remote);
        loop {
            let (taken, is_fetched) = match remote.news(key, query.limits()) {
                News::Arrived(arrival) => (self.judge(arrival, query, missing), true),
                News::Stored { is_own } => (self.look_stored(key, query, None), is_own),
                News::Step(_) => return None,
            };
            if let Some(entry) = taken {
                return Some(FoundRemote { entry, is_fetched });
            }
        }
    }

    /// Looks up an entry that was stored since the caller's look-up.
    pub(crate) fn look_stored(
        &self,
        key: &Digest,
        query: &Query<'_>,
        lock: Option<&KeyLock>,
    ) -> Option<Box<Entry>> {
        let Looked::Taken(entry) = self.look_again(key, query, lock) else { return None };
        self.remote.iter().for_each(|remote| remote.finished(key));
        Some(entry)
    }

    /// Has the caller judge the entries that the remote tier returned, until it uses one. That is written to the local store.
    pub(crate) fn judge(
        &self,
        mut arrival: Arrival,
        query: &Query<'_>,
        missing: &Miss,
    ) -> Option<Box<Entry>> {
        iter::from_fn(|| arrival.next()).find_map(|entry| {
            let verdict = (query.accept)(&entry);
            self.judged(entry, verdict, missing)
        })
    }

    /// Does what the caller's judgement of an entry says.
    pub(crate) fn judged(&self, entry: Box<Entry>, verdict: Accept, missing: &Miss) -> Option<Box<Entry>> {
        if let Accept::Take | Accept::Validated { .. } = verdict {
            self.remote.iter().for_each(|remote| remote.used(entry.key()));
        }
        self.store_judged(&entry, verdict, missing)?;
        self.tally.add(Counter::RemoteHits, 1);
        // An entry that arrived before its caller asked is a hit of the local store, which counts this.
        self.tally.add_time(Counter::SavedMicros, entry.cost());
        self.remote.iter().for_each(|remote| remote.fetched(entry.key()));
        Some(entry)
    }

    /// Writes an entry that the caller uses to the local store. Returns whether it is there; `None` if the caller does not use it.
    pub(crate) fn store_judged(&self, entry: &Entry, verdict: Accept, missing: &Miss) -> Option<bool> {
        // The entry is written with its final stamp: this caller holds the key's lock, so it could not set the stamp later.
        let (stamp, renewed) = match verdict {
            Accept::Take => (entry.validation(), Vec::new()),
            Accept::Validated { stamp, renewed } => (stamp, renewed),
            Accept::Ignore => return None,
            Accept::Replace(reason) => {
                let refuse = |remote: &Arc<RemoteTarget>| remote.refuse(entry.key(), RefusalKind::Invalid);
                let is_new = self.remote.as_ref().is_some_and(refuse);
                if is_new {
                    let why = format_args!("an entry of the remote cache cannot be used: {reason}");
                    self.remote_is_wrong(why, WRONG_ENTRY);
                }
                return None;
            }
        };
        // The hit does not depend on the local store, and `put` warns of an error.
        let signatures = self.trust.kept_signatures(entry);
        let renewed = borrowed(&renewed);
        let signatures = signatures.iter().map(|member| (SIGNATURES_MEMBER, member.as_slice()));
        let renewed: Vec<_> = renewed.into_iter().chain(signatures).collect();
        let stamped = entry.revalidated(stamp, &renewed);
        // An entry of the local store that is not trusted was not seen by the caller, and gives way.
        let is_replaced = self.trust.demands_signatures();
        let overwrite = if is_replaced { Overwrite::Always } else { missing.overwrite() };
        Some(matches!(self.put(entry.key(), &stamped, overwrite), Ok(Some(_))))
    }

    /// Warns once that the engine has no leases.
    pub(crate) fn warn_without_leases(&self, remote: &RemoteTarget) {
        if remote.client().is_first_without_leases() {
            let engine = remote.client().config().engine.location().to_owned();
            let text = format!("`{engine}` creates no object exclusively; hosts may compile the same kernel");
            self.warn(WarningKind::Remote, text);
        }
    }

    /// Warns once that the tier is paused, if there was no other warning. A caller whose own call failed reports that first.
    pub(crate) fn warn_of_pause(&self, remote: &RemoteTarget) {
        remote.client().new_pause().inspect(|text| self.warn(WarningKind::Remote, text));
    }

    /// Warns that the query's budget is used up, if that is due: a call of this caller was the last one within it.
    pub(crate) fn warn_of_budget(&self, query: &Query<'_>) {
        let remote = query.wait_budget.and(self.remote.as_deref());
        let used_up = remote.and_then(|remote| remote.client().used_up(query.limits()));
        used_up.into_iter().for_each(|why| self.remote_failed(why));
    }

    /// Counts a failed call to the remote tier, and warns of it if a warning is due.
    pub(crate) fn remote_failed(&self, why: CallFailure) {
        match why.warn() {
            true => {
                let effect = why.effect();
                self.remote_is_wrong(why, effect);
            }
            false => self.tally.add(Counter::RemoteErrors, 1),
        }
    }

    /// Counts something in the remote tier that cannot be used, and warns of it and of its effect.
    pub(crate) fn remote_is_wrong(&self, why: impl fmt::Display, effect: &str) {
        self.tally.add(Counter::RemoteErrors, 1);
        self.warn(WarningKind::Remote, format_args!("{why}; {effect}"));
    }
}

/// Opens an entry whose signatures count, and reads no more than its head and these.
fn open_trusted<'s>(store: &'s TargetStore, trust: &TargetTrust, key: &Digest) -> Option<OpenEntry<'s>> {
    let entry = store.open_entry(key).ok()?;
    let read = |name: &str| entry.read_member(name).map(|member| member.map(Cow::from));
    let is_trusted = trust.check_local(entry.head(), read).is_ok();
    is_trusted.then_some(entry)
}

fn borrowed(members: &[(String, Vec<u8>)]) -> Vec<(&str, &[u8])> {
    members.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect()
}
