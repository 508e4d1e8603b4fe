//! Looking into folders of others without changing anything: every access of a survey to the disk.
//!
//! A folder is opened once and everything in it is reached by name through that descriptor, links never followed.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};

use crate::disk::Identity;
use crate::pseudo::pseudo_below;

/// How often a file that changes while it is read is read anew.
const READS: usize = 3;

/// A folder that is looked into.
#[derive(Debug)]
pub(crate) struct Dir {
    path: PathBuf,
    fd: OwnedFd,
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A name in a folder, and what bears it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) name: OsString,
    pub(crate) kind: NameKind,
}

/// Names and what bears them, all in two pieces of memory.
#[derive(Debug, Default)]
pub(crate) struct Names {
    text: Vec<u8>,
    /// Where each ends.
    list: Vec<(usize, NameKind)>,
}

impl Names {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&OsStr, NameKind)> {
        let mut begin = 0;
        self.list.iter().map(move |&(end, kind)| {
            let name = &self.text[begin..end];
            begin = end;
            (OsStr::from_bytes(name), kind)
        })
    }
}

/// What bears a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NameKind {
    File,
    Folder,
    Link,
    Other,
}

/// What became of reading a file.
#[derive(Debug)]
pub(crate) enum Read1 {
    /// The buffer holds it, and this is the file it was.
    Whole(Identity),
    /// It is larger than what was asked for.
    TooLarge(Identity),
    /// It changed each time it was read.
    Changing,
    /// There is no such file any more.
    Gone,
    /// It is a link. What is behind it may be in order; no link is followed.
    Link,
    /// It is a folder, a pipe or a device.
    NotAFile,
    /// It could not be read.
    Failed(io::Error),
}

impl Read1 {
    /// Whether it was read whole; none if there is no such file.
    pub(crate) fn whole(self) -> io::Result<Option<Identity>> {
        let found = match self {
            Self::Whole(file) => return Ok(Some(file)),
            Self::Gone => return Ok(None),
            Self::Failed(error) => return Err(error),
            Self::TooLarge(file) => &*format!("{} bytes, which is too many", file.size),
            Self::Changing => "one that changed whenever it was read",
            Self::Link => "a symbolic link",
            Self::NotAFile => "a directory, pipe or device",
        };
        Err(io::Error::other(format!("expected a file, found {found}")))
    }
}

