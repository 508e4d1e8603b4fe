//! Every access to the disk is in this module.

use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};

/// Why a file is not opened.
#[derive(Debug)]
pub(crate) enum Unopened {
    Io(io::Error),
    /// A folder, a pipe or a device.
    NotAFile(&'static str),
}

/// An open file, and what it was when it was opened.
#[derive(Debug)]
pub(crate) struct Opened {
    file: File,
    pub(crate) version: Version,
}

/// Which file it is, and whether it has been written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    dev: u64,
    ino: u64,
    modified: (i64, i64),
    pub(crate) length: u64,
}

// Without NONBLOCK a pipe would hold us up until somebody writes to it.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

impl Opened {
    /// Opens the file at `path`, or where links from there lead.
    pub(crate) fn at(path: &Path) -> Result<Self, Unopened> {
        openat(CWD, path, READ, Mode::empty())
            .map_err(io::Error::from)
            .map_err(Unopened::Io)
            .and_then(Self::of)
    }

    /// Opens the file `inner` below `folder`, whose names are no links: with one on the way, it is not opened. So what
    /// is opened is in that folder, even if somebody changes names at the same time.
    pub(crate) fn beneath(folder: &Path, inner: &Path) -> Result<Self, Unopened> {
        let mut names = inner.iter();
        let name = names.next_back().unwrap_or_default();
        let file = || -> io::Result<OwnedFd> {
            let mut at = openat(CWD, folder, READ | OFlags::DIRECTORY, Mode::empty())?;
            for folder in names {
                at = openat(&at, folder, READ | OFlags::NOFOLLOW | OFlags::DIRECTORY, Mode::empty())?;
            }
            Ok(openat(&at, name, READ | OFlags::NOFOLLOW, Mode::empty())?)
        };
        file().map_err(Unopened::Io).and_then(Self::of)
    }

    fn of(file: OwnedFd) -> Result<Self, Unopened> {
        let file = File::from(file);
        let metadata = file.metadata().map_err(Unopened::Io)?;
        let kind = metadata.file_type();
        if !kind.is_file() {
            let other = if kind.is_fifo() { "a pipe" } else { "a device" };
            return Err(Unopened::NotAFile(if kind.is_dir() { "a folder" } else { other }));
        }
        let version = Version {
            dev: metadata.dev(),
            ino: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            length: metadata.len(),
        };
        Ok(Self { file, version })
    }

    /// The whole file, in a buffer of just its size.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        let length = self.version.length;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX))?;
        (&self.file).take(length).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Fills `out` with what begins at `offset`.
    pub(crate) fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }
}

/// Where `path` leads, every link on the way followed.
pub(crate) fn real_path(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize()
}

/// Writes a file that is there as a whole or not at all; one that is there is replaced.
pub(crate) fn write(path: &Path, pieces: &[&[u8]]) -> io::Result<()> {
    let folder = path.parent().ok_or_else(|| io::Error::other("this is no file's name"))?;
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    // The umask applies, as to any file that a command makes.
    let mut builder = tempfile::Builder::new();
    let mut temp = builder.prefix(".new-").permissions(Permissions::from_mode(0o666)).tempfile_in(folder)?;
    for piece in pieces {
        temp.write_all(piece)?;
    }
    temp.persist(path).map(drop).map_err(|error| error.error)
}
