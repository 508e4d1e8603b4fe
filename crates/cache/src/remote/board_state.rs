//! What a board knows, which one lock guards.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use opkeep_digest::Digest;

use super::arrived::Arrived;
use super::fetched_keys::FetchedKeys;
use super::lease::LeaseTable;
use super::object::ObjectName;

/// The maximum size of the entries that arrived and that no caller has taken, in addition to one entry of a call. What is beyond that in
/// an answer is dropped, and asked for again when a caller needs it.
pub(super) const MAX_ARRIVED_BYTES: u64 = 64 << 20;

/// What the board of a target knows.
pub(super) struct State {
    pub(super) table: LeaseTable<Arrived>,
    /// The counter of the plan.
    pub(super) counter: Option<ObjectName>,
    /// Whether the thread will visit the board.
    pub(super) is_scheduled: bool,
    pub(super) fetched: FetchedKeys,
    /// The keys whose entries in the engine are wrong: an own entry replaces them.
    pub(super) refused: HashSet<Digest>,
}

impl State {
    pub(super) fn new(ttl: Duration) -> Self {
        let (table, refused) = (LeaseTable::new(ttl), HashSet::new());
        Self { table, counter: None, is_scheduled: false, fetched: FetchedKeys::default(), refused }
    }

    /// Returns those of `keys` whose entries this process has fetched or built, as far as it knows. They may be evicted.
    pub(super) fn fetched_or_built(&self, keys: &[Digest]) -> Vec<Digest> {
        let is_known = |key: &&Digest| self.fetched.has(key) || self.table.is_finished(key);
        keys.iter().filter(is_known).copied().collect()
    }

    /// Records that the local store has the entry of `key` since a caller looked there.
    pub(super) fn note_stored(&mut self, key: &Digest) {
        let is_fetched = self.fetched.has(key);
        self.table.note_found(key, is_fetched, Instant::now());
    }

    /// Returns the keys that a caller asks for that begins `key`.
    pub(super) fn look(&mut self, key: &Digest, fresh_since: Option<Instant>) -> Option<Vec<Digest>> {
        let mut keys = self.table.look(key, fresh_since.unwrap_or_else(Instant::now))?;
        if self.table.unclaimed_bytes() >= MAX_ARRIVED_BYTES {
            keys.retain(|other| other == key || self.table.is_watched(other));
        }
        Some(keys)
    }
}
