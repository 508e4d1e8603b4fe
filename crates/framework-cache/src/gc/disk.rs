//! What making room does to the disk: by name, through the folder's descriptor, no link followed.
//!
//! CANN's locks are POSIX locks: they belong to the process, and closing any descriptor of the file gives them up. So a
//! lock file is opened once, and only to be locked.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opkeep_fs::{Dir, FileKind, FileStat, FileState};
use rustix::fs::{FlockOperation, Mode, OFlags, Timespec, Timestamps, fcntl_lock, openat};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk, geteuid};

/// As CANN makes its lock files.
const LOCK_MODE: u32 = 0o640;
/// The bit of a folder in which only a file's owner may delete it.
const STICKY: u32 = 0o1000;
/// No description is larger.
const MAX_JSON: u64 = 64 << 20;
/// No file of limits is larger.
const MAX_INI: u64 = 64 << 10;

/// A regular file as it was when it was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) ino: u64,
    pub(crate) size: u64,
    /// Nanoseconds since 1970.
    pub(crate) atime: i64,
    /// Nanoseconds since 1970.
    pub(crate) mtime: i64,
}

impl Stamp {
    fn of(found: &FileStat) -> Self {
        let FileStat { state, atime, .. } = *found;
        Self { ino: state.id.ino, size: state.len, atime, mtime: state.mtime }
    }

    /// When CANN used it last: it sets the time of access itself, and leaves that of writing.
    pub(crate) fn used(&self) -> i64 {
        self.atime.max(self.mtime)
    }
}

/// A file now.
#[derive(Debug)]
pub(crate) struct Now {
    pub(crate) stamp: Stamp,
    pub(crate) state: FileState,
    owner: u32,
}

/// The regular file called `name`, if that is what it is.
pub(crate) fn look(dir: &Dir, name: &str) -> io::Result<Option<Now>> {
    match dir.look(name) {
        Ok(found) if found.is_file() => {
            Ok(Some(Now { stamp: Stamp::of(&found), state: found.state, owner: found.user }))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(None),
    }
}

/// Whether there is nothing called `name`.
pub(crate) fn is_gone(dir: &Dir, name: &str) -> bool {
    !dir.may_exist(name)
}

/// Hands each name in the folder to `take`, with what bears it and, of a regular file, its state.
pub(crate) fn each(dir: &Dir, mut take: impl FnMut(&OsStr, FileKind, Option<Stamp>)) -> io::Result<()> {
    for (name, _) in dir.list()?.iter() {
        match dir.look(name) {
            Ok(found) => take(name, found.kind, found.is_file().then(|| Stamp::of(&found))),
            // It was deleted or renamed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads a description without counting as a use of it. An error if that cannot be done: only its owner may.
pub(crate) fn read_quietly(dir: &Dir, name: &str, buffer: &mut Vec<u8>) -> io::Result<()> {
    let quietly = OFlags::NOATIME | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    read(dir, name, quietly, MAX_JSON, buffer)
}

/// The text of the file of limits called `name` in the folder above. Whoever set it up may have put a link there.
pub(crate) fn read_ini(dir: &Dir, name: &str) -> io::Result<Option<String>> {
    /// How often a file is read that is empty: CANN rewrites it in place.
    const LOOKS: usize = 5;
    let above = dir.below(OsStr::new(".."))?;
    let mut buffer = Vec::new();
    for _ in 0..LOOKS {
        let read =
            |flags, buffer: &mut Vec<u8>| read(&above, name, OFlags::NONBLOCK | flags, MAX_INI, buffer);
        let quietly = match read(OFlags::NOATIME, &mut buffer) {
            // Only its owner may.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::PERM) => {
                read(OFlags::empty(), &mut buffer)
            }
            quietly => quietly,
        };
        match quietly {
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
        return Err(io::Error::other(format!("it has more than {limit} bytes")));
    }
    Ok(())
}

/// Whether this user may delete the file `now` from the folder as far as the folder's own rule goes.
pub(crate) fn may_delete(dir: &Dir, now: &Now) -> io::Result<()> {
    let found = dir.stat()?;
    let user = geteuid();
    let is_mine = user.is_root() || [found.user, now.owner].contains(&user.as_raw());
    if found.mode & STICKY != 0 && !is_mine {
        return Err(Errno::PERM.into());
    }
    Ok(())
}

/// Removes the file called `name`, itself and not where a link points.
pub(crate) fn unlink(dir: &Dir, name: &str) -> io::Result<()> {
    dir.remove(name)
}

/// What became of trying a lock.
#[derive(Debug)]
pub(crate) enum Tried {
    /// It is ours until this is dropped.
    Held(File),
    /// Another process holds it.
    Busy,
    /// There is no such file, or it was replaced while we locked it.
    Gone,
}

/// Tries the lock called `name`, its file made if `make` says so, without waiting.
pub(crate) fn try_lock(dir: &Dir, name: &str, make: bool) -> io::Result<Tried> {
    let file = match dir.open_lock(name, make.then_some(LOCK_MODE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Tried::Gone),
        opened => opened?,
    };
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::AGAIN | Errno::ACCESS) => return Ok(Tried::Busy),
        Err(error) => return Err(error.into()),
    }
    // Whoever emptied the folder meanwhile left us the lock of a file that nobody can open.
    let ours = FileState::of(&file.metadata()?).id.ino;
    let is_current = look(dir, name)?.is_some_and(|now| now.stamp.ino == ours);
    Ok(if is_current { Tried::Held(file) } else { Tried::Gone })
}

/// Whether another process holds the lock called `name`; without making or taking anything.
pub(crate) fn is_locked(dir: &Dir, name: &str) -> io::Result<bool> {
    match dir.open_file(OsStr::new(name)) {
        Ok(file) => Ok(fcntl_getlk(&file, &Flock::from(FlockType::WriteLock))?.is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The time by the clock that stamps the cache's files, which on a network file system is not ours.
pub(crate) fn touch(lock: &File) -> SystemTime {
    let now = || Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    let times = Timestamps { last_access: now(), last_modification: now() };
    let touched = rustix::fs::futimens(lock, &times).map_err(io::Error::from).and_then(|()| lock.metadata());
    touched.and_then(|found| found.modified()).unwrap_or_else(|_| SystemTime::now())
}

/// How long before `now` something was at `then`, in nanoseconds since 1970. What comes from the future was now.
pub(crate) fn idle(then: i64, now: SystemTime) -> Duration {
    let then = UNIX_EPOCH + Duration::from_nanos(u64::try_from(then).unwrap_or(0));
    now.duration_since(then).unwrap_or_default()
}
