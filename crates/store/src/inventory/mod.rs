//! The content of a target's directory, by one look at each file: totals, and candidates for eviction.
//!
//! Files of the store are recognized by their names. Others with UTF-8 names are foreign: they are counted separately,
//! never changed, and count against no limit: the store must not delete them.

pub(crate) mod abandoned;
pub(crate) mod scan;

use std::collections::BTreeSet;
use std::ops::{AddAssign, SubAssign};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use opkeep_digest::Digest;

use crate::layout::{
    self, EVICT, LOCK, NEW, PUT, TARGET_DIRS, TARGET_FILES, UNSENT, is_quarantined, is_shard,
};
use crate::{Store, StoreError, mark};
use opkeep_fs::idle;
use opkeep_fs::{FileId, FileStat};

/// A last use further ahead of the clock than this is set to the current time.
const AHEAD: Duration = Duration::from_secs(600);

/// A number of files and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileTotals {
    /// The number of files.
    pub files: u64,
    /// The number of bytes of all these files.
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

/// The usage of a target's directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TargetUsage {
    /// Entries.
    pub entries: FileTotals,
    /// Files that are being written, and files of dead writers.
    pub temporary: FileTotals,
    /// Locks.
    pub locks: FileTotals,
    /// Quarantined entries, and the files with the reasons.
    pub quarantine: FileTotals,
    /// The number of quarantined entries, without the files with the reasons.
    pub quarantined_entries: u64,
    /// The files `size`, `stats`, `*.lock` and `STORE.TAG`, and the marks of entries that are to be sent to a remote cache.
    pub records: FileTotals,
    /// Files of other programs. They count against no limit and are never changed.
    pub foreign: FileTotals,
}

impl TargetUsage {
    /// Returns the totals of all files that count against the limit.
    pub fn total(&self) -> FileTotals {
        let mut total = self.entries;
        [self.temporary, self.locks, self.quarantine, self.records]
            .into_iter()
            .for_each(|part| total += part);
        total
    }

    /// Counts a file that is not an entry.
    pub(crate) fn count(&mut self, kind: Kind, name: &str, bytes: u64) {
        match kind {
            Kind::Temporary(_) => self.temporary.add(bytes),
            Kind::Lock => self.locks.add(bytes),
            Kind::Quarantined => {
                self.quarantine.add(bytes);
                self.quarantined_entries += u64::from(name.ends_with(".kern"));
            }
            Kind::Unsent => self.records.add(bytes),
        }
    }

    pub(crate) fn without(mut self, removed: &Self) -> Self {
        self.entries -= removed.entries;
        self.temporary -= removed.temporary;
        self.locks -= removed.locks;
        self.quarantine -= removed.quarantine;
        self.quarantined_entries = self.quarantined_entries.saturating_sub(removed.quarantined_entries);
        self.records -= removed.records;
        self
    }
}

/// An entry that was idle for long enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EvictionCandidate {
    pub(crate) key: Digest,
    pub(crate) inode: FileId,
    pub(crate) bytes: u64,
    pub(crate) used: SystemTime,
}

/// The kind of a file that is not an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A temporary file, with the ID of the process that created it.
    Temporary(u32),
    Lock,
    Quarantined,
    /// The mark of an entry that is to be sent to a remote cache.
    Unsent,
}

/// A file of the store that is not an entry.
#[derive(Clone, Debug)]
pub(crate) struct InventoryFile {
    pub(crate) kind: Kind,
    pub(crate) dir: PathBuf,
    pub(crate) name: String,
    pub(crate) seen: FileStat,
}

/// The result of a walk.
#[derive(Debug, Default)]
pub(crate) struct InventoryReport {
    pub(crate) usage: TargetUsage,
    /// Entries that were idle for long enough.
    pub(crate) idle: Vec<EvictionCandidate>,
    /// The oldest time of last use among the other entries.
    pub(crate) oldest_in_use: Option<SystemTime>,
    pub(crate) others: Vec<InventoryFile>,
}

/// A walk through the directory of a target, which lists the entries that were not used for `idle_for`.
pub(crate) struct InventoryWalk<'a> {
    pub(crate) store: &'a Store,
    pub(crate) dir: &'a Path,
    pub(crate) now: SystemTime,
    pub(crate) idle_for: Duration,
    /// Whether to write nothing at all.
    pub(crate) dry: bool,
}

