//! The stored expectations of a kernel.

use opkeep_artifact::Expectations;
use opkeep_digest::Digest;
use opkeep_store::{Entry, StoreError, TargetStore};
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
    /// the member is from an earlier version, where the target alone determined the expectations.
    pub fn covers(&self, entry: &Entry) -> bool {
        let same = entry.member_digest(EXPECTATIONS).is_none_or(|digest| *digest == self.digest);
        same && entry.validation() >= self.stamp
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
