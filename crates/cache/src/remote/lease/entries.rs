//! The entries of a table's keys: which are asked for, have arrived, are judged, and are in the local store.

use std::mem;
use std::time::Instant;

use opkeep_digest::Digest;

use super::row::{EntryState, Row};
use super::table::{FRESH, LeaseTable};

impl<E> LeaseTable<E> {
    /// Whether another caller has asked for the entry of `key` and has no answer yet, or the entry is being judged.
    pub fn is_on_its_way(&self, key: &Digest) -> bool {
        let state = self.rows.get(key).map(|row| &row.entry);
        matches!(state, Some(EntryState::Asked | EntryState::Judged { .. }))
    }

    /// Records that a call asks for the entry of `key`, unless one does, or the entry has arrived. Returns whether that is so.
    pub fn begin_asking(&mut self, key: &Digest) -> bool {
        self.rows.change(key, Row::begin_asking)
    }

    /// Records the end of that call.
    pub fn end_asking(&mut self, key: &Digest) {
        self.rows.change_known(key, |row| {
            if let EntryState::Asked = row.entry {
                row.entry = EntryState::Missing;
            }
        });
    }

    /// Records an entry of `bytes` bytes that arrived for a key that is known and not finished.
    pub fn note_entry(&mut self, key: &Digest, entry: E, bytes: u64) {
        self.rows.change_known(key, |row| {
            if let EntryState::Asked | EntryState::Missing = row.entry {
                row.entry = EntryState::Arrived { entry, bytes, is_judged: false };
            }
        });
    }

    /// Records an entry that the answer to a call of its own, which ends at `now`, brought.
    pub fn note_own_entry(&mut self, key: &Digest, entry: E, bytes: u64, now: Instant) {
        let claims = self.claims;
        self.rows.change(key, |row| {
            // Another thread may have fetched it meanwhile.
            if let EntryState::Asked | EntryState::Missing = row.entry {
                row.entry = EntryState::Arrived { entry, bytes, is_judged: true };
                (row.fresh_until, row.claims_then) = (now.checked_add(FRESH), claims);
            }
        });
    }

    /// Takes the entry that arrived, in order to judge it. A caller takes it once. [`judged`](Self::judged) follows.
    pub fn take_entry(&mut self, key: &Digest) -> Option<E> {
        self.take_arrived(key)
    }

    /// Returns an entry to the table, for a caller that begins the key.
    pub fn put_back(&mut self, key: &Digest, entry: E, bytes: u64) {
        self.rows.change(key, |row| row.entry = EntryState::Arrived { entry, bytes, is_judged: true });
    }

    /// Takes an entry that arrived and was not judged, in order to store it. [`judged`](Self::judged) follows.
    pub fn take_arrival(&mut self) -> Option<(Digest, E)> {
        let key = self.rows.first_arrival()?;
        Some((key, self.take_arrived(&key)?))
    }

    fn take_arrived(&mut self, key: &Digest) -> Option<E> {
        let judged = EntryState::Judged { is_used: false };
        let taken = self.rows.change_known(key, |row| match row.entry {
            EntryState::Arrived { .. } => Some(mem::replace(&mut row.entry, judged)),
            _ => None,
        });
        match taken.flatten() {
            Some(EntryState::Arrived { entry, .. }) => Some(entry),
            _ => None,
        }
    }

    /// Returns the size of the entries that arrived and are in memory, in bytes.
    pub fn arrived_bytes(&self) -> u64 {
        self.rows.arrived_bytes()
    }

    /// Returns the same for keys for which no caller waits.
    pub fn unclaimed_bytes(&self) -> u64 {
        self.rows.unclaimed_bytes()
    }

    /// Whether the entry of `key` is being judged.
    pub fn is_judged(&self, key: &Digest) -> bool {
        self.rows.get(key).is_some_and(Row::is_judged)
    }

    /// Records that an entry that was taken to be judged is used: it is stored next.
    pub fn judged_used(&mut self, key: &Digest) {
        self.end_judging(key, EntryState::Judged { is_used: true });
    }

    /// Records what became of an entry that was taken to be judged: it is in the local store, or missing as before.
    pub fn judged(&mut self, key: &Digest, is_stored: bool) {
        let next = if is_stored { EntryState::Stored { is_own: true } } else { EntryState::Missing };
        self.end_judging(key, next);
    }

    fn end_judging(&mut self, key: &Digest, next: EntryState<E>) {
        self.rows.change_known(key, |row| {
            if row.is_judged() {
                row.entry = next;
            }
        });
    }

    /// Records that the local store had no entry when a caller began `key`.
    pub fn note_absent(&mut self, key: &Digest) {
        self.rows.change(key, |row| row.was_absent = true);
    }

    /// Whether an entry of `key` in the local store is one that no caller has seen.
    pub fn would_be_new(&self, key: &Digest) -> bool {
        self.rows.get(key).is_none_or(|row| row.watches == 0 || row.was_absent)
    }

    /// Records that the local store has the entries of `keys`, which another process fetched or built.
    pub fn note_stored(&mut self, keys: &[Digest]) {
        for key in keys {
            self.rows.change_known(key, |row| {
                if let EntryState::Missing = row.entry {
                    row.entry = EntryState::Stored { is_own: false };
                }
            });
        }
    }

    /// Records that the local store has the entry of `key` since a caller looked there, which uses it next. `is_own`: this process has
    /// fetched it.
    pub fn note_found(&mut self, key: &Digest, is_own: bool, now: Instant) {
        self.rows.change(key, |row| {
            if let EntryState::Missing | EntryState::Finished = row.entry {
                row.entry = EntryState::Stored { is_own };
                // Until then, the row stays for that caller, even if the key belongs to no plan.
                row.fresh_until = now.checked_add(FRESH);
            }
        });
    }

    /// Whether the entry of `key` was stored since a caller began the key; `Some(true)` if this process has fetched it. Says so once.
    pub fn take_stored(&mut self, key: &Digest) -> Option<bool> {
        let taken = self.rows.change_known(key, |row| {
            let EntryState::Stored { is_own } = row.entry else { return None };
            row.entry = EntryState::Finished;
            Some(is_own)
        });
        taken.flatten()
    }

    /// Records that a caller has found the entry of `key` in the local store, and uses it. Returns whether this process has fetched it,
    /// which it says once. An entry is in the store a moment before the thread that stores it records that.
    pub fn take_found(&mut self, key: &Digest) -> bool {
        let taken = self.rows.change_known(key, |row| {
            let (EntryState::Stored { is_own } | EntryState::Judged { is_used: is_own }) = row.entry else {
                return false;
            };
            if is_own || !row.is_judged() {
                row.entry = EntryState::Finished;
            }
            is_own
        });
        taken.unwrap_or(false)
    }

    /// Records that a caller continues without the entry that it took: it is missing.
    pub fn refused(&mut self, key: &Digest) {
        self.rows.change_known(key, |row| {
            if let EntryState::Finished = row.entry {
                row.entry = EntryState::Missing;
            }
        });
    }
}
