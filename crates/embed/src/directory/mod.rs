//! The directory in which a framework reads the files of one key.
//!
//! Some frameworks take paths, not bytes: Triton reads `TRITON_CACHE_DIR/<key>/add.cubin`. So the files of a hit must lie
//! there, with the bytes of the entry.
//!
//! Entries may share the framework's key, such as those of two releases of a compiler. So that a reader of one never gets files
//! of another, each has a directory of its own, and the directory of the framework's key has copies of the last one: for
//! programs that list it. A copy is a second name of the same file where the file system has such names. A program that writes
//! into a copy damages both, which the next hit finds. No hit needs the copies, so a copy that cannot be written is no error.
//!
//! No link is followed below the base directory. A directory or a file is used only if its owner is trusted: this user or
//! root. The framework opens the path again afterwards, so every user who may write to the base directory is trusted.

mod error;
mod temporary;
mod trust;

use std::cell::OnceCell;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::PathBuf;

use opkeep_digest::Digest;
use opkeep_fs::{Dir, FileId, FileKind, Fs};
use opkeep_store::MAX_ENTRY_BYTES;
use rustix::io::Errno;

pub use error::DirectoryError;
use error::failed;
use temporary::{Temporary, id_in, new_name};
use trust::Trust;

/// The start of the names of files and directories that had the name of another one. They lie in the base directory then.
const MOVED: &str = "tmp.opkeep-moved-";

/// How often a file is written if other processes give its name to files with other bytes at the same time.
const WRITES: usize = 3;

/// The number of bytes up to which a file is hashed by one read, without a buffer.
const AT_ONCE: u64 = 128 << 10;

