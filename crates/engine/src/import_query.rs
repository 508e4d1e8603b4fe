//! What is looked for among imported kernels.

use std::collections::BTreeMap;

use opkeep_descriptor::{Key, ResolvedSpec, import_key};
use opkeep_digest::Digest;
use opkeep_kernel_entry::Provenance;
use opkeep_store::{Entry, Lookup, Miss, TargetStore};

/// What is looked for among imported kernels.
pub(crate) struct ImportQuery {
    pub(crate) key: Key,
    said: BTreeMap<String, String>,
}

impl ImportQuery {
    pub(crate) fn new(job: &Digest, spec: &ResolvedSpec) -> Self {
        Self { key: import_key(job, spec), said: spec.clone().split_unkeyed_options() }
    }

    /// Whether an entry under the key will do.
    pub(crate) fn check(&self, entry: &Entry) -> Result<Provenance, String> {
        let imported = Provenance::of(entry).ok_or("what is there is no imported kernel")?;
        match imported.contradicts(&self.said) {
            Some(other) => Err(other),
            None => Ok(imported),
        }
    }
}

/// An imported kernel that will do. None if there is none; an error if there is one that will not, and why.
pub(crate) fn peek(store: &TargetStore, wanted: &ImportQuery) -> Option<Result<Provenance, String>> {
    match store.peek(wanted.key.digest()) {
        Lookup::Hit(entry) => Some(wanted.check(&entry)),
        Lookup::Miss(Miss::Absent) => None,
        Lookup::Miss(miss) => Some(Err(format!("an imported kernel cannot be used: {miss}"))),
    }
}
