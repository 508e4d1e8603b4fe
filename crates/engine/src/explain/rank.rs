//! The order of the stored kernels that may explain a miss.

use std::cmp::Reverse;
use std::time::SystemTime;

use opkeep_descriptor::Key;

use super::nearest_entry::NearestEntry;

/// How well a stored kernel explains a miss: the one with the least rank explains it best.
///
/// The derived order compares the variants first, in the order of their declaration. So a kernel of the same job ranks before
/// every kernel of another job, whatever the number of differences in toolchain, sources and options. Within a variant, the fields
/// are compared in the order of their declaration.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank<'a> {
    /// A kernel of the same job: with its toolchain, sources and options, the missing kernel would be a hit.
    SameJob {
        /// The number of parts of the key that differ. An upgraded compiler is one, whatever the number of its files.
        parts: usize,
        /// The number of differences in these parts, without those that follow from others.
        differences: usize,
        identity: Identity<'a>,
    },
    /// A kernel of another job with the same operators.
    OtherJob {
        /// The number of fields of the job that differ.
        fields: usize,
        /// The number of other parts of the key that differ, without the sources, which depend on the job.
        parts: usize,
        /// The number of characters of the changed values that differ: `[3, 5]` is nearer to `[3, 7]` than `[9, 5]` and `[3]` are.
        characters: usize,
        identity: Identity<'a>,
    },
}

/// The order of kernels that are as near: the one that was used last first, then the newest, since their differences are the newest
/// changes. By the key, the result does not depend on the order of the search.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity<'a> {
    last_used: Reverse<SystemTime>,
    created: Reverse<SystemTime>,
    key: &'a Key,
}

impl<'a> Rank<'a> {
    pub(crate) fn of(nearest: &'a NearestEntry) -> Self {
        let NearestEntry { key, created, last_used, job, spec, toolchain, op_sources, key_schema, .. } =
            nearest;
        // A file's time may be older, such as in a store that was copied.
        let last_used = Reverse(*last_used.max(created));
        let identity = Identity { last_used, created: Reverse(*created), key };
        let count = |differs: &[bool]| differs.iter().filter(|differs| **differs).count();
        let others = [key_schema.is_some(), !toolchain.is_empty(), !spec.is_empty()];
        if job.is_empty() {
            let parts = count(&others) + usize::from(!op_sources.is_empty());
            return Self::SameJob { parts, differences: nearest.distance(), identity };
        }
        let characters = job.changes.iter().map(|change| differing(&change.old, &change.new)).sum();
        Self::OtherJob { fields: job.changes.len(), parts: count(&others), characters, identity }
    }
}

