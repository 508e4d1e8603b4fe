//! The owner of a directory: a store marks its directories with a file, and does not change a directory without one.
//!
//! The names alone do not identify a store, since other programs also have directories `v1` or `entries`. So the
//! version's directory and each target's directory get a file [`STORE_TAG`] before any other file. An empty directory
//! is free, since a process may have been killed after creating and before marking it; so is a target's directory that has all the
//! directories of a target, each empty, and no other names than a target's: a power cut may have undone the mark alone. Any other
//! directory without a mark is foreign.
//!
//! Stores of earlier versions have no such file. They are recognized by files that only a store writes, and marked when they
//! are opened for writing.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use crate::entry::prefix::MAGIC;
use crate::layout::{
    self, CACHEDIR_TAG, CACHEDIR_TEXT, NEW, STORE_TAG, TARGET_DIRS, TARGET_FILES, UNSENT, VERSION,
};
use crate::size::SizeFile;
use crate::stats::Counters;
use crate::{StoreError, files};
use opkeep_fs::{Dir, Names, RootedFs};

/// The beginning of the mark: the first half of the SHA-256 of `opkeep store 1`.
const SIGNATURE: &str = "Signature: a31cd1495d27ecdc8270d35df537184e";
const TEXT: &str = "# This directory belongs to a store of compiled kernels, made by opkeep. Without this file, no command \
    of opkeep writes to it.\n";
/// The maximum number of bytes that are read of a file to recognize it.
const MAX_BYTES: usize = 1024;

/// The level of a directory in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The directory of a version, `v1`.
    Version,
    /// The directory of a target.
    Target,
}

/// The owner of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A store, which marked the directory.
    Store,
    /// A store of an earlier version, which did not mark directories.
    Unmarked,
    /// No owner: nothing is in the directory.
    Free,
    /// Another program.
    Foreign,
}

impl Owner {
    pub(crate) fn is_store(self) -> bool {
        matches!(self, Self::Store | Self::Unmarked)
    }
}

/// Returns the owner of the open directory.
pub(crate) fn owner(fs: &RootedFs, dir: &Dir, level: Level) -> io::Result<Owner> {
    if is_marked(fs, dir)? {
        return Ok(Owner::Store);
    }
    let names = dir.list()?;
    let is_temporary =
        |name: &OsStr| name.to_str().is_some_and(|name| layout::creator(name, &[NEW]).is_some());
    if names.iter().all(|(name, _)| is_temporary(name)) || level == Level::Target && is_blank(dir, &names) {
        return Ok(Owner::Free);
    }
    // Another process may have marked the directory before it was listed.
    if is_marked(fs, dir)? {
        return Ok(Owner::Store);
    }
    let is_proved = match level {
        Level::Version => is_version(fs, dir, &names),
        Level::Target => is_target(fs, dir.path()),
    };
    Ok(if is_proved { Owner::Unmarked } else { Owner::Foreign })
}

/// Marks the open directory as a store's, unless it belongs to another program.
pub(crate) fn claim(fs: &RootedFs, dir: &Dir, level: Level) -> Result<(), StoreError> {
    let path = dir.path();
    let trouble = |action, source| StoreError::Io { action, path: path.to_owned(), source };
    match owner(fs, dir, level).map_err(|source| trouble("look into", source))? {
        Owner::Store => Ok(()),
        Owner::Foreign => Err(StoreError::Foreign { path: path.to_owned() }),
        Owner::Free | Owner::Unmarked => {
            let text = format!("{SIGNATURE}\n{TEXT}");
            files::write_new(fs, &path.join(STORE_TAG), &text).map_err(|source| trouble("mark", source))?;
            // Best effort: prevents that a power cut keeps later files without the mark.
            let _ = dir.sync();
            Ok(())
        }
    }
}

