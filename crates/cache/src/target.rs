//! One target's entries: get one, or begin it.

use std::sync::Arc;

use opkeep_digest::Digest;
use opkeep_store::{Entry, Lookup, TargetStore};

use crate::claim::Claim;
use crate::error::CacheError;
use crate::miss::Miss;
use crate::pending::PendingKey;
use crate::protocol::Protocol;
use crate::query::Query;
use crate::tiers::Target;

/// One target of a cache. Clones are the same.
#[derive(Clone, Debug)]
pub struct TargetCache(Arc<Target>);

impl TargetCache {
    pub(crate) fn new(target: Target) -> Self {
        Self(Arc::new(target))
    }

    /// The target's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The local store's part for this target, if it can be used: for reports, and for entries that are not built.
    pub fn store(&self) -> Option<&TargetStore> {
        self.0.store.as_ref()
    }

    /// The same, if entries are written there.
    pub fn written_store(&self) -> Option<&TargetStore> {
        self.0.written_store()
    }

    /// Looks into the local store. Takes no lock, and counts.
    pub fn get(&self, key: &Digest) -> Lookup {
        let found = match &self.0.store {
            Some(store) => store.get(key),
            None => Lookup::Miss(opkeep_store::Miss::Absent),
        };
        if let Lookup::Miss(miss) = &found {
            self.0.warn_of(miss);
        }
        found
    }

    /// As [`get`](Self::get), but a miss does not count until [`count_miss`](Self::count_miss) is called.
    pub fn get_uncounted(&self, key: &Digest) -> Lookup {
        let found = match &self.0.store {
            Some(store) => store.get_uncounted(key),
            None => Lookup::Miss(opkeep_store::Miss::Absent),
        };
        if let Lookup::Miss(miss) = &found {
            self.0.warn_of(miss);
        }
        found
    }

    /// Counts a miss of [`get_uncounted`](Self::get_uncounted).
    pub fn count_miss(&self, miss: &opkeep_store::Miss) {
        self.0.store.iter().for_each(|store| store.count_miss(miss));
    }

    /// Looks into the remote tier only, without a lock or a lease. An entry that the caller takes is written to the local
    /// store. For a caller that would make do with less than that entry, and not build.
    pub fn get_remote(&self, key: &Digest, query: &Query<'_>) -> Option<Box<Entry>> {
        self.0.look_remote(key, query, &Miss::Absent)
    }

    /// Gets an entry that the caller takes, or begins to build it.
    ///
    /// In this order: look into the local store; lock the key; look again; look into the remote tier; ask it for a lease. So
    /// of all callers that miss an entry one builds it. Trouble with the store, its locks or the remote tier is a warning,
    /// and the caller builds.
    ///
    /// # Errors
    /// The mode forbids building, and there is no entry that the caller takes.
    pub fn get_or_begin(&self, key: &Digest, query: &Query<'_>) -> Result<Claim, CacheError> {
        let protocol = Protocol::new(&self.0, key, query);
        protocol.begin().map(|claim| protocol.wait(claim))
    }

    /// Asks again for a key that another caller held.
    ///
    /// # Errors
    /// As [`get_or_begin`](Self::get_or_begin).
    pub fn resume(&self, pending: PendingKey, query: &Query<'_>) -> Result<Claim, CacheError> {
        // The key may be another target's: its lock and its lease are there.
        let (target, key) = (Arc::clone(&pending.target), *pending.key());
        let protocol = Protocol { began: Some(pending.began()), ..Protocol::new(&target, &key, query) };
        Ok(protocol.wait(protocol.poll(pending)))
    }

    /// Makes entries that were published survive a power cut, as well as the file system can. Best effort.
    pub fn sync(&self, keys: &[Digest]) {
        if let Some(store) = self.0.store.as_ref().filter(|store| store.is_writable()) {
            store.sync(keys);
        }
    }

    /// Writes the statistics. Those that another process holds up stay in memory, and are written with the next ones.
    pub fn flush(&self) {
        if let Some(store) = self.0.store.as_ref().filter(|store| store.is_writable()) {
            let _ = store.flush();
        }
    }
}
