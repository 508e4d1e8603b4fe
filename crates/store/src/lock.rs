//! The lock on one key: the lock holder creates the entry, and the waiters wait for it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::{StoreError, files};
use opkeep_fs::{Dir, FileId, FileLock, LockFile, RootedFs, TryLock, is_out_of_files, max_open_files};

/// The prefix of the reason that a failed holder leaves for the waiters.
const FAILED: &str = "failed: ";
/// The prefix of the note that a holder leaves for the next one if it is killed.
const NOTE: &str = "note: ";
const MAX_REASON: usize = 64 * 1024;
/// The time for which a waiter tries to get a file descriptor when the process has none left.
const STARVED: Duration = Duration::from_secs(10);
/// The first pause between two polls.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// The longest pause between two polls. It is short, so that a waiter soon takes the lock of a holder that was killed.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Returns the pause that follows `pause`.
fn pause_after(pause: Duration) -> Duration {
    (pause * 2).min(LONGEST_PAUSE)
}

/// The conditions of a wait for a lock.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct WaitOptions<'a> {
    /// The end of the wait. If unset, the wait has no limit.
    pub deadline: Option<Instant>,
    /// Returns whether to cancel the wait.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
    /// A function that is called once, if another process or thread holds the lock.
    pub on_wait: Option<&'a (dyn Fn() + Sync)>,
}

impl<'a> WaitOptions<'a> {
    /// A wait without limit that ends if `cancelled` returns true.
    pub fn new(cancelled: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { deadline: None, cancelled, on_wait: None }
    }

    /// This wait, which ends at `deadline` at the latest.
    #[must_use]
    pub fn with_deadline(mut self, deadline: impl Into<Option<Instant>>) -> Self {
        self.deadline = deadline.into();
        self
    }

    /// This wait; `on_wait` is called once, if another process or thread holds the lock.
    #[must_use]
    pub fn with_on_wait(mut self, on_wait: &'a (dyn Fn() + Sync)) -> Self {
        self.on_wait = Some(on_wait);
        self
    }
}

impl std::fmt::Debug for WaitOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitOptions").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// The outcome of a wait for a lock. No outcome is an error.
#[derive(Debug)]
pub enum LockOutcome {
    /// The lock is held now. Look up the entry again before creating it: another process may have published it meanwhile.
    Acquired(KeyLock),
    /// The holder failed while the caller waited, and the failure would repeat.
    HolderFailed(String),
    /// The deadline passed while another process or thread held the lock.
    TimedOut,
    /// The caller cancelled the wait.
    Cancelled,
    /// The file system has no locks. Continue without one: entries are published by rename, so they stay intact.
    Unsupported,
}

/// A held lock. It is released when it is dropped and when the process exits, whatever its forked children do. The copy in
/// a forked child does nothing.
#[derive(Debug)]
pub struct KeyLock {
    fs: RootedFs,
    lock: FileLock,
    /// The identity of the lock file.
    id: FileId,
    path: PathBuf,
    waited: bool,
    left_note: Option<String>,
}

impl KeyLock {
    /// Whether another process or thread held the lock at first.
    pub fn waited(&self) -> bool {
        self.waited
    }

    /// Writes a note to the lock's file, in place of the last one. Best effort. If this process is killed while it holds the lock, the
    /// next holder [gets it](Self::left_note).
    pub fn set_note(&self, note: &str) {
        if self.is_own() {
            let text = format!("{NOTE}{note}");
            let _ = self.lock.file().and_then(|file| files::overwrite(&self.fs, file, &self.path, &text));
        }
    }

    /// Returns the note of the last holder, if that was killed while it held the lock: the lock was not released, and the system ended
    /// it with its process.
    pub fn left_note(&self) -> Option<&str> {
        self.left_note.as_deref()
    }

    /// Whether this process took the lock, and not its parent before a fork: the copy in a forked child does nothing.
    pub fn is_own(&self) -> bool {
        self.lock.is_own()
    }

