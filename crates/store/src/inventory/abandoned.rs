//! Directories that never got their name, with what was put into them meanwhile.
//!
//! In a shared store a directory is opened up to the group before it gets its name. A power cut may take that name back and
//! leave what was written into the directory since: entries that no look-up finds any more. They are deleted, not moved to where
//! they belong: they can be made again, while to move one would take its key's lock, a look at all of it, and an answer
//! to who is right if another is there by now. What is old enough to be pruned has outlived by far every process that had the
//! directory open.
//!
//! Only what the store itself would have put there goes. If there is anything else, all of it is left for people.

use std::path::Path;

use opkeep_digest::Digest;

use crate::layout::{self, EVICT, LOCK, NEW, PUT, TARGET_DIRS, TARGET_FILES, is_quarantined, is_shard};
use crate::{Store, StoreError};
use opkeep_fs::{Dir, FileStat};

/// A target's directory without its name has directories in it, and those have directories of entries.
const DEEPEST: usize = 4;

/// Removes the directory `name` of the open directory `parent`, which is at `path`, with what the store put into it. False if
/// there is anything else in it, or something that is not `old`: then all of it stays.
pub(crate) fn remove(
    store: &Store,
    parent: &Dir,
    name: &str,
    path: &Path,
    old: &dyn Fn(&FileStat) -> bool,
) -> Result<bool, StoreError> {
    match parent.remove_dir(name) {
        Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => {}
        gone => return gone.map(|()| true).map_err(|source| trouble("remove", path, source)),
    }
    if !is_ours(store, path, old, DEEPEST)? {
        return Ok(false);
    }
    empty(store, path, DEEPEST)?;
    parent.remove_dir(name).map_err(|source| trouble("remove", path, source))?;
    Ok(true)
}

/// Whether everything in a directory is what the store would put there, and old.
fn is_ours(
    store: &Store,
    dir: &Path,
    old: &dyn Fn(&FileStat) -> bool,
    depth: usize,
) -> Result<bool, StoreError> {
    let Some((_, found, odd)) = found(store, dir)? else { return Ok(true) };
    if odd {
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

/// Removes what the store would put into a directory.
fn empty(store: &Store, dir: &Path, depth: usize) -> Result<(), StoreError> {
    let Some((directory, found, _)) = found(store, dir)? else { return Ok(()) };
    for (name, seen) in found.into_iter().filter(|(name, seen)| is_own_name(name, seen)) {
        let path = dir.join(&name);
        let gone = if seen.is_dir() && depth > 0 {
            empty(store, &path, depth - 1)?;
            directory.remove_dir(&name)
        } else {
            directory.remove(&name)
        };
        gone.map_err(|source| trouble("remove", &path, source))?;
    }
    Ok(())
}

/// A directory, open, the names in it, and whether there are some that are no text.
type Found = (Dir, Vec<(String, FileStat)>, bool);

/// What is in a directory. None if it is missing.
fn found(store: &Store, dir: &Path) -> Result<Option<Found>, StoreError> {
    let Some(directory) = store.directory(dir, false)? else { return Ok(None) };
    let names = directory.list().map_err(|source| trouble("list", dir, source))?;
    let look = |name: &str| {
        let seen = directory.look(name).map_err(|source| trouble("look at", &dir.join(name), source))?;
        Ok((name.to_owned(), seen))
    };
    let seen: Vec<_> = names.utf8().map(look).collect::<Result<_, StoreError>>()?;
    let odd = seen.len() < names.len();
    Ok(Some((directory, seen, odd)))
}

/// Whether the store calls something so that is somewhere below its root.
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
