//! The estimated size of a target's directory: a total on the disk, to which each process adds its puts from time to time.
//! No process counts files for it, so a put costs the same for any number of entries. A killed process loses at most
//! [`BYTES`] or [`PUTS`] of its puts; the process that walks the directory to evict corrects the total.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use opkeep_fs::{ForkMark, RootedFs, unix};

use crate::files;
use crate::layout;
use crate::number_file::{LIMIT, NumberFile, UpdateOutcome};

/// The number of bytes of growth after which a process adds its growth to the total.
const BYTES: i64 = 16 << 20;
/// The number of puts after which a process adds its growth to the total.
const PUTS: u64 = 64;
/// The longest that [`Totals::not_before`] may delay an eviction, whatever the clocks do.
const LONGEST_REST: Duration = Duration::from_secs(600);

/// The interval at which stale files are pruned within the limit.
const PRUNE_INTERVAL: Duration = Duration::from_secs(24 * 3600);

const SIZE: NumberFile<4> = NumberFile {
    title: "opkeep size 2",
    earlier_title: "opkeep size 1",
    names: ["bytes", "entries", "not-before", "swept"],
};

/// The estimated size of a target's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeEstimate {
    /// The number of bytes of all files that count against the limit.
    pub bytes: u64,
    /// The number of entries.
    pub entries: u64,
}

/// The numbers in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    /// The earliest time of the next eviction, in Unix seconds: before it, all entries are in use.
    not_before: u64,
    /// The time of the last pruning of stale files, in Unix seconds.
    pruned: u64,
}

impl Totals {
    fn of([bytes, entries, not_before, pruned]: [u64; 4]) -> Self {
        Self { bytes, entries, not_before, pruned }
    }

    /// Whether stale files are due to be pruned.
    pub(crate) fn allow_pruning(&self, now: SystemTime) -> bool {
        unix(now).as_secs().abs_diff(self.pruned) >= PRUNE_INTERVAL.as_secs()
    }

    /// Whether an eviction may run at `now`.
    pub(crate) fn allow_eviction(&self, now: SystemTime) -> bool {
        let now = unix(now).as_secs();
        now >= self.not_before || self.not_before - now > LONGEST_REST.as_secs()
    }
}

/// The known size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Totals(Totals),
    /// The size was not counted yet, or the file is corrupt.
    Unknown,
    /// The file could not be read or written now.
    Busy,
}

/// The total in the file, and the growth that this process has not added yet. A forked child begins with no growth: its
/// parent adds its own.
#[derive(Debug)]
pub(crate) struct SizeFile {
    path: PathBuf,
    shared: bool,
    growth: Growth,
    mark: ForkMark,
    unknown: AtomicBool,
}

#[derive(Debug, Default)]
struct Growth {
    bytes: AtomicI64,
    entries: AtomicI64,
    puts: AtomicU64,
}

impl SizeFile {
    pub(crate) fn new(dir: &Path, shared: bool) -> Self {
        Self {
            path: dir.join(layout::SIZE),
            shared,
            growth: Growth::default(),
            mark: ForkMark::new(),
            unknown: AtomicBool::new(false),
        }
    }

    /// Reads the total, and the time by the file system's clock, for which the file is touched. If `fresh`, a missing
    /// total counts as zero.
    pub(crate) fn open(&self, fs: &RootedFs, fresh: bool) -> io::Result<(Known, SystemTime)> {
        let file = files::open_numbers(fs, &self.path, self.shared)?;
        let now = files::touch(fs, &file, &self.path)?;
        let found = SIZE.decode(&fs.read_start(&file, &self.path, LIMIT)?);
        drop(file);
        let known = match found {
            Some(found) => Known::Totals(Totals::of(found.known)),
            None if fresh => self.change(fs, |old| old.or(Some([0, 0, 0, unix(now).as_secs()]))),
            None => Known::Unknown,
        };
        self.unknown.store(known == Known::Unknown, Ordering::Relaxed);
        Ok((known, now))
    }

