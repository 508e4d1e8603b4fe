//! Entries on their way: those that a call asks for, and those that arrived and are stored at once, before a caller begins their keys.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use opkeep_digest::Digest;
use opkeep_store::Entry;

use super::arrived::{Arrived, bytes_of};
use super::board::Board;
use super::call::Limits;
use super::lease::LeaseStep;

/// The entries of one key that arrived, one of each signer, which are judged before they are stored. If it is dropped, the key is
/// missing as before.
pub(crate) struct Arrival {
    board: Arc<Board>,
    key: Digest,
    entries: Arrived,
}

/// What the board knows of a key.
pub(crate) enum News {
    /// Its entry arrived.
    Arrived(Arrival),
    /// Its entry is in the local store. `is_own`: this process has fetched it.
    Stored { is_own: bool },
    /// There is no entry, and this follows from the leases.
    Step(LeaseStep),
}

/// The keys whose entries a call asks for, until this is dropped. Meanwhile no other call asks for them.
pub(crate) struct Asking {
    board: Arc<Board>,
    keys: Vec<Digest>,
}

impl Board {
    /// Begins a call for the entries of `keys` that is made elsewhere. It may ask for those that no other call asks for.
    pub(super) fn begin_asking(self: &Arc<Self>, keys: &[Digest]) -> Asking {
        let mut keys = keys.to_vec();
        let mut state = self.locked_without_fetched(&mut keys, None);
        keys.retain(|key| state.table.begin_asking(key));
        drop(state);
        Asking { board: Arc::clone(self), keys }
    }

    /// Returns what the board knows of `key`, after a wait within `limits` while another thread judges its entry. Entries that arrived are
    /// returned once. A caller that calls it again has refused them.
    pub(super) fn news(self: &Arc<Self>, key: &Digest, limits: Limits<'_>) -> News {
        if self.locked().table.is_judged(key) {
            self.wait_for_others(key, limits);
        }
        let mut state = self.locked();
        if let Some(is_own) = state.table.take_stored(key) {
            return News::Stored { is_own };
        }
        match state.table.take_entry(key) {
            Some(entries) => News::Arrived(Arrival::new(self, *key, entries)),
            None => {
                state.table.refused(key);
                News::Step(state.table.step(key))
            }
        }
    }

    /// Waits for an entry that arrived and that no caller has taken. `None` if `has_ended` is set.
    pub(super) fn next_arrival(self: &Arc<Self>, has_ended: &AtomicBool) -> Option<Arrival> {
        let mut state = self.locked();
        loop {
            if has_ended.load(Ordering::SeqCst) {
                return None;
            }
            if let Some((key, entries)) = state.table.take_arrival() {
                return Some(Arrival::new(self, key, entries));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Wakes all who wait for arrivals: a flag of theirs is set.
    pub(super) fn end_receiving(&self) {
        // A thread that reads the flag before this waits by now.
        drop(self.locked());
        self.changed.notify_all();
    }
}

impl Arrival {
    pub(super) fn new(board: &Arc<Board>, key: Digest, entries: Arrived) -> Self {
        Self { board: Arc::clone(board), key, entries }
    }

    /// Returns the next entry.
    pub(crate) fn next(&mut self) -> Option<Box<Entry>> {
        self.entries.pop_front()
    }

    /// Records that the entry is used, before it is stored: a caller may find it in the local store from then on.
    pub(crate) fn used(&self) {
        self.board.used(&self.key);
    }

    /// Records that the local store has the entry.
    pub(crate) fn stored(self) {
        self.board.locked().table.judged(&self.key, true);
    }

    /// Leaves `entry`, and those that follow, to the caller that begins the key. Returns whether one will: a caller may have found the
    /// entry in the local store meanwhile.
    pub(crate) fn put_back(mut self, entry: Box<Entry>) -> bool {
        let mut entries = mem::take(&mut self.entries);
        entries.push_front(entry);
        let table = &mut self.board.locked().table;
        let is_missed = table.is_judged(&self.key);
        if is_missed {
            let bytes = bytes_of(&entries);
            table.put_back(&self.key, entries, bytes);
        }
        is_missed
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        // An entry that is stored, or missing again, stays so.
        self.board.locked().table.judged(&self.key, false);
        self.board.changed.notify_all();
    }
}

impl Asking {
    /// Returns the keys.
    pub(crate) fn keys(&self) -> &[Digest] {
        &self.keys
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let mut state = self.board.locked();
        self.keys.iter().for_each(|key| state.table.end_asking(key));
        drop(state);
        self.board.changed.notify_all();
    }
}
