//! Paths below a root that must not be left.
//!
//! After the root is [entered](RootedFs::enter), no part of a path may be a symbolic link. The kernel enforces this
//! (`openat2`, Linux 5.6). Without that call, each path is opened part by part.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, ResolveFlags, Timespec, Timestamps};
use rustix::io::{Errno, retry_on_intr};

use crate::call::{FsOp, Watch, Watcher};
use crate::clock::{Clock, unix};
use crate::dir::{Dir, open_with, start_of};
use crate::lock::{FileLock, LockFile, TryLock};
use crate::state::{FileId, FileStat};
use crate::temp::TempFile;

/// The file system below a root. No link is followed after the root is entered.
#[derive(Clone, Default)]
pub struct RootedFs {
    watch: Watch,
    /// Replaces the file system's clock.
    clock: Option<Arc<dyn Clock>>,
    /// Whether the kernel refuses links.
    without_links: bool,
    /// The root, after it is entered.
    root: Option<Arc<Path>>,
    /// Reading leaves access times unchanged, if this user may do so.
    is_quiet: bool,
}

impl RootedFs {
    /// A file system whose root is not entered yet.
    pub fn new(watcher: Option<Arc<dyn Watcher>>, clock: Option<Arc<dyn Clock>>) -> Self {
        Self { watch: Watch::new(watcher), clock, without_links: false, root: None, is_quiet: false }
    }

    /// The same file system; if `is_quiet`, reading leaves access times unchanged.
    #[must_use]
    pub fn quiet(self, is_quiet: bool) -> Self {
        Self { is_quiet, ..self }
    }

