//! What the store still knows of entries that it has no more: the builds that stored them, and the quarantine.

use std::collections::{HashMap, HashSet};

use opkeep_digest::Digest;
use opkeep_fs::utc;
use opkeep_store::{Store, TargetStore};

use crate::record::host_name;
use crate::{Outcome, RecordedBuilds, RecordedKernel};

/// An entry that a store had, and has no more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormerEntry {
    /// The entry is in quarantine.
    #[non_exhaustive]
    Quarantined {
        /// The time of the quarantine, in Unix milliseconds.
        at_ms: u64,
        /// The reason, if one was written.
        reason: Option<String>,
    },
    /// The entry was evicted or deleted.
    #[non_exhaustive]
    Removed {
        /// The last build that stored it.
        stored: StoredBy,
        /// The number of entries that the store has evicted from the target so far. The store does not list them.
        evictions: u64,
    },
}

/// The build that stored an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredBy {
    /// The time when the kernel was stored, in Unix milliseconds.
    pub at_ms: u64,
    /// The host.
    pub host: String,
    /// Whether it is this host.
    pub is_this_host: bool,
    /// Whether the build compiled the kernel itself. Otherwise it took it from another process or from the remote tier.
    pub is_compiled: bool,
}

impl StoredBy {
    /// `compiled` and `2026-11-28 12:31:05 UTC on this host`
    pub(super) fn texts(&self) -> (&'static str, String) {
        let verb = if self.is_compiled { "compiled" } else { "stored" };
        let host = if self.is_this_host { "this host" } else { &self.host };
        (verb, format!("{} on {host}", utc(self.at_ms)))
    }
}

/// The history of the entries that some keys had.
#[derive(Debug, Default)]
pub(crate) struct StoreHistory {
    /// The last builds that stored the entries.
    stored: HashMap<Digest, StoredBy>,
}

impl StoreHistory {
    /// Reads the history of `keys` from the records of builds. What cannot be read is not known.
    pub(crate) fn read(store: &Store, keys: &HashSet<Digest>) -> Self {
        let mut history = Self::default();
        let records = if keys.is_empty() { None } else { RecordedBuilds::read(store, usize::MAX).ok() };
        let this_host = host_name();
        for build in records.into_iter().flat_map(|records| records.builds) {
            for kernel in &build.kernels {
                let Some(key) = stored_key(kernel).filter(|key| keys.contains(key)) else { continue };
                let stored = StoredBy {
                    at_ms: build.began_ms.saturating_add(kernel.end_us / 1000),
                    host: build.host.clone(),
                    is_this_host: build.host == this_host,
                    is_compiled: kernel.outcome == Outcome::Compiled.name(),
                };
                let last = history.stored.entry(key).or_insert_with(|| stored.clone());
                if last.at_ms < stored.at_ms {
                    *last = stored;
                }
            }
        }
        history
    }

    /// Returns what is known of each of `keys`, whose entries `store` lacks.
    pub(crate) fn of_target(
        &self,
        store: &TargetStore,
        keys: &HashSet<Digest>,
    ) -> HashMap<Digest, FormerEntry> {
        // The latest of a key comes first.
        let mut quarantined = HashMap::new();
        for entry in store.quarantined().unwrap_or_default() {
            quarantined.entry(entry.key).or_insert(entry);
        }
        let evictions = store.statistics().evictions;
        let mut former = |key: &Digest| {
            let quarantine = quarantined.remove(key).map(|entry| {
                let at_ms = u64::try_from(opkeep_fs::unix(entry.at).as_millis()).unwrap_or(u64::MAX);
                (at_ms, entry.reason)
            });
            match (self.stored.get(key), quarantine) {
                // What was stored after the quarantine was removed later.
                (Some(stored), quarantine)
                    if quarantine.as_ref().is_none_or(|(at_ms, _)| *at_ms < stored.at_ms) =>
                {
                    Some(FormerEntry::Removed { stored: stored.clone(), evictions })
                }
                (_, quarantine) => {
                    quarantine.map(|(at_ms, reason)| FormerEntry::Quarantined { at_ms, reason })
                }
            }
        };
        keys.iter().filter_map(|key| Some((*key, former(key)?))).collect()
    }
}

/// Returns the key of a kernel that its build stored.
fn stored_key(kernel: &RecordedKernel) -> Option<Digest> {
    let is = |outcome: Outcome| kernel.outcome == outcome.name();
    let was_stored =
        is(Outcome::Compiled) || is(Outcome::Shared) || is(Outcome::Reused) && kernel.from_remote;
    kernel.key.as_ref().filter(|_| was_stored)?.parse().ok()
}
