//! The decision whether a stored entry is a hit.

use opkeep_cache::Accept;
use opkeep_kernel_entry::{GroupFiles, GroupRecord, StoredExpectations, verify_group_binding};
use opkeep_store::{Entry, EntryHead};
use opkeep_validator::Validator;

/// Whether an entry is a hit by its head alone: it holds a group that was validated, and by the rules that the caller states.
pub(crate) fn is_taken(head: &EntryHead, expectations: Option<&StoredExpectations>) -> bool {
    let is_covered = expectations.is_none_or(|expectations| expectations.covers(head));
    GroupRecord::is_in(head) && head.validation() > 0 && is_covered
}

/// Decides whether an entry of `target` is a hit. Its key covers all parts of the group's key, so only its kernel is judged, if
/// the caller states other rules than those by which it was validated. An entry that no local rules have judged must prove that
/// its group belongs to its key.
pub(crate) fn accept(
    entry: &Entry,
    target: &str,
    expectations: Option<&StoredExpectations>,
    validator: &Validator,
) -> Accept {
    if !GroupRecord::is_in(entry) {
        return Accept::Replace("the entry holds no group of files".to_owned());
    }
    if is_taken(entry, expectations) {
        return Accept::Take;
    }
    let record = match verify_group_binding(entry, target) {
        Ok(Some(record)) => record,
        Ok(None) => return Accept::Ignore,
        Err(error) => return Accept::Replace(format!("the stored group is not valid: {error}")),
    };
    let Some(expectations) = expectations.filter(|expectations| !expectations.covers(entry)) else {
        return Accept::Take;
    };
    let Some(artifact) = GroupFiles::of(entry).artifact(&record) else {
        return Accept::Replace("the entry holds no kernel".to_owned());
    };
    let report = validator.validate(&artifact, expectations.expectations());
    match report.errors().next() {
        Some(error) => Accept::Replace(format!("the stored kernel is not valid: {error}")),
        None if expectations.stamp() == 0 => Accept::Take,
        None => Accept::Validated { stamp: expectations.stamp(), renewed: expectations.renewed_members() },
    }
}
