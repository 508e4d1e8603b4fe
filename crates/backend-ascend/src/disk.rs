//! Every access to the disk: the only module of this crate that may touch `std::fs`.
#![expect(clippy::disallowed_methods, reason = "this is the crate's I/O module")]

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use opkeep_digest::Digest;
use serde::{Deserialize, Serialize};

use crate::AscendError;

/// No text that this crate reads is longer: operator information has a few megabytes.
const MAX_TEXT: u64 = 256 << 20;

/// More files than any toolkit has in one folder: a bank that is named `/` is a mistake.
const MAX_FILES: usize = 200_000;

/// What is at a path, links followed.
pub(crate) fn is_file(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
}

/// Whether there is a folder, links followed.
pub(crate) fn is_folder(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// Whether there is a program that can be run.
pub(crate) fn is_program(path: &Path) -> bool {
    let metadata = std::fs::metadata(path);
    metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// The path without links; as it is, if nothing is there.
pub(crate) fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// All bytes of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, AscendError> {
    let read = || {
        let file = std::fs::File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        if metadata.len() > MAX_TEXT {
            return Err(io::Error::other(format!(
                "it has {} bytes, at most {MAX_TEXT} are read",
                metadata.len()
            )));
        }
        let mut bytes = Vec::with_capacity(metadata.len() as usize);
        file.take(MAX_TEXT).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|source| AscendError::io("read", path, source))
}

/// A file as text; bytes that are no UTF-8 are replaced, since comments may be in any encoding.
pub(crate) fn read_text(path: &Path) -> Result<String, AscendError> {
    let bytes = read(path)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// The names in a folder, in order, and whether each is a folder, links followed; only files and folders. None if there
/// is no such folder.
pub(crate) fn names(folder: &Path) -> Result<Option<Vec<(OsString, bool)>>, AscendError> {
    let list = || -> io::Result<Vec<(OsString, bool)>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let mut kind = entry.file_type()?;
            if kind.is_symlink() {
                // One that leads nowhere is nothing.
                let Ok(metadata) = std::fs::metadata(entry.path()) else { continue };
                kind = metadata.file_type();
            }
            if kind.is_dir() || kind.is_file() {
                names.push((entry.file_name(), kind.is_dir()));
            }
        }
        names.sort_unstable();
        Ok(names)
    };
    match list() {
        Ok(names) => Ok(Some(names)),
        Err(error) if is_absence(&error) => Ok(None),
        Err(source) => Err(AscendError::io("list", folder, source)),
    }
}

/// The names of all that is in a directory; None if there is none that can be listed.
pub(crate) fn all_names(folder: &Path) -> Option<Vec<String>> {
    let entries = std::fs::read_dir(folder).ok()?;
    let name =
        |entry: io::Result<std::fs::DirEntry>| Some(entry.ok()?.file_name().to_string_lossy().into_owned());
    Some(entries.filter_map(name).collect())
}

/// What a directory looks like from outside: whatever is added to it or removed changes that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    modified: [i64; 2],
    changed: [i64; 2],
}

/// Clocks of file systems tick slowly: what was changed so shortly before it was looked at may change again unseen.
const RECENT: i64 = 2;

impl Stamp {
    /// Whether another change since would show.
    pub(crate) fn is_old(&self) -> bool {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.ok().and_then(|now| i64::try_from(now.as_secs()).ok());
        now.is_some_and(|now| self.modified[0].max(self.changed[0]) < now - RECENT)
    }
}

/// The stamp of a directory, links followed; None if there is none.
pub(crate) fn stamp(folder: &Path) -> Option<Stamp> {
    let found = std::fs::metadata(folder).ok().filter(std::fs::Metadata::is_dir)?;
    Some(Stamp {
        device: found.dev(),
        inode: found.ino(),
        modified: [found.mtime(), found.mtime_nsec()],
        changed: [found.ctime(), found.ctime_nsec()],
    })
}

/// Whether a file begins so.
pub(crate) fn begins_with(path: &Path, magic: &[u8]) -> bool {
    let mut head = vec![0; magic.len()];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == magic
}

/// Whether an error says that there is nothing at a path.
pub(crate) fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// All files below `folder` that `counts` (a name, and whether it is a folder's) lets through, as paths relative to it,
/// in order. Links are followed, except back to a folder that is being walked. None if there is no such folder.
pub(crate) fn files_below(
    folder: &Path,
    counts: impl Fn(&std::ffi::OsStr, bool) -> bool,
) -> Result<Option<Vec<PathBuf>>, AscendError> {
    let mut walk = Walk { root: folder, counts: &counts, within: Vec::new(), found: Vec::new() };
    if !walk.enter(Path::new(""))? {
        return Ok(None);
    }
    let mut found = walk.found;
    found.sort_unstable();
    Ok(Some(found))
}

/// A walk through a tree.
struct Walk<'a> {
    root: &'a Path,
    counts: &'a dyn Fn(&std::ffi::OsStr, bool) -> bool,
    /// The folders that lead to where the walk is, by device and inode.
    within: Vec<(u64, u64)>,
    found: Vec<PathBuf>,
}

