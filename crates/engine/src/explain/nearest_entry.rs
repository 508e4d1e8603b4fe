//! A stored kernel that explains a miss, as data.

use std::fmt;
use std::time::SystemTime;

use opkeep_descriptor::{Change, Diff, Key};
use opkeep_digest::PartChange;

/// The maximum number of bytes of a difference's text.
const SHOWN_BYTES: usize = 160;

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

    /// Returns the number of differences.
    pub fn distance(&self) -> usize {
        let Self { job, spec, toolchain, op_sources, key_schema, .. } = self;
        let schema = usize::from(key_schema.is_some());
        schema + job.changes.len() + spec.changes.len() + toolchain.len() + op_sources.len()
    }
}

impl fmt::Display for NearestEntry {
    /// Writes the first difference, and the number of further ones.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, job, spec, toolchain, op_sources, key_schema, .. } = self;
        let schema = key_schema.map(|(old, new)| format!("the version of keys: {old} -> {new}"));
        let fields = job.changes.iter().chain(&spec.changes).map(ToString::to_string);
        let toolchain = toolchain.iter().map(|change| format!("toolchain part {change}"));
        let sources = op_sources.iter().map(|change| format!("source {change}"));
        let Some(first) = schema.into_iter().chain(fields).chain(toolchain).chain(sources).next() else {
            return write!(f, "nearest is `{name}`");
        };
        let end = first.floor_char_boundary(SHOWN_BYTES);
        let cut = if end < first.len() { "..." } else { "" };
        write!(f, "nearest is `{name}`, which differs in {}{cut}", &first[..end])?;
        match self.distance() - 1 {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
