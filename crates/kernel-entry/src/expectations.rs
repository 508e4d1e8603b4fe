//! The expectations of a kernel, as they are stored with it.

use opkeep_artifact::Expectations;
use opkeep_digest::Digest;
use opkeep_store::{Entry, StoreError, TargetStore};
use opkeep_validator::Validator;

use crate::member::EXPECTATIONS;

/// Expectations in the form in which entries hold them, and the stamp of entries that were validated by them.
#[derive(Clone, Debug)]
pub struct StoredExpectations {
    expectations: Expectations,
    encoded: Vec<u8>,
    digest: Digest,
    stamp: u32,
}

impl StoredExpectations {
    /// Encodes `expectations`; `validator` says how far it can judge them.
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

    /// The validation stamp of an entry whose kernel these expectations accepted.
    pub fn stamp(&self) -> u32 {
        self.stamp
    }

    /// Whether the kernel in `entry` was validated by these expectations, and by rules that are at least as new. An entry
    /// without the member is of an earlier version, in which the target alone determined the expectations.
    pub fn covers(&self, entry: &Entry) -> bool {
        let same = entry.member_digest(EXPECTATIONS).is_none_or(|digest| *digest == self.digest);
        same && entry.validation() >= self.stamp
    }

    /// Records in `entry` that its kernel was validated by these expectations. An entry with a stamp as high keeps its
    /// member: two versions that share a store and expect different things would rewrite it for ever.
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