    /// Adds a file of `bytes` bytes that replaces one of `before` bytes. Returns true if a [`flush`](Self::flush) is
    /// due.
    pub(crate) fn put(&self, bytes: u64, before: Option<u64>) -> bool {
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let (growth, more) = (self.growth(), signed(bytes) - before.map_or(0, signed));
        let grown = growth.bytes.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        growth.entries.fetch_add(i64::from(before.is_none()), Ordering::Relaxed);
        let puts = growth.puts.fetch_add(1, Ordering::Relaxed) + 1;
        grown >= BYTES || puts >= PUTS || self.unknown.load(Ordering::Relaxed)
    }

    /// Adds the growth of this process to the total. If that fails, the growth is kept for the next time.
    pub(crate) fn flush(&self, fs: &RootedFs) -> Known {
        let growth = self.growth();
        let (bytes, entries) =
            (growth.bytes.swap(0, Ordering::Relaxed), growth.entries.swap(0, Ordering::Relaxed));
        growth.puts.store(0, Ordering::Relaxed);
        // If counting fails, it is not repeated at each put.
        self.unknown.store(false, Ordering::Relaxed);
        let known = self.change(fs, |old| {
            let [old_bytes, old_entries, not_before, pruned] = old?;
            let (bytes, entries) =
                (old_bytes.saturating_add_signed(bytes), old_entries.saturating_add_signed(entries));
            Some([bytes, entries, not_before, pruned])
        });
        if known == Known::Busy {
            growth.bytes.fetch_add(bytes, Ordering::Relaxed);
            growth.entries.fetch_add(entries, Ordering::Relaxed);
        }
        known
    }

    /// Whether there is growth to flush.
    pub(crate) fn is_pending(&self) -> bool {
        let growth = self.growth();
        growth.bytes.load(Ordering::Relaxed) != 0 || growth.entries.load(Ordering::Relaxed) != 0
    }

    fn growth(&self) -> &Growth {
        if self.mark.is_first_in_child() {
            let Growth { bytes, entries, puts } = &self.growth;
            bytes.store(0, Ordering::Relaxed);
            entries.store(0, Ordering::Relaxed);
            puts.store(0, Ordering::Relaxed);
        }
        &self.growth
    }

