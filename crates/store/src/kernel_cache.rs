//! CANN's own cache of kernels, `kernel_cache`, in which a store needs a directory of its own.
//!
//! CANN reads an `op_cache.ini` beside the directories of its chips. If that file has no versions, CANN never checks
//! the versions of its kernels, and runs kernels of an older toolkit. CANN counts the files in a chip's directory, and
//! deletes them in its mode `force`. So a store whose root is a `kernel_cache`, or is in one, is in a directory
//! `opkeep` there, beside the chips.
//!
//! A store that an earlier version created beside the chips is read; opening it for writing is an error, whose help gives the
//! commands that move it.

use std::io;
use std::path::{Component, Path, PathBuf};

use crate::limits_file::LimitsFile;
use crate::{StoreError, files, marker};
use opkeep_fs::RootedFs;

/// The name of CANN's cache.
const NAME: &str = "kernel_cache";
/// The name of the directory of a store in that cache.
const OWN: &str = "opkeep";
/// The maximum number of links without a target that are followed.
const MAX_LINKS: u32 = 40;
/// The maximum number of bytes that are read of CANN's file of limits.
const MAX_INI: u64 = 64 << 10;

/// Returns the root of the store for the requested `root`: the same path, unless it is CANN's cache or in it.
///
/// # Errors
/// An existing store is in CANN's cache, created by an earlier version of opkeep, and would be written.
pub(crate) fn place(fs: &RootedFs, root: &Path, writable: bool) -> Result<PathBuf, StoreError> {
    let Some(real) = real_path(fs, root) else { return Ok(root.to_owned()) };
    let is_named = |path: &&Path| path.file_name().is_some_and(|name| name == NAME);
    let has_store = || marker::is_store_on(fs, &real);
    let cache = match real.ancestors().find(is_named) {
        Some(cache) => cache,
        // The path is a link or has another name, so the content decides. An existing store stays at its path.
        None if !writable || has_store() => return Ok(root.to_owned()),
        None => match real.ancestors().take(2).find(|path| has_versions(fs, path) && has_kernels(fs, path)) {
            Some(cache) => cache,
            None => return Ok(root.to_owned()),
        },
    };
    let own = cache.join(OWN);
    if real.starts_with(&own) {
        return Ok(root.to_owned());
    }
    if !has_store() {
        return Ok(own);
    }
    let is_cann = has_versions(fs, cache) || has_kernels(fs, cache);
    if writable && is_cann {
        return Err(StoreError::InKernelCache { path: real, own });
    }
    Ok(root.to_owned())
}

/// Returns `path` without links; its missing parts are assumed to become directories. `None` if a part cannot be read.
pub fn resolve_path(path: &Path) -> Option<PathBuf> {
    real_path(&RootedFs::default(), path)
}

/// Returns the real path of `path`. Missing parts count as directories that will be created, so `..` leads back from
/// them; a link to a missing path leads to that path.
fn real_path(fs: &RootedFs, path: &Path) -> Option<PathBuf> {
    let mut links = MAX_LINKS;
    let (mut real, mut rest) = (PathBuf::new(), std::path::absolute(path).ok()?);
    loop {
        let mut parts = rest.components();
        let Some(part) = parts.next() else { return Some(real) };
        let behind = parts.as_path();
        if part == Component::ParentDir {
            real.pop();
            rest = behind.to_owned();
            continue;
        }
        let next = real.join(part);
        match fs.real_path(&next) {
            Ok(found) => (real, rest) = (found, behind.to_owned()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return None,
            Err(_) => match fs.read_link(&next) {
                Ok(target) => {
                    links = links.checked_sub(1)?;
                    rest = target.join(behind);
                }
                Err(_) => (real, rest) = (next, behind.to_owned()),
            },
        }
    }
}

/// Whether `directory` has CANN's `op_cache.ini`, with the versions that CANN writes into it.
fn has_versions(fs: &RootedFs, directory: &Path) -> bool {
    let Ok(bytes) = files::read_whole(fs, &LimitsFile::path(directory), MAX_INI) else { return false };
    let text = String::from_utf8_lossy(&bytes);
    let keys = text.lines().filter_map(|line| line.split_once('=')).map(|(key, _)| key.trim().to_owned());
    keys.into_iter().any(|key| matches!(key.as_str(), "adk_version" | "ops_version"))
}

/// Whether `directory` has a directory with kernels in it, as CANN makes one for each chip. The files of a store are
/// deeper. Any name counts as a chip's, since the names of chips are not known here.
fn has_kernels(fs: &RootedFs, directory: &Path) -> bool {
    let names = |path: &Path| fs.open_dir(path).and_then(|opened| opened.list());
    let is_kernel = |name: &str| [".json", ".o"].iter().any(|ending| name.ends_with(ending));
    let holds_kernels = |name: &str| {
        let path = directory.join(name);
        let is_dir = fs.look(&path).is_ok_and(|seen| seen.is_dir());
        is_dir && names(&path).is_ok_and(|files| files.utf8().any(is_kernel))
    };
    names(directory).is_ok_and(|dirs| dirs.utf8().any(holds_kernels))
}
