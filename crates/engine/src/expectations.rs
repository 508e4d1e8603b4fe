//! The rules for kernels: the validator with the checks of the backend, and the backend's expectations for each spec.

use std::sync::{Arc, Mutex, PoisonError};

use opkeep_backend::Backend;
use opkeep_descriptor::ResolvedSpec;
use opkeep_kernel_entry::StoredExpectations;
use opkeep_validator::Validator;

/// The validator of a build, and the backend's expectations for the specs so far.
pub(crate) struct KernelRules {
    pub(crate) validator: Validator,
    known: Mutex<Vec<(ResolvedSpec, Arc<StoredExpectations>)>>,
}

impl KernelRules {
    pub(crate) fn new(backend: &dyn Backend) -> Self {
        let validator = backend.checks().into_iter().fold(Validator::builtin(), Validator::with);
        Self { validator, known: Mutex::default() }
    }

    /// Returns the expectations of `backend` for kernels of `spec`. A build has few specs; the backend is called once
    /// for each.
    pub(crate) fn expected(&self, backend: &dyn Backend, spec: &ResolvedSpec) -> Arc<StoredExpectations> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, expected)) = known.iter().find(|(of, _)| of == spec) {
            return Arc::clone(expected);
        }
        let mut expectations = backend.expectations(spec);
        // The entry is stored under this target, even if the backend's expectations name another one.
        expectations.target.clone_from(&spec.target);
        let expected = Arc::new(StoredExpectations::new(expectations, &self.validator));
        known.push((spec.clone(), Arc::clone(&expected)));
        expected
    }
}
