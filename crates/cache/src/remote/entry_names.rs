//! The entries of one target in an engine: their names, and what is taken of them.

use std::sync::Arc;

use opkeep_digest::Digest;
use opkeep_store::Entry;

use super::answer_size::AnswerSizes;
use super::client::checked;
use super::names::ObjectNames;
use super::object::ObjectName;
use crate::refusal::Refusal;
use crate::signing::TargetTrust;

/// The maximum number of objects for which one call asks. An engine with a request for each object needs a third of the time that a call
/// may take for so many.
const MAX_NAMES: usize = 1024;

/// The names under which this host looks for entries, and the signatures that it demands.
#[derive(Clone, Debug)]
pub(crate) struct EntryNames {
    pub(super) names: ObjectNames,
    trust: TargetTrust,
    sizes: Arc<AnswerSizes>,
}

impl EntryNames {
    pub(crate) fn new(names: ObjectNames, trust: TargetTrust) -> Self {
        Self { names, trust, sizes: Arc::new(AnswerSizes::new()) }
    }

    /// Returns the names of the entries under `key`: those of each signer whom this host trusts, or the unsigned one.
    pub(crate) fn of(&self, key: &Digest) -> impl Iterator<Item = ObjectName> {
        self.trust.keys().sources().iter().map(|signer| self.names.entry_of(key, *signer))
    }

    /// Returns the names of the bundles of a plan, in the order in which they are looked up.
    pub(super) fn bundles_of(&self, plan: &Digest) -> Vec<ObjectName> {
        self.trust.keys().sources().iter().map(|signer| self.names.bundle(plan, *signer)).collect()
    }

    /// Returns the name of the bundle of a plan that this host stores.
    pub(super) fn own_bundle(&self, plan: &Digest) -> ObjectName {
        self.names.bundle(plan, self.trust.keys().own_signer())
    }

    /// Returns the name of the counter of the bundles of a plan that were stored a moment ago: that of a plan whose only key is the
    /// plan's digest.
    pub(super) fn new_bundles(&self, plan: &Digest) -> ObjectName {
        self.names.progress(&[*plan])
    }

    /// Returns the number of names for each key.
    pub(crate) fn count(&self) -> usize {
        self.trust.keys().sources().len()
    }

    /// Returns the number of keys for which one call asks: for the entries of each, and for `others` small objects.
    pub(crate) fn keys_of_call(&self, others: usize) -> usize {
        self.sizes.keys(self.keys_of_small(self.count() + others))
    }

    /// Returns the number of keys for which one call asks for `objects` small objects of each.
    pub(super) fn keys_of_small(&self, objects: usize) -> usize {
        (MAX_NAMES / objects.max(1)).max(1)
    }

    /// Returns what is known of the sizes of entries.
    pub(crate) fn sizes(&self) -> &AnswerSizes {
        &self.sizes
    }

    /// Whether hosts wait for each other's entries: this host takes what it sends.
    pub(super) fn have_leases(&self) -> bool {
        self.trust.keys().takes_own()
    }

    /// Decodes and checks the content of an object.
    pub(crate) fn checked(&self, file: Vec<u8>, key: &Digest, name: &ObjectName) -> Result<Entry, Refusal> {
        checked(file, key, name, &self.trust)
    }
}
