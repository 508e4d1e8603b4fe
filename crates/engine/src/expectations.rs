//! The rules for kernels: the validator with the checks of the backend, and the backend's expectations for each spec.
//! They judge compiled kernels, and stored ones.

use std::sync::{Arc, Mutex, PoisonError};

use opkeep_artifact::Artifact;
use opkeep_backend::Backend;
use opkeep_cache::Accept;
use opkeep_descriptor::{KernelName, ResolvedSpec};
use opkeep_digest::Digest;
use opkeep_kernel_entry::member::IMPORTED;
use opkeep_kernel_entry::{KernelBundle, KernelFiles, StoredExpectations, artifact, verify_binding};
use opkeep_store::Entry;
use opkeep_validator::{Severity, Validator};

use crate::KernelError;
use crate::plan::KeyedKernel;

/// The validator of a build, and the backend's expectations for the specs so far.
pub(crate) struct KernelRules {
    pub(crate) validator: Validator,
    known: Mutex<Vec<(ResolvedSpec, Arc<StoredExpectations>)>>,
}

/// A stored kernel that can be used.
pub(crate) struct JudgedEntry {
    pub(crate) artifact: Artifact,
    /// The digests of the object and of the `.json`.
    pub(crate) digests: (Digest, Digest),
    /// The cache's instruction for the entry.
    pub(crate) accept: Accept,
    /// A property that no known genuine kernel has.
    pub(crate) doubt: Option<String>,
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

    /// Judges the kernel in an entry. If it was validated by other rules, it is validated again.
    pub(crate) fn judge(
        &self,
        backend: &dyn Backend,
        keyed: &KeyedKernel,
        entry: &Entry,
    ) -> Result<JudgedEntry, KernelError> {
        let kernel = || keyed.name.to_string();
        if entry.member(IMPORTED).is_some() {
            return Err(KernelError::UnexpectedImport { kernel: kernel() });
        }
        let KernelFiles { artifact, object_digest, json_digest, .. } =
            artifact(entry).map_err(|member| KernelError::Incomplete { kernel: kernel(), member })?;
        let digests = (object_digest, json_digest);
        let expected = self.expected(backend, &keyed.spec);
        let (mut accept, mut doubt) = (Accept::Take, None);
        if !expected.covers(entry) {
            // Only a CANN kernel contains proof of its key, so an entry that was never validated may hold the kernel of
            // another key.
            if entry.validation() == 0 {
                verify_binding(entry, &keyed.spec.target, expected.expectations())
                    .map_err(|source| KernelError::WrongKey { kernel: kernel(), source })?;
            }
            doubt = self.validate(&expected, keyed, &artifact)?.1;
            if entry.validation() < expected.stamp() {
                accept = Accept::Validated { stamp: expected.stamp(), renewed: expected.renewed_members() };
            }
        }
        Ok(JudgedEntry { artifact, digests, accept, doubt })
    }

    /// Checks that the artifact is valid and is the requested kernel. Returns the digest of the object, which validation
    /// computes, and a property that no known genuine kernel has, if there is one.
    pub(crate) fn validate(
        &self,
        expected: &StoredExpectations,
        keyed: &KeyedKernel,
        artifact: &Artifact,
    ) -> Result<(Digest, Option<String>), KernelError> {
        let (kernel, name) = (keyed.name.to_string(), Some(keyed.name.as_str()));
        let report = KernelBundle::of(artifact).validate(name, expected.expectations(), &self.validator);
        if !report.is_valid() {
            let errors = report.errors().cloned().collect();
            return Err(KernelError::Invalid { kernel, errors, kept_dir: None });
        }
        let is_other = |name: &&str| !KernelName::owns(keyed.name.as_str(), name);
        if let Some(other) = report.entry_names().into_iter().find(is_other) {
            return Err(KernelError::NameMismatch { kernel, found: other.to_owned(), kept_dir: None });
        }
        let doubt = report.findings.iter().find(|finding| finding.severity() == Severity::Warning);
        let doubt = doubt.map(ToString::to_string);
        Ok((report.sha256.unwrap_or_else(|| Digest::of(&artifact.object)), doubt))
    }
}
