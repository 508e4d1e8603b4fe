//! The locks of the programs that use a cache. A repair holds them while it changes the cache.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};

use crate::quarantine::{RepairError, files};
use opkeep_fs::{Dir, FileLock, LockFile, TryLock};

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
    held: Vec<HeldLock>,
    /// Whether a lock could not be taken because the file system has no locks.
    pub(crate) unsupported: bool,
}

/// A lock that this process holds until this is dropped.
#[derive(Debug)]
enum HeldLock {
    Whole {
        _lock: FileLock,
    },
    /// A lock of the process on a part of the file. No forked child has it.
    Record {
        _file: File,
    },
}

/// The outcome of an attempt to lock.
#[derive(Debug)]
enum LockAttempt {
    /// This process holds the lock.
    Held(HeldLock),
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
        match dir.open_as_lock().map(lock_soon) {
            Ok(LockAttempt::Held(lock)) => locks.held.push(lock),
            Ok(LockAttempt::Busy) => return Err(RepairError::Locked { lock: dir.path().to_owned() }),
            Ok(_) | Err(_) => locks.unsupported = true,
        }
        let wanted = CACHE_LOCKS.into_iter().filter(|name| with_build_lock || *name != ".opkeep.lock");
        for name in wanted {
            locks.add(dir, name, lock_cache(dir, name))?;
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
            Ok(LockAttempt::Held(lock)) => self.held.push(lock),
            Ok(LockAttempt::Missing | LockAttempt::Free) => {}
            Ok(LockAttempt::Unsupported) => self.unsupported = true,
            Ok(LockAttempt::Busy) => return Err(RepairError::Locked { lock: lock() }),
            Err(source) => return Err(RepairError::UnreadableLock { lock: lock(), source }),
        }
        Ok(())
    }
}

fn lock_cache(dir: &Dir, name: &str) -> io::Result<LockAttempt> {
    let open = || files::lock_file(dir, name)?.map(|(file, _)| file).ok_or(io::ErrorKind::NotFound.into());
    match LockFile::open(open) {
        Ok(file) => Ok(lock_soon(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(LockAttempt::Missing),
        Err(error) => Err(error),
    }
}

/// Takes a lock, and retries for [`RETRY_FOR`]: a child process that the last holder just started may have the lock until
/// it calls exec.
fn lock_soon(mut file: LockFile) -> LockAttempt {
    let began = Instant::now();
    loop {
        file = match FileLock::try_exclusive(file) {
            Ok(TryLock::Held(lock)) => return LockAttempt::Held(HeldLock::Whole { _lock: lock }),
            Ok(TryLock::Busy(_)) if began.elapsed() >= RETRY_FOR => return LockAttempt::Busy,
            Ok(TryLock::Busy(file)) => file,
            Ok(TryLock::Unsupported(_)) | Err(_) => return LockAttempt::Unsupported,
        };
        sleep(POLL);
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
        Ok(()) => LockAttempt::Held(HeldLock::Record { _file: file }),
        Err(Errno::AGAIN | Errno::ACCESS) => LockAttempt::Busy,
        Err(_) => LockAttempt::Unsupported,
    })
}
