//! A file that is written piece by piece, and gets its name when it is complete.

use std::fmt;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use tempfile::NamedTempFile;

use crate::call::{FsOp, Watch};
use crate::process::ProcessId;
use crate::system::{Fs, TEMP};
use crate::temporaries::Listed;

/// A new file under a temporary name beside its final one. Removed when dropped, unless it was published; the copy in a forked
/// child removes nothing.
pub struct OutputFile {
    /// `None` after it was published.
    temp: Option<NamedTempFile>,
    /// Dropped after the file.
    _listed: Listed,
    path: PathBuf,
    watch: Watch,
    process: ProcessId,
}

impl Fs {
    /// Creates a file that [`publish`](OutputFile::publish) gives the name `path`, where it replaces a file or a link. Its mode is
    /// `mode` less the umask. What is read from it until then is at the temporary name only.
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
        let permissions = Permissions::from_mode(mode);
        self.metadata(dir)?;
        let temp = tempfile::Builder::new().prefix(TEMP).permissions(permissions).tempfile_in(dir);
        // The text of the error has the temporary name, which helps no user.
        let temp = temp.map_err(|error| io::Error::from(error.kind()))?;
        let listed = Listed::file(temp.path());
        let path = dir.join(name);
        let (watch, process) = (self.watch().clone(), ProcessId::current());
        Ok(OutputFile { temp: Some(temp), _listed: listed, path, watch, process })
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
        let Some(temp) = self.temp.as_ref() else { return Ok(()) };
        self.watch.may(FsOp::SyncData, temp.path())?;
        temp.as_file().sync_data()?;
        self.watch.permit(FsOp::Rename, temp.path(), Some(&self.path), 0)?;
        let Some(temp) = self.temp.take() else { return Ok(()) };
        temp.persist(&self.path).map(drop).map_err(|error| error.error)
    }
}

impl fmt::Debug for OutputFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(temp) = self.temp.as_mut() else { return Ok(0) };
        if let Some(short) = self.watch.permit(FsOp::Write, temp.path(), None, bytes.len())? {
            temp.write_all(&bytes[..short.min(bytes.len())])?;
            return Err(Errno::NOSPC.into());
        }
        temp.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if !self.process.is_current()
            && let Some(mut temp) = self.temp.take()
        {
            temp.disable_cleanup(true);
        }
    }
}
