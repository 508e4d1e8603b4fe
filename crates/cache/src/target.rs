//! The entries of one target.

use std::sync::Arc;
use std::time::Instant;

use opkeep_digest::Digest;
use opkeep_fs::CancelToken;
use opkeep_store::{
    Entry, EntryBuilder, Lookup, OpenEntry, Overwrite, PutOutcome, Statistics, StoreError, TargetStore,
};

use crate::arrivals;
use crate::claim::Claim;
use crate::error::CacheError;
use crate::fetch::FetchReport;
use crate::miss::Miss;
use crate::peek::RemoteStatus;
use crate::pending::PendingKey;
use crate::protocol::Protocol;
use crate::publish::Publication;
use crate::push::{Marks, PushReport};
use crate::query::Query;
use crate::remote::Limits;
use crate::ticket::Published;
use crate::tiers::{Looked, Target};
use crate::warning::WarningKind;

/// One target of a cache. Clones share their state.
#[derive(Clone, Debug)]
pub struct TargetCache(Arc<Target>);

impl TargetCache {
    pub(crate) fn new(target: Target) -> Self {
        Self(Arc::new(target))
    }

    /// Returns the target's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the part of the local store for this target, if it can be used: for reports, and for entries that are not built.
    pub fn store(&self) -> Option<&TargetStore> {
        self.0.store.as_ref()
    }

    /// Returns the same, if entries are written there.
    pub fn written_store(&self) -> Option<&TargetStore> {
        self.0.written_store()
    }

    /// Looks up an entry in the local store. Takes no lock, and counts the look-up.
    pub fn get(&self, key: &Digest) -> Lookup {
        let found = self.get_uncounted(key);
        if let Lookup::Miss(miss) = &found {
            self.count_miss(miss);
        }
        found
    }

    /// Looks up an entry in the local store, and has the query's [`accept`](Query::accept) decide whether it is used; the rest of the
    /// query is not used, except [`Query::counted`]. Takes no lock, and records a validation. An entry that is not used counts neither
    /// as a hit nor as a miss.
    pub fn find(&self, key: &Digest, query: &Query<'_>) -> Option<Box<Entry>> {
        match self.0.look(key, query) {
            Looked::Taken(entry) => Some(entry),
            Looked::Missing(_) => None,
        }
    }

    /// Looks up an entry as [`get`](Self::get) does, but counts no miss; [`count_miss`](Self::count_miss) does that.
    pub fn get_uncounted(&self, key: &Digest) -> Lookup {
        let get = |store: &TargetStore| self.0.get_trusted(store, key, |_| true);
        let found = self.0.store.as_ref().map_or(Lookup::Miss(opkeep_store::Miss::Absent), get);
        if let Lookup::Miss(miss) = &found {
            self.0.warn_of(miss);
        }
        found
    }

