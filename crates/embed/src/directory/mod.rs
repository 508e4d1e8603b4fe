//! The directory in which a framework reads the files of one key.
//!
//! Some frameworks take paths, not bytes: Triton reads `TRITON_CACHE_DIR/<key>/add.cubin`. So the files of a hit must lie
//! there, with the bytes of the entry.
//!
//! No link is followed below the base directory. A directory or a file is used only if its owner is trusted: this user or
//! root. The framework opens the path again afterwards, so every user who may write to the base directory is trusted.

mod error;
mod temporary;
mod trust;

use std::cell::OnceCell;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use opkeep_digest::Digest;
use opkeep_fs::{Dir, FileKind, Fs, unique_name};
use opkeep_store::MAX_ENTRY_BYTES;
use rustix::io::Errno;

pub use error::DirectoryError;
use error::failed;
use temporary::Temporary;
use trust::Trust;

/// The start of the names of files and directories that were in the way. They lie in the base directory then.
const MOVED: &str = "tmp.opkeep-moved-";

/// The number of bytes up to which a file is hashed by one read, without a buffer.
const AT_ONCE: u64 = 128 << 10;

/// The directory in which a framework reads the files of one key.
#[derive(Clone, Debug)]
pub struct GroupDir {
    base: PathBuf,
    name: String,
    fs: Fs,
}

/// The bytes that a file should have.
#[derive(Clone, Copy, Debug)]
pub enum FileContent<'a> {
    /// These.
    Bytes(&'a [u8]),
    /// Bytes of which the number and the digest are known.
    Digest(u64, &'a Digest),
}

impl FileContent<'_> {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Digest(len, _) => *len,
        }
    }
}

/// A file that was read from a directory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DirectoryFile {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// When its state last changed, in nanoseconds since 1970.
    pub changed: i64,
}

/// The base directory and the directory of the key, both open.
struct Opened {
    trust: Trust,
    base: Dir,
    dir: Dir,
    temporary: OnceCell<Temporary>,
}

impl GroupDir {
    /// The directory `name` in `base`.
    ///
    /// # Errors
    /// The name could leave the base directory.
    pub fn new(base: impl Into<PathBuf>, name: &str) -> Result<Self, DirectoryError> {
        check_name(name)?;
        Ok(Self { base: base.into(), name: name.to_owned(), fs: Fs::new() })
    }

    /// This directory, changed through `fs`: a test can watch each call, and fail it.
    #[must_use]
    pub fn with_fs(self, fs: Fs) -> Self {
        Self { fs, ..self }
    }

    /// Makes `files` lie in the directory, and returns how many had to be written: those that were missing, or whose bytes,
    /// kind or owner are not as they should be. Reads each byte.
    ///
    /// # Errors
    /// The directories are not trusted, or a file cannot be written.
    pub fn place<'a>(
        &self,
        files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<usize, DirectoryError> {
        let opened = self.open(true)?;
        let mut written = 0;
        for (name, bytes) in files {
            check_name(name)?;
            if !opened.has(name, FileContent::Bytes(bytes)) {
                opened.write(name, bytes)?;
                written += 1;
            }
        }
        Ok(written)
    }

    /// Whether all of `files` lie in the directory, with the kind and the owner that they should have. Reads each byte, and
    /// writes nothing.
    pub fn has<'a>(&self, files: impl IntoIterator<Item = (&'a str, FileContent<'a>)>) -> bool {
        let Ok(opened) = self.open(false) else { return false };
        files.into_iter().all(|(name, content)| check_name(name).is_ok() && opened.has(name, content))
    }

    /// Writes a file, in place of whatever has its name.
    ///
    /// # Errors
    /// The directories are not trusted, or the file cannot be written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), DirectoryError> {
        check_name(name)?;
        self.open(true)?.write(name, bytes)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The directories or the file are not trusted, or the file is missing or cannot be read.
    pub fn read(&self, name: &str) -> Result<DirectoryFile, DirectoryError> {
        check_name(name)?;
        self.open(false)?.read(name)
    }

    /// Opens both directories. If `create`, missing ones are created, and what is in the way of the inner one is moved.
    fn open(&self, create: bool) -> Result<Opened, DirectoryError> {
        let base = self.open_base(create)?;
        let trust = Trust::below(&base)?;
        let dir = trust.open_dir(&base, &self.name, create.then(|| trust.dir_mode()))?;
        Ok(Opened { trust, base, dir, temporary: OnceCell::new() })
    }

    fn open_base(&self, create: bool) -> Result<Dir, DirectoryError> {
        match self.fs.open_dir(&self.base) {
            Err(error) if create && error.kind() == io::ErrorKind::NotFound => {
                let created = self.fs.create_dirs(&self.base, trust::DIR_MODE);
                created.and_then(|()| self.fs.open_dir(&self.base)).map_err(failed(&self.base, "written"))
            }
            opened => opened.map_err(failed(&self.base, "read")),
        }
    }
}