impl Dir {
    /// The folder that the user named: links on the way are his business.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = quietly(flags, |flags| Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?))?;
        Ok(Self { path: path.to_owned(), fd })
    }

    /// The open folder `fd`, which is at `path`.
    pub(crate) fn of(path: &Path, fd: OwnedFd) -> Self {
        Self { path: path.to_owned(), fd }
    }

    /// A folder in this one.
    pub(crate) fn below(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = quietly(flags, |flags| Ok(rustix::fs::openat(&self.fd, name, flags, Mode::empty())?))?;
        Ok(Self { path: self.path.join(name), fd })
    }

    /// The same, for walks; none if the directory is on a pseudo file system, which begins there.
    pub(crate) fn descend(&self, name: &OsStr) -> io::Result<Option<Self>> {
        let below = self.below(name)?;
        Ok(if pseudo_below(self, &below).is_some() { None } else { Some(below) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// What is in the folder, in no order.
    pub(crate) fn names(&self) -> io::Result<Vec<Name>> {
        let of = |(name, kind): (&OsStr, NameKind)| Name { name: name.to_owned(), kind };
        Ok(self.list()?.iter().map(of).collect())
    }

    /// The same, where there may be many.
    pub(crate) fn list(&self) -> io::Result<Names> {
        let mut names = Names::default();
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not say.
                FileType::Unknown => self.kind(OsStr::from_bytes(name)),
                said => said,
            };
            names.text.extend_from_slice(name);
            names.list.push((names.text.len(), kind.into()));
        }
        Ok(names)
    }

    fn kind(&self, name: &OsStr) -> FileType {
        self.stat(name).map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
    }

    fn stat(&self, name: &OsStr) -> io::Result<Stat> {
        Ok(rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// The regular file called `name`, if it is there.
    pub(crate) fn identity(&self, name: &str) -> Option<Identity> {
        let stat = self.stat(OsStr::new(name)).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then(|| Identity::of(&stat))
    }

    /// Whether a file or a link is called `name`.
    pub(crate) fn is_there(&self, name: &str) -> bool {
        let kind = |stat: Stat| NameKind::from(FileType::from_raw_mode(stat.st_mode));
        self.stat(OsStr::new(name)).is_ok_and(|stat| matches!(kind(stat), NameKind::File | NameKind::Link))
    }

    /// Opens the file called `name`, whatever it is, to read it. That is no use of it: its access time stays, by which
    /// CANN sees what is idle, unless it is another user's.
    pub(crate) fn open_file(&self, name: &OsStr) -> io::Result<File> {
        // Not blocking, so that a pipe of that name does not hang us.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        quietly(flags, |flags| Ok(rustix::fs::openat(&self.fd, name, flags, Mode::empty())?)).map(File::from)
    }

    /// Reads the file called `name` into `buffer`. One that changes meanwhile is read anew, three times in all.
    pub(crate) fn read(&self, name: &str, limit: u64, buffer: &mut Vec<u8>) -> Read1 {
        for _ in 0..READS {
            match self.read_once(name, limit, buffer) {
                Ok(Some(read)) => return read,
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Read1::Gone,
                // What opening a link says where none is followed.
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
                    return Read1::Link;
                }
                Err(error) => return Read1::Failed(error),
            }
        }
        Read1::Changing
    }

    /// None if it changed while it was read.
    fn read_once(&self, name: &str, limit: u64, buffer: &mut Vec<u8>) -> io::Result<Option<Read1>> {
        let file = self.open_file(OsStr::new(name))?;
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(Some(Read1::NotAFile));
        }
        let before = Identity::of(&stat);
        buffer.clear();
        if before.size > limit {
            return Ok(Some(Read1::TooLarge(before)));
        }
        // Room for one byte more than there is: so the end is met without asking again.
        buffer.reserve(usize::try_from(before.size).unwrap_or(0) + 1);
        // A read that leaves room has met the end, unless it is one of those that give less than there is.
        let mut more = true;
        while more {
            let room = buffer.capacity() - buffer.len();
            let read = rustix::io::retry_on_intr(|| rustix::io::read(&file, spare_capacity(buffer)))?;
            let all = buffer.len() as u64 >= before.size;
            more = read > 0 && !(all && read < room) && buffer.len() as u64 <= before.size;
        }
        let after = Identity::of(&rustix::fs::fstat(&file)?);
        Ok((before == after && buffer.len() as u64 == before.size).then_some(Read1::Whole(before)))
    }
}

/// Opens by `open`, which is given flags, so that the time of access stays; where only the owner may see to that, without.
pub(crate) fn quietly(flags: OFlags, open: impl Fn(OFlags) -> io::Result<OwnedFd>) -> io::Result<OwnedFd> {
    match open(flags | OFlags::NOATIME) {
        Err(error) if rustix::io::Errno::from_io_error(&error) == Some(rustix::io::Errno::PERM) => {
            open(flags)
        }
        opened => opened,
    }
}

impl From<FileType> for NameKind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Link,
            _ => Self::Other,
        }
    }
}

/// Which files are open, and in which process: as far as this user may know.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles(HashMap<(u64, u64), u32>);

impl OpenFiles {
    /// Asks the system. Our own process does not count.
    pub(crate) fn look() -> Self {
        let mut open = HashMap::new();
        let Ok(processes) = Dir::open(Path::new("/proc")) else { return Self::default() };
        for process in processes.names().unwrap_or_default() {
            let Some(pid) = process.name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            if pid == std::process::id() {
                continue;
            }
            // Processes end while we look, and others' are closed to us.
            let Ok(files) = Dir::open(&Path::new("/proc").join(&process.name).join("fd")) else { continue };
            for file in files.names().unwrap_or_default() {
                let found = rustix::fs::statat(&files.fd, file.name.as_os_str(), AtFlags::empty());
                if let Ok(stat) = found {
                    open.insert((stat.st_dev, stat.st_ino), pid);
                }
            }
        }
        Self(open)
    }

    /// A process that has the file open.
    pub(crate) fn holder(&self, file: &Identity) -> Option<u32> {
        self.0.get(&(file.dev, file.ino)).copied()
    }
}
