//! The stored expectations of a kernel.

use opkeep_artifact::Expectations;
use opkeep_digest::Digest;
use opkeep_store::{Entry, EntryHead, StoreError, TargetStore};
use opkeep_validator::Validator;

use crate::member::EXPECTATIONS;

/// Encoded expectations, and the validation stamp of entries that satisfy them.
#[derive(Clone, Debug)]
pub struct StoredExpectations {
    expectations: Expectations,
    encoded: Vec<u8>,
    digest: Digest,
    stamp: u32,
}

impl StoredExpectations {
    /// Encodes `expectations`; `validator` determines the stamp.
    pub fn new(expectations: Expectations, validator: &Validator) -> Self {
        let (encoded, stamp) = (expectations.encode(), validator.stamp(&expectations));
        Self { digest: Digest::of(&encoded), encoded, stamp, expectations }
    }

    /// The expectations.
    pub fn expectations(&self) -> &Expectations {
        &self.expectations
    }

    /// The bytes of the member.
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// The validation stamp of an entry whose kernel satisfies these expectations.
    pub fn stamp(&self) -> u32 {
        self.stamp
    }

    /// Whether the kernel in `entry` was validated by these expectations and by rules at least as new. An entry without
    /// the member is from an earlier version, where the target alone determined the expectations. One with the stamp 0 was
    /// not validated by any rules, whatever this stamp is.
    pub fn covers(&self, entry: &EntryHead) -> bool {
        let same = entry.member_digest(EXPECTATIONS).is_none_or(|digest| *digest == self.digest);
        same && entry.validation() > 0 && entry.validation() >= self.stamp
    }

    /// The members that replace those of an entry when its kernel is validated by these expectations.
    pub fn renewed_members(&self) -> Vec<(String, Vec<u8>)> {
        vec![(EXPECTATIONS.to_owned(), self.encoded.clone())]
    }

    /// Records in `entry` that its kernel was validated by these expectations. An entry with an equal or higher stamp
    /// keeps its member: otherwise two versions with different expectations would keep rewriting an entry that they
    /// share.
    ///
    /// # Errors
    /// The entry cannot be rewritten.
    pub fn record(&self, store: &TargetStore, entry: &Entry) -> Result<(), StoreError> {
        match entry.validation() < self.stamp {
            true => store.restamp_with(entry, self.stamp, &[(EXPECTATIONS, &self.encoded)]),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use opkeep_artifact::{CheckId, Format, MetadataRules, OpaqueRules};
    use opkeep_store::EntryBuilder;

    use super::*;

    #[test]
    fn an_entry_that_no_rule_judged_is_never_covered() {
        let rules = OpaqueRules::new(*b"", 1).with_check(CheckId::new("unavailable", 1));
        let expectations = Expectations::new("target", Format::Opaque(rules), MetadataRules::None);
        let stored = StoredExpectations::new(expectations, &Validator::builtin());
        assert_eq!(stored.stamp(), 0);
        let key = Digest::of(b"key");
        let entry = |stamp| {
            let entry = EntryBuilder::new(stamp).lazy(EXPECTATIONS, stored.encoded()).encode(&key).unwrap();
            Entry::decode(entry, Some(&key)).unwrap()
        };
        assert!(!stored.covers(&entry(0)));
        assert!(stored.covers(&entry(1)));
    }
}
