//! Files that are open for reading, with their state at that time.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use opkeep_fs::{FileState, Fs};

/// The reason why a file is not opened.
#[derive(Debug)]
pub(crate) enum Unopened {
    Io(io::Error),
    /// A directory, a pipe or a device.
    NotAFile(&'static str),
}

/// An open file, with its state when it was opened.
#[derive(Debug)]
pub(crate) struct Opened {
    file: File,
    pub(crate) state: FileState,
}

impl Opened {
    /// Opens the file that `path` leads to.
    pub(crate) fn at(path: &Path) -> Result<Self, Unopened> {
        Fs::new().open(path).map_err(Unopened::Io).and_then(Self::of)
    }

    /// Opens the file `inner` below `dir`, unless a link is on the way.
    pub(crate) fn beneath(dir: &Path, inner: &Path) -> Result<Self, Unopened> {
        Fs::new().open_beneath(dir, inner).map_err(Unopened::Io).and_then(Self::of)
    }

    fn of(file: File) -> Result<Self, Unopened> {
        let metadata = file.metadata().map_err(Unopened::Io)?;
        let kind = metadata.file_type();
        if !kind.is_file() {
            let other = if kind.is_fifo() { "a pipe" } else { "a device" };
            return Err(Unopened::NotAFile(if kind.is_dir() { "a directory" } else { other }));
        }
        Ok(Self { file, state: FileState::of(&metadata) })
    }

    /// The content of the file, in a buffer of exactly its size.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        let length = self.state.len;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX))?;
        (&self.file).take(length).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Fills `out` with the bytes from `offset` on.
    pub(crate) fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }
}
