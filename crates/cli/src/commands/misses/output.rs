//! Misses as JSON.

use std::collections::{BTreeMap, BTreeSet};

use opkeep::{BuildEnd, Diff, FormerEntry, KeyChanges, MissCause, MissGroup, NearestEntry, StoredBy};
use opkeep_digest::PartChange;
use serde::Serialize;

/// The stored kernel that explains a miss best.
#[derive(Serialize)]
pub(crate) struct NearestOutput {
    name: String,
    key: String,
    made_by: String,
    same_job: bool,
    key_schema: Option<(u64, u64)>,
    job: Vec<ChangeOutput>,
    spec: Vec<ChangeOutput>,
    toolchain: Vec<String>,
    op_sources: Vec<String>,
    /// The names of the parts of toolchain and sources whose changes follow from others.
    consequences: BTreeSet<String>,
}

#[derive(Serialize)]
pub(crate) struct ChangeOutput {
    path: String,
    old: String,
    new: String,
}

/// The misses of one cause.
#[derive(Serialize)]
pub(crate) struct CauseOutput {
    cause: &'static str,
    text: String,
    /// The reason of the first kernel, if the text leaves out digests and numbers in which the reasons differ.
    example: Option<String>,
    /// The kernels, as indices into the list of kernels of the result.
    kernels: Vec<usize>,
    key_schema: Option<(u64, u64)>,
    toolchain: Vec<String>,
    spec: Vec<ChangeOutput>,
    op_sources: BTreeMap<String, usize>,
    /// The names of the parts of toolchain and sources whose changes follow from others.
    consequences: BTreeSet<String>,
    made_by: BTreeSet<String>,
    /// Whether the differences are no cause, but only those from the nearest kernel.
    comparison: bool,
    /// The number of evictions, of removed entries.
    evictions: Option<u64>,
    /// The number of entries that a user cleared, of removed entries.
    cleared: Option<u64>,
}

/// What is known of the entry of a missing kernel that the store had.
#[derive(Serialize)]
pub(crate) struct FormerOutput {
    /// `removed`, `not-kept`, `quarantined`, or how a build ended without it: `interrupted`, `other-failed` or `failed`.
    state: &'static str,
    /// The time when it was stored, compiled or quarantined, or when the build ended without it, in Unix seconds.
    at: u64,
    /// The host that stored or compiled it; null in quarantine.
    host: Option<String>,
    compiled: Option<bool>,
    /// The reason of the quarantine, or of the failure.
    reason: Option<String>,
}

impl FormerOutput {
    /// Creates the output; `None` of an entry in a state that this version does not know.
    pub(crate) fn new(former: &FormerEntry) -> Option<Self> {
        Some(match former {
            FormerEntry::Removed { stored, .. } => Self::made("removed", stored),
            FormerEntry::NotKept { compiled, .. } => Self::made("not-kept", compiled),
            FormerEntry::Quarantined { at_ms, reason, .. } => Self {
                state: "quarantined",
                at: at_ms / 1000,
                host: None,
                compiled: None,
                reason: reason.clone(),
            },
            FormerEntry::Unfinished(build) => Self {
                state: build.end.name(),
                at: build.at_ms / 1000,
                host: Some(build.host.clone()),
                compiled: None,
                reason: match &build.end {
                    BuildEnd::Failed(reason) => Some(reason.clone()),
                    _ => None,
                },
            },
            _ => return None,
        })
    }

    fn made(state: &'static str, made: &StoredBy) -> Self {
        Self {
            state,
            at: made.at_ms / 1000,
            host: Some(made.host.clone()),
            compiled: Some(made.is_compiled),
            reason: None,
        }
    }
}

impl From<&NearestEntry> for NearestOutput {
    fn from(nearest: &NearestEntry) -> Self {
        Self {
            name: nearest.name.clone(),
            key: nearest.key.to_string(),
            made_by: nearest.made_by.clone(),
            same_job: nearest.job.is_empty(),
            key_schema: nearest.key_schema,
            job: changes(&nearest.job),
            spec: changes(&nearest.spec),
            toolchain: part_changes(&nearest.toolchain),
            op_sources: part_changes(&nearest.op_sources),
            consequences: nearest.consequences.clone(),
        }
    }
}

impl From<&MissGroup> for CauseOutput {
    fn from(group: &MissGroup) -> Self {
        let none = KeyChanges::default();
        let changed = match &group.cause {
            MissCause::KeyChanged(changed) => changed,
            _ => &none,
        };
        Self {
            cause: group.cause.name(),
            text: group.cause.to_string(),
            example: group.example.clone(),
            kernels: group.kernels.clone(),
            key_schema: changed.key_schema,
            toolchain: part_changes(&changed.toolchain),
            spec: changes(&changed.spec),
            op_sources: changed.op_sources.clone(),
            consequences: changed.consequences.clone(),
            made_by: changed.made_by.clone(),
            comparison: changed.is_comparison,
            evictions: match &group.cause {
                MissCause::Removed(removed) => Some(removed.evictions),
                _ => None,
            },
            cleared: match &group.cause {
                MissCause::Removed(removed) => Some(removed.cleared),
                _ => None,
            },
        }
    }
}

pub(crate) fn changes(diff: &Diff) -> Vec<ChangeOutput> {
    let one = |change: &opkeep_descriptor::Change| ChangeOutput {
        path: change.path.clone(),
        old: change.old.clone(),
        new: change.new.clone(),
    };
    diff.changes.iter().map(one).collect()
}

fn part_changes(changes: &[PartChange]) -> Vec<String> {
    changes.iter().map(ToString::to_string).collect()
}
