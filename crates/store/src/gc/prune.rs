//! Stale files of dead processes, and old quarantined entries.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, test_kill_process};

use crate::inventory::{InventoryFile, Kind, TargetUsage, abandoned};
use crate::{Store, StoreError, lock};
use opkeep_fs::FileStat;
use opkeep_fs::idle;

/// No write takes this long; locks are held for longer, but then another process holds them.
const STRAY_AFTER: Duration = Duration::from_secs(3600);
/// No process that lives makes a file for this long: its number was given to another since.
const NOBODYS_AFTER: Duration = Duration::from_secs(24 * 3600);
/// How long damage is kept for people to look at.
const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long it is kept although there is no room.
const KEPT_WITHOUT_ROOM: Duration = Duration::from_secs(1800);

/// Removes files that are no entries.
pub(crate) struct Pruner<'a> {
    pub(crate) store: &'a Store,
    pub(crate) now: SystemTime,
    pub(crate) dry: bool,
}

impl Pruner<'_> {
    /// Removes stale files, and counts them in `removed`. Returns what is left.
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

    /// Whether it is stale: no running process uses it.
    pub(crate) fn is_stale(&self, other: &InventoryFile) -> bool {
        match other.kind {
            Kind::Temporary(process) => {
                let idle = idle(other.seen.modified(), self.now);
                idle >= STRAY_AFTER && (idle >= NOBODYS_AFTER || !is_alive(process))
            }
            Kind::Lock => idle(other.seen.modified(), self.now) >= STRAY_AFTER,
            Kind::Quarantined => self.age(other) >= KEPT_FOR,
        }
    }

    /// Removes damage that was quarantined, oldest first, until `bytes` bytes are gained. An entry and its reason go
    /// together.
    pub(crate) fn quarantine(&self, others: Vec<InventoryFile>, bytes: u64, removed: &mut TargetUsage) {
        let mut pairs: BTreeMap<String, Vec<InventoryFile>> = BTreeMap::new();
        for other in others.into_iter().filter(|other| other.kind == Kind::Quarantined) {
            let stem = other.name.split('.').next().unwrap_or_default().to_owned();
            pairs.entry(stem).or_default().push(other);
        }
        let mut pairs: Vec<Vec<InventoryFile>> = pairs.into_values().collect();
        pairs.retain(|pair| pair.iter().all(|other| self.age(other) >= KEPT_WITHOUT_ROOM));
        pairs.sort_by_key(|pair| pair.iter().map(|other| other.seen.changed()).min());
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

    /// How long ago it was quarantined: the move was the last change, while the file itself is as old as the entry was.
    fn age(&self, other: &InventoryFile) -> Duration {
        idle(other.seen.changed(), self.now)
    }

    /// Removes it, and counts it in `removed`. False if it is not what was seen any more, or could not be removed.
    pub(crate) fn remove(&self, other: &InventoryFile, removed: &mut TargetUsage) -> bool {
        let path = || other.dir.join(&other.name);
        let is_held = || other.kind == Kind::Lock && lock::is_held(self.store.fs(), &path());
        let removed_it = if self.dry { !is_held() } else { self.really_remove(other).unwrap_or(false) };
        if !removed_it {
            return false;
        }
        let amount = match other.kind {
            Kind::Temporary(_) => &mut removed.temporary,
            Kind::Lock => &mut removed.locks,
            Kind::Quarantined => &mut removed.quarantine,
        };
        amount.add(other.seen.state.len);
        true
    }

    /// Removes it, if it is still what was seen.
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
            let old = |seen: &FileStat| idle(seen.modified(), self.now) >= STRAY_AFTER;
            return abandoned::remove(self.store, &directory, &other.name, &path, &old);
        }
        directory.remove(&other.name).map(|()| true).map_err(trouble)
    }
}

/// Whether a process of this number runs on this machine. One on another machine says nothing; hence the hour.
fn is_alive(process: u32) -> bool {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}
