//! Links by which this program takes the place of a compiler on `PATH`.
//!
//! A build that calls `opc` by its bare name then runs this program, which finds the real one behind it. Nothing of the
//! build changes.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use opkeep_fs::{FileId, Fs};

/// A program on `PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Real {
    /// Its path as the search finds it.
    pub path: PathBuf,
    /// Whether a link to this program precedes it on `PATH`, so that a search for the name finds this program.
    pub is_hidden: bool,
}

/// Finds the program `name` in the directories of `path`, the value of the variable `PATH`, behind links to the program
/// at `own`. An empty directory is the current one, as for a shell.
///
/// # Errors
/// The file at `own` cannot be read.
pub fn find_real(fs: &Fs, name: &OsStr, path: &OsStr, own: &Path) -> io::Result<Option<Real>> {
    let own = FileId::of(&fs.metadata(own)?);
    let mut is_hidden = false;
    for dir in std::env::split_paths(path) {
        let dir = if dir.as_os_str().is_empty() { PathBuf::from(".") } else { dir };
        let found = dir.join(name);
        match fs.metadata(&found) {
            Ok(it) if FileId::of(&it) == own => is_hidden = true,
            Ok(it) if it.is_file() && it.permissions().mode() & 0o111 != 0 => {
                return Ok(Some(Real { path: found, is_hidden }));
            }
            _ => {}
        }
    }
    Ok(None)
}
