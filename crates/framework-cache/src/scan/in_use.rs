//! The check whether a damaged item is in use, and so may be unfinished.

use std::ffi::OsStr;
use std::fs::File;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Flock, FlockType, fcntl_getlk};

use crate::scan::item::{Item, ItemState};
use opkeep_cann_meta::file_names::FileSet;
use opkeep_fs::OpenFiles;
use opkeep_fs::{Dir, FileState};
use opkeep_kernel_meta::InUse;

/// The time after a write during which a file may be unfinished.
pub const YOUNG: Duration = Duration::from_secs(30 * 60);

/// Finds items that other processes use. The list of open files is read once, and only if an item is damaged.
#[derive(Debug, Default)]
pub(crate) struct InUseCheck {
    open: Option<OpenFiles>,
}

impl InUseCheck {
    /// Sets `in_use` of the damaged items in `dir` that are in use.
    pub(crate) fn mark(&mut self, dir: &Dir, items: &mut [Item], now: SystemTime) {
        for item in items {
            if matches!(item.state, ItemState::Damaged(_) | ItemState::Orphan(_)) {
                let open = self.open.get_or_insert_with(OpenFiles::of_others);
                item.in_use = use_of(dir, item, open, now);
            }
        }
    }
}

/// Returns the use of `item`: its lock is held, a file is open, or a file was recently written.
fn use_of(dir: &Dir, item: &Item, open: &OpenFiles, now: SystemTime) -> Option<InUse> {
    let files = || item.judged.iter().filter_map(|(_, state)| state.as_ref());
    // The holder of a lock has the lock file open, so the lock is checked before open files.
    if item.members.has(FileSet::LOCK.with(FileSet::PRE_LOCK)) && is_locked(dir, item) {
        return Some(InUse::Locked);
    }
    if let Some(process) = files().find_map(|file| open.holder(file)) {
        return Some(InUse::Open { process });
    }
    let age = files().map(|file| age(file, now)).min()?;
    (age < YOUNG).then_some(InUse::RecentlyWritten { seconds: age.as_secs() })
}

/// Returns the time since the last write of a file; zero if that is in the future.
fn age(file: &FileState, now: SystemTime) -> Duration {
    let written = UNIX_EPOCH + Duration::from_nanos(u64::try_from(file.mtime).unwrap_or(0));
    now.duration_since(written).unwrap_or_default()
}

/// Returns whether a process holds one of the item's locks, as CANN does while it copies a kernel into the cache.
fn is_locked(dir: &Dir, item: &Item) -> bool {
    let mut locks = item.members.only(FileSet::LOCK.with(FileSet::PRE_LOCK)).names(&item.name);
    locks.any(|lock| dir.open_file(OsStr::new(&lock)).is_ok_and(|lock| holder(&lock).is_some()))
}

/// Returns the number of the process that holds a POSIX lock on the file.
fn holder(lock: &File) -> Option<u32> {
    let request = Flock::from(FlockType::WriteLock);
    let found = fcntl_getlk(lock, &request).ok()??;
    Some(found.pid.map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs()))
}
