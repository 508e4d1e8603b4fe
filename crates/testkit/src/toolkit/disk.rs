//! Writing the tree, and changing it.
#![expect(clippy::disallowed_methods, reason = "this is the toolkit's I/O module")]

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Writes a file, and the folders that lead to it.
pub(super) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes)
}

/// The same for a program.
pub(super) fn write_program(path: &Path, text: &str) -> io::Result<()> {
    write(path, text)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

/// Writes a file so that nobody reads half of it.
pub(super) fn replace(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let beside = path.with_extension("new");
    write(&beside, bytes)?;
    fs::rename(beside, path)
}

/// Makes a link, in place of one that is there.
pub(super) fn link(target: &str, path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => symlink(target, path),
    }
}

/// Makes a folder and those that lead to it.
pub(super) fn folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// The text of a file.
pub(super) fn read(path: &Path) -> io::Result<String> {
    fs::read_to_string(path)
}

/// The text of a file, empty where there is none.
pub(super) fn read_if_there(path: &Path) -> io::Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        result => result,
    }
}

/// Writes at the end of a file.
pub(super) fn append(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().append(true).open(path)?.write_all(text.as_bytes())
}

/// Removes a file, a link or a folder with all that is in it, if it is there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let result = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
