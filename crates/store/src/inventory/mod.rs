//! What is in a target's directory, by one look at each file: how much of everything, and what might go.
//!
//! Files of the store are recognized by their names. Anything else is foreign: it is counted by itself,
//! never counts against a limit, because nothing may be done about it, and is never touched.

pub(crate) mod abandoned;
pub(crate) mod scan;

use std::num::NonZeroUsize;
use std::ops::{AddAssign, SubAssign};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use opkeep_digest::Digest;

use crate::layout::{self, EVICT, LOCK, NEW, PUT, TARGET_DIRS, TARGET_FILES, is_quarantined, is_shard};
use crate::{Store, StoreError};
use opkeep_fs::idle;
use opkeep_fs::{FileId, FileStat};

/// So many files, of so many bytes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileTotals {
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl FileTotals {
    pub(crate) fn add(&mut self, bytes: u64) {
        *self += Self { files: 1, bytes };
    }
}

impl AddAssign for FileTotals {
    fn add_assign(&mut self, other: Self) {
        self.files = self.files.saturating_add(other.files);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

impl SubAssign for FileTotals {
    fn sub_assign(&mut self, other: Self) {
        self.files = self.files.saturating_sub(other.files);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }
}

/// What a target's directory holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TargetUsage {
    /// Entries.
    pub entries: FileTotals,
    /// Files that are being written, or whose writer died.
    pub temporary: FileTotals,
    /// Locks.
    pub locks: FileTotals,
    /// Damaged entries that were quarantined, and the reasons.
    pub quarantine: FileTotals,
    /// Statistics and the like.
    pub records: FileTotals,
    /// What the store did not make. It counts against no limit and is left alone.
    pub foreign: FileTotals,
}

impl TargetUsage {
    /// Everything that counts against the limit.
    pub fn total(&self) -> FileTotals {
        let mut total = self.entries;
        [self.temporary, self.locks, self.quarantine, self.records]
            .into_iter()
            .for_each(|part| total += part);
        total
    }

    pub(crate) fn without(mut self, removed: &Self) -> Self {
        self.entries -= removed.entries;
        self.temporary -= removed.temporary;
        self.locks -= removed.locks;
        self.quarantine -= removed.quarantine;
        self
    }
}

/// An entry that was idle for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EvictionCandidate {
    pub(crate) key: Digest,
    pub(crate) inode: FileId,
    pub(crate) bytes: u64,
    pub(crate) used: SystemTime,
}

/// What a file that is no entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Made by this process.
    Temporary(u32),
    Lock,
    Quarantined,
}

/// A file that is no entry.
#[derive(Clone, Debug)]
pub(crate) struct InventoryFile {
    pub(crate) kind: Kind,
    pub(crate) dir: PathBuf,
    pub(crate) name: String,
    pub(crate) seen: FileStat,
}

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct InventoryReport {
    pub(crate) usage: TargetUsage,
    /// Entries that were idle for long enough.
    pub(crate) idle: Vec<EvictionCandidate>,
    /// When the longest unused of the others was last used.
    pub(crate) oldest_in_use: Option<SystemTime>,
    pub(crate) others: Vec<InventoryFile>,
}

/// The number of entries from which several threads look at them.
const ENTRIES_FOR_THREADS: u64 = 1024;
/// A build that evicts needs the other cores for its compilers.
const MAX_THREADS: usize = 2;

/// The number of threads for work on `entries` entries. No two work in the same directory, so they rarely wait for each
/// other.
pub(crate) fn threads(entries: u64) -> NonZeroUsize {
    let available = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = if entries < ENTRIES_FOR_THREADS { 1 } else { available().min(MAX_THREADS) };
    NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN)
}

/// How far ahead of the clock an entry's last use may be before it is taken for a mistake.
const AHEAD: Duration = Duration::from_secs(600);

/// A walk through the directory of a target. Entries that were not used for `idle_for` are listed.
pub(crate) struct Inventory<'a> {
    pub(crate) store: &'a Store,
    pub(crate) dir: &'a Path,
    pub(crate) now: SystemTime,
    pub(crate) idle_for: Duration,
    /// Nothing at all may be written.
    pub(crate) dry: bool,
}

