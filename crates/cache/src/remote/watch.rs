//! The interest of callers in keys that other hosts build.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use opkeep_digest::Digest;
use opkeep_fs::ProcessId;
use opkeep_store::Counter;

use super::board::Board;
use crate::random::random_number;

/// The interest of one caller in a key that another host builds. The board asks for the key until this is dropped.
pub(crate) struct Watch {
    board: Arc<Board>,
    key: Digest,
    process: ProcessId,
    /// Whether the caller waits for another host, and not for what it needs to build.
    is_wait: AtomicBool,
}

impl Board {
    /// Has the thread ask for `key`. `was_absent`: the local store had no entry, so that one that is there later is news.
    pub(super) fn watch(self: &Arc<Self>, key: &Digest, was_absent: bool) -> Watch {
        let now = Instant::now();
        let is_new = {
            let mut state = self.locked();
            let has_hints = state.counter.is_some() && self.client.has_counters();
            state.table.watch(key, has_hints, now, random_number());
            if was_absent {
                state.table.note_absent(key);
            }
            !std::mem::replace(&mut state.is_scheduled, true)
        };
        if is_new && !self.boards.add(now, self) {
            self.locked().is_scheduled = false;
        }
        let (process, is_wait) = (ProcessId::current(), AtomicBool::new(false));
        Watch { board: Arc::clone(self), key: *key, process, is_wait }
    }
}

impl Watch {
    /// Whether this process watches, and not its parent before a fork.
    pub(crate) fn is_own(&self) -> bool {
        self.process.is_current()
    }

    /// Whether the caller waits for another host.
    pub(crate) fn is_wait(&self) -> bool {
        self.is_wait.load(Ordering::Relaxed)
    }

    /// Records that the caller waits for another host, and counts the wait.
    pub(crate) fn begin_wait(&self) {
        if !self.is_wait.swap(true, Ordering::Relaxed) {
            self.board.client.tally().add(Counter::HostWaits, 1);
        }
    }

    /// Whether there is something to do for the key: its entry arrived, or its lease can be claimed.
    pub(crate) fn has_news(&self) -> bool {
        if !self.process.is_current() {
            return true;
        }
        self.board.locked().table.has_news(&self.key)
    }

    /// Whether the caller can claim the key's lease, and its entry has not arrived.
    pub(crate) fn is_claimable(&self) -> bool {
        if !self.process.is_current() {
            return false;
        }
        self.board.locked().table.is_claimable(&self.key)
    }

    /// Returns the time of the holder's last heartbeat.
    pub(crate) fn alive_at(&self) -> Option<Instant> {
        if !self.process.is_current() {
            return None;
        }
        self.board.locked().table.alive_at(&self.key)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // In a forked child the parent's board may be locked for ever.
        if self.process.is_current() {
            self.board.locked().table.unwatch(&self.key, Instant::now());
        }
    }
}
