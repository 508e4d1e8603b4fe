//! Every access to the disk, one function a system call: the only module of this crate that may touch `std::fs`.
//!
//! A [`Watcher`] hears of each call before it is made, and may refuse it: that is how a test fails, counts, or ends a
//! process at every single one.
#![expect(clippy::disallowed_methods, reason = "this is the crate's I/O module")]

use std::fmt;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps};
use rustix::io::Errno;

use crate::Clock;
use crate::clock::unix;

/// A kind of access to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Op {
    /// Open a file to read it.
    Open,
    /// Open a folder.
    OpenFolder,
    /// Open a lock file, made if need be.
    OpenLock,
    /// Create a file that must not be there.
    Create,
    /// Create a folder.
    CreateFolder,
    /// Look at an open file.
    Stat,
    /// Look at a path.
    Look,
    /// List a folder.
    List,
    /// Read.
    Read,
    /// Write.
    Write,
    /// Cut a file to a length.
    SetLength,
    /// Set who may do what.
    SetMode,
    /// Set when a file was last used.
    SetTime,
    /// Sync a file's data.
    SyncData,
    /// Sync a folder.
    SyncFolder,
    /// Rename.
    Rename,
    /// Give a file a second name.
    Link,
    /// Remove a file.
    Remove,
    /// Remove an empty folder.
    RemoveFolder,
    /// Try to lock.
    Lock,
    /// Unlock.
    Unlock,
}

/// An access to the disk that is about to be made.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// What is done.
    pub op: Op,
    /// To what.
    pub path: &'a Path,
    /// The new name, for [`Op::Rename`] and [`Op::Link`].
    pub to: Option<&'a Path>,
    /// How many bytes, for [`Op::Write`] and [`Op::Read`].
    pub bytes: usize,
}

/// What becomes of a [`Call`].
#[derive(Debug)]
pub enum Permit {
    /// It is made.
    Go,
    /// It is not made, and fails so.
    Fail(io::Error),
    /// Only so many bytes are read or written; a write then fails for want of space.
    Short(usize),
}

/// Hears of every access to the disk before it is made. For tests.
pub trait Watcher: Send + Sync {
    /// Says what becomes of `call`.
    fn before(&self, call: &Call<'_>) -> Permit;
}

/// The disk.
#[derive(Clone, Default)]
pub(crate) struct Disk {
    watcher: Option<Arc<dyn Watcher>>,
    /// In place of the file system's clock.
    clock: Option<Arc<dyn Clock>>,
}

/// What an attempt to lock came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TryLock {
    Locked,
    Busy,
    Unsupported,
}

impl Disk {
    pub(crate) fn new(watcher: Option<Arc<dyn Watcher>>, clock: Option<Arc<dyn Clock>>) -> Self {
        Self { watcher, clock }
    }

    fn may(&self, op: Op, path: &Path) -> io::Result<()> {
        self.permit(op, path, None, 0).map(drop)
    }

    fn permit(&self, op: Op, path: &Path, to: Option<&Path>, bytes: usize) -> io::Result<Option<usize>> {
        let Some(watcher) = &self.watcher else { return Ok(None) };
        match watcher.before(&Call { op, path, to, bytes }) {
            Permit::Go => Ok(None),
            Permit::Fail(error) => Err(error),
            Permit::Short(bytes) => Ok(Some(bytes)),
        }
    }

