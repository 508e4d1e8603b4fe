//! CANN's own cache of kernels, `kernel_cache`, in which no store is made.
//!
//! CANN keeps one `op_cache.ini` beside the directories of its chips. One that it finds there it takes for its own: without
//! versions in it, CANN never checks them again, and runs kernels of an older toolkit. What is in a chip's directory it
//! counts, and deletes in its mode `force`. So a store that would be at or in a `kernel_cache` is in a
//! directory of its own there, beside the chips.

use std::io;
use std::path::{Component, Path, PathBuf};

use crate::disk::Disk;
use crate::{StoreError, files, ini, marker};

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
pub(crate) fn place(disk: &Disk, root: &Path, writable: bool) -> Result<PathBuf, StoreError> {
    let Some(real) = real_path(disk, root) else { return Ok(root.to_owned()) };
    let is_named = |path: &&Path| path.file_name().is_some_and(|name| name == NAME);
    let has_store = || marker::is_store_on(disk, &real);
    let cache = match real.ancestors().find(is_named) {
        Some(cache) => cache,
        // A link, or another name: then its content decides. An existing store is not looked into.
        None if !writable || has_store() => return Ok(root.to_owned()),
        None => {
            match real.ancestors().take(2).find(|path| has_versions(disk, path) && has_chip(disk, path)) {
                Some(cache) => cache,
                None => return Ok(root.to_owned()),
            }
        }
    };
    let own = cache.join(OWN);
    if real.starts_with(&own) {
        return Ok(root.to_owned());
    }
    if !has_store() {
        return Ok(own);
    }
    let is_cann = has_versions(disk, cache) || has_chip(disk, cache);
    if writable && is_cann {
        return Err(StoreError::InKernelCache { path: real, own });
    }
    Ok(root.to_owned())
}

/// The path without links that `path` has, or will have once its missing parts are made as directories. `None` if that
/// cannot be seen.
pub fn resolved(path: &Path) -> Option<PathBuf> {
    real_path(&Disk::default(), path)
}

/// The real path of `path`, of which parts may be missing: they are made as directories, so that `..` leads back from them.
/// A link to what is missing leads where that will be.
fn real_path(disk: &Disk, path: &Path) -> Option<PathBuf> {
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
        match disk.real_path(&next) {
            Ok(found) => (real, rest) = (found, behind.to_owned()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return None,
            Err(_) => match disk.link_target(&next) {
                Ok(target) => {
                    links = links.checked_sub(1)?;
                    rest = target.join(behind);
                }
                Err(_) => (real, rest) = (next, behind.to_owned()),
            },
        }
    }
}

/// Whether CANN's file is in `folder`, with the versions that it writes into it.
fn has_versions(disk: &Disk, folder: &Path) -> bool {
    let Ok(file) = files::read_whole(disk, &ini::Ini::path(folder), MAX_INI) else { return false };
    let text = String::from_utf8_lossy(&file.bytes);
    let keys = text.lines().filter_map(|line| line.split_once('=')).map(|(key, _)| key.trim().to_owned());
    keys.into_iter().any(|key| matches!(key.as_str(), "adk_version" | "ops_version"))
}

/// Whether a directory of one of CANN's chips is in `folder`.
fn has_chip(disk: &Disk, folder: &Path) -> bool {
    let listed = disk.open_folder(folder).and_then(|opened| disk.list_in(&opened, folder));
    let is_chip = |name: &String| {
        let lower = name.to_ascii_lowercase();
        CHIPS.iter().any(|chip| lower.starts_with(chip))
            && disk.look(&folder.join(name)).is_ok_and(|seen| seen.is_folder)
    };
    listed.is_ok_and(|names| names.iter().any(is_chip))
}
