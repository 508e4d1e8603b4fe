//! The lock on one key: whoever holds it makes the entry, others wait for that.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::disk::{Disk, Inode, TryLock};
use crate::files::FOR_LOCKS;
use crate::{StoreError, files};

/// What a failed maker leaves for those who waited, behind this word.
const FAILED: &str = "failed: ";
const MAX_REASON: usize = 64 * 1024;
/// Who waits asks at least so often.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

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

    /// Tells those who wait that the holder lives, although it does not compile yet. See [`KeyWait::is_silent`].
    pub fn sign_of_life(&self) {
        // Those who miss it compile without the lock: more work, no harm.
        let _ = self.disk.touch(&self.file, &self.path);
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
        if own.is_some() && self.disk.inode_at(&self.path) == own {
            let _ = self.disk.remove(&self.path);
        }
        // Closing is not enough: a child that was forked meanwhile has the file open, too, and those who wait would wait
        // for its end.
        let _ = self.disk.unlock(&self.file, &self.path);
    }
}

/// What asking once for a lock came to. None of these is an error.
#[derive(Debug)]
pub enum LockAttempt {
    /// The lock is held now. Look again before making the entry: another may have made it meanwhile.
    Acquired(KeyLock),
    /// Another holds it. [`TargetStore::poll`](crate::TargetStore::poll) asks again.
    Held(KeyWait),
    /// Whoever held it while we waited failed for a reason that would meet us too.
    HolderFailed(String),
    /// This file system has no locks; go on without, safety rests on rename alone.
    Unsupported,
}

/// A place among those who wait for a lock.
///
/// It keeps the lock's file open, so that what a holder leaves there who fails reaches those who waited, and nobody else.
#[derive(Debug)]
pub struct KeyWait {
    disk: Disk,
    file: File,
    path: PathBuf,
    shared: bool,
    /// When we began to wait; none, if we did not have to yet.
    began: Option<Instant>,
    /// The holder's last sign of life: the time of the file, and when we saw that it had changed.
    sign: (Option<SystemTime>, Instant),
}

impl KeyWait {
    /// How long we have waited.
    pub fn waited(&self) -> Duration {
        self.began.map(|began| began.elapsed()).unwrap_or_default()
    }

    /// Whether the holder gave no sign of life for so long: it is stopped, or hangs.
    pub fn is_silent(&mut self, patience: Duration) -> bool {
        let (sign, seen) = self.sign;
        if seen.elapsed() < patience {
            return false;
        }
        let now = self.time();
        if now == sign {
            return true;
        }
        self.sign = (now, Instant::now());
        false
    }

    /// Asks again.
    pub(crate) fn poll(mut self) -> Result<LockAttempt, StoreError> {
        loop {
            let trouble = |action| {
                let path = self.path.clone();
                move |source| StoreError::Io { action, path, source }
            };
            match self.disk.try_lock(&self.file, &self.path).map_err(trouble("lock"))? {
                TryLock::Locked => {}
                TryLock::Unsupported => return Ok(LockAttempt::Unsupported),
                TryLock::Busy => {
                    if self.began.is_none() {
                        self.began = Some(Instant::now());
                        self.sign = (self.time(), Instant::now());
                    }
                    return Ok(LockAttempt::Held(self));
                }
            }
            // The holder unlinks before it releases, so what we locked may no longer be what the path names; others lock
            // the new file. Then this one is a message, not a lock.
            let locked = self.disk.stat(&self.file, &self.path).map_err(trouble("look at the lock"))?;
            if self.disk.inode_at(&self.path) == Some(Inode::of(&locked)) {
                if locked.len() > 0 {
                    // A holder wrote its reason and died before it could unlink. That is not ours to pass on.
                    files::overwrite(&self.disk, &self.file, &self.path, "")
                        .map_err(trouble("clear the lock"))?;
                }
                let Self { disk, file, path, began, .. } = self;
                return Ok(LockAttempt::Acquired(KeyLock { disk, file, path, waited: began.is_some() }));
            }
            let left = self.disk.read_start(&self.file, &self.path, MAX_REASON).unwrap_or_default();
            if self.began.is_some()
                && let Some(reason) = left.strip_prefix(FAILED.as_bytes())
            {
                return Ok(LockAttempt::HolderFailed(String::from_utf8_lossy(reason).into_owned()));
            }
            self.file = files::open_lock(&self.disk, &self.path, self.shared, &FOR_LOCKS)
                .map_err(trouble("open the lock"))?;
        }
    }

    fn time(&self) -> Option<SystemTime> {
        self.disk.stat(&self.file, &self.path).ok()?.modified().ok()
    }
}

/// Asks once for the lock at `path`.
pub(crate) fn attempt(disk: &Disk, path: &Path, shared: bool) -> Result<LockAttempt, StoreError> {
    let opened = files::open_lock(disk, path, shared, &FOR_LOCKS);
    let file =
        opened.map_err(|source| StoreError::Io { action: "open the lock", path: path.to_owned(), source })?;
    let (disk, path) = (disk.clone(), path.to_owned());
    KeyWait { disk, file, path, shared, began: None, sign: (None, Instant::now()) }.poll()
}

/// Takes the lock at `path`, polling every 1 to 20 ms while another holds it.
pub(crate) fn acquire(
    disk: &Disk,
    path: &Path,
    shared: bool,
    patience: Patience<'_>,
) -> Result<LockOutcome, StoreError> {
    let mut attempt = attempt(disk, path, shared)?;
    let mut pause = Duration::from_millis(1);
    let mut waited = false;
    loop {
        let wait = match attempt {
            LockAttempt::Acquired(lock) => return Ok(LockOutcome::Acquired(lock)),
            LockAttempt::HolderFailed(reason) => return Ok(LockOutcome::HolderFailed(reason)),
            LockAttempt::Unsupported => return Ok(LockOutcome::Unsupported),
            LockAttempt::Held(wait) => wait,
        };
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
        pause = (pause * 2).min(LONGEST_PAUSE);
        attempt = wait.poll()?;
    }
}

/// Removes the lock file at `path` if nobody holds it. False if somebody does, or did until a moment ago.
pub(crate) fn remove_if_free(disk: &Disk, path: &Path) -> std::io::Result<bool> {
    let file = disk.open_lock(path, None)?;
    if disk.try_lock(&file, path)? != TryLock::Locked {
        return Ok(false);
    }
    let locked = disk.stat(&file, path)?;
    if disk.inode_at(path) != Some(Inode::of(&locked)) {
        return Ok(false);
    }
    if locked.len() > 0 {
        // What somebody wrote who died here must not reach those who begin to wait now.
        disk.set_length(&file, path, 0)?;
    }
    drop(KeyLock { disk: disk.clone(), file, path: path.to_owned(), waited: false });
    Ok(true)
}
