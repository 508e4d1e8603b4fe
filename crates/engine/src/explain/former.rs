//! What a store knows of entries that it lacks: the builds that stored them, or could not store them, and the quarantine.

use std::collections::{HashMap, HashSet};

use opkeep_digest::Digest;
use opkeep_fs::utc;
use opkeep_store::{Store, TargetStore};

use crate::record::host_name;
use crate::{BuildRecord, Outcome, RecordedBuilds, RecordedKernel};

/// What is known of an entry that a store lacks.
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
        /// The number of evictions from the target that the store has counted. The store does not list the entries, and a user may
        /// reset the counter, so 0 does not show that the entry was deleted.
        evictions: u64,
        /// The number of entries of the target that a user cleared, as far as the store has counted them.
        cleared: u64,
    },
    /// The kernel was compiled, and its entry was not stored.
    #[non_exhaustive]
    NotKept {
        /// The last build that compiled it.
        compiled: StoredBy,
    },
    /// The last build that was to compile the kernel ended without it.
    Unfinished(UnfinishedBuild),
}

/// A build that ended without a kernel that it was to compile.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnfinishedBuild {
    /// The end of the build, in Unix milliseconds; of a failure, the end of the compile.
    pub at_ms: u64,
    /// The host.
    pub host: String,
    /// Whether it is this host.
    pub is_this_host: bool,
    /// What ended the build, or the compile.
    pub end: BuildEnd,
}

/// Why a build ended without a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildEnd {
    /// It was cancelled, as by a signal.
    Interrupted,
    /// Another kernel failed, and the build ended with its first failure.
    OtherFailed,
    /// The compile of the kernel failed, for this reason.
    Failed(String),
}

impl UnfinishedBuild {
    /// Takes the place of the other build, if that is later.
    pub(super) fn keep_later(&mut self, other: Self) {
        if self.at_ms < other.at_ms {
            *self = other;
        }
    }

    /// `a build (2026-11-28 12:31:05 UTC, this host) was interrupted before it compiled them`, of one or more kernels.
    pub(super) fn text(&self, kernels: usize) -> String {
        let host = if self.is_this_host { "this host" } else { &self.host };
        let build = format!("a build ({}, {host})", utc(self.at_ms));
        let them = if kernels == 1 { "this kernel" } else { "them" };
        match &self.end {
            BuildEnd::Interrupted => format!("{build} was interrupted before it compiled {them}"),
            BuildEnd::OtherFailed => {
                format!("{build} ended with the failure of another kernel before it compiled {them}")
            }
            BuildEnd::Failed(reason) => format!("{build} failed to compile {them}: {reason}"),
        }
    }
}

impl BuildEnd {
    /// Returns the end in a word for machine-readable output.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Interrupted => "interrupted",
            Self::OtherFailed => "other-failed",
            Self::Failed(_) => "failed",
        }
    }
}

/// The build that stored an entry, or compiled the kernel and could not store it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredBy {
    /// The time when the kernel was stored or compiled, in Unix milliseconds.
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

    /// Takes the place of the other build, if that is later.
    pub(super) fn keep_later(&mut self, other: Self) {
        if self.at_ms < other.at_ms {
            *self = other;
        }
    }
}

/// The history of the entries that some keys had.
#[derive(Debug, Default)]
pub(crate) struct StoreHistory {
    /// The last builds of which it is known whether they stored the entries, and whether they did.
    known: HashMap<Digest, (StoredBy, bool)>,
    /// The last builds that were to compile the kernels, and ended without them.
    unfinished: HashMap<Digest, UnfinishedBuild>,
    /// The keys whose kernels some build had, whether it stored them or not.
    made: HashSet<Digest>,
}

