//! Locks on open files (`flock`).

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::call::{FsOp, Watch};
use crate::limits::has_no_locks;
use crate::state::FileId;

/// A locked file, unlocked when dropped. Closing it would not suffice: a child process that another thread is starting
/// has the file open for a moment, too. Dropping the copy in a forked child only closes the file, since the lock
/// belongs to the parent.
#[derive(Debug)]
pub struct FileLock {
    file: File,
    /// The process that locked it.
    process: u32,
    /// For the watcher of the unlock call.
    watched: Option<(Watch, PathBuf)>,
}

/// The outcome of an attempt to lock. None of them is an error.
#[derive(Debug)]
pub enum TryLock {
    /// The lock is held now.
    Held(FileLock),
    /// Another process or thread holds it. The file stays open.
    Busy(File),
    /// The file system has no locks.
    Unsupported(File),
}

impl FileLock {
    /// Tries to lock an open file, without waiting.
    ///
    /// # Errors
    /// That of the system. A file system without locks is no error.
    pub fn try_exclusive(file: File) -> io::Result<TryLock> {
        Self::tried(file.try_lock(), file, None)
    }

    /// Tries to take a shared lock of an open file, without waiting.
    ///
    /// # Errors
    /// That of the system. A file system without locks is no error.
    pub fn try_shared(file: File) -> io::Result<TryLock> {
        Self::tried(file.try_lock_shared(), file, None)
    }

    /// [`try_exclusive`](Self::try_exclusive) for the file at `path`, with each call watched.
    pub(crate) fn try_watched(file: File, path: &Path, watch: &Watch) -> io::Result<TryLock> {
        let tried = watch.may(FsOp::Lock, path).map_err(TryLockError::Error);
        let watched = watch.is_watched().then(|| (watch.clone(), path.to_owned()));
        Self::tried(tried.and_then(|()| file.try_lock()), file, watched)
    }

    fn tried(
        tried: Result<(), TryLockError>,
        file: File,
        watched: Option<(Watch, PathBuf)>,
    ) -> io::Result<TryLock> {
        match tried {
            Ok(()) => Ok(TryLock::Held(Self { file, process: std::process::id(), watched })),
            Err(TryLockError::WouldBlock) => Ok(TryLock::Busy(file)),
            Err(TryLockError::Error(error)) if Errno::from_io_error(&error) == Some(Errno::INTR) => {
                Ok(TryLock::Busy(file))
            }
            Err(TryLockError::Error(error)) if has_no_locks(&error) => Ok(TryLock::Unsupported(file)),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The locked file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Whether this process locked the file, and not its parent before a fork.
    pub fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    /// Whether the locked file is still at `path`: another process may have removed it, and a new file may have the
    /// name.
    pub fn is_at(&self, path: &Path) -> bool {
        let found = std::fs::symlink_metadata(path).map(|found| FileId::of(&found));
        let own = self.file.metadata().map(|own| FileId::of(&own));
        matches!((own, found), (Ok(own), Ok(found)) if own == found)
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if !self.is_own() {
            return;
        }
        let may = |(watch, path): &(Watch, PathBuf)| watch.may(FsOp::Unlock, path).is_ok();
        if self.watched.as_ref().is_none_or(may) {
            let _ = self.file.unlock();
        }
    }
}
