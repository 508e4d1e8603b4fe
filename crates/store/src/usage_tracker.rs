//! The use of a target by one process: the time, the bytes that were put, the counters. They are written from time to time, and
//! when the last clone is dropped.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::outcome::Miss;
use crate::size::{Known, SizeFile};
use crate::stats::{Counter, Counters};
use crate::{EntryHead, Limits, Store};
use opkeep_fs::RootedFs;
use opkeep_fs::{FileClock, idle};

/// The interval at which the last use of an entry is recorded.
const NOTED_EVERY: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(crate) struct UsageTracker {
    fs: RootedFs,
    writable: bool,
    pub(crate) limits: Arc<Limits>,
    pub(crate) clock: FileClock,
    pub(crate) size: SizeFile,
    pub(crate) counters: Counters,
}

impl UsageTracker {
    /// Opens a tracker for the target in `dir`. Returns the tracker and the known size. `fresh`: the directory was just
    /// created.
    pub(crate) fn open(store: &Store, dir: &Path, fresh: bool) -> (Self, Known) {
        let shared = store.trust().is_shared();
        let tracker = Self {
            fs: store.fs().clone(),
            writable: store.config().access.writes(),
            limits: Arc::clone(store.shared_limits()),
            clock: FileClock::new(store.config().clock.clone()),
            size: SizeFile::new(dir, shared),
            counters: Counters::new(dir, shared),
        };
        if !tracker.writable {
            return (tracker, Known::Busy);
        }
        // The store works without the file: the size is unknown, and the clock is that of this machine.
        let Ok((known, now)) = tracker.size.open(&tracker.fs, fresh) else { return (tracker, Known::Busy) };
        tracker.clock.set(now);
        (tracker, known)
    }

    /// Counts a hit, and records the last use of the entry.
    pub(crate) fn hit(&self, entry: &EntryHead, file: &File, path: &Path, last_used: SystemTime) {
        self.counters.add(Counter::Hits, 1);
        self.counters.add(Counter::BytesRead, entry.file_bytes());
        self.counters.add_time(Counter::SavedMicros, entry.cost());
        if !self.writable || self.limits.max_bytes.is_none() {
            return;
        }
        let now = self.clock.now();
        if idle(last_used, now).max(idle(now, last_used)) >= NOTED_EVERY {
            // If this fails, the entry counts as idle sooner. The hit stands.
            let _ = self.fs.touch(file, path);
        }
    }

    pub(crate) fn missed(&self, miss: &Miss) {
        let reason = match miss {
            Miss::Absent => Counter::Absent,
            Miss::Damaged(_) => Counter::Damaged,
            Miss::Untrusted(_) => Counter::Untrusted,
            Miss::Io(_) => Counter::Io,
        };
        self.counters.add(reason, 1);
    }

    /// Counts the put of an entry of `bytes` bytes that replaces one of `before` bytes. Returns true if the size is due
    /// to be checked.
    pub(crate) fn put(&self, bytes: u64, before: Option<u64>) -> bool {
        self.counters.add(Counter::Puts, 1);
        self.counters.add(Counter::BytesWritten, bytes);
        self.size.put(bytes, before)
    }

    /// Whether an eviction is due.
    pub(crate) fn eviction_due(&self, known: Known) -> bool {
        match known {
            Known::Totals(totals) => {
                self.limits.are_exceeded_by(totals.bytes, totals.entries)
                    && totals.allow_eviction(self.clock.now())
            }
            Known::Unknown => self.limits.max_bytes.is_some(),
            Known::Busy => false,
        }
    }

    /// Whether stale files are due to be pruned.
    pub(crate) fn pruning_due(&self, known: Known) -> bool {
        matches!(known, Known::Totals(totals) if totals.allow_pruning(self.clock.now()))
    }

    /// Writes the counts and the size to their files.
    pub(crate) fn flush(&self) -> std::io::Result<()> {
        if !self.writable {
            return Ok(());
        }
        if self.size.is_pending() {
            self.size.flush(&self.fs);
        }
        self.counters.flush(&self.fs, self.clock.now())
    }
}

impl Drop for UsageTracker {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}