    /// Gives the waiters a heartbeat, for a lock holder that does not compile yet. See [`LockWaiter::is_stale`].
    pub fn heartbeat(&self) {
        // If this fails, the waiters compile without the lock: more work, no harm.
        let _ = self.lock.file().and_then(|file| self.fs.touch(file, &self.path));
    }

    /// Moves the lock to another key: renames its file to `name` in `locks`, the directory of both. `None`, and the lock is
    /// released, if a file of that name exists, if this lock's file was removed or replaced, or if the file system has no
    /// rename that keeps an existing file.
    ///
    /// A process that opens the file under its new name finds the lock held. A process that opened it under the old name
    /// finds, once the lock is released, that its path names another file or none: as if one file had been removed and the
    /// other created.
    pub(crate) fn moved_to(mut self, locks: &Dir, name: &str) -> Option<Self> {
        let before = self.path.file_name()?;
        let is_own = locks.look(before).is_ok_and(|found| found.state.id == self.id);
        // An existing file stays: another process holds that lock, or was killed while it held the lock.
        if !is_own || !self.is_own() || locks.rename_new(before, locks, name).is_err() {
            return None;
        }
        self.path.set_file_name(name);
        Some(self)
    }

    /// Releases the lock, and passes `reason` to the current waiters. Later callers compile themselves.
    pub fn release_with_failure(self, reason: &str) {
        if !self.is_own() {
            return;
        }
        let end = reason.floor_char_boundary(MAX_REASON - FAILED.len());
        let text = format!("{FAILED}{}", &reason[..end]);
        // If this fails, the waiters compile themselves: more work, no harm.
        let _ = self.lock.file().and_then(|file| files::overwrite(&self.fs, file, &self.path, &text));
    }
}

impl Drop for KeyLock {
    /// Only the lock holder removes the file, before it releases the lock, so that the next holder finds another file
    /// or none at the path.
    fn drop(&mut self) {
        if self.is_own() && self.fs.id_at(&self.path) == Some(self.id) {
            let _ = self.fs.remove(&self.path);
        }
    }
}

/// The outcome of one attempt to lock. No outcome is an error.
#[derive(Debug)]
pub enum TryLockOutcome {
    /// The lock is held now. Look up the entry again before creating it: another process may have published it meanwhile.
    Acquired(KeyLock),
    /// Another process or thread holds the lock. [`TargetStore::poll`](crate::TargetStore::poll) tries again.
    Held(LockWaiter),
    /// The holder failed while the caller waited, and the failure would repeat.
    HolderFailed(String),
    /// The file system has no locks. Continue without one: entries are published by rename, so they stay intact.
    Unsupported,
}

/// A waiter for a lock.
///
/// A waiter keeps the lock's file open, so that it gets the reason if the lock holder fails; a process that comes later
/// does not. All waiters of a process keep at most a fourth of the process's file limit open. Beyond that, a waiter
/// opens the file at each attempt, and does not get the reason.
#[derive(Debug)]
pub struct LockWaiter {
    fs: RootedFs,
    file: Option<LockFile>,
    /// The permit to keep the file open.
    permit: Option<OpenFilePermit>,
    /// The time since which no file descriptor is available.
    starved: Option<Instant>,
    path: PathBuf,
    shared: bool,
    /// The time at which the wait began; none before the first attempt that found the lock held.
    began: Option<Instant>,
    /// The holder's last heartbeat: the time of the file, and the time at which this waiter saw it change.
    heartbeat_seen: (Option<SystemTime>, Instant),
}

impl LockWaiter {
    /// Returns the time since the wait began.
    pub fn waited(&self) -> Duration {
        self.began.map(|began| began.elapsed()).unwrap_or_default()
    }

    /// Returns the path of the lock's file, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the lock holder gave no heartbeat for `timeout`, since it is stopped or hangs.
    pub fn is_stale(&mut self, timeout: Duration) -> bool {
        let (heartbeat_seen, seen) = self.heartbeat_seen;
        if seen.elapsed() < timeout {
            return false;
        }
        let now = self.time();
        if now == heartbeat_seen {
            return true;
        }
        self.heartbeat_seen = (now, Instant::now());
        false
    }

