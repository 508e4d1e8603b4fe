//! Every access to the disk: the only module of this crate that may touch `std::fs`.
#![expect(clippy::disallowed_methods, reason = "this is the crate's I/O module")]

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::OFlags;

/// A file to be digested, and what it was when it was opened.
pub(crate) fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    Ok((file, metadata))
}

pub(crate) fn metadata(path: &Path) -> io::Result<Metadata> {
    std::fs::metadata(path)
}

pub(crate) fn read_own(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path)?;
    let metadata = file.metadata()?;
    if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.len() > limit {
        return Err(io::Error::other("not ours, or too long"));
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// How files begin that are being written.
pub(crate) const TEMP: &str = ".new-";

/// Replaces a file as a whole.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or_else(|| io::Error::other("no folder"))?;
    let mut temp = tempfile::Builder::new().prefix(TEMP).tempfile_in(folder)?;
    temp.write_all(bytes)?;
    temp.persist(path).map(drop).map_err(|error| error.error)
}

/// Makes a folder for this user, or takes one that is this user's and that nobody else can write to.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let found = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?.metadata()?;
    if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
        return Err(io::Error::other("it belongs to somebody else, or others can write to it"));
    }
    Ok(())
}

pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Makes a new file and locks it.
pub(crate) fn create_locked(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    file.lock()?;
    Ok(file)
}

/// The lock of a work folder whose owner is gone; held, so that nobody else takes the folder meanwhile.
pub(crate) fn take_abandoned(path: &Path) -> Option<File> {
    let flags = OFlags::NOFOLLOW.bits() as i32;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).ok()?;
    file.try_lock().ok()?;
    // Another sweeper may have removed it, and its name may be another's by now.
    let (ours, there) = (file.metadata().ok()?, std::fs::symlink_metadata(path).ok()?);
    ((ours.dev(), ours.ino()) == (there.dev(), there.ino())).then_some(file)
}

pub(crate) fn remove_file(path: &Path) {
    let _ = std::fs::remove_file(path);
}

/// Removes a folder and what is in it; links in it are removed, not followed.
pub(crate) fn remove_folder(path: &Path) {
    let _ = std::fs::remove_dir_all(path);
}

pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

/// What is in a folder: paths, with when each was last changed.
pub(crate) fn list(folder: &Path) -> Vec<(PathBuf, SystemTime)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?.modified().ok()?)))
        .collect()
}
