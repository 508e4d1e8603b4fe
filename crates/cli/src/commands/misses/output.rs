//! Misses as JSON.

use std::collections::{BTreeMap, BTreeSet};

use opkeep::{Diff, KeyChanges, MissCause, MissGroup, NearestEntry};
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
    /// The kernels, as indices into the list of kernels of the result.
    kernels: Vec<usize>,
    key_schema: Option<(u64, u64)>,
    toolchain: Vec<String>,
    spec: Vec<ChangeOutput>,
    op_sources: BTreeMap<String, usize>,
    made_by: BTreeSet<String>,
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
            kernels: group.kernels.clone(),
            key_schema: changed.key_schema,
            toolchain: part_changes(&changed.toolchain),
            spec: changes(&changed.spec),
            op_sources: changed.op_sources.clone(),
            made_by: changed.made_by.clone(),
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
