//! An open directory: files in it are reached by name, and no link is followed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use opkeep_text::counted;
use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps, Uid};
use rustix::io::{Errno, retry_on_intr};

use crate::call::{FsOp, Watch};
use crate::lock::LockFile;
use crate::state::{FileKind, FileStat, FileState};

/// How many times a file is read that changes meanwhile.
const READS: usize = 3;

/// An open directory.
///
/// Another process may rename it, or put a link in its place: the names still are those in the opened directory.
#[derive(Debug)]
pub struct Dir {
    path: PathBuf,
    fd: OwnedFd,
    watch: Watch,
    /// Reading leaves access times unchanged, if this user may do so.
    is_quiet: bool,
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Dir {
    /// Opens the directory at `path`. Links on the way are followed.
    ///
    /// # Errors
    /// That of the system.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_watched(path, &Watch::none(), false)
    }

    /// Like [`open`](Self::open), but reading in it, and in directories below it, leaves access times unchanged if this
    /// user may do so: some programs use these times to find unused files.
    ///
    /// # Errors
    /// That of the system.
    pub fn open_quietly(path: &Path) -> io::Result<Self> {
        Self::open_watched(path, &Watch::none(), true)
    }

    pub(crate) fn open_watched(path: &Path, watch: &Watch, is_quiet: bool) -> io::Result<Self> {
        watch.may(FsOp::OpenDir, path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = open_with(is_quiet, flags, |flags| rustix::fs::openat(CWD, path, flags, Mode::empty()))?;
        Ok(Self::new(path, fd, watch.clone(), is_quiet))
    }

    pub(crate) fn new(path: &Path, fd: OwnedFd, watch: Watch, is_quiet: bool) -> Self {
        Self { path: path.to_owned(), fd, watch, is_quiet }
    }

    /// A second descriptor of the same directory.
    ///
    /// # Errors
    /// That of the system.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self::new(&self.path, self.fd.try_clone()?, self.watch.clone(), self.is_quiet))
    }

    /// The same directory, with access times left unchanged by reading.
    #[must_use]
    pub fn quiet(mut self) -> Self {
        self.is_quiet = true;
        self
    }