    /// Opens the entry of the local store, and reads no more than its head and, with trusted keys, its signatures: for a caller that
    /// needs few of its members, or none. `None` for a miss of any kind. The look-up is not counted.
    pub fn open_entry(&self, key: &Digest) -> Option<OpenEntry<'_>> {
        self.0.open_entry(key)
    }

    /// Whether only entries are taken that a trusted key signed, or that this host built.
    pub fn demands_signatures(&self) -> bool {
        self.0.trust.demands_signatures()
    }

    /// Whether [`Ticket::keep_found`](crate::Ticket::keep_found) keeps entries: without keys.
    pub fn keeps_found(&self) -> bool {
        self.0.trust.check_finds().is_ok()
    }

    /// Counts a miss of [`get_uncounted`](Self::get_uncounted).
    pub fn count_miss(&self, miss: &opkeep_store::Miss) {
        self.0.store.iter().for_each(|store| store.count_miss(miss));
    }

    /// Whether there is a remote tier that is read.
    pub fn reads_remote(&self) -> bool {
        self.0.read_remote().is_some()
    }

    /// Looks up an entry in the remote tier only, without a lock or a lease. An entry that the caller uses is written to the
    /// local store. For a caller that prefers this entry to another kernel, and would not build it.
    pub fn get_remote(&self, key: &Digest, query: &Query<'_>) -> Option<Box<Entry>> {
        let found = self.0.look_remote(key, query, &Miss::Absent);
        self.0.warn_of_budget(query);
        found.map(|found| found.entry)
    }

    /// Fetches the entries of `keys` that the local store lacks from the remote tier, in few calls, and writes
    /// those that the caller uses to the local store. Then it asks which of the missing ones other hosts build, in one call for up to
    /// 1024 objects. The query's deadline and token end the calls; the rest of it is not used, except [`Query::accept`], which several
    /// threads call at once.
    ///
    /// `keys` should be all keys of a build: while it waits for other hosts, they are its plan. Hosts with the same plan learn
    /// sooner of each other's entries.
    ///
    /// If most of them are missing, a bundle of the plan is looked up before, which has all of them in one object; see
    /// [`share_plans`](Self::share_plans). Each of its entries passes the same checks as a single one.
    ///
    /// Without a remote tier that is read, all keys that the local store lacks are missing.
    ///
    /// Of the local store's entries only the heads are read: one that is damaged behind its head is not lacking.
    pub fn fetch(&self, keys: &[Digest], query: &Query<'_>) -> FetchReport {
        let report = self.0.fetch(keys, self.0.lacking(keys), true, query);
        self.0.warn_of_budget(query);
        report
    }

    /// Does what [`fetch`](Self::fetch) does, for a caller that has looked up `keys` in the local store and knows those that it is
    /// `lacking`: no entry of the local store is read again, unless this process has fetched it, or another process of this host the same
    /// plan: they may have stored it meanwhile.
    pub fn fetch_lacking(&self, keys: &[Digest], lacking: Vec<Digest>, query: &Query<'_>) -> FetchReport {
        let report = self.0.fetch(keys, lacking, false, query);
        self.0.warn_of_budget(query);
        report
    }

    /// Records all keys of a build that ends. If entries that an earlier build left are sent then
    /// ([`Cache::push_unsent`](crate::Cache::push_unsent)), the bundle of these keys is stored as well, unless there is one.
    pub fn note_plan(&self, keys: &[Digest]) {
        self.0.note_plan(keys);
    }

    /// Does `work`, which gets or begins the keys of the targets' last [`fetch`](Self::fetch) one by one. Entries that arrive meanwhile,
    /// before the work begins their keys, are judged by the query's [`accept`](Query::accept) and written to the local store at once,
    /// by a thread for each target: so other processes of this host find them there, and need not fetch them as well. The rest of the
    /// query is not used.
    pub fn storing_arrivals<T>(targets: &[Self], query: &Query<'_>, work: impl FnOnce() -> T) -> T {
        arrivals::storing_arrivals(targets.iter().map(|target| &*target.0), query, work)
    }

    /// Returns what the remote tier has of `keys`, after few calls. The entries are fetched and checked, and the
    /// caller judges them, as by [`fetch`](Self::fetch), but none is taken: neither the local store nor the remote tier changes. Bundles
    /// are not looked up. The query's deadline, token and budget end the calls.
    pub fn peek_remote(&self, keys: &[Digest], query: &Query<'_>) -> Vec<RemoteStatus> {
        let found = self.0.peek_remote(keys, query);
        self.0.warn_of_budget(query);
        found
    }

    /// Looks up an entry in the local store for a caller that does not use it: neither statistics nor the last use change. An entry
    /// whose signatures do not count is a miss.
    pub fn peek(&self, key: &Digest) -> Lookup {
        let peek = |store: &TargetStore| self.0.get_trusted(store, key, |_| false);
        self.0.store.as_ref().map_or(Lookup::Miss(opkeep_store::Miss::Absent), peek)
    }

    /// Writes an entry that the caller built to the local store without a ticket, in place of an existing one. Returns `None` if the
    /// store is not written. The entry is not shared with other hosts.
    ///
    /// # Errors
    /// The store could not write the entry. The cache has emitted a warning.
    pub fn put(&self, key: &Digest, members: &EntryBuilder<'_>) -> Result<Option<PutOutcome>, StoreError> {
        let signatures = self.0.trust.sign(key, members, false);
        self.0.put(key, &signatures.for_store(members), Overwrite::Always)
    }

    /// Writes an entry as [`put`](Self::put) does, and has it sent to the remote tier as [`Ticket::publish`](crate::Ticket::publish)
    /// does. An entry that is there already stays.
    ///
    /// # Errors
    /// The local store could not write the entry. The cache has emitted a warning.
    pub fn publish(&self, key: &Digest, members: &EntryBuilder<'_>) -> Result<Published, StoreError> {
        let Publication { local, upload } = self.0.publish(key, members, Overwrite::Always, None, None);
        Ok(Published { local: local?, remote: upload.is_some_and(|upload| upload.is_sent_or_waits()) })
    }

    /// Returns an entry that the caller uses, or a ticket to build it.
    ///
    /// The steps: look up the entry in the local store; lock the key; look up the entry again; look it up in the remote tier;
    /// request a lease from the tier. So of all callers that miss an entry, one builds it. A problem with the store, its locks
    /// or the remote tier is a warning, and the caller builds.
    ///
    /// # Errors
    /// The mode forbids building, and there is no entry that the caller uses.
    pub fn get_or_begin(&self, key: &Digest, query: &Query<'_>) -> Result<Claim, CacheError> {
        let protocol = Protocol::new(&self.0, key, query);
        let claim = protocol.begin().map(|claim| protocol.wait(claim));
        self.0.warn_of_budget(query);
        claim
    }

    /// Does what [`get_or_begin`](Self::get_or_begin) does for keys in their order, until the caller has `max_tickets` tickets, and without
    /// waiting for other callers. The leases of all are claimed in one call, and confirmed in another one. `None`: a key that is not
    /// begun.
    ///
    /// # Errors
    /// As [`get_or_begin`](Self::get_or_begin). Then the caller has no ticket.
    pub fn get_or_begin_many(
        &self,
        keys: &[Digest],
        max_tickets: usize,
        query: &Query<'_>,
    ) -> Result<Vec<Option<Claim>>, CacheError> {
        let claims = self.0.begin_many(keys, max_tickets, query);
        self.0.warn_of_budget(query);
        claims
    }

    /// Tries again to get a key that another caller held.
    ///
    /// # Errors
    /// As [`get_or_begin`](Self::get_or_begin).
    pub fn resume(&self, pending: PendingKey, query: &Query<'_>) -> Result<Claim, CacheError> {
        // The lock and the lease belong to the target of the pending key, which may be another one.
        let (target, key) = (Arc::clone(&pending.target), *pending.key());
        let protocol = Protocol { began: Some(pending.began()), ..Protocol::new(&target, &key, query) };
        let claim = protocol.wait(protocol.poll(pending));
        target.warn_of_budget(query);
        Ok(claim)
    }

    /// Warns once that the remote tier is paused, with the reason, if there was no other warning of it.
    pub(crate) fn warn_of_pause(&self) {
        self.0.remote.iter().for_each(|remote| self.0.warn_of_pause(remote));
    }

    /// Warns that `entries` entries are not sent, if no warning has the reason. `is_sending`: calls are in progress.
    pub(crate) fn warn_of_unsent(&self, entries: usize, is_sending: bool) {
        let warning =
            self.0.remote.as_ref().and_then(|remote| remote.client().new_unsent(entries, is_sending));
        warning.inspect(|text| self.0.warn(WarningKind::Remote, text));
    }

    /// Returns the number of entries that are still to be sent to the remote tier, 0 if this cache sends none.
    pub(crate) fn count_unsent(&self) -> usize {
        self.0.count_unsent()
    }

    /// Sends the entries of the local store that earlier uploads to this remote tier and namespace left: those of a killed process, of
    /// a full queue, and of a failed call. What was to be sent elsewhere stays. The deadline and the token end the calls.
    pub fn push_unsent(&self, deadline: Option<Instant>, cancel: Option<&CancelToken>) -> PushReport {
        self.0.push_unsent(Marks::Own, limits(deadline, cancel))
    }

    /// Does what [`push_unsent`](Self::push_unsent) does, and also sends the entries whose marks do not say where they were to be sent, as
    /// those of earlier versions: for a caller whose user asks for it.
    pub fn push_unsent_and_unnamed(
        &self,
        deadline: Option<Instant>,
        cancel: Option<&CancelToken>,
    ) -> PushReport {
        self.0.push_unsent(Marks::OwnAndUnnamed, limits(deadline, cancel))
    }

    /// Stores one bundle in the remote tier for each plan that this process [fetched](Self::fetch), if there was none, and if the local
    /// store has all of its entries now: the next host takes them in one object. Returns the number of bundles that are there now. The
    /// deadline and the token end the calls. Best effort.
    pub fn share_plans(&self, deadline: Option<Instant>, cancel: Option<&CancelToken>) -> usize {
        self.0.share_plans(limits(deadline, cancel))
    }

    /// Sends all entries of the local store that the remote tier lacks, and that [other hosts can
    /// use](crate::CacheConfig::is_for_others). An entry that no caller has validated, such as that of a bundle, is sent if `validate`
    /// returns true. The deadline and the token end the calls.
    pub fn push_all(
        &self,
        validate: &dyn Fn(&Entry) -> bool,
        deadline: Option<Instant>,
        cancel: Option<&CancelToken>,
    ) -> PushReport {
        self.0.push_all(validate, limits(deadline, cancel))
    }

    /// Syncs published entries to disk, so that they survive a power cut. Best effort.
    pub fn sync(&self, keys: &[Digest]) {
        if let Some(store) = self.0.store.as_ref().filter(|store| store.is_writable()) {
            store.sync(keys);
        }
    }

    /// Returns what was counted since the cache was opened: the uses of the remote tier, and the time that was lost. All other numbers
    /// are 0, since the store counts those.
    pub fn activity(&self) -> Statistics {
        self.0.tally.counted()
    }

    /// Writes the statistics. If another process holds their lock, they stay in memory until the next call.
    pub fn flush(&self) {
        if let Some(store) = self.0.store.as_ref().filter(|store| store.is_writable()) {
            let _ = store.flush();
        }
    }
}

/// Returns the limits of calls for which the caller waits.
fn limits(deadline: Option<Instant>, cancel: Option<&CancelToken>) -> Limits<'_> {
    Limits { deadline, cancel, budget: None, is_waited_for: true, needs_progress: true }
}