impl Inventory<'_> {
    /// Looks at everything.
    ///
    /// # Errors
    /// A directory that cannot be listed: a wrong count would do harm.
    pub(crate) fn walk(&self) -> Result<InventoryReport, StoreError> {
        let mut walked = self.walk_others()?;
        // Keys are random: the first directory says about how many entries there are.
        self.shard(0, &mut walked)?;
        let threads = threads(256 * walked.usage.entries.files);
        let walk = |shard: usize| {
            let mut walked = InventoryReport::default();
            self.shard(shard as u8 + 1, &mut walked).map(|()| walked)
        };
        for shard in opkeep_fs::map(255, threads, || false, walk).results {
            let InventoryReport { usage, idle, oldest_in_use, others: _ } = shard?;
            walked.usage.entries += usage.entries;
            walked.usage.foreign += usage.foreign;
            walked.idle.extend(idle);
            walked.oldest_in_use = walked.oldest_in_use.into_iter().chain(oldest_in_use).min();
        }
        Ok(walked)
    }

    /// Looks at everything that is no entry: few files, however many entries there are.
    ///
    /// # Errors
    /// As [`walk`](Self::walk).
    pub(crate) fn walk_others(&self) -> Result<InventoryReport, StoreError> {
        let mut walked = InventoryReport::default();
        // Where directories are made there may be some that never got their name. Nothing else here is the target's.
        for dir in [self.store.root(), &self.store.version_dir()] {
            let _ = self.each(dir, |name, seen| {
                let mut usage = TargetUsage::default();
                walked.others.extend(other(dir, name, &seen, &[NEW], &mut usage));
                walked.usage.temporary += usage.temporary;
            });
        }
        self.each(self.dir, |name, seen| match name {
            name if TARGET_DIRS.contains(&name) && seen.is_dir() => {}
            name if TARGET_FILES.contains(&name) && seen.is_file() => {
                walked.usage.records.add(seen.state.len)
            }
            name => walked.others.extend(other(self.dir, name, &seen, &[NEW, LOCK], &mut walked.usage)),
        })?;
        self.others("tmp", &[PUT, EVICT], &mut walked)?;
        self.others("locks", &[LOCK], &mut walked)?;
        self.others("quarantine", &[NEW], &mut walked)?;
        let entries = self.dir.join("entries");
        self.each(&entries, |name, seen| {
            if !(seen.is_dir() && is_shard(name)) {
                walked.others.extend(other(&entries, name, &seen, &[NEW], &mut walked.usage));
            }
        })?;
        Ok(walked)
    }

    fn others(&self, name: &str, prefixes: &[&str], walked: &mut InventoryReport) -> Result<(), StoreError> {
        let dir = self.dir.join(name);
        self.each(&dir, |name, seen| {
            walked.others.extend(other(&dir, name, &seen, prefixes, &mut walked.usage));
        })
    }

    fn shard(&self, shard: u8, walked: &mut InventoryReport) -> Result<(), StoreError> {
        let dir = &self.dir.join(format!("entries/{shard:02x}"));
        let mut ahead = Vec::new();
        self.each(dir, |name, seen| {
            let key = layout::entry_key(name);
            let Some(key) = key.filter(|key| key.as_bytes()[0] == shard && seen.is_file()) else {
                return walked.usage.foreign.add(seen.state.len);
            };
            walked.usage.entries.add(seen.state.len);
            let used = seen.modified();
            if idle(used, self.now) >= self.idle_for {
                return walked.idle.push(EvictionCandidate {
                    key,
                    inode: seen.state.id,
                    bytes: seen.state.len,
                    used,
                });
            }
            if idle(self.now, used) > AHEAD {
                ahead.push(name.to_owned());
            }
            walked.oldest_in_use = Some(walked.oldest_in_use.map_or(used, |oldest| oldest.min(used)));
        })?;
        // They would be in use for ever. From now on they age like the others.
        if !self.dry
            && !ahead.is_empty()
            && let Ok(Some(directory)) = self.store.directory(dir, false)
        {
            for name in ahead {
                let _ = self.store.fs().touch_in(&directory, &name);
            }
        }
        Ok(())
    }

    /// Looks at everything in a directory, and follows nothing. One that is missing, or not trusted, is empty.
    fn each(&self, dir: &Path, mut tell: impl FnMut(&str, FileStat)) -> Result<(), StoreError> {
        let directory = match self.store.directory(dir, false) {
            Ok(Some(directory)) => directory,
            Err(error @ StoreError::Io { .. }) => return Err(error),
            _ => return Ok(()),
        };
        let trouble = |source| StoreError::Io { action: "list", path: dir.to_owned(), source };
        for name in directory.list().map_err(trouble)?.utf8() {
            // What is gone by now is missing.
            if let Ok(seen) = directory.look(name) {
                tell(name, seen);
            }
        }
        Ok(())
    }
}

/// What a file that is no entry is, by its name; the usage is counted by the way.
pub(crate) fn other(
    dir: &Path,
    name: &str,
    seen: &FileStat,
    prefixes: &[&str],
    usage: &mut TargetUsage,
) -> Option<InventoryFile> {
    let below = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let kind = match layout::creator(name, prefixes) {
        Some(process) if seen.is_file() || seen.is_dir() && name.starts_with(NEW) => Kind::Temporary(process),
        _ if seen.is_file() && below == "locks" && name.parse::<Digest>().is_ok() => Kind::Lock,
        _ if seen.is_file() && below == "quarantine" && is_quarantined(name) => Kind::Quarantined,
        _ => {
            usage.foreign.add(seen.state.len);
            return None;
        }
    };
    match kind {
        Kind::Temporary(_) => usage.temporary.add(seen.state.len),
        Kind::Lock => usage.locks.add(seen.state.len),
        Kind::Quarantined => usage.quarantine.add(seen.state.len),
    }
    Some(InventoryFile { kind, dir: dir.to_owned(), name: name.to_owned(), seen: *seen })
}
