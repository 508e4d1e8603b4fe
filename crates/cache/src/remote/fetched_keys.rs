//! The keys whose entries this process has fetched. What the local store has under others, another process has stored.

use std::collections::HashSet;

use opkeep_digest::Digest;

/// The maximum number of keys. Beyond it, all are forgotten: at worst, an entry is fetched once more, or counts as another process's.
const MAX_KEYS: usize = 1 << 16;

/// The keys.
#[derive(Debug, Default)]
pub(super) struct FetchedKeys(HashSet<Digest>);

impl FetchedKeys {
    pub(super) fn add(&mut self, key: &Digest) {
        if self.0.len() >= MAX_KEYS {
            self.0.clear();
        }
        self.0.insert(*key);
    }

    pub(super) fn has(&self, key: &Digest) -> bool {
        self.0.contains(key)
    }
}