    /// Tries again.
    pub(crate) fn poll(mut self) -> Result<TryLockOutcome, StoreError> {
        let path = self.path.clone();
        let trouble = |action| {
            let path = path.clone();
            move |source| StoreError::Io { action, path, source }
        };
        loop {
            // A forked child does not have the file that its parent opened.
            let opened = match self.file.take().filter(LockFile::is_own) {
                Some(file) => Ok(file),
                None => files::open_lock(&self.fs, &self.path, self.shared),
            };
            let file = match opened {
                // Other threads will close files.
                Err(error) if is_out_of_files(&error) && !self.is_starved() => {
                    self.begin();
                    return Ok(TryLockOutcome::Held(self));
                }
                // This lock file exists and cannot be opened; other locks may be usable.
                Err(error)
                    if error.kind() == io::ErrorKind::PermissionDenied
                        && self.fs.look(&self.path).is_ok() =>
                {
                    return Err(StoreError::ClosedLock { path });
                }
                opened => opened.map_err(trouble("open the lock"))?,
            };
            self.starved = None;
            let lock = match self.fs.try_lock(file, &self.path).map_err(trouble("lock"))? {
                TryLock::Held(lock) => lock,
                TryLock::Unsupported(_) => return Ok(TryLockOutcome::Unsupported),
                TryLock::Busy(file) => {
                    self.permit = self.permit.take().or_else(OpenFilePermit::take);
                    self.file = self.permit.is_some().then_some(file);
                    self.begin();
                    return Ok(TryLockOutcome::Held(self));
                }
            };
            // A lock holder removes the file before it releases the lock, so the path may name another file by now,
            // which other processes lock. The locked file then only passes on the reason.
            let file = lock.file().map_err(trouble("look at the lock"))?;
            let locked = self.fs.stat(file, &self.path).map_err(trouble("look at the lock"))?;
            if self.fs.id_at(&self.path) == Some(locked.state.id) {
                let mut left_note = None;
                if locked.state.len > 0 {
                    // A lock holder was killed before it removed the file. A reason was for that holder's waiters only, a note is for
                    // this one.
                    let left = self.fs.read_start(file, &self.path, MAX_REASON).unwrap_or_default();
                    left_note = str::from_utf8(&left)
                        .ok()
                        .and_then(|left| left.strip_prefix(NOTE))
                        .map(str::to_owned);
                    files::overwrite(&self.fs, file, &self.path, "").map_err(trouble("clear the lock"))?;
                }
                let (Self { fs, began, .. }, id) = (self, locked.state.id);
                let waited = began.is_some();
                return Ok(TryLockOutcome::Acquired(KeyLock { fs, lock, id, path, waited, left_note }));
            }
            let left = self.fs.read_start(file, &self.path, MAX_REASON).unwrap_or_default();
            if self.began.is_some()
                && let Some(reason) = left.strip_prefix(FAILED.as_bytes())
            {
                return Ok(TryLockOutcome::HolderFailed(String::from_utf8_lossy(reason).into_owned()));
            }
        }
    }

    /// Records the beginning of the wait.
    fn begin(&mut self) {
        if self.began.is_none() {
            self.began = Some(Instant::now());
            self.heartbeat_seen = (self.time(), Instant::now());
        }
    }

    /// Whether no file descriptor was available for [`STARVED`].
    fn is_starved(&mut self) -> bool {
        self.starved.get_or_insert_with(Instant::now).elapsed() >= STARVED
    }

    fn time(&self) -> Option<SystemTime> {
        match self.file.as_ref().and_then(|file| file.file().ok()) {
            Some(file) => self.fs.stat(file, &self.path).ok().map(|stat| stat.modified()),
            None => self.fs.look(&self.path).ok().map(|seen| seen.modified()),
        }
    }
}

/// The number of files that the waiters of all stores keep open: the limit is that of the process.
static OPEN_FILES: AtomicUsize = AtomicUsize::new(0);