impl Opened {
    /// Whether a file with this content is called `name`. What cannot be read is to be written again.
    fn has(&self, name: &str, content: FileContent<'_>) -> bool {
        let Ok((file, len)) = self.open_file(name) else { return false };
        if len != content.len() {
            return false;
        }
        match content {
            FileContent::Digest(_, digest) if len > AT_ONCE => {
                Digest::of_reader(file.take(len)).is_ok_and(|found| found == *digest)
            }
            FileContent::Digest(_, digest) => {
                let bytes = self.dir.read_start(&file, name, len as usize);
                bytes.is_ok_and(|bytes| Digest::of(&bytes) == *digest)
            }
            FileContent::Bytes(bytes) => {
                self.dir.read_start(&file, name, bytes.len()).is_ok_and(|found| found == bytes)
            }
        }
    }

    fn read(&self, name: &str) -> Result<DirectoryFile, DirectoryError> {
        let path = self.dir.path().join(name);
        let (file, len) = self.open_file(name)?;
        let changed = |file: &File| {
            let metadata = file.metadata().map_err(failed(&path, "read"))?;
            Ok((metadata.ctime() * 1_000_000_000 + metadata.ctime_nsec(), metadata.len()))
        };
        let before = changed(&file)?;
        let limit = match usize::try_from(len) {
            Ok(len) if len as u64 <= MAX_ENTRY_BYTES => len,
            _ => return Err(DirectoryError::TooLarge { path, found: len }),
        };
        let bytes = self.dir.read_start(&file, name, limit).map_err(failed(&path, "read"))?;
        match bytes.len() as u64 == len && changed(&file)? == before {
            true => Ok(DirectoryFile { bytes, changed: before.0 }),
            false => Err(failed(&path, "read")(io::Error::other("it changed meanwhile"))),
        }
    }

    /// Opens a regular file of a trusted owner. Returns its size, too.
    fn open_file(&self, name: &str) -> Result<(File, u64), DirectoryError> {
        let path = || self.dir.path().join(name);
        let file = self.dir.open_file(name).map_err(|error| failed(&path(), "read")(error))?;
        let metadata = file.metadata().map_err(|error| failed(&path(), "read")(error))?;
        if !metadata.is_file() {
            return Err(DirectoryError::NotAFile { path: path() });
        }
        self.trust.check_file(&path, &metadata)?;
        Ok((file, metadata.len()))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), DirectoryError> {
        let path = self.dir.path().join(name);
        let temporary = self.temporary()?;
        let publish = || temporary.create(bytes, self.trust.file_mode())?.publish(&self.dir, name);
        let published = publish().or_else(|error| match self.dir.look(name) {
            // A rename replaces everything but a directory.
            Ok(found) if found.is_dir() => clear(&self.dir, name, &self.base, true).and_then(|()| publish()),
            _ => Err(error),
        });
        published.map_err(failed(&path, "written"))
    }

    fn temporary(&self) -> Result<&Temporary, DirectoryError> {
        if let Some(temporary) = self.temporary.get() {
            return Ok(temporary);
        }
        let user = self.trust.user();
        let dir = self.trust.open_dir(&self.base, &temporary::name(user), Some(temporary::MODE))?;
        Ok(self.temporary.get_or_init(|| Temporary::new(dir, user)))
    }
}

impl Trust {
    /// Opens the directory `name` in `base`. With the mode `create`, a missing one is created, and what is in its way is moved.
    fn open_dir(&self, base: &Dir, name: &str, create: Option<u32>) -> Result<Dir, DirectoryError> {
        let failed =
            |error| failed(&base.path().join(name), if create.is_some() { "written" } else { "read" })(error);
        let dir = match (base.below(name), create) {
            (Err(error), Some(mode)) if is_no_dir(&error) => {
                clear(base, name, base, false).map_err(failed)?;
                match base.create_dir(name, mode) {
                    // Another process may create it at the same time.
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
                    _ => base.below(name),
                }
            }
            (opened, _) => opened,
        }
        .map_err(failed)?;
        self.check_dir(&dir)?;
        Ok(dir)
    }
}

/// Whether no directory is there. Any other error, such as too many open files, may pass: the directory stays.
fn is_no_dir(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

/// Moves what is called `name` in `dir` to `base`, because it may be of use; a link is removed. Does nothing if it is a
/// directory or not, other than `is_dir` states: then another process has cleared it.
fn clear(dir: &Dir, name: &str, base: &Dir, is_dir: bool) -> io::Result<()> {
    let cleared = match dir.look(name) {
        Ok(found) if found.is_dir() != is_dir => Ok(()),
        Ok(found) if found.kind == FileKind::Link => dir.remove(name),
        Ok(_) => dir.rename(name, base, unique_name(MOVED)),
        Err(error) => Err(error),
    };
    match cleared {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn check_name(name: &str) -> Result<(), DirectoryError> {
    match matches!(name, "" | "." | "..") || name.contains(['/', '\0']) || name.len() > 255 {
        true => Err(DirectoryError::Name { name: name.to_owned() }),
        false => Ok(()),
    }
}
