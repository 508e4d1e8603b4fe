//! The decision whether a stored entry is a hit.

use std::time::SystemTime;

use opkeep_artifact::Expectations;
use opkeep_cache::{Accept, CacheMode};
use opkeep_kernel_entry::member::EXPECTATIONS;
use opkeep_kernel_entry::{
    EntryVerdict, GroupFiles, GroupRecord, StoredExpectations, verify_entry, verify_group_binding,
};
use opkeep_store::{Entry, EntryHead};
use opkeep_validator::Validator;

use crate::new_group::DIGESTS_ONLY;

/// The entries that a caller takes. Each look-up of this crate asks it.
pub(crate) struct Judge<'a> {
    /// The target of the files.
    pub(crate) target: &'a str,
    /// The mode of the cache.
    pub(crate) mode: CacheMode,
    /// The time at which the cache was opened.
    pub(crate) opened: SystemTime,
    /// The rules that the caller states.
    pub(crate) expectations: Option<&'a StoredExpectations>,
}

impl Judge<'_> {
    /// Whether the mode reads the entry. One that was made since the cache was opened is the result of a caller that asks
    /// for the same, or of this one. A time in the future comes from another clock, so it does not prove that.
    fn is_read(&self, head: &EntryHead) -> bool {
        self.mode.reads() || (self.opened..=SystemTime::now()).contains(&head.created())
    }

    /// Whether an entry is a hit by its head alone: the mode reads it, and it holds a group that was validated, and by the
    /// rules that the caller states.
    pub(crate) fn takes(&self, head: &EntryHead) -> bool {
        let is_covered = self.expectations.is_none_or(|expectations| expectations.covers(head));
        self.is_read(head) && GroupRecord::is_in(head) && head.validation() > 0 && is_covered
    }

    /// Judges an entry that no local rules have judged, and for which the caller states none, such as one of another host: by the rules
    /// that are stored with it, as when it was published.
    fn judge_by_own_rules(&self, entry: &Entry) -> Accept {
        match verify_entry(entry, self.target, &Validator::builtin()) {
            EntryVerdict::Valid | EntryVerdict::Unverifiable { .. } => {}
            EntryVerdict::Invalid(error) => {
                return Accept::Replace(format!("the stored group is not valid: {error}"));
            }
        }
        // A record of a later version cannot be judged.
        if GroupRecord::of(entry).is_none() {
            return Accept::Ignore;
        }
        match published_stamp(entry) {
            Some(0) => Accept::Take,
            Some(stamp) => Accept::Validated { stamp, renewed: Vec::new() },
            None => Accept::Ignore,
        }
    }

    /// Decides whether an entry is a hit. Its key covers all parts of the group's key, so only its kernel is judged, if the
    /// caller states other rules than those by which it was validated. An entry that no local rules have judged must prove
    /// that its group belongs to its key.
    pub(crate) fn accept(&self, entry: &Entry) -> Accept {
        if !self.is_read(entry) {
            return Accept::Replace(format!("the cache mode is `{}`", self.mode));
        }
        if !GroupRecord::is_in(entry) {
            return Accept::Replace("the entry holds no group of files".to_owned());
        }
        if self.takes(entry) {
            return Accept::Take;
        }
        if entry.validation() == 0 && self.expectations.is_none() {
            return self.judge_by_own_rules(entry);
        }
        let record = match verify_group_binding(entry, self.target) {
            Ok(Some(record)) => record,
            Ok(None) => return Accept::Ignore,
            Err(error) => return Accept::Replace(format!("the stored group is not valid: {error}")),
        };
        let Some(expectations) = self.expectations.filter(|expectations| !expectations.covers(entry)) else {
            return Accept::Take;
        };
        let Some(artifact) = GroupFiles::of(entry).artifact(&record) else {
            return Accept::Replace("the entry holds no kernel".to_owned());
        };
        let report = Validator::builtin().validate(&artifact, expectations.expectations());
        match report.errors().next() {
            Some(error) => Accept::Replace(format!("the stored kernel is not valid: {error}")),
            None if expectations.stamp() == 0 => Accept::Take,
            None => {
                Accept::Validated { stamp: expectations.stamp(), renewed: expectations.renewed_members() }
            }
        }
    }
}

/// Returns the stamp with which a group is published that has the rules of this entry. `None`: a later version wrote them.
fn published_stamp(entry: &Entry) -> Option<u32> {
    let stored = entry.lazy_member(EXPECTATIONS).ok()?;
    let Some(stored) = stored else { return Some(DIGESTS_ONLY) };
    let rules = Expectations::decode(stored).ok()?;
    Some(Validator::builtin().stamp(&rules))
}
