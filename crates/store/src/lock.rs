//! The lock on one key: whoever holds it makes the entry, others wait for that.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::disk::{Disk, Inode, TryLock};
use crate::{StoreError, files};

/// What a failed maker leaves for those who waited, behind this word.
const FAILED: &str = "failed: ";
const MAX_REASON: usize = 64 * 1024;

/// How long to wait for a lock.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// Until when, if not for ever.
    pub deadline: Option<Instant>,
    /// Says when to give up.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
    /// Told once, if another holds the lock.
    pub on_wait: Option<&'a (dyn Fn() + Sync)>,
}

impl std::fmt::Debug for Patience<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patience").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// What asking for a lock came to. None of these is an error.
#[derive(Debug)]
pub enum LockOutcome {
    /// The lock is held now. Look again before making the entry: another may have made it meanwhile.
    Acquired(KeyLock),
    /// Whoever held it while we waited failed for a reason that would meet us too.
    HolderFailed(String),
    /// The deadline passed while another held it.
    TimedOut,
    /// The caller gave up.
    Cancelled,
    /// This file system has no locks; go on without, safety rests on rename alone.
    Unsupported,
}

/// A held lock. Dropping it releases it; a process that dies releases it too.
#[derive(Debug)]
pub struct KeyLock {
    disk: Disk,
    file: File,
    path: PathBuf,
    waited: bool,
}

impl KeyLock {
    /// Whether another held the lock when we asked.
    pub fn waited(&self) -> bool {
        self.waited
    }

    /// Releases the lock, leaving `reason` to those who are waiting now. Later comers try for themselves.
    pub fn release_failed(self, reason: &str) {
        let end = reason.floor_char_boundary(MAX_REASON - FAILED.len());
        // If this cannot be written, the waiters try for themselves: more work, no harm.
        let _ = files::overwrite(&self.disk, &self.file, &self.path, &format!("{FAILED}{}", &reason[..end]));
    }
}

impl Drop for KeyLock {
    /// Only the holder unlinks, while it holds: so whoever gets this lock next can tell that the path has moved on.
    fn drop(&mut self) {
        let own = self.disk.stat(&self.file, &self.path).map(|metadata| Inode::of(&metadata)).ok();
        if own.is_some() && inode_at(&self.disk, &self.path) == own {
            let _ = self.disk.remove(&self.path);
        }
        // Closing is not enough: a child that was forked meanwhile has the file open, too, and those who wait would wait
        // for its end.
        let _ = self.disk.unlock(&self.file, &self.path);
    }
}

/// Takes the lock at `path`, polling every 1 to 20 ms while another holds it.
pub(crate) fn acquire(
    disk: &Disk,
    path: &Path,
    shared: bool,
    patience: Patience<'_>,
) -> Result<LockOutcome, StoreError> {
    let trouble = |action| move |source| StoreError::Io { action, path: path.to_owned(), source };
    let mut pause = Duration::from_millis(1);
    let mut waited = false;
    loop {
        let file = files::open_lock(disk, path, shared).map_err(trouble("open the lock"))?;
        loop {
            match disk.try_lock(&file, path).map_err(trouble("lock"))? {
                TryLock::Locked => break,
                TryLock::Unsupported => return Ok(LockOutcome::Unsupported),
                TryLock::Busy => {}
            }
            if let Some(tell) = patience.on_wait.filter(|_| !waited) {
                tell();
            }
            waited = true;
            if (patience.cancelled)() {
                return Ok(LockOutcome::Cancelled);
            }
            if patience.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(LockOutcome::TimedOut);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        // The holder unlinks before it releases, so what we locked may no longer be what the path names; others lock
        // the new file. Then this one is a message, not a lock.
        let locked = disk.stat(&file, path).map_err(trouble("look at the lock"))?;
        if inode_at(disk, path) == Some(Inode::of(&locked)) {
            if locked.len() > 0 {
                // A holder wrote its reason and died before it could unlink. That is not ours to pass on.
                files::overwrite(disk, &file, path, "").map_err(trouble("clear the lock"))?;
            }
            return Ok(LockOutcome::Acquired(KeyLock {
                disk: disk.clone(),
                file,
                path: path.to_owned(),
                waited,
            }));
        }
        let left = disk.read_start(&file, path, MAX_REASON).unwrap_or_default();
        if waited && let Some(reason) = left.strip_prefix(FAILED.as_bytes()) {
            return Ok(LockOutcome::HolderFailed(String::from_utf8_lossy(reason).into_owned()));
        }
    }
}

/// Removes the lock file at `path` if nobody holds it. False if somebody does, or did until a moment ago.
pub(crate) fn remove_if_free(disk: &Disk, path: &Path) -> std::io::Result<bool> {
    let file = disk.open_lock(path, false)?;
    if disk.try_lock(&file, path)? != TryLock::Locked {
        return Ok(false);
    }
    let locked = disk.stat(&file, path)?;
    if inode_at(disk, path) != Some(Inode::of(&locked)) {
        return Ok(false);
    }
    if locked.len() > 0 {
        // What somebody wrote who died here must not reach those who begin to wait now.
        disk.set_length(&file, path, 0)?;
    }
    drop(KeyLock { disk: disk.clone(), file, path: path.to_owned(), waited: false });
    Ok(true)
}

fn inode_at(disk: &Disk, path: &Path) -> Option<Inode> {
    disk.look(path).map(|metadata| Inode::of(&metadata)).ok()
}
