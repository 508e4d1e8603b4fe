//! What a store has of some operators for other targets than the one that is asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use opkeep_kernel_entry::Header;
use opkeep_kernel_entry::member::HEADER;
use opkeep_store::{Store, TargetStore};

/// The maximum number of targets in a line.
const MAX_TARGETS: usize = 3;

/// What a store has of a missing kernel's operators for other targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OtherTargets {
    /// The target that is asked for; empty if it is not known.
    pub target: String,
    /// The other targets for which kernels of the operators are stored.
    pub targets: BTreeSet<String>,
    /// Whether the store has no kernel at all.
    pub is_empty: bool,
}

impl fmt::Display for OtherTargets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, targets, is_empty } = self;
        if *is_empty {
            return f.write_str("the store is empty");
        }
        let target = if target.is_empty() { "this target" } else { target };
        write!(f, "no kernel of these operators is stored for {target}")?;
        let shown: Vec<&str> = targets.iter().take(MAX_TARGETS).map(String::as_str).collect();
        match targets.len() - shown.len() {
            _ if shown.is_empty() => Ok(()),
            0 => write!(f, ", but for {}", shown.join(", ")),
            more => write!(f, ", but for {} and {more} more", shown.join(", ")),
        }
    }
}

/// Returns what `store` has of each of `op_types` for other targets than `target`, by the type, while `goes_on` returns true; `None` if it
/// returned false before everything was read. `is_empty` is whether `target` has no kernel. Of each entry, the header is read; what cannot
/// be read is not known.
pub(crate) fn look(
    store: &Store,
    target: &str,
    is_empty: bool,
    op_types: &BTreeSet<&str>,
    goes_on: &dyn Fn() -> bool,
) -> Option<BTreeMap<String, OtherTargets>> {
    let none = OtherTargets { target: target.to_owned(), is_empty, ..OtherTargets::default() };
    let mut found: BTreeMap<String, OtherTargets> =
        opkeep_order::map(op_types.iter().map(|op_type| ((*op_type).to_owned(), none.clone())));
    let mut is_empty = is_empty;
    for other in store.targets().unwrap_or_default().into_iter().filter(|other| other != target) {
        let Ok(entries) = store.target(&other) else { continue };
        let (stored, has_entries) = stored_types(&entries, op_types, goes_on)?;
        is_empty &= !has_entries;
        for op_type in stored {
            found.entry(op_type).or_insert_with(|| none.clone()).targets.insert(other.clone());
        }
    }
    found.values_mut().for_each(|found| found.is_empty = is_empty);
    Some(found)
}

/// Returns those of `op_types` of which a target has kernels, and whether it has any entry.
fn stored_types(
    entries: &TargetStore,
    op_types: &BTreeSet<&str>,
    goes_on: &dyn Fn() -> bool,
) -> Option<(BTreeSet<String>, bool)> {
    let (mut stored, mut has_entries) = (BTreeSet::new(), false);
    for first in 0..=u8::MAX {
        for key in entries.keys_from(first) {
            if !goes_on() {
                return None;
            }
            has_entries = true;
            if stored.len() == op_types.len() {
                return Some((stored, has_entries));
            }
            let header = || Header::parse(&entries.open_entry(&key).ok()?.read_member(HEADER).ok()??);
            stored.extend(header().map(|header| header.op_type).filter(|it| op_types.contains(it.as_str())));
        }
    }
    Some((stored, has_entries))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_targets_are_named() {
        let of = |targets: &[&str], is_empty| {
            let targets = targets.iter().map(|target| (*target).to_owned()).collect();
            OtherTargets { target: "cpu".to_owned(), targets, is_empty }.to_string()
        };
        assert_eq!(of(&[], true), "the store is empty");
        assert_eq!(of(&[], false), "no kernel of these operators is stored for cpu");
        assert_eq!(of(&["a", "b"], false), "no kernel of these operators is stored for cpu, but for a, b");
        assert!(of(&["a", "b", "c", "d"], false).ends_with(", but for a, b, c and 1 more"));
        assert!(OtherTargets::default().to_string().ends_with(" for this target"));
    }
}
