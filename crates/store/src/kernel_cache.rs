//! CANN's own cache of kernels, `kernel_cache`, in which no store is made.
//!
//! CANN keeps one `op_cache.ini` beside the directories of its chips, and takes any file of that name there for its
//! own: without versions in it, CANN never checks them again, and runs kernels of an older toolkit. It counts what is
//! in a chip's directory, and deletes it in its mode `force`. So a store that would be at or in a `kernel_cache` is in
//! a directory `opkeep` there, beside the chips. A store that an older version made beside the chips is read; opening
//! it for writing is an error whose help names what to do.

use std::io;
use std::path::{Component, Path, PathBuf};

use crate::limits_file::LimitsFile;
use crate::{StoreError, files, marker};
use opkeep_fs::RootedFs;

/// How CANN calls its cache.
const NAME: &str = "kernel_cache";
/// How the directory of a store in there is called.
const OWN: &str = "opkeep";
/// How the names of chips begin, which are those of CANN's directories.
const CHIPS: [&str; 4] = ["ascend", "as31xm1x", "bs9sx2a", "mc61am21a"];
/// As many links are followed that lead to what is missing.
const MAX_LINKS: u32 = 40;
/// No file of CANN's limits is larger.
const MAX_INI: u64 = 64 << 10;

/// Where the store is that was asked for at `root`: there, unless that is at or in CANN's cache.
///
/// # Errors
/// A store of ours is in CANN's cache, made by a version of opkeep that did not know of this, and it is to be written.
pub(crate) fn place(fs: &RootedFs, root: &Path, writable: bool) -> Result<PathBuf, StoreError> {
    let Some(real) = real_path(fs, root) else { return Ok(root.to_owned()) };
    let is_named = |path: &&Path| path.file_name().is_some_and(|name| name == NAME);
    let has_store = || marker::is_store_on(fs, &real);
    let cache = match real.ancestors().find(is_named) {
        Some(cache) => cache,
        // A link, or another name: then its content decides. An existing store is not looked into.
        None if !writable || has_store() => return Ok(root.to_owned()),
        None => match real.ancestors().take(2).find(|path| has_versions(fs, path) && has_chip(fs, path)) {
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
    let is_cann = has_versions(fs, cache) || has_chip(fs, cache);
    if writable && is_cann {
        return Err(StoreError::InKernelCache { path: real, own });
    }
    Ok(root.to_owned())
}

/// The path without links that `path` has, or will have once its missing parts are made as directories. `None` if that
/// cannot be seen.
pub fn resolve_path(path: &Path) -> Option<PathBuf> {
    real_path(&RootedFs::default(), path)
}

/// The real path of `path`, of which parts may be missing: they are made as directories, so that `..` leads back from them.
/// A link to what is missing leads where that will be.
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

/// Whether CANN's file is in `directory`, with the versions that it writes into it.
fn has_versions(fs: &RootedFs, directory: &Path) -> bool {
    let Ok(file) = files::read_whole(fs, &LimitsFile::path(directory), MAX_INI) else { return false };
    let text = String::from_utf8_lossy(&file.bytes);
    let keys = text.lines().filter_map(|line| line.split_once('=')).map(|(key, _)| key.trim().to_owned());
    keys.into_iter().any(|key| matches!(key.as_str(), "adk_version" | "ops_version"))
}

/// Whether a directory of one of CANN's chips is in `directory`.
fn has_chip(fs: &RootedFs, directory: &Path) -> bool {
    let listed = fs.open_dir(directory).and_then(|opened| opened.list());
    let is_chip = |name: &str| {
        let lower = name.to_ascii_lowercase();
        CHIPS.iter().any(|chip| lower.starts_with(chip))
            && fs.look(&directory.join(name)).is_ok_and(|seen| seen.is_dir())
    };
    listed.is_ok_and(|names| names.utf8().any(is_chip))
}