impl Walk<'_> {
    /// Goes through `folder`; false if there is none.
    fn enter(&mut self, folder: &Path) -> Result<bool, AscendError> {
        let path = if folder.as_os_str().is_empty() { self.root.to_owned() } else { self.root.join(folder) };
        let Some(names) = names(&path)? else { return Ok(false) };
        let metadata =
            std::fs::metadata(&path).map_err(|source| AscendError::io("look at", &path, source))?;
        let here = (metadata.dev(), metadata.ino());
        if self.within.contains(&here) {
            return Ok(true);
        }
        self.within.push(here);
        for (name, is_folder) in names {
            if !(self.counts)(&name, is_folder) {
                continue;
            }
            if is_folder {
                self.enter(&folder.join(name))?;
            } else if self.found.len() < MAX_FILES {
                self.found.push(folder.join(name));
            } else {
                let source = io::Error::other(format!("there are more than {MAX_FILES} files in it"));
                return Err(AscendError::io("list", self.root, source));
            }
        }
        self.within.pop();
        Ok(true)
    }
}

/// Where the symbolic links below a directory lead that is not below it: the same files, by the system's own paths. A
/// link that is followed leads to further ones.
pub(crate) fn links_out(folder: &Path) -> Vec<PathBuf> {
    let root = real(folder);
    let (mut found, mut todo, mut entered) = (Vec::new(), vec![root.clone()], HashSet::new());
    while let Some(within) = todo.pop() {
        if !entered.insert(within.clone()) {
            continue;
        }
        for entry in std::fs::read_dir(&within).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                todo.push(entry.path());
            } else if kind.is_symlink() {
                let target = real(&entry.path());
                if !target.starts_with(&root) && exists(&target) {
                    todo.extend(is_folder(&target).then(|| target.clone()));
                    found.push(target);
                }
            }
        }
    }
    found
}

/// Whether something is there, links followed.
pub(crate) fn exists(path: &Path) -> bool {
    std::fs::metadata(path).is_ok()
}

/// Removes the files in a directory of ours that were not modified for `age`.
pub(crate) fn remove_older(directory: &Path, age: Duration) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let modified = entry.metadata().and_then(|found| found.modified());
        if modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|since| since > age)) {
            remove_own(&entry.path());
        }
    }
}

/// Removes a directory with all that is in it, if it is there.
pub(crate) fn remove_folder(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Moves a directory to where nothing is, to another file system if need be.
pub(crate) fn move_folder(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
        result => return result,
    }
    copy_folder(from, to)?;
    std::fs::remove_dir_all(from)
}

/// Copies files, directories and links; whatever else is there is no part of a kernel.
fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (kind, to) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), to)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(entry.path())?, to)?;
        }
    }
    Ok(())
}

/// A file that a compile left, with a limit that no genuine one comes near.
pub(crate) fn read_made(path: &Path) -> Result<Vec<u8>, AscendError> {
    read(path)
}

/// Makes a folder that is not there yet.
pub(crate) fn make_folder(path: &Path) -> Result<(), AscendError> {
    std::fs::create_dir(path).map_err(|source| AscendError::io("create", path, source))
}

/// Writes a file.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), AscendError> {
    std::fs::write(path, bytes).map_err(|source| AscendError::io("write", path, source))
}

/// A folder of this user's below `folder`, to which nobody else can write; None if it cannot be had.
pub(crate) fn private_folder(folder: &Path) -> Option<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let path = folder.join(format!("opkeep-{user}"));
    match std::fs::DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return None,
        _ => {}
    }
    let found = std::fs::symlink_metadata(&path).ok()?;
    (found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0).then_some(path)
}

/// A directory below a private one, made if it is not there.
pub(crate) fn private_below(folder: &Path, name: &str) -> Option<PathBuf> {
    let path = folder.join(name);
    match std::fs::DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => None,
        _ => std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()).then_some(path),
    }
}

/// Removes a file of this user's, if it can be removed.
pub(crate) fn remove_own(path: &Path) {
    // One that stays is found to be out of date.
    let _ = std::fs::remove_file(path);
}

/// A file of this user's, if it is one and not too long.
pub(crate) fn read_own(path: &Path, limit: u64) -> Option<Vec<u8>> {
    let flags = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.len() > limit {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Replaces a file as a whole, if that can be done.
pub(crate) fn replace_own(path: &Path, bytes: &[u8]) {
    let replace = || {
        let mut temp = tempfile::Builder::new().prefix(".new-").tempfile_in(path.parent()?).ok()?;
        io::Write::write_all(&mut temp, bytes).ok()?;
        temp.persist(path).ok()
    };
    // The old one is as good.
    let _ = replace();
}

/// The digest of a file.
pub(crate) fn digest(path: &Path) -> io::Result<Digest> {
    Digest::of_reader(std::fs::File::open(path)?)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn only_what_was_not_modified_for_long_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        for (name, hours) in [("old", 49), ("young", 47), ("new", 0)] {
            let file = std::fs::File::create(directory.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(hours * 3600)).unwrap();
        }
        remove_older(directory.path(), Duration::from_secs(48 * 3600));
        let mut left: Vec<_> =
            std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["new", "young"]);
        remove_older(&directory.path().join("missing"), Duration::ZERO);
    }
}
