//! Queries for imported kernels in the store.

use std::collections::BTreeMap;

use opkeep_descriptor::{Key, ResolvedSpec, import_key};
use opkeep_digest::Digest;
use opkeep_kernel_entry::Provenance;
use opkeep_store::{Entry, Lookup, Miss, TargetStore};

/// A query for an imported kernel.
pub(crate) struct ImportQuery {
    pub(crate) key: Key,
    /// The options without effect on the key, which must not contradict those of the import.
    stated_options: BTreeMap<String, String>,
}

impl ImportQuery {
    pub(crate) fn new(job: &Digest, spec: &ResolvedSpec) -> Self {
        Self { key: import_key(job, spec), stated_options: spec.clone().split_unkeyed_options() }
    }

    /// Checks that an entry under the key can be used. Returns the imported kernel's provenance.
    pub(crate) fn check(&self, entry: &Entry) -> Result<Provenance, String> {
        let imported = Provenance::of(entry).ok_or("the entry is no imported kernel")?;
        match imported.contradicts(&self.stated_options) {
            Some(other) => Err(other),
            None => Ok(imported),
        }
    }
}

/// Returns the provenance of the imported kernel, or the reason why it cannot be used; `None` if there is none.
pub(crate) fn peek(store: &TargetStore, wanted: &ImportQuery) -> Option<Result<Provenance, String>> {
    match store.peek(wanted.key.digest()) {
        Lookup::Hit(entry) => Some(wanted.check(&entry)),
        Lookup::Miss(Miss::Absent) => None,
        Lookup::Miss(miss) => Some(Err(format!("an imported kernel cannot be used: {miss}"))),
    }
}