/// The directory in which a framework reads the files of one key.
#[derive(Clone, Debug)]
pub struct GroupDir {
    base: PathBuf,
    name: String,
    copies: Option<String>,
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
        Ok(Self { base: base.into(), name: name.to_owned(), copies: None, fs: Fs::new() })
    }

    /// This directory, with copies in the directory `name` of the same base directory.
    ///
    /// # Errors
    /// The name could leave the base directory.
    pub fn with_copies(self, name: &str) -> Result<Self, DirectoryError> {
        check_name(name)?;
        Ok(Self { copies: Some(name.to_owned()), ..self })
    }

    /// This directory, changed through `fs`: a test can watch each call, and fail it.
    #[must_use]
    pub fn with_fs(self, fs: Fs) -> Self {
        Self { fs, ..self }
    }

    /// Makes `files` lie there, and returns how many of them had to be written: those that were missing, or whose bytes, kind or
    /// owner are not as they should be. Reads each byte. Their copies lie there afterwards if that is possible.
    ///
    /// # Errors
    /// The directory is not trusted, or a file cannot be written.
    pub fn place<'a>(
        &self,
        files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<usize, DirectoryError> {
        self.place_with(files, [])
    }

    /// The same, with further files, which only readers of the copies need: they lie there, and have copies, if that is possible.
    ///
    /// # Errors
    /// Those of [`place`](Self::place).
    pub fn place_with<'a>(
        &self,
        files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        further: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<usize, DirectoryError> {
        let opened = self.open(true)?;
        let (mut placed, mut written) = (Vec::new(), 0);
        for (name, bytes) in files {
            let (file, is_new) = opened.place(name, bytes)?;
            placed.push((name, bytes, file));
            written += usize::from(is_new);
        }
        let copied = || {
            for (name, bytes) in further {
                placed.push((name, bytes, opened.place(name, bytes)?.0));
            }
            let Some(copies) = &self.copies else { return Ok(()) };
            let copies = opened.trust.open_dir(&opened.base, copies, Some(opened.trust.dir_mode()))?;
            placed.iter().try_for_each(|(name, bytes, file)| opened.copy(&copies, name, bytes, *file))
        };
        // The base directory may be read-only or full, or the directory of the copies may not be trusted.
        let _: Result<(), DirectoryError> = copied();
        Ok(written)
    }

    /// Whether all of `files` lie there, with the kind and the owner that they should have. Reads each byte, and writes nothing.
    /// Does not look at copies.
    pub fn has<'a>(&self, files: impl IntoIterator<Item = (&'a str, FileContent<'a>)>) -> bool {
        let Ok(opened) = self.open(false) else { return false };
        files.into_iter().all(|(name, content)| opened.find(&opened.dir, name, content).is_some())
    }

    /// Whether all of `files` and their copies lie there.
    pub fn has_with_copies<'a>(&self, files: impl IntoIterator<Item = (&'a str, FileContent<'a>)>) -> bool {
        let Some(copies) = &self.copies else { return self.has(files) };
        let Ok(opened) = self.open(false) else { return false };
        let Ok(copies) = opened.trust.open_dir(&opened.base, copies, None) else { return false };
        files.into_iter().all(|(name, content)| {
            let file = opened.find(&opened.dir, name, content);
            let is_copy = || id_in(&copies, name) == file || opened.find(&copies, name, content).is_some();
            file.is_some() && is_copy()
        })
    }

    /// Makes one file lie in the directory, without a copy.
    ///
    /// # Errors
    /// The directories are not trusted, or the file cannot be written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), DirectoryError> {
        check_name(name)?;
        self.open(true)?.place(name, bytes).map(drop)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The directories or the file are not trusted, or the file is missing or cannot be read.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, DirectoryError> {
        check_name(name)?;
        self.open(false)?.read(name)
    }

    /// Opens the directories. If `create`, missing ones are created, and another file in place of the inner one is moved.
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
    /// Makes a file lie in the directory. Returns its identity, and whether it had to be written.
    fn place(&self, name: &str, bytes: &[u8]) -> Result<(FileId, bool), DirectoryError> {
        check_name(name)?;
        match self.find(&self.dir, name, FileContent::Bytes(bytes)) {
            Some(file) => Ok((file, false)),
            None => Ok((self.write(&self.dir, name, bytes)?, true)),
        }
    }

    /// Makes the copy of a file lie in `copies`.
    fn copy(&self, copies: &Dir, name: &str, bytes: &[u8], file: FileId) -> Result<(), DirectoryError> {
        let is_copy = id_in(copies, name) == Some(file)
            || self.temporary()?.link(&self.dir, name, file, copies).is_ok_and(|is_linked| is_linked)
            // Not every file system has second names, or a directory has this one.
            || self.find(copies, name, FileContent::Bytes(bytes)).is_some();
        if is_copy { Ok(()) } else { self.write(copies, name, bytes).map(drop) }
    }

    /// The identity of the file called `name`, if it has this content. What cannot be read is to be written again.
    fn find(&self, dir: &Dir, name: &str, content: FileContent<'_>) -> Option<FileId> {
        check_name(name).ok()?;
        let (file, metadata) = self.open_file(dir, name).ok()?;
        let len = metadata.len();
        let is_same = len == content.len()
            && match content {
                FileContent::Digest(_, digest) if len > AT_ONCE => {
                    Digest::of_reader(file.take(len)).is_ok_and(|found| found == *digest)
                }
                FileContent::Digest(_, digest) => {
                    let bytes = dir.read_start(&file, name, len as usize);
                    bytes.is_ok_and(|bytes| Digest::of(&bytes) == *digest)
                }
                FileContent::Bytes(bytes) => {
                    dir.read_start(&file, name, bytes.len()).is_ok_and(|found| found == bytes)
                }
            };
        is_same.then(|| FileId::of(&metadata))
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, DirectoryError> {
        let path = || self.dir.path().join(name);
        let (file, metadata) = self.open_file(&self.dir, name)?;
        let limit = match usize::try_from(metadata.len()) {
            Ok(len) if len as u64 <= MAX_ENTRY_BYTES => len,
            _ => return Err(DirectoryError::TooLarge { path: path(), found: metadata.len() }),
        };
        self.dir.read_start(&file, name, limit).map_err(|error| failed(&path(), "read")(error))
    }

    /// Opens a regular file of a trusted owner.
    fn open_file(&self, dir: &Dir, name: &str) -> Result<(File, Metadata), DirectoryError> {
        let path = || dir.path().join(name);
        let file = dir.open_file(name).map_err(|error| failed(&path(), "read")(error))?;
        let metadata = file.metadata().map_err(|error| failed(&path(), "read")(error))?;
        if !metadata.is_file() {
            return Err(DirectoryError::NotAFile { path: path() });
        }
        self.trust.check_file(&path, &metadata)?;
        Ok((file, metadata))
    }

    /// Writes a file, in place of whatever has its name. Returns its identity.
    fn write(&self, dir: &Dir, name: &str, bytes: &[u8]) -> Result<FileId, DirectoryError> {
        let failed = |error| failed(&dir.path().join(name), "written")(error);
        let temporary = self.temporary()?;
        let publish = || {
            let new = temporary.create(bytes, self.trust.file_mode())?;
            let file = new.id();
            new.publish(dir, name).map(|()| file)
        };
        for _ in 0..WRITES {
            let published = publish().or_else(|error| match dir.look(name) {
                // A rename replaces everything but a directory.
                Ok(found) if found.is_dir() => clear(dir, name, &self.base, true).and_then(|()| publish()),
                _ => Err(error),
            });
            let file = published.map_err(failed)?.filter(|file| id_in(dir, name) == Some(*file));
            // Another process may have published the same bytes in the meantime.
            if let Some(file) = file.or_else(|| self.find(dir, name, FileContent::Bytes(bytes))) {
                return Ok(file);
            }
        }
        Err(failed(io::Error::other("other processes write it at the same time")))
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
    /// Opens the directory `name` in `base`. With the mode `create`, a missing one is created, and another file of that name is moved.
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
        Ok(_) => dir.rename(name, base, new_name(MOVED)),
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
