//! Creates the files and directories of a repair, and opens lock files.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};

use opkeep_fs::Dir;
use rustix::io::Errno;

const DIR_MODE: u32 = 0o750;
const FILE_MODE: u32 = 0o640;

/// Opens the directory `name` in `dir`, which is created if missing.
pub(crate) fn make_dir(dir: &Dir, name: &OsStr) -> io::Result<Dir> {
    match new_dir(dir, name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => dir.below(name),
        made => made,
    }
}

/// Creates the directory `name` in `dir`, which must be missing, and opens it.
pub(crate) fn new_dir(dir: &Dir, name: &OsStr) -> io::Result<Dir> {
    dir.create_dir(name, DIR_MODE)?;
    let made = dir.below(name)?;
    dir.give(&made);
    Ok(made)
}

/// Writes a file that must be missing, and makes it durable.
pub(crate) fn write_new(dir: &Dir, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut file = dir.create_file(name, FILE_MODE)?;
    dir.give(&file);
    file.write_all(bytes)?;
    file.sync_all()
}

/// Opens a lock file, which must be a regular file. Returns it and whether it is open for writing; `None` if it is
/// missing.
///
/// CANN's kind of lock needs a file that is open for writing. If this user may not write the file, it is opened for
/// reading.
pub(crate) fn lock_file(dir: &Dir, name: &str) -> io::Result<Option<(File, bool)>> {
    let (file, writable) = match dir.open_to_change(name, None) {
        Ok(file) => (file, true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => (dir.open_file(name)?, false),
            _ => return Err(error),
        },
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok(Some((file, writable)))
}
