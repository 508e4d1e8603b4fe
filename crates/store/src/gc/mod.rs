//! Eviction: its schedule, the process that runs it, and the amount to delete.

mod evict;
mod preview;
pub(crate) mod prune;

use std::fs::File;
use std::io;
use std::time::{Duration, SystemTime};

use crate::inventory::{FileTotals, InventoryWalk, Kind, TargetUsage};
use crate::layout::GC_LOCK;
use crate::size::{Known, SizeEstimate};
use crate::stats::Counter;
use crate::{Limits, StoreError, TargetStore, files, lock};
use evict::{Amount, Eviction};
use opkeep_fs::idle;
use opkeep_fs::{FileLock, LockFile, TryLock};
use prune::Pruner;

pub use preview::{EvictionPreview, NextEviction};

/// The idle time before which an entry is never evicted because of a limit.
const IDLE_FOR: Duration = Duration::from_secs(1800);
/// The shortest and the longest wait for the next eviction if this one left too much.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(600));
/// The maximum number of evictions in a row, if other processes put more meanwhile.
const ROUNDS: usize = 3;

/// The lock of the process that evicts.
pub(crate) enum GcLock {
    Held(FileLock),
    /// The file system has no locks.
    Unsupported(LockFile),
}

impl GcLock {
    fn file(&self) -> io::Result<&File> {
        match self {
            Self::Held(lock) => lock.file(),
            Self::Unsupported(file) => file.file(),
        }
    }
}

/// Options of [`TargetStore::gc`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GcOptions {
    /// Whether only to report the files to delete, and to write nothing.
    pub dry_run: bool,
    /// The maximum number of bytes to leave, in place of the limit. Entries that were used within half an hour stay
    /// nevertheless.
    pub max_bytes: Option<u64>,
    /// The time without use after which an entry is deleted, even within the limit.
    pub older_than: Option<Duration>,
    /// Whether a user asked for all this: statistics count the entries as cleared, and not as evicted.
    pub counts_as_cleared: bool,
}

impl GcOptions {
    /// Options that delete every entry that no process uses, because a user asked for it.
    pub fn clear() -> Self {
        Self { older_than: Some(Duration::ZERO), counts_as_cleared: true, ..Self::default() }
    }

    /// These options with this `dry_run`.
    #[must_use]
    pub fn with_dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// These options with this size, in place of the limit.
    #[must_use]
    pub fn with_max_bytes(mut self, max_bytes: impl Into<Option<u64>>) -> Self {
        self.max_bytes = max_bytes.into();
        self
    }

    /// These options with this time without use.
    #[must_use]
    pub fn with_older_than(mut self, older_than: impl Into<Option<Duration>>) -> Self {
        self.older_than = older_than.into();
        self
    }
}

/// The result of [`TargetStore::gc`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct GcReport {
    /// Whether another process evicts, so that this one did nothing.
    pub busy: bool,
    /// The usage before the eviction.
    pub before: TargetUsage,
    /// The removed files.
    pub removed: TargetUsage,
    /// The usage after the eviction.
    pub after: TargetUsage,
    /// Whether the usage still exceeds the limit, since the remaining entries were used within half an hour, or could
    /// not be deleted.
    pub still_over: bool,
    /// The number of entries that could not be deleted.
    pub failed: u64,
    /// The error of the first entry that could not be deleted.
    pub failure: Option<StoreError>,
}

/// The limit, and the usage to which an eviction reduces it.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    max: Option<Amount>,
    keep: Amount,
}

impl Bounds {
    fn of(limits: &Limits, options: &GcOptions) -> Self {
        let entries = limits.max_entries.filter(|_| limits.max_bytes.is_some());
        let keep_entries = entries.map_or(u64::MAX, |max| limits.remaining_of(max));
        let entries = entries.unwrap_or(u64::MAX);
        match (options.max_bytes, limits.max_bytes) {
            (Some(bytes), _) => {
                let max = Amount { bytes, entries };
                Self { max: Some(max), keep: Amount { bytes, entries: keep_entries } }
            }
            (None, Some(bytes)) => {
                let max = Amount { bytes, entries };
                Self {
                    max: Some(max),
                    keep: Amount { bytes: limits.remaining_of(bytes), entries: keep_entries },
                }
            }
            (None, None) => Self { max: None, keep: Amount { bytes: u64::MAX, entries } },
        }
    }

