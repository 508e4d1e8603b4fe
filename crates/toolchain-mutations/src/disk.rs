//! The harness's access to the disk.
#![expect(clippy::disallowed_methods, reason = "this is the harness's I/O module")]

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags, chownat, setxattr, utimensat};

pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path)
}

pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Writes a file and creates the directories above it. An existing file keeps its inode.
pub(super) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    make_parent(path)?;
    fs::write(path, bytes)
}

/// Writes a program.
pub(super) fn write_program(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    write(path, bytes)?;
    chmod(path, 0o755)
}

pub(super) fn chmod(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Gives a file to another user.
pub(super) fn chown(path: &Path, uid: u32) -> io::Result<()> {
    Ok(chownat(CWD, path, Some(rustix::fs::Uid::from_raw(uid)), None, AtFlags::empty())?)
}

/// Creates a symbolic link, replacing an existing file.
pub(super) fn link(target: &str, path: &Path) -> io::Result<()> {
    make_parent(path)?;
    remove(path)?;
    symlink(target, path)
}

pub(super) fn hard_link(existing: &Path, path: &Path) -> io::Result<()> {
    make_parent(path)?;
    fs::hard_link(existing, path)
}

/// Copies a file with its permissions.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    make_parent(to)?;
    fs::copy(from, to).map(|_| ())
}

pub(super) fn directory(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Removes a file, a link or a directory with its content, if it exists.
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

pub(super) fn append(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().append(true).open(path)?.write_all(text.as_bytes())
}

/// The entries of a directory; none if it is missing.
pub(super) fn entries(directory: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// All files below a directory, without following links; a directory comes after its content.
pub(super) fn tree(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in entries(directory) {
        if is_directory(&path) {
            found.extend(tree(&path));
        }
        found.push(path);
    }
    found
}

fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

pub(super) fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
}

pub(super) fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// The modification time of a file: seconds and nanoseconds.
pub(super) fn modified(path: &Path) -> io::Result<(i64, i64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.mtime(), metadata.mtime_nsec()))
}

/// Sets the times of a file, a directory or a link.
pub(super) fn set_times(path: &Path, (seconds, nanos): (i64, i64)) -> io::Result<()> {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanos };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Sets an extended attribute of a file.
pub(super) fn set_attribute(path: &Path, name: &str, value: &str) -> io::Result<()> {
    Ok(setxattr(path, name, value.as_bytes(), XattrFlags::empty())?)
}

/// Exchanges two paths in one step.
pub(super) fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(CWD, one, CWD, other, rustix::fs::RenameFlags::EXCHANGE)?)
}

fn make_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Creates a FIFO without a writer.
pub(super) fn fifo(path: &Path) -> io::Result<()> {
    make_parent(path)?;
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    Ok(rustix::fs::mkfifoat(CWD, path, mode)?)
}