impl StoreHistory {
    /// Reads the history of `keys` from the records of builds, while `goes_on` returns true; `None` if it returned false before
    /// everything was read: a part of the history may name a wrong cause. What cannot be read is not known.
    pub(crate) fn read(store: &Store, keys: &HashSet<Digest>, goes_on: &dyn Fn() -> bool) -> Option<Self> {
        let mut history = Self::default();
        if keys.is_empty() {
            return Some(history);
        }
        let builds = match RecordedBuilds::read_while(store, usize::MAX, goes_on) {
            Ok(records) => records?.builds,
            Err(_) => Vec::new(),
        };
        let this_host = host_name();
        for build in builds {
            for kernel in &build.kernels {
                if let Some((key, unfinished)) = unfinished(&build, kernel, &this_host)
                    && keys.contains(&key)
                {
                    let last = history.unfinished.entry(key).or_insert_with(|| unfinished.clone());
                    last.keep_later(unfinished);
                }
                let Some(key) = made_key(kernel).filter(|key| keys.contains(key)) else { continue };
                history.made.insert(key);
                let Some(is_kept) = kernel.kept else { continue };
                let stored = StoredBy {
                    at_ms: build.began_ms.saturating_add(kernel.end_us / 1000),
                    host: build.host.clone(),
                    is_this_host: build.host == this_host,
                    is_compiled: kernel.outcome == Outcome::Compiled.name(),
                };
                let last = history.known.entry(key).or_insert_with(|| (stored.clone(), is_kept));
                if last.0.at_ms < stored.at_ms {
                    *last = (stored, is_kept);
                }
            }
        }
        Some(history)
    }

    /// Whether some build had the kernel of `key`.
    pub(crate) fn was_made(&self, key: &Digest) -> bool {
        self.made.contains(key)
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
        let counted = store.statistics();
        let mut former = |key: &Digest| {
            let quarantine = quarantined.remove(key).map(|entry| {
                let at_ms = u64::try_from(opkeep_fs::unix(entry.at).as_millis()).unwrap_or(u64::MAX);
                (at_ms, entry.reason)
            });
            let quarantine =
                quarantine.map(|(at_ms, reason)| (at_ms, FormerEntry::Quarantined { at_ms, reason }));
            let known = self.known.get(key).map(|(last, is_kept)| {
                let former = match is_kept {
                    true => FormerEntry::Removed {
                        stored: last.clone(),
                        evictions: counted.evictions,
                        cleared: counted.cleared,
                    },
                    false => FormerEntry::NotKept { compiled: last.clone() },
                };
                (last.at_ms, former)
            });
            let unfinished = self.unfinished.get(key);
            let unfinished = unfinished.map(|build| (build.at_ms, FormerEntry::Unfinished(build.clone())));
            // The last event counts; of several in one millisecond, the first of these.
            let events = [unfinished, known, quarantine];
            events.into_iter().flatten().max_by_key(|(at_ms, _)| *at_ms).map(|(_, former)| former)
        };
        keys.iter().filter_map(|key| Some((*key, former(key)?))).collect()
    }
}

/// Returns the key of a kernel that its build was to compile and ended without, and what is known of that.
fn unfinished(
    build: &BuildRecord,
    kernel: &RecordedKernel,
    this_host: &str,
) -> Option<(Digest, UnfinishedBuild)> {
    let is = |outcome: Outcome| kernel.outcome == outcome.name();
    let (end, ended_us) = match &kernel.failure {
        Some(reason) if is(Outcome::Failed) => (BuildEnd::Failed(reason.clone()), kernel.end_us),
        _ if is(Outcome::Cancelled) => (BuildEnd::Interrupted, build.elapsed_us),
        _ if is(Outcome::Skipped) => (BuildEnd::OtherFailed, build.elapsed_us),
        _ => return None,
    };
    let unfinished = UnfinishedBuild {
        at_ms: build.began_ms.saturating_add(ended_us / 1000),
        host: build.host.clone(),
        is_this_host: build.host == this_host,
        end,
    };
    Some((kernel.key.as_ref()?.parse().ok()?, unfinished))
}

/// Returns the key of a kernel that its build had: one that it compiled, or took from elsewhere.
fn made_key(kernel: &RecordedKernel) -> Option<Digest> {
    let is = |outcome: Outcome| kernel.outcome == outcome.name();
    let was_made = is(Outcome::Compiled) || is(Outcome::Shared) || is(Outcome::Reused) && kernel.from_remote;
    kernel.key.as_ref().filter(|_| was_made)?.parse().ok()
}