fn is_marked(fs: &RootedFs, dir: &Dir) -> io::Result<bool> {
    match begins(fs, dir, STORE_TAG) {
        Ok(bytes) => Ok(bytes.starts_with(SIGNATURE.as_bytes())),
        // A link or a directory of that name is not a mark.
        Err(error) if error.kind() == io::ErrorKind::NotFound || crate::error::is_link(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the directory has what opening a target creates, and no entry. What cannot be read is no sign of that.
fn is_blank(dir: &Dir, names: &Names) -> bool {
    let is_own = |name: &str| {
        let seen = dir.look(name);
        let list = || dir.below(name)?.list();
        match TARGET_DIRS.contains(&name) {
            true => list().is_ok_and(|names| names.iter().next().is_none()),
            false => {
                let is_new = layout::creator(name, &[NEW]).is_some();
                is_new || TARGET_FILES.contains(&name) && seen.is_ok_and(|seen| seen.is_file())
            }
        }
    };
    let is_there = |wanted: &str| names.utf8().any(|name| name == wanted);
    TARGET_DIRS.into_iter().all(|name| name == UNSENT || is_there(name))
        && names.iter().all(|(name, _)| name.to_str().is_some_and(is_own))
}

/// Returns the first bytes of a file; none, if it is not a regular file.
fn begins(fs: &RootedFs, dir: &Dir, name: &str) -> io::Result<Vec<u8>> {
    let (file, path) = (dir.open_file(name)?, dir.path().join(name));
    match fs.stat(&file, &path)?.is_file() {
        true => fs.read_start(&file, &path, MAX_BYTES),
        false => Ok(Vec::new()),
    }
}

/// Whether a version's directory without a mark belongs to a store: a target in it does, or a store created the root.
fn is_version(fs: &RootedFs, dir: &Dir, names: &Names) -> bool {
    let tag = dir.path().with_file_name(CACHEDIR_TAG);
    let has_tag = || {
        let file = fs.open(&tag)?;
        Ok::<_, io::Error>(fs.read_start(&file, &tag, MAX_BYTES)? == CACHEDIR_TEXT.as_bytes())
    };
    let is_store = |name: &str| {
        let is_dir = dir.look(name).is_ok_and(|seen| seen.is_dir());
        let opened = is_dir.then(|| fs.open_dir(&dir.path().join(name)).ok()).flatten();
        opened.is_some_and(|dir| owner(fs, &dir, Level::Target).is_ok_and(Owner::is_store))
    };
    has_tag().unwrap_or(false) || names.utf8().any(is_store)
}

/// Whether a target's directory without a mark belongs to a store: it has a valid counters file, or an entry.
fn is_target(fs: &RootedFs, path: &Path) -> bool {
    SizeFile::new(path, false).estimate(fs).is_some() || Counters::new(path, false).exists(fs) || {
        let entries = path.join("entries");
        let listed = fs.open_dir(&entries).and_then(|dir| dir.list()).unwrap_or_default();
        listed.utf8().filter(|name| layout::is_shard(name)).any(|name| has_entry(fs, &entries.join(name)))
    }
}

fn has_entry(fs: &RootedFs, shard: &Path) -> bool {
    let has = || {
        let dir = fs.open_dir(shard)?;
        let is_entry = |name: &str| {
            name.ends_with(".kern") && begins(fs, &dir, name).is_ok_and(|it| it.starts_with(MAGIC))
        };
        Ok::<_, io::Error>(dir.list()?.utf8().any(is_entry))
    };
    has().unwrap_or(false)
}

/// Whether there is a store at `root`. Reads only.
pub fn is_store(root: &Path) -> bool {
    is_store_on(&RootedFs::default().quiet(true), root)
}

/// Whether the directory at `path` is a target's directory of a store. Reads only.
pub fn is_target_directory(path: &Path) -> bool {
    is_owned(&RootedFs::default().quiet(true), path, Level::Target)
}

/// Whether there is a store at `root`, seen through `fs`. Reads only.
pub(crate) fn is_store_on(fs: &RootedFs, root: &Path) -> bool {
    is_owned(fs, &root.join(VERSION), Level::Version)
}

fn is_owned(fs: &RootedFs, path: &Path, level: Level) -> bool {
    fs.open_dir(path).is_ok_and(|dir| owner(fs, &dir, level).is_ok_and(Owner::is_store))
}
