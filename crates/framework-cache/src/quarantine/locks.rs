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

use crate::quarantine::{RepairError, io as tools};
use opkeep_fs::Dir;

/// The names of locks of a whole cache that are taken with `flock`: MindSpore's during its start, and the build lock of
/// opkeep.
const WHOLE: [&str; 2] = ["file.lock", ".opkeep.lock"];
/// The names of locks of a whole cache that are taken with `fcntl`: CANN's during an eviction, AKG's while it
/// distributes work.
const WHOLE_RECORD: [&str; 3] = ["op_cache_file_del.lock", "kernel_build_tmp.key", "akg_build_tmp.key"];

const MOMENT: Duration = Duration::from_millis(250);
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
enum Asked {
    Ours(File),
    /// The lock file is missing, so no process holds the lock.
    NoFile,
    /// No process holds the lock, and this user may not take it.
    Free,
    Theirs,
    /// The file system has no locks.
    NoLocks,
}

impl Locks {
    /// Takes all existing locks of the cache in `dir`, which must stay open. The build lock of opkeep is taken only if
    /// `ours`.
    pub(crate) fn of_cache(dir: &Dir, ours: bool) -> Result<Self, RepairError> {
        let mut locks = Self::default();
        // The lock on the directory itself excludes other repairs; no framework takes it.
        match lock_soon(dir) {
            Err(Errno::WOULDBLOCK) => return Err(RepairError::Locked { lock: dir.path().to_owned() }),
            Err(_) => locks.unsupported = true,
            Ok(()) => {}
        }
        let wanted = WHOLE.into_iter().filter(|name| ours || *name != ".opkeep.lock");
        for name in wanted {
            let asked = tools::lock_file(dir, name).map(|file| file.map_or(Asked::NoFile, lock_whole));
            locks.keep(dir, name, asked)?;
        }
        for name in WHOLE_RECORD {
            locks.keep(dir, name, record(dir, name))?;
        }
        Ok(locks)
    }

    /// Takes CANN's locks of one kernel, which have these names.
    pub(crate) fn of_kernel(dir: &Dir, names: &[String]) -> Result<Self, RepairError> {
        let mut locks = Self::default();
        for name in names {
            locks.keep(dir, name, record(dir, name))?;
        }
        Ok(locks)
    }

    fn keep(&mut self, dir: &Dir, name: &str, asked: io::Result<Asked>) -> Result<(), RepairError> {
        let lock = || -> PathBuf { dir.path().join(name) };
        match asked {
            Ok(Asked::Ours(file)) => self.held.push(file),
            Ok(Asked::NoFile | Asked::Free) => {}
            Ok(Asked::NoLocks) => self.unsupported = true,
            Ok(Asked::Theirs) => return Err(RepairError::Locked { lock: lock() }),
            Err(source) => return Err(RepairError::UnreadableLock { lock: lock(), source }),
        }
        Ok(())
    }
}

fn lock_whole((file, _): (File, bool)) -> Asked {
    match lock_soon(&file) {
        Ok(()) => Asked::Ours(file),
        Err(Errno::WOULDBLOCK) => Asked::Theirs,
        Err(_) => Asked::NoLocks,
    }
}

/// Takes a lock, and retries for [`MOMENT`]: a child process that the last holder just started may have the lock until
/// it calls exec.
fn lock_soon(file: impl AsFd) -> Result<(), Errno> {
    let began = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if began.elapsed() < MOMENT => sleep(POLL),
            Err(Errno::INTR) => {}
            asked => return asked,
        }
    }
}

fn record(dir: &Dir, name: &str) -> io::Result<Asked> {
    let Some((file, writable)) = tools::lock_file(dir, name)? else { return Ok(Asked::NoFile) };
    if !writable {
        let asked = fcntl_getlk(&file, &Flock::from(FlockType::WriteLock));
        return Ok(match asked {
            Ok(None) => Asked::Free,
            Ok(Some(_)) => Asked::Theirs,
            Err(_) => Asked::NoLocks,
        });
    }
    Ok(match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Asked::Ours(file),
        Err(Errno::AGAIN | Errno::ACCESS) => Asked::Theirs,
        Err(_) => Asked::NoLocks,
    })
}