    /// Opens a file to read it, never through a link.
    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        self.may(Op::Open, path)?;
        // Without NONBLOCK a pipe would hold us up until somebody writes to it.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
    }

    /// Opens a file in an open folder to read it, never through a link.
    pub(crate) fn open_in(&self, folder: &File, name: &str, path: &Path) -> io::Result<File> {
        self.may(Op::Open, path)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?))
    }

    /// Opens a folder, so that what is looked at is what is used. Links are followed only if `follow`.
    pub(crate) fn open_folder(&self, path: &Path, follow: bool) -> io::Result<File> {
        self.may(Op::OpenFolder, path)?;
        let flags = OFlags::DIRECTORY | if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
    }

    /// Opens a lock file, made if need be and if `create`. Never shared with children: std opens everything
    /// close-on-exec.
    pub(crate) fn open_lock(&self, path: &Path, create: bool) -> io::Result<File> {
        self.may(Op::OpenLock, path)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(create).truncate(false).mode(0o600);
        options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path)
    }

    /// Creates a file that must not be there.
    pub(crate) fn create(&self, path: &Path) -> io::Result<File> {
        self.may(Op::Create, path)?;
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
    }

    pub(crate) fn create_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.may(Op::CreateFolder, path)?;
        DirBuilder::new().mode(mode).create(path)
    }

    pub(crate) fn stat(&self, file: &File, path: &Path) -> io::Result<Metadata> {
        self.may(Op::Stat, path)?;
        file.metadata()
    }

    /// What a path names, itself and not where a link points.
    pub(crate) fn look(&self, path: &Path) -> io::Result<Metadata> {
        self.may(Op::Look, path)?;
        std::fs::symlink_metadata(path)
    }

    /// What a name in an open folder names, itself and not where a link points.
    pub(crate) fn look_in(&self, folder: &File, name: &str, path: &Path) -> io::Result<Seen> {
        self.may(Op::Look, path)?;
        let there = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(there.st_mode);
        Ok(Seen {
            inode: Inode { dev: there.st_dev, ino: there.st_ino },
            is_file: kind == FileType::RegularFile,
            is_folder: kind == FileType::Directory,
            bytes: u64::try_from(there.st_size).unwrap_or_default(),
            modified: time(there.st_mtime, there.st_mtime_nsec),
            changed: time(there.st_ctime, there.st_ctime_nsec),
        })
    }

    /// The names of what is in a folder, those that are text.
    pub(crate) fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.may(Op::List, path)?;
        let mut names = Vec::new();
        for entry in std::fs::read_dir(path)? {
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    /// The names of what is in an open folder, those that are text.
    pub(crate) fn list_in(&self, folder: &File, path: &Path) -> io::Result<Vec<String>> {
        self.may(Op::List, path)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            names.extend(
                entry
                    .file_name()
                    .to_str()
                    .ok()
                    .filter(|name| !matches!(*name, "." | ".."))
                    .map(str::to_owned),
            );
        }
        Ok(names)
    }

    /// Reads up to `limit` bytes to the end of `bytes`, whose room is there.
    pub(crate) fn read(&self, file: &File, path: &Path, limit: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
        let limit = self.permit(Op::Read, path, None, limit)?.unwrap_or(limit);
        file.take(limit as u64).read_to_end(bytes).map(drop)
    }

    /// Up to `limit` bytes from the start of an open file.
    pub(crate) fn read_start(&self, file: &File, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        let limit = self.permit(Op::Read, path, None, limit)?.unwrap_or(limit);
        let mut bytes = vec![0; limit];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    pub(crate) fn write(&self, mut file: &File, path: &Path, bytes: &[u8]) -> io::Result<()> {
        match self.permit(Op::Write, path, None, bytes.len())? {
            None => file.write_all(bytes),
            Some(short) => {
                file.write_all(&bytes[..short.min(bytes.len())])?;
                Err(Errno::NOSPC.into())
            }
        }
    }

    /// Writes to the start of an open file.
    pub(crate) fn write_start(&self, file: &File, path: &Path, bytes: &[u8]) -> io::Result<()> {
        match self.permit(Op::Write, path, None, bytes.len())? {
            None => file.write_all_at(bytes, 0),
            Some(short) => {
                file.write_all_at(&bytes[..short.min(bytes.len())], 0)?;
                Err(Errno::NOSPC.into())
            }
        }
    }

    pub(crate) fn set_length(&self, file: &File, path: &Path, length: u64) -> io::Result<()> {
        self.may(Op::SetLength, path)?;
        file.set_len(length)
    }

    pub(crate) fn set_mode(&self, file: &File, path: &Path, mode: u32) -> io::Result<()> {
        self.may(Op::SetMode, path)?;
        file.set_permissions(Permissions::from_mode(mode))
    }

    /// Sets both times of a file to "now", by the file system's own clock; whoever may write to it may do that.
    pub(crate) fn touch(&self, file: &File, path: &Path) -> io::Result<()> {
        self.may(Op::SetTime, path)?;
        Ok(rustix::fs::futimens(file, &self.now())?)
    }

    /// Touches a name in an open folder, itself and not where a link points.
    pub(crate) fn touch_in(&self, folder: &File, name: &str, path: &Path) -> io::Result<()> {
        self.may(Op::SetTime, path)?;
        Ok(rustix::fs::utimensat(folder, name, &self.now(), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn now(&self) -> Timestamps {
        let now = match &self.clock {
            None => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
            Some(clock) => {
                let now = unix(clock.now());
                let tv_sec = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
                Timespec { tv_sec, tv_nsec: now.subsec_nanos().into() }
            }
        };
        Timestamps { last_access: now, last_modification: now }
    }

    pub(crate) fn sync_data(&self, file: &File, path: &Path) -> io::Result<()> {
        self.may(Op::SyncData, path)?;
        file.sync_data()
    }

    /// Syncs an open folder, so that renames into it survive a power cut.
    pub(crate) fn sync_folder(&self, folder: &File, path: &Path) -> io::Result<()> {
        self.may(Op::SyncFolder, path)?;
        folder.sync_all()
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.permit(Op::Rename, from, Some(to), 0)?;
        std::fs::rename(from, to)
    }

    /// Renames to `name` in an open folder, which is at `to`'s.
    pub(crate) fn rename_into(&self, from: &Path, folder: &File, name: &str, to: &Path) -> io::Result<()> {
        self.permit(Op::Rename, from, Some(to), 0)?;
        Ok(rustix::fs::renameat(CWD, from, folder, name)?)
    }

    /// Renames `name` in an open folder, which is at `from`'s, to `to`.
    pub(crate) fn rename_out(&self, folder: &File, name: &str, from: &Path, to: &Path) -> io::Result<()> {
        self.permit(Op::Rename, from, Some(to), 0)?;
        Ok(rustix::fs::renameat(folder, name, CWD, to)?)
    }

    /// Renames, unless something is there already.
    pub(crate) fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.permit(Op::Rename, from, Some(to), 0)?;
        Ok(rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
    }

    /// Gives a file a second name, which must be free.
    pub(crate) fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.permit(Op::Link, from, Some(to), 0)?;
        std::fs::hard_link(from, to)
    }

    /// Removes a file, or a link, never what it points to. One that is not there is fine.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        self.may(Op::Remove, path)?;
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes a file in an open folder, or a link, never what it points to.
    pub(crate) fn remove_in(&self, folder: &File, name: &str, path: &Path) -> io::Result<()> {
        self.may(Op::Remove, path)?;
        Ok(rustix::fs::unlinkat(folder, name, AtFlags::empty())?)
    }

    /// Removes a folder in an open folder, if it is empty.
    pub(crate) fn remove_folder_in(&self, folder: &File, name: &str, path: &Path) -> io::Result<()> {
        self.may(Op::RemoveFolder, path)?;
        Ok(rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)?)
    }

    /// Removes a folder, if it is empty.
    pub(crate) fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.may(Op::RemoveFolder, path)?;
        std::fs::remove_dir(path)
    }

    /// Tries to lock, at once.
    pub(crate) fn try_lock(&self, file: &File, path: &Path) -> io::Result<TryLock> {
        let tried = self.may(Op::Lock, path).map_err(TryLockError::Error).and_then(|()| file.try_lock());
        match tried {
            Ok(()) => Ok(TryLock::Locked),
            Err(TryLockError::WouldBlock) => Ok(TryLock::Busy),
            Err(TryLockError::Error(error)) => match Errno::from_io_error(&error) {
                Some(Errno::INTR) => Ok(TryLock::Busy),
                Some(Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS) => Ok(TryLock::Unsupported),
                _ => Err(error),
            },
        }
    }

    /// Unlocks for everybody who has this open file, children of a plain fork included.
    pub(crate) fn unlock(&self, file: &File, path: &Path) -> io::Result<()> {
        self.may(Op::Unlock, path)?;
        file.unlock()
    }
}

