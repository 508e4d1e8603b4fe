//! A stored kernel that explains a miss, as data.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use opkeep_descriptor::{Change, Diff, Key};
use opkeep_digest::PartChange;

use super::toolchain_text::toolchain_text;

/// The maximum number of changes of a job that is like another.
const MAX_SIMILAR: usize = 5;

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
    /// The time of its last use, to ten minutes.
    pub last_used: SystemTime,
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
    /// The names of the changed parts of toolchain and sources that follow from other changes, such as the flags that follow from an
    /// argument. Empty, if nothing else differs.
    pub consequences: BTreeSet<String>,
    /// Changes of the toolchain in words, by the names of the parts: those whose names do not say what they are.
    pub descriptions: BTreeMap<String, String>,
    /// The changes of the job for people.
    pub(super) main_changes: Vec<Change>,
}

impl NearestEntry {
    /// Returns the changes of the job for people, those first that say most: of inputs and attributes before those of outputs. Fields that
    /// follow from others are no changes of their own: the original shape and the range, and another tensor with the same change. Attributes have their names: `ksize[2]` for
    /// `ops[0].attrs[0].value[2]`.
    pub fn main_changes(&self) -> &[Change] {
        &self.main_changes
    }

    /// Whether the job is like the missing one: of the same operators in the same functions, with at most five changes that do not follow
    /// from others. Otherwise a comparison says nothing.
    pub fn is_similar(&self) -> bool {
        let is_operator = |change: &Change| {
            ["op_type", "func_name", "module_name"].iter().any(|field| change.path.ends_with(field))
        };
        self.main_changes.len() <= MAX_SIMILAR && !self.job.changes.iter().any(is_operator)
    }

    /// Returns what else than the job differs, each in a few words, without what follows from it.
    pub fn other_changes(&self) -> Vec<String> {
        let mut changes: Vec<String> = self.toolchain_text().into_iter().collect();
        changes.extend(self.spec.changes.iter().map(ToString::to_string));
        changes
    }

    /// Returns the change of the toolchain in a few words, if it differs: `compiler gcc 12.2.0 -> clang 14.0.6`.
    pub fn toolchain_text(&self) -> Option<String> {
        let main = self.toolchain.iter().filter(|change| !self.consequences.contains(&change.name));
        toolchain_text(main, &self.descriptions)
    }

    /// Returns the number of differences that do not follow from others.
    pub fn distance(&self) -> usize {
        let Self { job, spec, toolchain, op_sources, key_schema, consequences, .. } = self;
        let schema = usize::from(key_schema.is_some());
        let parts = toolchain.iter().chain(op_sources);
        let parts = parts.filter(|change| !consequences.contains(&change.name)).count();
        schema + job.changes.len() + spec.changes.len() + parts
    }

    /// Finds the [`consequences`](Self::consequences). `follows` returns whether a change is one if anything else changed: parts of the
    /// toolchain follow from others of the toolchain only.
    pub(super) fn find_consequences(&mut self, follows: impl Fn(&PartChange) -> bool) {
        let following = |changes: &[PartChange], has_cause: bool| -> BTreeSet<String> {
            let (following, others): (Vec<_>, Vec<_>) = changes.iter().partition(|change| follows(change));
            let is_other = |name: &String| others.iter().any(|change| change.name == *name);
            let has_cause = has_cause || !others.is_empty();
            let names = following.iter().map(|change| change.name.clone());
            opkeep_order::set(names.filter(|name| has_cause && !is_other(name)))
        };
        let Self { spec, toolchain, op_sources, key_schema, .. } = self;
        let has_cause = key_schema.is_some() || !spec.is_empty() || !toolchain.is_empty();
        let mut consequences = following(toolchain, false);
        consequences.extend(following(op_sources, has_cause));
        self.consequences = consequences;
    }
}