    /// Returns the amount to evict, if the limit is exceeded.
    fn excess(&self, usage: &TargetUsage) -> Option<Amount> {
        let (bytes, entries) = (usage.total().bytes, usage.entries.files);
        let max = self.max.filter(|max| bytes > max.bytes || entries > max.entries)?;
        let over = |found: u64, max: u64, keep: u64| if found > max { found - keep.min(found) } else { 0 };
        Some(Amount {
            bytes: over(bytes, max.bytes, self.keep.bytes),
            entries: over(entries, max.entries, self.keep.entries),
        })
    }
}

impl TargetStore {
    /// Removes stale files and entries quarantined for a week; over the limits, also entries quarantined or idle for half
    /// an hour, down to the part of the limits that evictions leave. Only one process at a time evicts, and none waits
    /// for it.
    ///
    /// # Errors
    /// Listing or locking fails, or the store is read-only and it is no dry run.
    pub fn gc(&self, options: &GcOptions) -> Result<GcReport, StoreError> {
        if options.dry_run {
            if lock::is_held(self.store().fs(), &self.dir().join(GC_LOCK)) {
                return Ok(GcReport { busy: true, ..GcReport::default() });
            }
            return self.evict_excess(options, self.tracker().clock.now()).map(|(report, _)| report);
        }
        self.gc_once(options).map(|(report, _)| report)
    }

    /// Returns the first `count` entries that eviction would delete: now, if a limit is exceeded, otherwise if one were exceeded now.
    /// Later uses change the order. Without limits there are none. Reads only.
    ///
    /// # Errors
    /// A directory cannot be listed.
    pub fn eviction_preview(&self, count: usize) -> Result<EvictionPreview, StoreError> {
        let (store, now) = (self.store(), self.tracker().clock.now());
        let walked = InventoryWalk { store, dir: self.dir(), now, idle_for: IDLE_FOR, dry: true }.walk()?;
        let mut preview = EvictionPreview::default();
        walked.idle.iter().for_each(|entry| preview.idle.add(entry.bytes));
        let bounds = Bounds::of(&self.tracker().limits, &GcOptions::default());
        let excess = bounds.excess(&walked.usage);
        preview.is_over = excess.is_some();
        let Some(max) = bounds.max else { return Ok(preview) };
        // If nothing is exceeded, as much as an eviction at the limit deletes.
        let bytes = max.bytes.saturating_sub(bounds.keep.bytes);
        let goal = excess.unwrap_or(Amount { bytes, entries: 1 });
        let evicted = FileTotals::default();
        let eviction = Eviction { target: self, now, dry: true, evicted, failed: 0, failure: None };
        preview.next = eviction.first(goal, &walked.idle, count);
        Ok(preview)
    }

    /// Evicts once. Returns the report, and the known size afterwards: other processes may have put more meanwhile.
    fn gc_once(&self, options: &GcOptions) -> Result<(GcReport, Known), StoreError> {
        self.must_be_writable()?;
        let Some((_held, now)) = self.lock_gc()? else {
            return Ok((GcReport { busy: true, ..GcReport::default() }, Known::Busy));
        };
        let tracker = self.tracker();
        let before = tracker.size.flush(self.store().fs());
        let (report, oldest_in_use) = self.evict_excess(options, now)?;
        let known = self.correct(before, &report, oldest_in_use, now);
        let evicted = report.removed.entries;
        opkeep_trace::debug!("eviction ended", entries = evicted.files, bytes = evicted.bytes);
        let (entries, bytes) = match options.counts_as_cleared {
            true => (Counter::Cleared, Counter::BytesCleared),
            false => (Counter::Evictions, Counter::BytesEvicted),
        };
        tracker.counters.add(entries, evicted.files);
        tracker.counters.add(bytes, evicted.bytes);
        Ok((report, known))
    }

    /// Returns the lock of the process that evicts, and the time. `None` if another process holds the lock. Without
    /// locks, several processes may evict at once, and delete more than necessary.
    pub(crate) fn lock_gc(&self) -> Result<Option<(GcLock, SystemTime)>, StoreError> {
        let path = self.dir().join(GC_LOCK);
        let trouble = |source| StoreError::Io { action: "lock", path: path.clone(), source };
        let fs = self.store().fs();
        let shared = self.store().trust().is_shared();
        let lock = files::open_lock(fs, &path, shared).map_err(trouble)?;
        let lock = match fs.try_lock(lock, &path).map_err(trouble)? {
            TryLock::Held(lock) => GcLock::Held(lock),
            TryLock::Busy(_) => return Ok(None),
            TryLock::Unsupported(file) => GcLock::Unsupported(file),
        };
        let now = lock.file().and_then(|file| files::touch(fs, file, &path)).map_err(trouble)?;
        self.tracker().clock.set(now);
        Ok(Some((lock, self.tracker().clock.now())))
    }

