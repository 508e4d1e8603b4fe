//! A file that is written piece by piece, and gets its name when it is complete.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::call::{FsOp, Watch};
use crate::new_file::NewFile;
use crate::process::ProcessId;
use crate::system::Fs;
use rustix::io::Errno;

/// A new file in the directory of its final name: without a name where the file system can, so that a kill before it is published leaves
/// nothing; elsewhere with a temporary one. Removed when dropped, unless it was published; the copy in a forked child removes nothing.
///
/// A kill while it is published may leave a file `.new-*`: between the two system calls by which it replaces an existing file, and, where
/// files cannot be linked, while its bytes are copied.
pub struct OutputFile {
    /// `None` after it was published.
    new: Option<NewFile>,
    path: PathBuf,
    watch: Watch,
    process: ProcessId,
}

impl Fs {
    /// Creates a file that [`publish`](OutputFile::publish) gives the name `path`, where it replaces a file or a link. Its mode is
    /// `mode` less the umask.
    ///
    /// # Errors
    /// That of the system, and if a directory, a pipe or a device has that name.
    pub fn output_file(&self, path: &Path, mode: u32) -> io::Result<OutputFile> {
        let name = path.file_name().ok_or_else(|| io::Error::other("this is no file's name"))?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match self.symlink_metadata(path) {
            Ok(found) if !found.is_file() && !found.is_symlink() => {
                return Err(io::Error::other("it is neither a file nor a new name"));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.watch().may(FsOp::Create, path)?;
        self.metadata(dir)?;
        // The text of the error has the temporary name, which helps no user.
        let new = NewFile::create(dir, mode).map_err(|error| io::Error::from(error.kind()))?;
        let path = dir.join(name);
        let (watch, process) = (self.watch().clone(), ProcessId::current());
        Ok(OutputFile { new: Some(new), path, watch, process })
    }

    /// Creates a file without a name in `dir`, which ends with its last descriptor.
    ///
    /// # Errors
    /// That of the system.
    pub fn unnamed_file(&self, dir: &Path) -> io::Result<File> {
        self.watch().may(FsOp::Create, dir)?;
        tempfile::tempfile_in(dir)
    }
}

impl OutputFile {
    /// Makes its bytes durable, and gives it its name.
    ///
    /// # Errors
    /// That of the system: a full disk or quota may show only here. The file is removed, and what has the name stays.
    pub fn publish(mut self) -> io::Result<()> {
        let Some(new) = self.new.as_ref() else { return Ok(()) };
        self.watch.may(FsOp::SyncData, &new.path())?;
        new.file().sync_data()?;
        self.watch.permit(FsOp::Rename, &new.path(), Some(&self.path), 0)?;
        self.new.take().map_or(Ok(()), |new| new.publish(&self.path))
    }
}

impl fmt::Debug for OutputFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(new) = self.new.as_ref() else { return Ok(0) };
        let short = match self.watch.is_watched() {
            true => self.watch.permit(FsOp::Write, &new.path(), None, bytes.len())?,
            false => None,
        };
        let mut file = new.file();
        if let Some(short) = short {
            file.write_all(&bytes[..short.min(bytes.len())])?;
            return Err(Errno::NOSPC.into());
        }
        file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if !self.process.is_current()
            && let Some(mut new) = self.new.take()
        {
            new.leave();
        }
    }
}
