//! Directories that lost their name, with the entries in them.
//!
//! In a shared store a directory gets its mode before it gets its name. A power cut may undo the rename and keep the files that
//! were written into the directory since: entries that no look-up finds any more. They are deleted, not moved to their
//! directory: they can be compiled again, while moving one would need its key's lock, a check of all its bytes, and a choice
//! if another entry exists by now. A directory that is old enough to be pruned is not open in any process.
//!
//! A directory is removed only if the store gives all names in it. Otherwise the whole directory stays.

use std::path::Path;

use opkeep_digest::Digest;

use crate::layout::{self, EVICT, LOCK, NEW, PUT, TARGET_DIRS, TARGET_FILES, is_quarantined, is_shard};
use crate::{Store, StoreError};
use opkeep_fs::{Dir, FileStat};

/// The maximum depth: a target's directory contains directories, which contain directories of entries.
const DEEPEST: usize = 4;

/// Removes the directory `name` of the open directory `parent`, which is at `path`, with the store's files in it.
/// Returns false if another program's file or a file that is not `old` is in it: then the whole directory stays.
pub(crate) fn remove(
    store: &Store,
    parent: &Dir,
    name: &str,
    path: &Path,
    old: &dyn Fn(&FileStat) -> bool,
) -> Result<bool, StoreError> {
    match parent.remove_dir(name) {
        Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => {}
        removed => return removed.map(|()| true).map_err(|source| trouble("remove", path, source)),
    }
    if !is_ours(store, path, old, DEEPEST)? {
        return Ok(false);
    }
    empty(store, path, DEEPEST)?;
    parent.remove_dir(name).map_err(|source| trouble("remove", path, source))?;
    Ok(true)
}

/// Whether all files in a directory have names that the store gives, and are old.
fn is_ours(
    store: &Store,
    dir: &Path,
    old: &dyn Fn(&FileStat) -> bool,
    depth: usize,
) -> Result<bool, StoreError> {
    let Some((_, found, has_others)) = found(store, dir)? else { return Ok(true) };
    if has_others {
        return Ok(false);
    }
    for (name, seen) in found {
        let below = seen.is_dir() && depth > 0;
        if !old(&seen) || !is_own_name(&name, &seen) || !(seen.is_file() || below) {
            return Ok(false);
        }
        if below && !is_ours(store, &dir.join(&name), old, depth - 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes all files and directories with names that the store gives.
fn empty(store: &Store, dir: &Path, depth: usize) -> Result<(), StoreError> {
    let Some((directory, found, _)) = found(store, dir)? else { return Ok(()) };
    for (name, seen) in found.into_iter().filter(|(name, seen)| is_own_name(name, seen)) {
        let path = dir.join(&name);
        let removed = if seen.is_dir() && depth > 0 {
            empty(store, &path, depth - 1)?;
            directory.remove_dir(&name)
        } else {
            directory.remove(&name)
        };
        removed.map_err(|source| trouble("remove", &path, source))?;
    }
    Ok(())
}

/// An open directory, the names in it, and whether some names are not UTF-8.
type Found = (Dir, Vec<(String, FileStat)>, bool);

/// Returns the content of a directory. None if the directory is missing.
fn found(store: &Store, dir: &Path) -> Result<Option<Found>, StoreError> {
    let Some(directory) = store.directory(dir, false)? else { return Ok(None) };
    let names = directory.list().map_err(|source| trouble("list", dir, source))?;
    let look = |name: &str| {
        let seen = directory.look(name).map_err(|source| trouble("look at", &dir.join(name), source))?;
        Ok((name.to_owned(), seen))
    };
    let seen: Vec<_> = names.utf8().map(look).collect::<Result<_, StoreError>>()?;
    let has_others = seen.len() < names.len();
    Ok(Some((directory, seen, has_others)))
}

/// Whether the store gives this name to a file or directory below its root.
fn is_own_name(name: &str, seen: &FileStat) -> bool {
    if seen.is_dir() {
        return is_shard(name) || TARGET_DIRS.contains(&name) || layout::creator(name, &[NEW]).is_some();
    }
    let is_key = |name: &str| name.parse::<Digest>().is_ok();
    seen.is_file()
        && (layout::entry_key(name).is_some()
            || is_key(name)
            || is_quarantined(name)
            || TARGET_FILES.contains(&name)
            || layout::creator(name, &[PUT, NEW, LOCK, EVICT]).is_some())
}

fn trouble(action: &'static str, path: &Path, source: std::io::Error) -> StoreError {
    StoreError::Io { action, path: path.to_owned(), source }
}
