//! File system calls, which reach files by name through the descriptor of the directory, and follow no links except for
//! `op_cache.ini`.
//!
//! CANN's locks are POSIX locks. They belong to the process, and closing any descriptor of the file releases them. So a
//! lock file is opened once, and only for locking.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opkeep_fs::{Dir, FileKind, FileStat, FileState};
use opkeep_text::counted;
use rustix::fs::{FlockOperation, Mode, OFlags, Timespec, Timestamps, fcntl_lock, openat};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk, geteuid};

/// The mode of CANN's lock files.
const LOCK_MODE: u32 = 0o640;
/// The mode bit of a directory in which only the owner of a file, or of the directory, may delete the file.
const STICKY: u32 = 0o1000;
/// The maximum size of a description that is read, in bytes.
const MAX_JSON: u64 = 64 << 20;
/// The maximum size of an `op_cache.ini` that is read, in bytes.
const MAX_INI: u64 = 64 << 10;

/// The state of a regular file when it was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListedState {
    pub(crate) ino: u64,
    pub(crate) size: u64,
    /// In nanoseconds since 1970.
    pub(crate) atime: i64,
    /// In nanoseconds since 1970.
    pub(crate) mtime: i64,
}

impl ListedState {
    fn of(found: &FileStat) -> Self {
        let FileStat { state, atime, .. } = *found;
        Self { ino: state.id.ino, size: state.len, atime, mtime: state.mtime }
    }

    /// Returns the time of the last use, in nanoseconds since 1970: the access time, which CANN sets at each use, or
    /// the time of a later write.
    pub(crate) fn used(&self) -> i64 {
        self.atime.max(self.mtime)
    }
}

/// The current state of a file.
#[derive(Debug)]
pub(crate) struct CurrentFile {
    pub(crate) listed: ListedState,
    pub(crate) state: FileState,
    owner: u32,
}

/// Returns the state of the regular file called `name`, if it exists.
pub(crate) fn current_file(dir: &Dir, name: &str) -> io::Result<Option<CurrentFile>> {
    match dir.look(name) {
        Ok(found) if found.is_file() => {
            Ok(Some(CurrentFile { listed: ListedState::of(&found), state: found.state, owner: found.user }))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(None),
    }
}

/// Returns whether `name` is free; false if that is unknown.
pub(crate) fn is_missing(dir: &Dir, name: &str) -> bool {
    !dir.may_exist(name)
}

/// Calls `add` with each name in the directory, its kind and, for a regular file, its state.
pub(crate) fn for_each(
    dir: &Dir,
    mut add: impl FnMut(&OsStr, FileKind, Option<ListedState>),
) -> io::Result<()> {
    for (name, _) in dir.list()?.iter() {
        match dir.look(name) {
            Ok(found) => add(name, found.kind, found.is_file().then(|| ListedState::of(&found))),
            // The file was deleted or renamed after the listing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads a description without a change of its access time. Returns an error if this user may not do that: only the
/// owner of the file may.
pub(crate) fn read_without_atime(dir: &Dir, name: &str, buffer: &mut Vec<u8>) -> io::Result<()> {
    let quietly = OFlags::NOATIME | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    read(dir, name, quietly, MAX_JSON, buffer)
}

/// Returns the text of the limits file called `name` in the parent directory; `None` if the file is missing. It may be
/// a link.
pub(crate) fn read_ini(dir: &Dir, name: &str) -> io::Result<Option<String>> {
    /// The maximum number of reads of an empty file: CANN truncates the file before writing it again.
    const ATTEMPTS: usize = 5;
    let parent = dir.below(OsStr::new(".."))?;
    let mut buffer = Vec::new();
    for _ in 0..ATTEMPTS {
        let read =
            |flags, buffer: &mut Vec<u8>| read(&parent, name, OFlags::NONBLOCK | flags, MAX_INI, buffer);
        let outcome = match read(OFlags::NOATIME, &mut buffer) {
            // Only the owner may read the file without a change of its access time.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::PERM) => {
                read(OFlags::empty(), &mut buffer)
            }
            outcome => outcome,
        };
        match outcome {
            Ok(()) if buffer.is_empty() => std::thread::sleep(Duration::from_millis(10)),
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(String::from_utf8_lossy(&buffer).into_owned()))
}

fn read(dir: &Dir, name: &str, flags: OFlags, limit: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
    let file: File = openat(dir, name, OFlags::RDONLY | OFlags::CLOEXEC | flags, Mode::empty())?.into();
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    buffer.clear();
    (&file).take(limit + 1).read_to_end(buffer)?;
    if buffer.len() as u64 > limit {
        return Err(io::Error::other(format!("it has more than {limit}", limit = counted(limit, "byte"))));
    }
    Ok(())
}

/// Returns an error if the directory is sticky and this user may not delete `file` in it.
pub(crate) fn may_delete(dir: &Dir, file: &CurrentFile) -> io::Result<()> {
    let found = dir.stat()?;
    let user = geteuid();
    let is_owner = user.is_root() || [found.user, file.owner].contains(&user.as_raw());
    if found.mode & STICKY != 0 && !is_owner {
        return Err(Errno::PERM.into());
    }
    Ok(())
}

/// The outcome of an attempt to lock.
#[derive(Debug)]
pub(crate) enum LockAttempt {
    /// This process holds the lock until the file is dropped.
    Held(File),
    /// Another process holds the lock.
    Busy,
    /// The lock file is missing, or was replaced before it was locked.
    Missing,
}

/// Tries to take the lock called `name`, without waiting. If `create` is set, a missing lock file is created.
pub(crate) fn try_lock(dir: &Dir, name: &str, create: bool) -> io::Result<LockAttempt> {
    let file = match dir.open_to_change(name, create.then_some(LOCK_MODE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LockAttempt::Missing),
        opened => opened?,
    };
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::AGAIN | Errno::ACCESS) => return Ok(LockAttempt::Busy),
        Err(error) => return Err(error.into()),
    }
    // If the file was deleted before it was locked, other processes lock a new one.
    let locked = FileState::of(&file.metadata()?).id.ino;
    let is_current = current_file(dir, name)?.is_some_and(|now| now.listed.ino == locked);
    Ok(if is_current { LockAttempt::Held(file) } else { LockAttempt::Missing })
}

/// Returns whether another process holds the lock called `name`. Nothing is created or locked.
pub(crate) fn is_locked(dir: &Dir, name: &str) -> io::Result<bool> {
    match dir.open_file(OsStr::new(name)) {
        Ok(file) => Ok(fcntl_getlk(&file, &Flock::from(FlockType::WriteLock))?.is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Sets the times of a lock file, and returns the current time by the clock of its file system: on a network file
/// system, the server's clock. If that fails, the local clock counts.
pub(crate) fn touch(lock: &File) -> SystemTime {
    let now = || Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    let times = Timestamps { last_access: now(), last_modification: now() };
    let touched = rustix::fs::futimens(lock, &times).map_err(io::Error::from).and_then(|()| lock.metadata());
    touched.and_then(|found| found.modified()).unwrap_or_else(|_| SystemTime::now())
}

/// Returns the time from `then`, in nanoseconds since 1970, to `now`; zero if `then` is in the future.
pub(crate) fn idle(then: i64, now: SystemTime) -> Duration {
    let then = UNIX_EPOCH + Duration::from_nanos(u64::try_from(then).unwrap_or(0));
    now.duration_since(then).unwrap_or_default()
}