/// Returns the length of what remains of the longer text without what both begin with and end with.
fn differing(old: &str, new: &str) -> usize {
    let (old, new) = (old.as_bytes(), new.as_bytes());
    let same = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[same..], &new[same..]);
    let same = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    old.len().max(new.len()) - same
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use opkeep_descriptor::{Diff, ResolvedSpec};
    use opkeep_digest::{Digest, Fingerprint, PartChange};

    use super::*;

    /// So many changes, each from a value with one letter to one with `length`.
    fn changes(count: usize, length: usize) -> Diff {
        let spec = |value: &str| ResolvedSpec {
            target: "cpu".to_owned(),
            options: (0..count).map(|at| (format!("option{at}"), value.to_owned())).collect(),
            debug: false,
        };
        Diff::of_specs(&spec("1"), &spec(&"2".repeat(length)))
    }

    fn parts(count: usize) -> Vec<PartChange> {
        let of = |value: &str| {
            let mut fingerprint = Fingerprint::new();
            (0..count).for_each(|at| fingerprint.text(format!("part{at}"), value));
            fingerprint
        };
        of("1").diff(&of("2"))
    }

    /// A stored kernel with so many differences in job, spec, toolchain and sources. `age` is in seconds.
    fn entry(name: &str, [job, spec, toolchain, op_sources]: [usize; 4], age: u64) -> NearestEntry {
        NearestEntry {
            name: name.to_owned(),
            key: Key::from(Digest::of(name.as_bytes())),
            created: SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age),
            last_used: SystemTime::UNIX_EPOCH,
            made_by: String::new(),
            key_schema: None,
            job: changes(job, 1),
            spec: changes(spec, 1),
            toolchain: parts(toolchain),
            op_sources: parts(op_sources),
            consequences: BTreeSet::new(),
            descriptions: BTreeMap::new(),
            main_changes: Vec::new(),
        }
    }

    /// Any kernel of the same job ranks before any of another job.
    #[test]
    fn the_same_job_always_comes_first() {
        let counts = [0, 1, 2, 5, 40];
        let all = |job: &[usize]| {
            let mut all = Vec::new();
            for job in job.iter().copied() {
                for spec in counts {
                    for toolchain in counts {
                        all.extend(counts.map(|sources| {
                            entry("a", [job, spec, toolchain, sources], (spec * toolchain) as u64)
                        }));
                    }
                }
            }
            all
        };
        let (same, others) = (all(&[0]), all(&[1, 2, 40]));
        for same in &same {
            for other in &others {
                assert!(Rank::of(same) < Rank::of(other), "{same:?} {other:?}");
            }
        }
    }

    #[test]
    fn the_differing_characters_of_texts() {
        for (old, new, expected) in [
            ("[3, 5]", "[3, 7]", 1),
            ("[9, 5]", "[3, 7]", 4),
            ("[3]", "[3, 7]", 3),
            ("aa", "a", 1),
            ("", "ab", 2),
        ] {
            assert_eq!((differing(old, new), differing(new, old)), (expected, expected), "{old} {new}");
        }
    }

    /// Pairs of stored kernels, the nearer one first.
    #[test]
    fn the_nearer_of_two_is_found() {
        let longer = NearestEntry { job: changes(1, 9), ..entry("a", [1, 0, 0, 0], 0) };
        let older_keys = NearestEntry { key_schema: Some((1, 2)), ..entry("a", [0, 0, 1, 0], 0) };
        let used = |age: u64| {
            let last_used = SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000 - age);
            NearestEntry { last_used, ..entry("a", [0, 0, 1, 0], 9) }
        };
        let mut argument = entry("b", [0, 0, 5, 2], 0);
        argument.find_consequences(|change| change.name != "part0");
        for (case, near, far) in [
            ("the one used last", used(1), used(2)),
            ("the one used last, though it is older", used(1), entry("b", [0, 0, 1, 0], 0)),
            ("one change with consequences", argument, entry("a", [0, 0, 2, 1], 0)),
            ("five parts of a compiler", entry("b", [0, 0, 5, 0], 9), entry("a", [1, 0, 0, 0], 0)),
            ("an option and its sources", entry("b", [0, 1, 0, 2], 9), entry("a", [1, 0, 0, 1], 0)),
            ("one part of the key", entry("b", [0, 0, 9, 0], 9), entry("a", [0, 1, 1, 0], 0)),
            ("fewer options", entry("b", [0, 1, 0, 0], 9), entry("a", [0, 2, 0, 0], 0)),
            ("keys of this version", entry("b", [0, 0, 9, 0], 9), older_keys),
            ("the newer", entry("b", [0, 0, 3, 0], 8), entry("a", [0, 0, 3, 0], 9)),
            ("fewer fields", entry("b", [1, 0, 9, 9], 9), entry("a", [2, 0, 0, 0], 0)),
            ("the same compiler", entry("b", [1, 0, 0, 9], 9), entry("a", [1, 0, 1, 0], 0)),
            ("a value as long", entry("b", [1, 0, 0, 0], 9), longer),
        ] {
            assert!(Rank::of(&near) < Rank::of(&far), "{case}: {:?} {:?}", Rank::of(&near), Rank::of(&far));
        }
    }
}
