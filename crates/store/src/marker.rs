//! Whose a directory is: a store's carries a file that says so, and one without it is not touched.
//!
//! A directory `v1` with directories in it, or one with a directory `entries`, proves nothing: other programs have such,
//! too. So the version's directory and each target's directory get a file [`NAME`] before anything else is put there. A
//! directory that holds nothing is free, since a process may have ended between making and marking it.
//!
//! Stores of earlier versions have no such file. They are known by what only a store writes, and marked when they are
//! opened for writing.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::disk::Disk;
use crate::files::{self, NEW};
use crate::prefix::MAGIC;
use crate::size::Size;
use crate::stats::Counters;
use crate::store::{TAG, TAG_NAME, VERSION};
use crate::{StoreError, walk};

/// The file.
pub(crate) const NAME: &str = "STORE.TAG";
/// What it begins with: SHA-256 of `opkeep store 1`, cut.
const SIGNATURE: &str = "Signature: a31cd1495d27ecdc8270d35df537184e";
const TEXT: &str = "# This directory belongs to a store of compiled kernels, made by opkeep. Without this file, no command \
    of opkeep writes to it.\n";
/// No more is read of any file to see how it begins.
const MAX_BYTES: usize = 1024;

/// Which directory of a store one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// `v1`.
    Version,
    /// A target's.
    Target,
}

/// Whose a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A store's: it is marked.
    Store,
    /// A store's, of a version that marked nothing.
    Unmarked,
    /// Nobody's: there is nothing in it.
    Free,
    /// Another program's.
    Foreign,
}

impl Owner {
    pub(crate) fn is_store(self) -> bool {
        matches!(self, Self::Store | Self::Unmarked)
    }
}

/// Whose the open directory `folder` at `path` is.
pub(crate) fn owner(disk: &Disk, folder: &File, path: &Path, level: Level) -> io::Result<Owner> {
    if is_marked(disk, folder, path)? {
        return Ok(Owner::Store);
    }
    let (mut names, is_odd) = disk.list_all_in(folder, path)?;
    names.retain(|name| files::maker(name, &[NEW]).is_none());
    if names.is_empty() && !is_odd {
        return Ok(Owner::Free);
    }
    // Another process may have marked it before it was listed.
    if is_marked(disk, folder, path)? {
        return Ok(Owner::Store);
    }
    let is_proved = match level {
        Level::Version => is_version(disk, folder, path, &names),
        Level::Target => is_target(disk, path),
    };
    Ok(if is_proved { Owner::Unmarked } else { Owner::Foreign })
}

/// Marks the open directory `folder` at `path` as a store's, unless it is another program's.
pub(crate) fn claim(disk: &Disk, folder: &File, path: &Path, level: Level) -> Result<(), StoreError> {
    let trouble = |action, source| StoreError::Io { action, path: path.to_owned(), source };
    match owner(disk, folder, path, level).map_err(|source| trouble("look into", source))? {
        Owner::Store => Ok(()),
        Owner::Foreign => Err(StoreError::Foreign { path: path.to_owned() }),
        Owner::Free | Owner::Unmarked => {
            let text = format!("{SIGNATURE}\n{TEXT}");
            files::write_new(disk, &path.join(NAME), &text).map_err(|source| trouble("mark", source))?;
            // Best effort, so that a power cut does not leave what comes next without the mark.
            let _ = disk.sync_folder(folder, path);
            Ok(())
        }
    }
}

fn is_marked(disk: &Disk, folder: &File, path: &Path) -> io::Result<bool> {
    match begins(disk, folder, NAME, &path.join(NAME)) {
        Ok(bytes) => Ok(bytes.starts_with(SIGNATURE.as_bytes())),
        // A link or a directory of that name marks nothing.
        Err(error) if error.kind() == io::ErrorKind::NotFound || crate::error::is_link(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// How a file begins; nothing, if it is no file.
fn begins(disk: &Disk, folder: &File, name: &str, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open_in(folder, name, path)?;
    match disk.stat(&file, path)?.is_file() {
        true => disk.read_start(&file, path, MAX_BYTES),
        false => Ok(Vec::new()),
    }
}

/// Whether a version's directory without a marker is a store's: a target of it is, or the root was made by a store.
fn is_version(disk: &Disk, folder: &File, path: &Path, names: &[String]) -> bool {
    let tag = path.with_file_name(TAG_NAME);
    let has_tag = || {
        let file = disk.open(&tag)?;
        Ok::<_, io::Error>(disk.read_start(&file, &tag, MAX_BYTES)? == TAG.as_bytes())
    };
    let is_store = |name: &String| {
        let path = path.join(name);
        let seen = disk.look_in(folder, name, &path);
        let opened = seen.is_ok_and(|seen| seen.is_folder).then(|| disk.open_folder(&path).ok()).flatten();
        opened.is_some_and(|folder| owner(disk, &folder, &path, Level::Target).is_ok_and(Owner::is_store))
    };
    has_tag().unwrap_or(false) || names.iter().any(is_store)
}

/// Whether a target's directory without a marker is a store's: its numbers check, or it has an entry.
fn is_target(disk: &Disk, path: &Path) -> bool {
    Size::new(path, false).estimate(disk).is_some() || Counters::new(path, false).is_there(disk) || {
        let entries = path.join("entries");
        let folder = disk.open_folder(&entries);
        let listed = folder.and_then(|folder| disk.list_in(&folder, &entries)).unwrap_or_default();
        listed.iter().filter(|name| walk::is_shard(name)).any(|name| has_entry(disk, &entries.join(name)))
    }
}

fn has_entry(disk: &Disk, shard: &Path) -> bool {
    let has = || {
        let folder = disk.open_folder(shard)?;
        let names = disk.list_in(&folder, shard)?;
        let is_entry = |name: &String| {
            name.ends_with(".kern")
                && begins(disk, &folder, name, &shard.join(name)).is_ok_and(|it| it.starts_with(MAGIC))
        };
        Ok::<_, io::Error>(names.iter().any(is_entry))
    };
    has().unwrap_or(false)
}

/// Whether there is a store at `root`. Reads only.
pub fn is_store(root: &Path) -> bool {
    is_store_on(&Disk::default().quiet(true), root)
}

/// Whether the directory at `path` is a store's for one target. Reads only.
pub fn is_target_directory(path: &Path) -> bool {
    is_owned(&Disk::default().quiet(true), path, Level::Target)
}

/// As [`is_store`].
pub(crate) fn is_store_on(disk: &Disk, root: &Path) -> bool {
    is_owned(disk, &root.join(VERSION), Level::Version)
}

fn is_owned(disk: &Disk, path: &Path, level: Level) -> bool {
    let folder = disk.open_folder(path);
    folder.is_ok_and(|folder| owner(disk, &folder, path, level).is_ok_and(Owner::is_store))
}