    /// The path without links that leads to the same file as `path`.
    ///
    /// # Errors
    /// That of the system, as for all functions of this type.
    pub fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        self.watch.may(FsOp::Look, path)?;
        std::fs::canonicalize(path)
    }

    /// The target of a link, as stored.
    pub fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.watch.may(FsOp::Look, path)?;
        std::fs::read_link(path)
    }

    /// Opens the root by its real path. From now on, nothing is reached through a link.
    pub fn enter(&mut self, root: &Path) -> io::Result<Dir> {
        self.without_links = true;
        self.root = Some(root.into());
        let opened = self.open_dir(root);
        match opened.as_ref().err().and_then(Errno::from_io_error) {
            // An older kernel, or a container that denies the call.
            Some(Errno::NOSYS | Errno::PERM) => {
                self.without_links = false;
                self.open_dir(root)
            }
            _ => opened,
        }
    }

    /// Opens `path`, unless it or a part of it is a link.
    fn open_path(&self, path: &Path, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if self.without_links {
            let resolve = ResolveFlags::NO_SYMLINKS;
            return retry_on_intr(|| rustix::fs::openat2(CWD, path, flags, mode, resolve));
        }
        let below = self.root.as_deref().and_then(|root| Some((root, path.strip_prefix(root).ok()?)));
        let Some((root, (dirs, name))) =
            below.and_then(|(root, below)| Some((root, (below.parent()?, below.file_name()?))))
        else {
            return retry_on_intr(|| rustix::fs::open(path, flags, mode));
        };
        // Without `openat2`, part by part.
        let walking = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at = retry_on_intr(|| rustix::fs::open(root, walking, Mode::empty()))?;
        for part in dirs {
            at = retry_on_intr(|| rustix::fs::openat(&at, part, walking, Mode::empty()))?;
        }
        retry_on_intr(|| rustix::fs::openat(&at, name, flags, mode))
    }

    /// The open parent directory and the name of `path`, for an operation on the name itself.
    fn parent_of<'p>(&self, path: &'p Path) -> io::Result<ParentAndName<'p>> {
        match path.parent().zip(path.file_name()).filter(|_| self.root.is_some()) {
            Some((dir, name)) => {
                let dir = self.open_path(dir, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
                Ok(ParentAndName { dir: Some(dir), name: Path::new(name) })
            }
            None => Ok(ParentAndName { dir: None, name: path }),
        }
    }

    /// Opens a file for reading. A pipe does not block.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        self.watch.may(FsOp::Open, path)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        open_with(self.is_quiet, flags, |flags| self.open_path(path, flags, Mode::empty())).map(File::from)
    }

    /// Opens a directory, so that later operations apply to the directory that was checked.
    pub fn open_dir(&self, path: &Path) -> io::Result<Dir> {
        self.watch.may(FsOp::OpenDir, path)?;
        self.open_dir_unwatched(path)
    }

    fn open_dir_unwatched(&self, path: &Path) -> io::Result<Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = open_with(self.is_quiet, flags, |flags| self.open_path(path, flags, Mode::empty()))?;
        Ok(Dir::new(path, fd, self.watch.clone(), self.is_quiet))
    }

    /// Creates a file in the directory `dir` under a temporary name.
    pub fn temp_file(&self, dir: &Path, prefix: &str) -> io::Result<TempFile<Dir>> {
        TempFile::create(self.open_dir_unwatched(dir)?, prefix, 0o600)
    }

    /// Opens a file for locking it. If it is missing and `create` is given, creates it with that mode.
    pub fn open_lock(&self, path: &Path, create: Option<u32>) -> io::Result<LockFile> {
        self.watch.may(FsOp::OpenLock, path)?;
        LockFile::open(|| self.open_or_create(path, create))
    }

    /// Opens a file for changing it. If it is missing and `create` is given, creates it with that mode.
    pub fn open_to_change(&self, path: &Path, create: Option<u32>) -> io::Result<File> {
        self.watch.may(FsOp::OpenLock, path)?;
        self.open_or_create(path, create)
    }

    fn open_or_create(&self, path: &Path, create: Option<u32>) -> io::Result<File> {
        let created = if create.is_some() { OFlags::CREATE } else { OFlags::empty() };
        let mode = Mode::from_raw_mode(create.unwrap_or(0));
        Ok(self.open_path(path, OFlags::RDWR | created, mode)?.into())
    }

    /// Creates a directory that must be missing.
    pub fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.watch.may(FsOp::CreateDir, path)?;
        let place = self.parent_of(path)?;
        Ok(rustix::fs::mkdirat(place.dir(), place.name, Mode::from_raw_mode(mode))?)
    }

    /// The state of an open file.
    pub fn stat(&self, file: &File, path: &Path) -> io::Result<FileStat> {
        self.watch.may(FsOp::Stat, path)?;
        Ok(FileStat::of(&rustix::fs::fstat(file)?))
    }

    /// The state of a path; of a link, that of the link itself.
    pub fn look(&self, path: &Path) -> io::Result<FileStat> {
        self.watch.may(FsOp::Look, path)?;
        let place = self.parent_of(path)?;
        Ok(FileStat::of(&rustix::fs::statat(place.dir(), place.name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// The identity of the file at a path, if it can be looked at.
    pub fn id_at(&self, path: &Path) -> Option<FileId> {
        self.look(path).map(|found| found.state.id).ok()
    }

    /// Reads up to `limit` bytes into `bytes`, which must be empty with enough capacity: by one call, except on a file
    /// system that returns less at a time.
    pub fn read(&self, file: &File, path: &Path, limit: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
        let limit = self.watch.permit(FsOp::Read, path, None, limit)?.unwrap_or(limit);
        // `read_to_end` would begin with 8 KiB and grow in steps.
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
    pub fn read_start(&self, file: &File, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        let limit = self.watch.permit(FsOp::Read, path, None, limit)?.unwrap_or(limit);
        start_of(file, limit)
    }

    /// The bytes of an open file in `range`.
    pub fn read_range(&self, file: &File, path: &Path, range: Range<usize>) -> io::Result<Vec<u8>> {
        let limit = self.watch.permit(FsOp::Read, path, None, range.len())?.unwrap_or(range.len());
        let mut bytes = vec![0; limit];
        file.read_exact_at(&mut bytes, range.start as u64)?;
        match limit == range.len() {
            true => Ok(bytes),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Writes at the position of an open file.
    pub fn write(&self, mut file: &File, path: &Path, bytes: &[u8]) -> io::Result<()> {
        match self.watch.permit(FsOp::Write, path, None, bytes.len())? {
            None => file.write_all(bytes),
            Some(short) => {
                file.write_all(&bytes[..short.min(bytes.len())])?;
                Err(Errno::NOSPC.into())
            }
        }
    }

    /// Writes to the start of an open file.
    pub fn write_start(&self, file: &File, path: &Path, bytes: &[u8]) -> io::Result<()> {
        match self.watch.permit(FsOp::Write, path, None, bytes.len())? {
            None => file.write_all_at(bytes, 0),
            Some(short) => {
                file.write_all_at(&bytes[..short.min(bytes.len())], 0)?;
                Err(Errno::NOSPC.into())
            }
        }
    }

    /// Truncates or extends an open file.
    pub fn set_length(&self, file: &File, path: &Path, length: u64) -> io::Result<()> {
        self.watch.may(FsOp::SetLength, path)?;
        file.set_len(length)
    }

    /// Sets the mode of an open file, whatever the umask.
    pub fn set_mode(&self, file: &File, path: &Path, mode: u32) -> io::Result<()> {
        self.watch.may(FsOp::SetMode, path)?;
        file.set_permissions(Permissions::from_mode(mode))
    }

    /// Sets the mode of an open directory, whatever the umask.
    pub fn set_dir_mode(&self, dir: &Dir, mode: u32) -> io::Result<()> {
        self.watch.may(FsOp::SetMode, dir.path())?;
        Ok(rustix::fs::fchmod(dir, Mode::from_raw_mode(mode))?)
    }

    /// Sets both times of a file to now, by the file system's own clock. Each user who may write to the file may do so.
    pub fn touch(&self, file: &File, path: &Path) -> io::Result<()> {
        self.watch.may(FsOp::SetTime, path)?;
        let now = self.now();
        Ok(rustix::fs::futimens(file, &Timestamps { last_access: now, last_modification: now })?)
    }

    /// Touches a name in an open directory; of a link, the link itself.
    pub fn touch_in(&self, dir: &Dir, name: impl AsRef<OsStr>) -> io::Result<()> {
        dir.set_times(name, self.now())
    }

    fn now(&self) -> Timespec {
        match &self.clock {
            None => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
            Some(clock) => {
                let now = unix(clock.now());
                let tv_sec = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
                Timespec { tv_sec, tv_nsec: now.subsec_nanos().into() }
            }
        }
    }

    /// Makes the bytes of an open file durable.
    pub fn sync_data(&self, file: &File, path: &Path) -> io::Result<()> {
        self.watch.may(FsOp::SyncData, path)?;
        file.sync_data()
    }

    /// Renames, replacing an existing file of the new name.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.watch.permit(FsOp::Rename, from, Some(to), 0)?;
        let (from, to) = (self.parent_of(from)?, self.parent_of(to)?);
        Ok(rustix::fs::renameat(from.dir(), from.name, to.dir(), to.name)?)
    }

    /// Renames, unless the new name exists.
    pub fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.watch.permit(FsOp::Rename, from, Some(to), 0)?;
        let (from, to) = (self.parent_of(from)?, self.parent_of(to)?);
        let flags = RenameFlags::NOREPLACE;
        Ok(rustix::fs::renameat_with(from.dir(), from.name, to.dir(), to.name, flags)?)
    }

    /// Gives a file a second name, which must be free.
    pub fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.watch.permit(FsOp::Link, from, Some(to), 0)?;
        let (from, to) = (self.parent_of(from)?, self.parent_of(to)?);
        Ok(rustix::fs::linkat(from.dir(), from.name, to.dir(), to.name, AtFlags::empty())?)
    }

    /// Removes a file, or a link itself. A missing one is fine.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        self.watch.may(FsOp::Remove, path)?;
        let place = self.parent_of(path)?;
        match rustix::fs::unlinkat(place.dir(), place.name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            other => Ok(other?),
        }
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.watch.may(FsOp::RemoveDir, path)?;
        let place = self.parent_of(path)?;
        Ok(rustix::fs::unlinkat(place.dir(), place.name, AtFlags::REMOVEDIR)?)
    }

    /// Tries to lock an open file, without waiting.
    pub fn try_lock(&self, file: LockFile, path: &Path) -> io::Result<TryLock> {
        FileLock::try_watched(file, path, &self.watch)
    }
}

impl fmt::Debug for RootedFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RootedFs").field("root", &self.root).finish_non_exhaustive()
    }
}

/// A name in a directory.
struct ParentAndName<'p> {
    /// Open, so that no link is on the way to it. `None`: the name is a whole path.
    dir: Option<OwnedFd>,
    name: &'p Path,
}

impl ParentAndName<'_> {
    fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_ref().map_or(CWD, AsFd::as_fd)
    }
}