    /// Evicts if the known size exceeds the limits, and prunes stale files once a day. Errors are ignored: opening a store or
    /// putting an entry succeeds without it.
    pub(crate) fn evict_if_due(&self, mut known: Known) {
        if self.tracker().pruning_due(known) && !self.tracker().eviction_due(known) {
            let _ = self.prune();
        }
        // Processes that put during the eviction found it running and did not evict, so the size is checked again.
        for _ in 0..ROUNDS {
            if !self.tracker().eviction_due(known) {
                break;
            }
            known = self.gc_once(&GcOptions::default()).map_or(Known::Busy, |(_, known)| known);
        }
    }

    /// Removes stale files, without looking at entries.
    fn prune(&self) -> Result<(), StoreError> {
        let Some((_held, now)) = self.lock_gc()? else { return Ok(()) };
        let (store, dry) = (self.store(), false);
        let walked = InventoryWalk { store, dir: self.dir(), now, idle_for: IDLE_FOR, dry }.walk_others()?;
        let mut removed = TargetUsage::default();
        Pruner { store, now, dry }.stale_files(walked.others, &mut removed);
        self.tracker().size.pruned(store.fs(), removed.quarantine.bytes, now);
        Ok(())
    }

    /// Removes what is due. Returns the report, and the oldest last use of the entries in use.
    fn evict_excess(
        &self,
        options: &GcOptions,
        now: SystemTime,
    ) -> Result<(GcReport, Option<SystemTime>), StoreError> {
        let (store, dry) = (self.store(), options.dry_run);
        let idle_for = options.older_than.map_or(IDLE_FOR, |age| age.min(IDLE_FOR));
        let walked = InventoryWalk { store, dir: self.dir(), now, idle_for, dry }.walk()?;
        let (before, mut removed) = (walked.usage, TargetUsage::default());
        let prune = Pruner { store, now, dry };
        let left = prune.stale_files(walked.others, &mut removed);

        let mut eviction =
            Eviction { target: self, now, dry, evicted: FileTotals::default(), failed: 0, failure: None };
        let mut candidates = walked.idle;
        if let Some(age) = options.older_than {
            // All others were idle for half an hour: a shorter `age` leaves none.
            eviction.older_than(age, &mut candidates);
        }
        removed.entries = eviction.evicted;
        let bounds = Bounds::of(&self.tracker().limits, options);
        if let Some(excess) = bounds.excess(&before.without(&removed)) {
            let damaged = left.into_iter().filter(|other| other.kind == Kind::Quarantined).collect();
            prune.quarantine(damaged, excess.bytes, &mut removed);
            // Computed from what remains: it may be within the limit, but not yet down to `bounds.keep`.
            let bytes_left = before.without(&removed).total().bytes;
            let bytes = bytes_left.saturating_sub(bounds.keep.bytes).min(excess.bytes);
            eviction.reach(Amount { bytes, entries: excess.entries }, &candidates);
            removed.entries = eviction.evicted;
        }
        let after = before.without(&removed);
        let still_over = bounds.excess(&after).is_some();
        let (failed, failure) = (eviction.failed, eviction.failure);
        let report = GcReport { busy: false, before, removed, after, still_over, failed, failure };
        Ok((report, walked.oldest_in_use))
    }

    /// Corrects the estimate. If the limit is still exceeded, the next eviction waits until an entry is idle.
    fn correct(
        &self,
        before: Known,
        report: &GcReport,
        oldest_in_use: Option<SystemTime>,
        now: SystemTime,
    ) -> Known {
        let tracker = self.tracker();
        let counted = SizeEstimate { bytes: report.after.total().bytes, entries: report.after.entries.files };
        let over = tracker.limits.are_exceeded_by(counted.bytes, counted.entries);
        let in_use_for = oldest_in_use.map_or(IDLE_FOR, |used| idle(used, now));
        let wait = IDLE_FOR.saturating_sub(in_use_for).clamp(RETRY_AFTER.0, RETRY_AFTER.1);
        let not_before = over.then(|| now + wait);
        tracker.size.correct(self.store().fs(), before, counted, not_before, now)
    }
}
