//! A stored kernel that explains a miss, as data.

use std::time::SystemTime;

use opkeep_descriptor::{Change, Diff, Key};
use opkeep_digest::PartChange;

use super::toolchain_text::toolchain_text;

/// A stored kernel, and its differences from a missing one.
#[derive(Debug)]
#[non_exhaustive]
pub struct NearestEntry {
    /// The stored kernel's name.
    pub name: String,
    /// Its key.
    pub key: Key,
    /// The time when it was stored.
    pub created: SystemTime,
    /// The program that stored it, with its version; empty for none.
    pub made_by: String,
    /// The versions of the key's algorithm, the stored one first, if they differ.
    pub key_schema: Option<(u64, u64)>,
    /// Differences in the job. Without any, it is a kernel of the same job.
    pub job: Diff,
    /// Differences in the resolved spec.
    pub spec: Diff,
    /// The parts of the toolchain that changed.
    pub toolchain: Vec<PartChange>,
    /// The parts of the operator's own sources that changed.
    pub op_sources: Vec<PartChange>,
    /// The changes of the job for people.
    pub(super) main_changes: Vec<Change>,
}

impl NearestEntry {
    /// Returns the changes of the job for people, those first that say most: of inputs and attributes before those of outputs, and last
    /// those of fields that follow from others, such as the original shape. Attributes have their names: `ksize[2]` for
    /// `ops[0].attrs[0].value[2]`.
    pub fn main_changes(&self) -> &[Change] {
        &self.main_changes
    }

    /// Returns the change of the toolchain in a few words, if it differs: `compiler gcc 12.2.0 -> clang 14.0.6`.
    pub fn toolchain_text(&self) -> Option<String> {
        toolchain_text(&self.toolchain)
    }

    /// Returns the number of differences.
    pub fn distance(&self) -> usize {
        let Self { job, spec, toolchain, op_sources, key_schema, .. } = self;
        let schema = usize::from(key_schema.is_some());
        schema + job.changes.len() + spec.changes.len() + toolchain.len() + op_sources.len()
    }
}
