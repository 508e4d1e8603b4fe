//! The removal of stale files of dead processes, and of old quarantined entries.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, test_kill_process};

use crate::inventory::{InventoryFile, Kind, TargetUsage, abandoned};
use crate::{Store, StoreError, layout, lock, mark};
use opkeep_fs::FileStat;
use opkeep_fs::idle;

/// The age from which a temporary file, a lock file, or the mark of a missing entry may be stale: no write takes this long, and a
/// held lock is recognized.
const STALE_AFTER: Duration = Duration::from_secs(3600);
/// The age from which a temporary file is stale even if a process with its number runs, since the number was reused.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 3600);
/// The time for which quarantined entries are kept, for inspection.
const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);
/// The time for which quarantined entries are kept even if the limit is exceeded.
const KEPT_OVER_LIMIT: Duration = Duration::from_secs(1800);

/// The time after which an entry that could not be sent to a remote cache is not sent any more.
const UNSENT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

/// A remover of files that are not entries.
pub(crate) struct Pruner<'a> {
    pub(crate) store: &'a Store,
    pub(crate) now: SystemTime,
    pub(crate) dry: bool,
}

impl Pruner<'_> {
    /// Removes stale files, and counts them in `removed`. Returns the files that are not stale.
    pub(crate) fn stale_files(
        &self,
        others: Vec<InventoryFile>,
        removed: &mut TargetUsage,
    ) -> Vec<InventoryFile> {
        let mut left = Vec::new();
        for other in others {
            if !self.is_stale(&other) || !self.remove(&other, removed) {
                left.push(other);
            }
        }
        left
    }

    /// Whether no running process uses the file, or a quarantined entry or a mark is old, or a mark has no entry.
    pub(crate) fn is_stale(&self, other: &InventoryFile) -> bool {
        match other.kind {
            Kind::Temporary(process) => {
                let idle = idle(other.seen.modified(), self.now);
                idle >= STALE_AFTER && (idle >= ABANDONED_AFTER || !is_alive(process))
            }
            Kind::Lock => idle(other.seen.modified(), self.now) >= STALE_AFTER,
            Kind::Quarantined => self.age(other) >= KEPT_FOR,
            Kind::Unsent => {
                let idle = idle(other.seen.modified(), self.now);
                idle >= UNSENT_FOR || idle >= STALE_AFTER && self.has_no_entry(other)
            }
        }
    }

    /// Whether the entry of a mark is missing: it was evicted, or never written.
    fn has_no_entry(&self, mark: &InventoryFile) -> bool {
        let key = mark::parse(&mark.name).map(|mark| mark.key);
        let path = mark.dir.parent().zip(key).map(|(target, key)| target.join(layout::entry_path(&key)));
        path.is_some_and(|path| {
            self.store.fs().look(&path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
        })
    }

    /// Removes quarantined entries, oldest first, until `bytes` bytes are freed. An entry and its reason are removed together.
    pub(crate) fn quarantine(&self, others: Vec<InventoryFile>, bytes: u64, removed: &mut TargetUsage) {
        let mut pairs: BTreeMap<String, Vec<InventoryFile>> = BTreeMap::new();
        for other in others.into_iter().filter(|other| other.kind == Kind::Quarantined) {
            let stem = other.name.split('.').next().unwrap_or_default().to_owned();
            pairs.entry(stem).or_default().push(other);
        }
        let mut pairs: Vec<Vec<InventoryFile>> = pairs.into_values().collect();
        pairs.retain(|pair| pair.iter().all(|other| self.age(other) >= KEPT_OVER_LIMIT));
        opkeep_order::by_key(&mut pairs, |pair| pair.iter().map(|other| other.seen.changed()).min());
        let before = removed.quarantine.bytes;
        for pair in pairs {
            if removed.quarantine.bytes - before >= bytes {
                break;
            }
            for other in &pair {
                self.remove(other, removed);
            }
        }
    }

    /// Returns the time since the quarantine: the move set the time of the last change, not that of the last write.
    fn age(&self, other: &InventoryFile) -> Duration {
        idle(other.seen.changed(), self.now)
    }

    /// Removes a file, and counts it in `removed`. Returns false if the file changed meanwhile, or could not be
    /// removed.
    pub(crate) fn remove(&self, other: &InventoryFile, removed: &mut TargetUsage) -> bool {
        let path = || other.dir.join(&other.name);
        let is_held = || other.kind == Kind::Lock && lock::is_held(self.store.fs(), &path());
        let removed_it = if self.dry { !is_held() } else { self.really_remove(other).unwrap_or(false) };
        if !removed_it {
            return false;
        }
        removed.count(other.kind, &other.name, other.seen.state.len);
        true
    }

    /// Removes a file, if it did not change meanwhile.
    fn really_remove(&self, other: &InventoryFile) -> Result<bool, StoreError> {
        let (fs, path) = (self.store.fs(), other.dir.join(&other.name));
        let trouble = |source| StoreError::Io { action: "remove", path: path.clone(), source };
        if other.kind == Kind::Lock {
            return lock::remove_if_free(fs, &path).map_err(trouble);
        }
        let Some(directory) = self.store.directory(&other.dir, false)? else { return Ok(false) };
        let seen = directory.look(&other.name).map_err(trouble)?;
        if (seen.state.id, seen.modified()) != (other.seen.state.id, other.seen.modified()) {
            return Ok(false);
        }
        if seen.is_dir() {
            let old = |seen: &FileStat| idle(seen.modified(), self.now) >= STALE_AFTER;
            return abandoned::remove(self.store, &directory, &other.name, &path, &old);
        }
        directory.remove(&other.name).map(|()| true).map_err(trouble)
    }
}

/// Whether a process with this number runs on this machine. Files of another machine cannot be checked so, hence
/// [`STALE_AFTER`].
fn is_alive(process: u32) -> bool {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}