/// A permit to keep a lock's file open during a wait, until dropped. All waiters of a process together keep at most a
/// fourth of the process's file limit open.
#[derive(Debug)]
pub struct OpenFilePermit(());

impl OpenFilePermit {
    /// Returns a permit, unless the maximum number of files is open.
    pub fn take() -> Option<Self> {
        let most = max_open_files() / 4;
        let one_more = |taken| (taken < most).then_some(taken + 1);
        OPEN_FILES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok().map(|_| Self(()))
    }
}

impl Drop for OpenFilePermit {
    fn drop(&mut self) {
        OPEN_FILES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tries once to get the lock at `path`.
pub(crate) fn attempt(fs: &RootedFs, path: &Path, shared: bool) -> Result<TryLockOutcome, StoreError> {
    let (fs, path, heartbeat_seen) = (fs.clone(), path.to_owned(), (None, Instant::now()));
    LockWaiter { fs, file: None, permit: None, starved: None, path, shared, began: None, heartbeat_seen }
        .poll()
}

/// Takes the lock at `path`, polling every 1 to 20 ms while it is held.
pub(crate) fn acquire(
    fs: &RootedFs,
    path: &Path,
    shared: bool,
    options: WaitOptions<'_>,
) -> Result<LockOutcome, StoreError> {
    let mut attempt = attempt(fs, path, shared)?;
    let mut pause = SHORTEST_PAUSE;
    let mut waited = false;
    loop {
        let waiter = match attempt {
            TryLockOutcome::Acquired(lock) => return Ok(LockOutcome::Acquired(lock)),
            TryLockOutcome::HolderFailed(reason) => return Ok(LockOutcome::HolderFailed(reason)),
            TryLockOutcome::Unsupported => return Ok(LockOutcome::Unsupported),
            TryLockOutcome::Held(waiter) => waiter,
        };
        if let Some(on_wait) = options.on_wait.filter(|_| !waited) {
            on_wait();
        }
        waited = true;
        if (options.cancelled)() {
            return Ok(LockOutcome::Cancelled);
        }
        if options.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            // The lock may be free: no file descriptor was available to try it.
            return match waiter.starved {
                None => Ok(LockOutcome::TimedOut),
                Some(_) => {
                    let source = rustix::io::Errno::MFILE.into();
                    Err(StoreError::Io { action: "open the lock", path: waiter.path, source })
                }
            };
        }
        std::thread::sleep(pause);
        pause = pause_after(pause);
        attempt = waiter.poll()?;
    }
}

/// Whether another process or thread holds the lock at `path`. Creates and writes nothing.
pub(crate) fn is_held(fs: &RootedFs, path: &Path) -> bool {
    let tried = fs.open_lock(path, None).and_then(|file| fs.try_lock(file, path));
    matches!(tried, Ok(TryLock::Busy(_)))
}

/// Removes the lock file at `path` if the lock is not held. Returns false if it is held, or if the file was replaced
/// meanwhile.
pub(crate) fn remove_if_free(fs: &RootedFs, path: &Path) -> std::io::Result<bool> {
    let file = fs.open_lock(path, None)?;
    let TryLock::Held(lock) = fs.try_lock(file, path)? else { return Ok(false) };
    let file = lock.file()?;
    let locked = fs.stat(file, path)?;
    if fs.id_at(path) != Some(locked.state.id) {
        return Ok(false);
    }
    if locked.state.len > 0 {
        // The reason of a dead holder must not reach new waiters.
        fs.set_length(file, path, 0)?;
    }
    drop(KeyLock {
        fs: fs.clone(),
        lock,
        id: locked.state.id,
        path: path.to_owned(),
        waited: false,
        left_note: None,
    });
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_20_ms() {
        let pauses = std::iter::successors(Some(SHORTEST_PAUSE), |pause| Some(pause_after(*pause)));
        let pauses: Vec<u128> = pauses.take(8).map(|pause| pause.as_millis()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 20, 20, 20]);
    }
}
