//! What kernels are judged by: the validator with the checks of the backend, and what the backend expects for each spec.

use std::sync::{Arc, Mutex, PoisonError};

use opkeep_artifact::Expectations;
use opkeep_backend::Backend;
use opkeep_descriptor::ResolvedSpec;
use opkeep_digest::Digest;
use opkeep_store::{Entry, StoreError, TargetStore};
use opkeep_validator::Validator;

/// The member of an entry that says what its kernel was expected to be, so that it can be judged without its backend.
/// Entries of earlier versions have none.
pub(crate) const EXPECTATIONS: &str = "expectations";

/// The validator of one build, and the expectations that it has asked the backend for.
pub(crate) struct Judging {
    pub(crate) validator: Validator,
    known: Mutex<Vec<(ResolvedSpec, Arc<Expected>)>>,
}

/// What is expected of kernels, as it is stored with them.
pub(crate) struct Expected {
    pub(crate) expectations: Expectations,
    pub(crate) encoded: Vec<u8>,
    digest: Digest,
    /// What an entry is stamped with whose kernel was judged by these.
    pub(crate) stamp: u32,
}

impl Judging {
    pub(crate) fn new(backend: &dyn Backend) -> Self {
        let validator = backend.checks().into_iter().fold(Validator::builtin(), Validator::with);
        Self { validator, known: Mutex::default() }
    }

    /// What `backend` expects of kernels for `spec`. A build has few specs, and each is asked for once.
    pub(crate) fn expected(&self, backend: &dyn Backend, spec: &ResolvedSpec) -> Arc<Expected> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, expected)) = known.iter().find(|(of, _)| of == spec) {
            return Arc::clone(expected);
        }
        let mut expectations = backend.expectations(spec);
        // The entry is kept with those of this target, whatever the backend calls it.
        expectations.target.clone_from(&spec.target);
        let expected = Arc::new(Expected::new(expectations, &self.validator));
        known.push((spec.clone(), Arc::clone(&expected)));
        expected
    }
}

impl Expected {
    pub(crate) fn new(expectations: Expectations, validator: &Validator) -> Self {
        let (encoded, stamp) = (expectations.encode(), validator.stamp(&expectations));
        Self { digest: Digest::of(&encoded), encoded, stamp, expectations }
    }

    /// Whether the kernel in `entry` was judged by these expectations, and by rules no older than those of today. Entries
    /// that do not say by which are those of earlier versions, in which a target determined them.
    pub(crate) fn covers(&self, entry: &Entry) -> bool {
        let same = entry.member_digest(EXPECTATIONS).is_none_or(|digest| *digest == self.digest);
        same && entry.validation() >= self.stamp
    }

    /// Records in `entry` that its kernel was judged by these. An entry that was judged by rules as new keeps what it says:
    /// two versions that share a store and expect different things would rewrite it for ever.
    pub(crate) fn record(&self, shelf: &TargetStore, entry: &Entry) -> Result<(), StoreError> {
        match entry.validation() < self.stamp {
            true => shelf.restamp_with(entry, self.stamp, &[(EXPECTATIONS, &self.encoded)]),
            false => Ok(()),
        }
    }
}
