//! The locks of the programs that use a cache. A repair holds them while it changes the cache.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};

use crate::quarantine::{RepairError, files};
use opkeep_fs::Dir;

/// The names of locks of a whole cache that are taken with `flock`: MindSpore's during its start, and the build lock of
/// opkeep.
const CACHE_LOCKS: [&str; 2] = ["file.lock", ".opkeep.lock"];
/// The names of locks of a whole cache that are taken with `fcntl`: CANN's during an eviction, AKG's while it
/// distributes work.
const CACHE_RECORD_LOCKS: [&str; 3] = ["op_cache_file_del.lock", "kernel_build_tmp.key", "akg_build_tmp.key"];

const RETRY_FOR: Duration = Duration::from_millis(250);
const POLL: Duration = Duration::from_millis(5);

/// Locks that this process holds until the value is dropped.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    held: Vec<File>,
    /// Whether a lock could not be taken because the file system has no locks.
    pub(crate) unsupported: bool,
}

/// The outcome of an attempt to lock.
#[derive(Debug)]
enum LockAttempt {
    /// This process holds the lock until the file is dropped.
    Held(File),
    /// The lock file is missing, so no process holds the lock.
    Missing,
    /// No process holds the lock, and this user may not take it.
    Free,
    /// Another process holds the lock.
    Busy,
    /// The file system has no locks.
    Unsupported,
}

impl Locks {
    /// Takes all existing locks of the cache in `dir`, which must stay open. The build lock of opkeep is taken only if
    /// `with_build_lock`.
    pub(crate) fn of_cache(dir: &Dir, with_build_lock: bool) -> Result<Self, RepairError> {
        let mut locks = Self::default();
        // The lock on the directory itself excludes other repairs; no framework takes it.
        match lock_soon(dir) {
            Err(Errno::WOULDBLOCK) => return Err(RepairError::Locked { lock: dir.path().to_owned() }),
            Err(_) => locks.unsupported = true,
            Ok(()) => {}
        }
        let wanted = CACHE_LOCKS.into_iter().filter(|name| with_build_lock || *name != ".opkeep.lock");
        for name in wanted {
            let attempt =
                files::lock_file(dir, name).map(|file| file.map_or(LockAttempt::Missing, lock_cache));
            locks.add(dir, name, attempt)?;
        }
        for name in CACHE_RECORD_LOCKS {
            locks.add(dir, name, lock_record(dir, name))?;
        }
        Ok(locks)
    }

    /// Takes CANN's locks of one kernel, which have these names.
    pub(crate) fn of_kernel(dir: &Dir, names: &[String]) -> Result<Self, RepairError> {
        let mut locks = Self::default();
        for name in names {
            locks.add(dir, name, lock_record(dir, name))?;
        }
        Ok(locks)
    }

    fn add(&mut self, dir: &Dir, name: &str, attempt: io::Result<LockAttempt>) -> Result<(), RepairError> {
        let lock = || -> PathBuf { dir.path().join(name) };
        match attempt {
            Ok(LockAttempt::Held(file)) => self.held.push(file),
            Ok(LockAttempt::Missing | LockAttempt::Free) => {}
            Ok(LockAttempt::Unsupported) => self.unsupported = true,
            Ok(LockAttempt::Busy) => return Err(RepairError::Locked { lock: lock() }),
            Err(source) => return Err(RepairError::UnreadableLock { lock: lock(), source }),
        }
        Ok(())
    }
}

fn lock_cache((file, _): (File, bool)) -> LockAttempt {
    match lock_soon(&file) {
        Ok(()) => LockAttempt::Held(file),
        Err(Errno::WOULDBLOCK) => LockAttempt::Busy,
        Err(_) => LockAttempt::Unsupported,
    }
}

/// Takes a lock, and retries for [`RETRY_FOR`]: a child process that the last holder just started may have the lock until
/// it calls exec.
fn lock_soon(file: impl AsFd) -> Result<(), Errno> {
    let began = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if began.elapsed() < RETRY_FOR => sleep(POLL),
            Err(Errno::INTR) => {}
            attempt => return attempt,
        }
    }
}

fn lock_record(dir: &Dir, name: &str) -> io::Result<LockAttempt> {
    let Some((file, writable)) = files::lock_file(dir, name)? else { return Ok(LockAttempt::Missing) };
    if !writable {
        let attempt = fcntl_getlk(&file, &Flock::from(FlockType::WriteLock));
        return Ok(match attempt {
            Ok(None) => LockAttempt::Free,
            Ok(Some(_)) => LockAttempt::Busy,
            Err(_) => LockAttempt::Unsupported,
        });
    }
    Ok(match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => LockAttempt::Held(file),
        Err(Errno::AGAIN | Errno::ACCESS) => LockAttempt::Busy,
        Err(_) => LockAttempt::Unsupported,
    })
}