    /// The directory called `name` in this one.
    ///
    /// # Errors
    /// That of the system; of a link `ELOOP` or `ENOTDIR`, which depends on the file system.
    pub fn below(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let name = name.as_ref();
        self.watch.may_in(FsOp::OpenDir, &self.path, name)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |flags| rustix::fs::openat(&self.fd, name, flags, Mode::empty());
        let fd = open_with(self.is_quiet, flags, open)?;
        Ok(Self::new(&self.path.join(name), fd, self.watch.clone(), self.is_quiet))
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The state of the directory itself.
    ///
    /// # Errors
    /// That of the system.
    pub fn stat(&self) -> io::Result<FileStat> {
        self.watch.may(FsOp::Stat, &self.path)?;
        Ok(FileStat::of(&rustix::fs::fstat(&self.fd)?))
    }

    /// The state of `name`; of a link, that of the link itself.
    ///
    /// # Errors
    /// That of the system.
    pub fn look(&self, name: impl AsRef<OsStr>) -> io::Result<FileStat> {
        let name = name.as_ref();
        self.watch.may_in(FsOp::Look, &self.path, name)?;
        Ok(FileStat::of(&self.raw_stat(name)?))
    }

    fn raw_stat(&self, name: &OsStr) -> io::Result<Stat> {
        Ok(rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// The state of the regular file called `name`, if there is one.
    pub fn file_state(&self, name: impl AsRef<OsStr>) -> Option<FileState> {
        self.look(name).ok().filter(FileStat::is_file).map(|found| found.state)
    }

    /// Whether a regular file or a link is called `name`.
    pub fn is_file_or_link(&self, name: impl AsRef<OsStr>) -> bool {
        self.look(name).is_ok_and(|found| matches!(found.kind, FileKind::File | FileKind::Link))
    }

    /// Whether `name` exists, or cannot be looked at.
    pub fn may_exist(&self, name: impl AsRef<OsStr>) -> bool {
        !matches!(self.look(name), Err(error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// All names in the directory, in no order.
    ///
    /// # Errors
    /// That of the system.
    pub fn list(&self) -> io::Result<Names> {
        self.watch.may(FsOp::List, &self.path)?;
        self.names_of(rustix::fs::Dir::read_from(&self.fd)?)
    }

    /// Like [`list`](Self::list), but usable once: the directory is not opened again, so this user need not be allowed
    /// to enter it.
    pub(crate) fn list_once(self) -> io::Result<Names> {
        self.watch.may(FsOp::List, &self.path)?;
        self.names_of(rustix::fs::Dir::new(self.fd.try_clone()?)?)
    }

    fn names_of(&self, entries: rustix::fs::Dir) -> io::Result<Names> {
        let mut names = Names::default();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not report kinds.
                FileType::Unknown => self
                    .raw_stat(OsStr::from_bytes(name))
                    .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
                said => said,
            };
            names.text.extend_from_slice(name);
            names.list.push((names.text.len(), kind.into()));
        }
        Ok(names)
    }

    /// The same, each with its own memory.
    ///
    /// # Errors
    /// That of the system.
    pub fn entries(&self) -> io::Result<Vec<DirEntry>> {
        let entry = |(name, kind): (&OsStr, FileKind)| DirEntry { name: name.to_owned(), kind };
        Ok(self.list()?.iter().map(entry).collect())
    }

    /// Opens the file called `name` for reading, whatever its kind. A pipe does not block.
    ///
    /// # Errors
    /// That of the system; `ELOOP` if it is a link.
    pub fn open_file(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let name = name.as_ref();
        self.watch.may_in(FsOp::Open, &self.path, name)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = |flags| rustix::fs::openat(&self.fd, name, flags, Mode::empty());
        open_with(self.is_quiet, flags, open).map(File::from)
    }

    /// Up to `limit` bytes from the start of `file`, which was opened as `name`.
    ///
    /// # Errors
    /// That of the system.
    pub fn read_start(&self, file: &File, name: impl AsRef<OsStr>, limit: usize) -> io::Result<Vec<u8>> {
        let limit = match self.watch.is_watched() {
            true => self.watch.permit(FsOp::Read, &self.path.join(name.as_ref()), None, limit)?,
            false => None,
        }
        .unwrap_or(limit);
        start_of(file, limit)
    }

    /// Opens the file called `name` for locking it with a [`FileLock`](crate::FileLock). If it is missing and `create` is
    /// given, creates it with that mode.
    ///
    /// # Errors
    /// That of the system.
    pub fn open_lock(&self, name: impl AsRef<OsStr>, create: Option<u32>) -> io::Result<LockFile> {
        LockFile::open(|| self.open_to_change(name.as_ref(), create))
    }

    /// Opens the directory itself once more, for locking it.
    ///
    /// # Errors
    /// That of the system.
    pub fn open_as_lock(&self) -> io::Result<LockFile> {
        LockFile::open(|| Ok(self.below(".")?.fd.into()))
    }

    /// Opens the file called `name` for changing it, or for locking a part of it. If it is missing and `create` is given,
    /// creates it with that mode.
    ///
    /// # Errors
    /// That of the system.
    pub fn open_to_change(&self, name: impl AsRef<OsStr>, create: Option<u32>) -> io::Result<File> {
        let name = name.as_ref();
        self.watch.may_in(FsOp::OpenLock, &self.path, name)?;
        let created = if create.is_some() { OFlags::CREATE } else { OFlags::empty() };
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | created;
        let mode = Mode::from_raw_mode(create.unwrap_or(0));
        Ok(retry_on_intr(|| rustix::fs::openat(&self.fd, name, flags, mode))?.into())
    }

    /// Creates the file called `name`, which must be missing, and opens it to read and write.
    ///
    /// # Errors
    /// That of the system.
    pub fn create_file(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        let name = name.as_ref();
        self.watch.may_in(FsOp::Create, &self.path, name)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode);
        Ok(retry_on_intr(|| rustix::fs::openat(&self.fd, name, flags, mode))?.into())
    }

    /// Creates the directory called `name`, which must be missing.
    ///
    /// # Errors
    /// That of the system.
    pub fn create_dir(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<()> {
        let name = name.as_ref();
        self.watch.may_in(FsOp::CreateDir, &self.path, name)?;
        Ok(rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(mode))?)
    }

    /// Reads at most `limit` bytes of the file called `name` into `buffer`, up to three times if the file changes
    /// meanwhile.
    pub fn read(&self, name: impl AsRef<OsStr>, limit: u64, buffer: &mut Vec<u8>) -> FileRead {
        let name = name.as_ref();
        for _ in 0..READS {
            match self.read_once(name, limit, buffer) {
                Ok(Some(read)) => return read,
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => return FileRead::Missing,
                Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => return FileRead::Link,
                Err(error) => return FileRead::Failed(error),
            }
        }
        FileRead::Changing
    }

    /// One attempt; `None` if the file changed meanwhile.
    fn read_once(&self, name: &OsStr, limit: u64, buffer: &mut Vec<u8>) -> io::Result<Option<FileRead>> {
        let file = self.open_file(name)?;
        let stat = FileStat::of(&rustix::fs::fstat(&file)?);
        if !stat.is_file() {
            return Ok(Some(FileRead::NotAFile));
        }
        let before = stat.state;
        buffer.clear();
        if before.len > limit {
            return Ok(Some(FileRead::TooLarge(before)));
        }
        // One byte more than the length, so that the end is reached without another call.
        buffer.try_reserve(usize::try_from(before.len).unwrap_or(usize::MAX).saturating_add(1))?;
        // A read that does not fill the buffer has reached the end, except on file systems that return less than is
        // available.
        let mut more = true;
        while more {
            let room = buffer.capacity() - buffer.len();
            let read = retry_on_intr(|| rustix::io::read(&file, spare_capacity(buffer)))?;
            let all = buffer.len() as u64 >= before.len;
            more = read > 0 && !(all && read < room) && buffer.len() as u64 <= before.len;
        }
        let after = FileStat::of(&rustix::fs::fstat(&file)?).state;
        Ok((before == after && buffer.len() as u64 == before.len).then_some(FileRead::Complete(before)))
    }

    /// Gives the file called `name` the name `new` in the directory `to`, replacing an existing file.
    ///
    /// # Errors
    /// That of the system.
    pub fn rename(&self, name: impl AsRef<OsStr>, to: &Self, new: impl AsRef<OsStr>) -> io::Result<()> {
        let (name, new) = (name.as_ref(), new.as_ref());
        self.may_move(FsOp::Rename, name, to, new)?;
        Ok(rustix::fs::renameat(&self.fd, name, &to.fd, new)?)
    }

    /// Gives the file called `name` the name `new` in the directory `to`, which must be free.
    ///
    /// # Errors
    /// That of the system: `EEXIST` if the name exists; `EINVAL`, `ENOSYS` or `ENOTSUP` if renames always replace.
    pub fn rename_new(&self, name: impl AsRef<OsStr>, to: &Self, new: impl AsRef<OsStr>) -> io::Result<()> {
        let (name, new) = (name.as_ref(), new.as_ref());
        self.may_move(FsOp::Rename, name, to, new)?;
        Ok(rustix::fs::renameat_with(&self.fd, name, &to.fd, new, RenameFlags::NOREPLACE)?)
    }

    /// Gives the file called `name` the second name `new` in the directory `to`, which must be free.
    ///
    /// # Errors
    /// That of the system.
    pub fn link(&self, name: impl AsRef<OsStr>, to: &Self, new: impl AsRef<OsStr>) -> io::Result<()> {
        let (name, new) = (name.as_ref(), new.as_ref());
        self.may_move(FsOp::Link, name, to, new)?;
        Ok(rustix::fs::linkat(&self.fd, name, &to.fd, new, AtFlags::empty())?)
    }

    fn may_move(&self, op: FsOp, name: &OsStr, to: &Self, new: &OsStr) -> io::Result<()> {
        if !self.watch.is_watched() {
            return Ok(());
        }
        self.watch.permit(op, &self.path.join(name), Some(&to.path.join(new)), 0).map(drop)
    }

    /// Removes the file or link called `name`.
    ///
    /// # Errors
    /// That of the system.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = name.as_ref();
        self.watch.may_in(FsOp::Remove, &self.path, name)?;
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Removes the directory called `name`, which must be empty.
    ///
    /// # Errors
    /// That of the system.
    pub fn remove_dir(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = name.as_ref();
        self.watch.may_in(FsOp::RemoveDir, &self.path, name)?;
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// Sets both times of `name` to `now`; of a link, those of the link itself.
    ///
    /// # Errors
    /// That of the system.
    pub fn set_times(&self, name: impl AsRef<OsStr>, now: Timespec) -> io::Result<()> {
        let name = name.as_ref();
        self.watch.may_in(FsOp::SetTime, &self.path, name)?;
        let times = Timestamps { last_access: now, last_modification: now };
        Ok(rustix::fs::utimensat(&self.fd, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Makes the directory's names durable.
    ///
    /// # Errors
    /// That of the system: not every file system can.
    pub fn sync(&self) -> io::Result<()> {
        self.watch.may(FsOp::SyncDir, &self.path)?;
        Ok(rustix::fs::fsync(&self.fd)?)
    }

    /// Changes the owner and group of `created`, a new file in this directory, to the directory's: so the owner's
    /// programs can use files that an administrator creates. Best effort, since only administrators may do so.
    pub fn give(&self, created: impl AsFd) {
        let (Ok(dir), Ok(found)) = (rustix::fs::fstat(&self.fd), rustix::fs::fstat(&created)) else { return };
        if (dir.st_uid, dir.st_gid) != (found.st_uid, found.st_gid) {
            let (user, group) = (Uid::from_raw(dir.st_uid), Gid::from_raw(dir.st_gid));
            let _ = rustix::fs::fchown(created, Some(user), Some(group));
        }
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }
}

/// Up to `limit` bytes from the start of an open file.
pub(crate) fn start_of(file: &File, limit: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; limit];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Calls `open` with `flags`; if `is_quiet`, such that access times stay unchanged, unless only the file's owner may do
/// that.
pub(crate) fn open_with(
    is_quiet: bool,
    flags: OFlags,
    open: impl Fn(OFlags) -> rustix::io::Result<OwnedFd>,
) -> io::Result<OwnedFd> {
    let open = |flags| retry_on_intr(|| open(flags));
    let opened = match is_quiet {
        true => match open(flags | OFlags::NOATIME) {
            Err(Errno::PERM) => open(flags),
            opened => opened,
        },
        false => open(flags),
    };
    Ok(opened?)
}

/// A name in a directory, with its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct DirEntry {
    /// The name.
    pub name: OsString,
    /// Its kind; a link is not followed.
    pub kind: FileKind,
}

/// Names in a directory with their kinds, in two allocations.
#[derive(Debug, Default)]
pub struct Names {
    text: Vec<u8>,
    /// The end of each name.
    list: Vec<(usize, FileKind)>,
}

impl Names {
    /// Each name with its kind.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, FileKind)> {
        let mut begin = 0;
        self.list.iter().map(move |&(end, kind)| {
            let name = &self.text[begin..end];
            begin = end;
            (OsStr::from_bytes(name), kind)
        })
    }

    /// Each name that is UTF-8.
    pub fn utf8(&self) -> impl Iterator<Item = &str> {
        self.iter().filter_map(|(name, _)| name.to_str())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// The outcome of reading a file.
#[derive(Debug)]
pub enum FileRead {
    /// The buffer holds its content; it had this state before and after.
    Complete(FileState),
    /// It is larger than the limit.
    TooLarge(FileState),
    /// It changed each time it was read.
    Changing,
    /// There is no such file.
    Missing,
    /// It is a link. No link is followed.
    Link,
    /// It is a directory, a pipe or a device.
    NotAFile,
    /// It could not be read.
    Failed(io::Error),
}

impl FileRead {
    /// The file's state if it was read completely; none if it is missing.
    ///
    /// # Errors
    /// Why it was not read.
    pub fn complete(self) -> io::Result<Option<FileState>> {
        let found = match self {
            Self::Complete(file) => return Ok(Some(file)),
            Self::Missing => return Ok(None),
            Self::Failed(error) => return Err(error),
            Self::TooLarge(file) => &*format!("{}, which is too many", counted(file.len, "byte")),
            Self::Changing => "one that changed whenever it was read",
            Self::Link => "a symbolic link",
            Self::NotAFile => "a directory, pipe or device",
        };
        Err(io::Error::other(format!("expected a file, found {found}")))
    }
}
