//! Every access to the disk, one function a system call: the only module of this crate that may touch `std::fs`.
//!
//! A [`Watcher`] hears of each call before it is made, and may refuse it: that is how a test fails, counts, or ends a
//! process at every single one.
//!
//! Once the root is [entered](Disk::enter), no path may lead through a symbolic link, neither its last part nor any
//! other: the kernel sees to it (`openat2`, Linux 5.6). Where it cannot, each path is walked part by part, which costs a few calls.

use std::fmt;
use std::fs::{File, Metadata, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::buffer::spare_capacity;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Timespec, Timestamps,
};
use rustix::io::Errno;

use crate::clock::unix;
use crate::{Call, Clock, Op, Permit, Watcher};

/// The disk.
#[derive(Clone, Default)]
pub(crate) struct Disk {
    watcher: Option<Arc<dyn Watcher>>,
    /// In place of the file system's clock.
    clock: Option<Arc<dyn Clock>>,
    /// No path may lead through a link.
    without_links: bool,
    /// The root, once it is entered.
    root: Option<Arc<Path>>,
    /// Reading leaves no trace: times of access stay, where this user may see to that.
    quiet: bool,
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
        Self { watcher, clock, without_links: false, root: None, quiet: false }
    }

    /// The same disk, of which reading leaves no trace if `quiet`.
    pub(crate) fn quiet(self, quiet: bool) -> Self {
        Self { quiet, ..self }
    }

    /// Opens to read by `open`, which is given the flags.
    fn open_to_read(&self, flags: OFlags, open: impl Fn(OFlags) -> io::Result<OwnedFd>) -> io::Result<File> {
        let opened = match self.quiet {
            true => match open(flags | OFlags::NOATIME) {
                // Only its owner may.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::PERM) => open(flags),
                opened => opened,
            },
            false => open(flags),
        };
        opened.map(File::from)
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

    /// The path without links that leads where `path` does.
    pub(crate) fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        self.may(Op::Look, path)?;
        std::fs::canonicalize(path)
    }

    /// Where a link leads, as it says.
    pub(crate) fn link_target(&self, path: &Path) -> io::Result<PathBuf> {
        self.may(Op::Look, path)?;
        std::fs::read_link(path)
    }

    /// Opens the root at its real path. From now on nothing is reached through a link.
    pub(crate) fn enter(&mut self, root: &Path) -> io::Result<File> {
        self.without_links = true;
        self.root = Some(root.into());
        let opened = self.open_folder(root);
        match opened.as_ref().err().and_then(Errno::from_io_error) {
            // An older kernel, or a container that does not let the call through.
            Some(Errno::NOSYS | Errno::PERM) => {
                self.without_links = false;
                self.open_folder(root)
            }
            _ => opened,
        }
    }

    /// Opens what `path` names, unless that is a link, or a link leads there.
    fn open_path(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if self.without_links {
            let resolve = ResolveFlags::NO_SYMLINKS;
            return Ok(rustix::io::retry_on_intr(|| rustix::fs::openat2(CWD, path, flags, mode, resolve))?);
        }
        let below = self.root.as_deref().and_then(|root| Some((root, path.strip_prefix(root).ok()?)));
        let Some((root, (folders, name))) =
            below.and_then(|(root, below)| Some((root, (below.parent()?, below.file_name()?))))
        else {
            return Ok(rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, mode))?);
        };
        // What the kernel does not do at once is done part by part.
        let walking = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at = rustix::io::retry_on_intr(|| rustix::fs::open(root, walking, Mode::empty()))?;
        for part in folders {
            at = rustix::io::retry_on_intr(|| rustix::fs::openat(&at, part, walking, Mode::empty()))?;
        }
        Ok(rustix::io::retry_on_intr(|| rustix::fs::openat(&at, name, flags, mode))?)
    }

    /// Where to do something to the name `path`, and not to what it leads to.
    fn place<'p>(&self, path: &'p Path) -> io::Result<Place<'p>> {
        match path.parent().zip(path.file_name()).filter(|_| self.root.is_some()) {
            Some((folder, name)) => {
                let folder = self.open_path(folder, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
                Ok(Place { folder: Some(folder), name: Path::new(name) })
            }
            None => Ok(Place { folder: None, name: path }),
        }
    }

    /// Opens a file to read it.
    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        self.may(Op::Open, path)?;
        // Without NONBLOCK a pipe would hold us up until somebody writes to it.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        self.open_to_read(flags, |flags| self.open_path(path, flags, Mode::empty()))
    }

    /// Opens a file in an open folder to read it.
    pub(crate) fn open_in(&self, folder: &File, name: &str, path: &Path) -> io::Result<File> {
        self.may(Op::Open, path)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        self.open_to_read(flags, |flags| Ok(rustix::fs::openat(folder, name, flags, Mode::empty())?))
    }

    /// Opens a folder, so that what is looked at is what is used.
    pub(crate) fn open_folder(&self, path: &Path) -> io::Result<File> {
        self.may(Op::OpenFolder, path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        self.open_to_read(flags, |flags| self.open_path(path, flags, Mode::empty()))
    }

    /// Opens a file to lock or to change it; made with the mode `create`, if there is one, where it is not there. Never
    /// shared with children: everything is opened close-on-exec.
    pub(crate) fn open_lock(&self, path: &Path, create: Option<u32>) -> io::Result<File> {
        self.may(Op::OpenLock, path)?;
        let made = if create.is_some() { OFlags::CREATE } else { OFlags::empty() };
        self.open_path(path, OFlags::RDWR | made, mode(create.unwrap_or(0))).map(File::from)
    }

    /// Creates a file that must not be there.
    pub(crate) fn create(&self, path: &Path) -> io::Result<File> {
        self.may(Op::Create, path)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        self.open_path(path, flags, mode(0o600)).map(File::from)
    }

    pub(crate) fn create_folder(&self, path: &Path, bits: u32) -> io::Result<()> {
        self.may(Op::CreateFolder, path)?;
        let place = self.place(path)?;
        Ok(rustix::fs::mkdirat(place.folder(), place.name, mode(bits))?)
    }

    pub(crate) fn stat(&self, file: &File, path: &Path) -> io::Result<Metadata> {
        self.may(Op::Stat, path)?;
        file.metadata()
    }

    /// What a path names, itself and not where a link points.
    pub(crate) fn look(&self, path: &Path) -> io::Result<Seen> {
        self.may(Op::Look, path)?;
        let place = self.place(path)?;
        Seen::at(place.folder(), place.name)
    }

    /// Which file a path names, if it names one that can be looked at.
    pub(crate) fn inode_at(&self, path: &Path) -> Option<Inode> {
        self.look(path).map(|seen| seen.inode).ok()
    }

    /// What a name in an open folder names, itself and not where a link points.
    pub(crate) fn look_in(&self, folder: &File, name: &str, path: &Path) -> io::Result<Seen> {
        self.may(Op::Look, path)?;
        Seen::at(folder.as_fd(), Path::new(name))
    }

    /// The names of what is in an open folder, those that are text.
    pub(crate) fn list_in(&self, folder: &File, path: &Path) -> io::Result<Vec<String>> {
        self.list_all_in(folder, path).map(|(names, _)| names)
    }

    /// The same, and whether there is anything else.
    pub(crate) fn list_all_in(&self, folder: &File, path: &Path) -> io::Result<(Vec<String>, bool)> {
        self.may(Op::List, path)?;
        let (mut names, mut odd) = (Vec::new(), false);
        for entry in Dir::read_from(folder)? {
            match entry?.file_name().to_str() {
                Ok("." | "..") => {}
                Ok(name) => names.push(name.to_owned()),
                Err(_) => odd = true,
            }
        }
        Ok((names, odd))
    }

    /// Reads up to `limit` bytes into `bytes`, which are empty and whose room is there: by one call, but for a file
    /// system that gives less at a time.
    pub(crate) fn read(&self, file: &File, path: &Path, limit: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
        let limit = self.permit(Op::Read, path, None, limit)?.unwrap_or(limit);
        // `read_to_end` would begin with 8 KiB, and ask for more and more.
        while bytes.len() < limit {
            match rustix::io::read(file, spare_capacity(bytes)) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        bytes.truncate(limit);
        Ok(())
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
        let (from, to) = (self.place(from)?, self.place(to)?);
        Ok(rustix::fs::renameat(from.folder(), from.name, to.folder(), to.name)?)
    }

    /// Renames to `name` in an open folder, which is at `to`'s.
    pub(crate) fn rename_into(&self, from: &Path, folder: &File, name: &str, to: &Path) -> io::Result<()> {
        self.permit(Op::Rename, from, Some(to), 0)?;
        let from = self.place(from)?;
        Ok(rustix::fs::renameat(from.folder(), from.name, folder, name)?)
    }

    /// Renames `name` in an open folder, which is at `from`'s, to `to`.
    pub(crate) fn rename_out(&self, folder: &File, name: &str, from: &Path, to: &Path) -> io::Result<()> {
        self.permit(Op::Rename, from, Some(to), 0)?;
        let to = self.place(to)?;
        Ok(rustix::fs::renameat(folder, name, to.folder(), to.name)?)
    }

    /// Renames, unless something is there already.
    pub(crate) fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.permit(Op::Rename, from, Some(to), 0)?;
        let (from, to) = (self.place(from)?, self.place(to)?);
        let flags = RenameFlags::NOREPLACE;
        Ok(rustix::fs::renameat_with(from.folder(), from.name, to.folder(), to.name, flags)?)
    }

    /// Gives a file a second name, which must be free.
    pub(crate) fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.permit(Op::Link, from, Some(to), 0)?;
        let (from, to) = (self.place(from)?, self.place(to)?);
        Ok(rustix::fs::linkat(from.folder(), from.name, to.folder(), to.name, AtFlags::empty())?)
    }

    /// Removes a file, or a link, never what it points to. One that is not there is fine.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        self.may(Op::Remove, path)?;
        let place = self.place(path)?;
        match rustix::fs::unlinkat(place.folder(), place.name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            other => Ok(other?),
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
        let place = self.place(path)?;
        Ok(rustix::fs::unlinkat(place.folder(), place.name, AtFlags::REMOVEDIR)?)
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

/// A name in a folder.
struct Place<'p> {
    /// Open, so that no link is on the way to it. `None`: the name is a whole path.
    folder: Option<OwnedFd>,
    name: &'p Path,
}

impl Place<'_> {
    fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_ref().map_or(CWD, AsFd::as_fd)
    }
}

fn mode(bits: u32) -> Mode {
    Mode::from_raw_mode(bits)
}

/// What a look at a path saw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) inode: Inode,
    pub(crate) is_file: bool,
    pub(crate) is_folder: bool,
    pub(crate) is_link: bool,
    pub(crate) bytes: u64,
    /// When its bytes were last written, or it was last touched.
    pub(crate) modified: SystemTime,
    /// When anything of it last changed, its name included.
    pub(crate) changed: SystemTime,
}

impl Seen {
    fn at(folder: BorrowedFd<'_>, name: &Path) -> io::Result<Self> {
        let there = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(there.st_mode);
        Ok(Self {
            inode: Inode { dev: there.st_dev, ino: there.st_ino },
            is_file: kind == FileType::RegularFile,
            is_folder: kind == FileType::Directory,
            is_link: kind == FileType::Symlink,
            bytes: u64::try_from(there.st_size).unwrap_or_default(),
            modified: time(there.st_mtime, there.st_mtime_nsec),
            changed: time(there.st_ctime, there.st_ctime_nsec),
        })
    }
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
