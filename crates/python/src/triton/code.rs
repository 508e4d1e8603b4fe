//! The code of a package, which this process may have loaded.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use opkeep_fs::{Dir, FileKind, FileState, Fs};
use pyo3::prelude::*;

use super::toolchain::os_error;
use crate::call::without_gil;

/// Returns the paths of the modules and libraries below a directory. With a time, in nanoseconds since 1970, only of those whose
/// state, or that of the link to them, has changed after it. Links are followed: an editable installation has them.
#[pyfunction]
#[pyo3(signature = (directory, changed_after=None))]
pub(crate) fn code_below(
    py: Python<'_>,
    directory: PathBuf,
    changed_after: Option<i64>,
) -> PyResult<Vec<OsString>> {
    let paths = without_gil(py, || Ok(find_code(&directory, changed_after)))?;
    paths.map_err(|(path, error)| os_error(&path, error))
}

/// A path, and why it cannot be read.
type PathError = (PathBuf, io::Error);

fn find_code(directory: &Path, changed_after: Option<i64>) -> Result<Vec<OsString>, PathError> {
    let (fs, mut found) = (Fs::new(), Vec::new());
    let (mut seen, mut directories) = (HashSet::new(), vec![directory.to_owned()]);
    while let Some(path) = directories.pop() {
        let failed = |error| (path.clone(), error);
        let dir = fs.open_dir(&path).map_err(failed)?;
        if !seen.insert(dir.stat().map_err(failed)?.state.id) {
            continue;
        }
        for (name, kind) in dir.list().map_err(failed)?.iter() {
            if kind == FileKind::Dir {
                // Python keeps only compiled modules there.
                if name != "__pycache__" {
                    directories.push(path.join(name));
                }
            } else if kind == FileKind::Link || is_code(name) {
                match look(&fs, &dir, name, kind) {
                    Ok(Found::Dir) => directories.push(path.join(name)),
                    Ok(Found::File { changed })
                        if is_code(name) && changed_after.is_none_or(|time| changed > time) =>
                    {
                        found.push(path.join(name).into());
                    }
                    Ok(_) => {}
                    Err(error) => return Err((path.join(name), error)),
                }
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

enum Found {
    Dir,
    /// A file, with the time at which its state, or that of the link to it, last changed.
    File {
        changed: i64,
    },
    Other,
}

/// Returns what a name leads to.
fn look(fs: &Fs, dir: &Dir, name: &OsStr, kind: FileKind) -> io::Result<Found> {
    let own = match dir.look(name) {
        Ok(stat) => stat,
        // It was removed meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Other),
        Err(error) => return Err(error),
    };
    if kind != FileKind::Link {
        return Ok(match own.is_file() {
            true => Found::File { changed: own.state.ctime },
            false => Found::Other,
        });
    }
    match fs.metadata(&dir.path().join(name)) {
        Ok(target) if target.is_dir() => Ok(Found::Dir),
        Ok(target) if target.is_file() => {
            Ok(Found::File { changed: own.state.ctime.max(FileState::of(&target).ctime) })
        }
        Ok(_) => Ok(Found::Other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Other),
        Err(error) => Err(error),
    }
}

/// Whether Python or the system loads files of this name.
fn is_code(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.ends_with(b".py") || name.windows(3).any(|part| part == b".so")
}