impl InventoryWalk<'_> {
    /// Looks at all files.
    ///
    /// # Errors
    /// A directory cannot be listed. This is an error, since a wrong total would evict too much or too little.
    pub(crate) fn walk(&self) -> Result<InventoryReport, StoreError> {
        let (mut walked, shards) = self.walk_to_shards()?;
        for shard in shards {
            self.shard(shard, &mut walked)?;
        }
        Ok(walked)
    }

    /// Looks at all files that are not entries. There are few of them, for any number of entries.
    ///
    /// # Errors
    /// As [`walk`](Self::walk).
    pub(crate) fn walk_others(&self) -> Result<InventoryReport, StoreError> {
        Ok(self.walk_to_shards()?.0)
    }

    /// Looks at all files that are not entries, and returns the numbers of the existing directories of entries, in order.
    fn walk_to_shards(&self) -> Result<(InventoryReport, BTreeSet<u8>), StoreError> {
        let (mut walked, mut shards) = (InventoryReport::default(), BTreeSet::new());
        // Directories being created are here, beside their final names. No other file here is the target's.
        for dir in [self.store.root(), &self.store.version_dir()] {
            let _ = self.each(dir, |name, seen| {
                let mut usage = TargetUsage::default();
                walked.others.extend(classify(dir, name, &seen, &[NEW], &mut usage));
                walked.usage.temporary += usage.temporary;
            });
        }
        self.each(self.dir, |name, seen| match name {
            name if TARGET_DIRS.contains(&name) && seen.is_dir() => {}
            name if TARGET_FILES.contains(&name) && seen.is_file() => {
                walked.usage.records.add(seen.state.len)
            }
            name => walked.others.extend(classify(self.dir, name, &seen, &[NEW, LOCK], &mut walked.usage)),
        })?;
        self.others("tmp", &[PUT, EVICT], &mut walked)?;
        self.others("locks", &[LOCK], &mut walked)?;
        self.others("quarantine", &[NEW], &mut walked)?;
        self.others(UNSENT, &[], &mut walked)?;
        let entries = self.dir.join("entries");
        self.each(&entries, |name, seen| match u8::from_str_radix(name, 16) {
            Ok(shard) if seen.is_dir() && is_shard(name) => _ = shards.insert(shard),
            _ => walked.others.extend(classify(&entries, name, &seen, &[NEW], &mut walked.usage)),
        })?;
        Ok((walked, shards))
    }

    fn others(&self, name: &str, prefixes: &[&str], walked: &mut InventoryReport) -> Result<(), StoreError> {
        let dir = self.dir.join(name);
        self.each(&dir, |name, seen| {
            walked.others.extend(classify(&dir, name, &seen, prefixes, &mut walked.usage));
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
        // Such entries would never be idle. With the current time, they age like the others.
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

    /// Calls `visit` with each UTF-8 name of a directory, and its own state: follows no link. A missing or untrusted
    /// directory counts as empty.
    fn each(&self, dir: &Path, mut visit: impl FnMut(&str, FileStat)) -> Result<(), StoreError> {
        let directory = match self.store.directory(dir, false) {
            Ok(Some(directory)) => directory,
            Err(error @ StoreError::Io { .. }) => return Err(error),
            _ => return Ok(()),
        };
        let trouble = |source| StoreError::Io { action: "list", path: dir.to_owned(), source };
        for name in directory.list().map_err(trouble)?.utf8() {
            // A file that was removed meanwhile is skipped.
            if let Ok(seen) = directory.look(name) {
                visit(name, seen);
            }
        }
        Ok(())
    }
}

/// Classifies a file that is not an entry by its name, and adds it to `usage`. Returns `None` for a foreign file.
pub(crate) fn classify(
    dir: &Path,
    name: &str,
    seen: &FileStat,
    prefixes: &[&str],
    usage: &mut TargetUsage,
) -> Option<InventoryFile> {
    let parent = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let kind = match layout::creator(name, prefixes) {
        Some(process) if seen.is_file() || seen.is_dir() && name.starts_with(NEW) => Kind::Temporary(process),
        _ if seen.is_file() && parent == "locks" && name.parse::<Digest>().is_ok() => Kind::Lock,
        _ if seen.is_file() && parent == UNSENT && mark::parse(name).is_some() => Kind::Unsent,
        _ if seen.is_file() && parent == "quarantine" && is_quarantined(name) => Kind::Quarantined,
        _ => {
            usage.foreign.add(seen.state.len);
            return None;
        }
    };
    usage.count(kind, name, seen.state.len);
    Some(InventoryFile { kind, dir: dir.to_owned(), name: name.to_owned(), seen: *seen })
}