    /// Sets the total to `counted` as of `now`, plus the growth that other processes added since `before`.
    pub(crate) fn correct(
        &self,
        fs: &RootedFs,
        before: Known,
        counted: SizeEstimate,
        not_before: Option<SystemTime>,
        now: SystemTime,
    ) -> Known {
        if matches!(before, Known::Busy) {
            // The growth of this process is in the count and is still to be added.
            return Known::Busy;
        }
        let not_before = not_before.map_or(0, |time| unix(time).as_secs());
        self.unknown.store(false, Ordering::Relaxed);
        self.change(fs, |old| {
            let (bytes, entries) = match (old, before) {
                (Some([bytes, entries, ..]), Known::Totals(before)) => {
                    (bytes.saturating_sub(before.bytes), entries.saturating_sub(before.entries))
                }
                _ => (0, 0),
            };
            let bytes = counted.bytes.saturating_add(bytes);
            let entries = counted.entries.saturating_add(entries);
            Some([bytes, entries, not_before, unix(now).as_secs()])
        })
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file is corrupt.
    pub(crate) fn is_corrupt(&self, fs: &RootedFs) -> io::Result<bool> {
        SIZE.is_corrupt(fs, &self.path)
    }

    /// Records a pruning of stale files, which removed `bytes` bytes that counted against the limit.
    pub(crate) fn pruned(&self, fs: &RootedFs, bytes: u64, now: SystemTime) {
        self.change(fs, |old| {
            let [total, entries, not_before, _] = old?;
            Some([total.saturating_sub(bytes), entries, not_before, unix(now).as_secs()])
        });
    }

    /// Subtracts an entry that was quarantined. Its bytes still count against the limit.
    pub(crate) fn entry_quarantined(&self) {
        self.growth().entries.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the total with the growth of this process, if the total is known.
    pub(crate) fn estimate(&self, fs: &RootedFs) -> Option<SizeEstimate> {
        let [bytes, entries, ..] = SIZE.read(fs, &self.path)?;
        let growth = self.growth();
        Some(SizeEstimate {
            bytes: bytes.saturating_add_signed(growth.bytes.load(Ordering::Relaxed)),
            entries: entries.saturating_add_signed(growth.entries.load(Ordering::Relaxed)),
        })
    }

    fn change(&self, fs: &RootedFs, change: impl FnOnce(Option<[u64; 4]>) -> Option<[u64; 4]>) -> Known {
        match SIZE.update(fs, &self.path, self.shared, change) {
            Ok(UpdateOutcome::Written(now)) => Known::Totals(Totals::of(now)),
            Ok(UpdateOutcome::Unchanged) => Known::Unknown,
            Ok(UpdateOutcome::Busy) | Err(_) => Known::Busy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puts_are_added_to_the_total() {
        let directory = tempfile::tempdir().unwrap();
        let fs = RootedFs::default();
        let size = SizeFile::new(directory.path(), false);
        assert_eq!(size.open(&fs, false).unwrap().0, Known::Unknown);
        assert!(size.put(10, None), "no process has counted yet");
        assert_eq!(size.flush(&fs), Known::Unknown);

        let other = SizeFile::new(directory.path(), false);
        assert!(matches!(other.open(&fs, true).unwrap().0, Known::Totals(totals) if totals.bytes == 0));
        assert!(matches!(size.open(&fs, true).unwrap().0, Known::Totals(_)));
        for _ in 0..63 {
            assert!(!size.put(10, None));
        }
        assert!(size.put(10, Some(4)), "the 64th");
        assert!(!other.put(BYTES as u64 - 1, None));
        assert!(other.put(1, Some(0)), "16 MiB");
        assert_eq!(size.estimate(&fs), Some(SizeEstimate { bytes: 636, entries: 63 }));
        size.flush(&fs);
        assert!(!size.is_pending() && other.is_pending());
        let Known::Totals(totals) = other.flush(&fs) else { panic!("it is known") };
        assert_eq!((totals.bytes, totals.entries), (636 + BYTES as u64, 64));
        assert!(!size.put(4, Some(10)), "less than before");
        assert_eq!(size.estimate(&fs).map(|now| now.bytes), Some(630 + BYTES as u64));
    }

    #[test]
    fn a_recount_corrects_the_total_and_keeps_later_puts() {
        let directory = tempfile::tempdir().unwrap();
        let fs = RootedFs::default();
        let (size, other) = (SizeFile::new(directory.path(), false), SizeFile::new(directory.path(), false));
        size.open(&fs, true).unwrap();
        size.put(1000, None);
        let before = size.flush(&fs);
        other.put(7, None);
        other.flush(&fs);
        let later = SystemTime::UNIX_EPOCH + Duration::from_secs(5000);
        size.correct(&fs, before, SizeEstimate { bytes: 400, entries: 3 }, Some(later), later);
        assert_eq!(size.estimate(&fs), Some(SizeEstimate { bytes: 407, entries: 4 }));

        let Known::Totals(totals) = size.flush(&fs) else { panic!("it is known") };
        assert!(!totals.allow_eviction(later - Duration::from_secs(1)));
        assert!(totals.allow_eviction(later));
        assert!(
            totals.allow_eviction(later - Duration::from_secs(601)),
            "a wrong clock delays no eviction for long"
        );
    }

    /// Growth that could not be added is added the next time.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "this test holds the file's lock")]
    fn nothing_is_lost_while_another_holds_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let fs = RootedFs::default();
        let size = SizeFile::new(directory.path(), false);
        size.open(&fs, true).unwrap();
        let held = std::fs::File::open(directory.path().join(layout::NUMBERS_LOCK)).unwrap();
        held.lock().unwrap();
        size.put(10, None);
        assert_eq!(size.flush(&fs), Known::Busy);
        drop(held);
        assert!(
            matches!(size.flush(&fs), Known::Totals(totals) if (totals.bytes, totals.entries) == (10, 1))
        );
    }
}
