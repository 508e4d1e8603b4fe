//! A file that is written piece by piece, and gets its name when it is complete.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use crate::call::{FsOp, Watch};
use crate::dir::Dir;
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

/// A new file in an open directory that has all of its bytes and no name yet. Removed when dropped, unless it was published.
pub struct PreparedFile<'d> {
    new: NewFile,
    /// The name that it gets, by the descriptor of its directory.
    path: PathBuf,
    watch: &'d Watch,
}

impl Dir {
    /// Prepares a file with these bytes and exactly this mode, whatever the umask, to be called `name`.
    ///
    /// # Errors
    /// That of the system. Without `/proc`, no file can be prepared.
    pub fn prepare(
        &self,
        name: impl AsRef<OsStr>,
        pieces: &[&[u8]],
        mode: u32,
    ) -> io::Result<PreparedFile<'_>> {
        // By its descriptor, so that it is this directory, whatever has its path by now.
        let dir = PathBuf::from(format!("/proc/self/fd/{}", self.as_fd().as_raw_fd()));
        let path = dir.join(name.as_ref());
        let new = Fs::watched_by(self.watch()).new_file(&path, pieces, mode, true)?;
        Ok(PreparedFile { new, path, watch: self.watch() })
    }
}

impl PreparedFile<'_> {
    /// Gives it its name. A file of that name is replaced, and so is a link, which is not followed. At each moment the name has all of the old
    /// bytes, or all of the new ones.
    ///
    /// # Errors
    /// That of the system. What has the name stays.
    pub fn publish(self) -> io::Result<()> {
        self.watch.permit(FsOp::Rename, &self.new.path(), Some(&self.path), 0)?;
        self.new.publish(&self.path)
    }
}

impl fmt::Debug for PreparedFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedFile").field("path", &self.path).finish_non_exhaustive()
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_file_in_a_directory_is_replaced_and_no_link_is_followed() {
        let temp = tempfile::tempdir().unwrap();
        let (kept, sub) = (temp.path().join("kept"), temp.path().join("sub"));
        std::fs::create_dir(&sub).unwrap();
        std::fs::write(&kept, "of before").unwrap();
        let dir = Dir::open(&sub).unwrap();
        for name in ["new", "old", "link"] {
            match name {
                "old" => std::fs::write(sub.join(name), "old").unwrap(),
                "link" => symlink(&kept, sub.join(name)).unwrap(),
                _ => {}
            }
            let prepared = dir.prepare(name, &[b"of ", b"now"], 0o622).unwrap();
            assert_ne!(std::fs::read_to_string(sub.join(name)).unwrap_or_default(), "of now");
            prepared.publish().unwrap();
            let found = std::fs::symlink_metadata(sub.join(name)).unwrap();
            assert!(found.is_file() && found.permissions().mode() & 0o7777 == 0o622, "{name}");
            assert_eq!(std::fs::read_to_string(sub.join(name)).unwrap(), "of now");
        }
        // The directory has another name by now, and its old name is another directory's.
        std::fs::rename(&sub, temp.path().join("moved")).unwrap();
        symlink(temp.path(), &sub).unwrap();
        dir.prepare("kept", &[b"x"], 0o644).unwrap().publish().unwrap();
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "of before");
        assert_eq!(std::fs::read_dir(temp.path().join("moved")).unwrap().count(), 4);
        dir.prepare("..", &[b"x"], 0o644).and_then(PreparedFile::publish).unwrap_err();
        drop(dir.prepare("dropped", &[b"x"], 0o644).unwrap());
        assert_eq!(std::fs::read_dir(temp.path().join("moved")).unwrap().count(), 4);
    }
}