/// A locked file, unlocked when dropped. Closing it would not do: a child that another thread is just starting has it
/// open, too, for a moment. Nobody watches this; closing the last one does the same.
pub(crate) struct Locked(File);

impl Locked {
    pub(crate) fn new(file: File) -> Self {
        Self(file)
    }

    pub(crate) fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("watched", &self.watcher.is_some()).finish()
    }
}

/// What a look at a path saw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) inode: Inode,
    pub(crate) is_file: bool,
    pub(crate) is_folder: bool,
    pub(crate) bytes: u64,
    /// When its bytes were last written, or it was last touched.
    pub(crate) modified: SystemTime,
    /// When anything of it last changed, its name included.
    pub(crate) changed: SystemTime,
}

fn time(seconds: i64, nanos: impl TryInto<u32>) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let at = match seconds < 0 {
        true => SystemTime::UNIX_EPOCH.checked_sub(whole),
        false => SystemTime::UNIX_EPOCH.checked_add(whole),
    };
    let nanos = Duration::from_nanos(nanos.try_into().unwrap_or_default().into());
    at.and_then(|at| at.checked_add(nanos)).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Which file a path led to, so that a later look can tell whether it still does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inode {
    dev: u64,
    ino: u64,
}

impl Inode {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { dev: metadata.dev(), ino: metadata.ino() }
    }
}
