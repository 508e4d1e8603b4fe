//! The search for Triton's directories.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use opkeep_digest::Digest;
use opkeep_fs::{Dir, DirEntry, FileKind, Fs};

use crate::scan::cache_dir::parent_of;
use crate::scan::{CacheDirs, OtherFiles};

/// The start of the name of a group's list of files.
const LIST: &str = "__grp__";

/// Triton's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TritonDir {
    /// Its path. If only the directory of one key was named, that one's.
    pub path: PathBuf,
    /// The directories of the keys, in order.
    pub keys: Vec<KeyDir>,
}

/// The directory of one of Triton's keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct KeyDir {
    /// Its path.
    pub path: PathBuf,
    /// The text of the key, which is the directory's name.
    pub key: String,
}

impl TritonDir {
    /// Returns Triton's directory at `path`, or the directory of one of its keys. `None` if `path` is neither.
    ///
    /// # Errors
    /// `path` cannot be listed.
    pub fn at(path: &Path) -> io::Result<Option<Self>> {
        let names = Dir::open_quietly(path)?.entries()?;
        if has_list(&names) {
            return Ok(KeyDir::at(path).map(|key| Self { path: path.to_owned(), keys: vec![key] }));
        }
        let mut is_known = false;
        let mut keys = Vec::new();
        for name in names.iter().filter(|name| name.kind == FileKind::Dir) {
            let Some(key) = name.name.to_str().filter(|name| is_key(name)) else { continue };
            let key = KeyDir { path: path.join(key), key: key.to_owned() };
            is_known = is_known || key.has_list();
            keys.push(key);
        }
        keys.sort_unstable();
        Ok(is_known.then(|| Self { path: path.to_owned(), keys }))
    }
}

impl KeyDir {
    fn at(path: &Path) -> Option<Self> {
        // The full path, since the path `.` does not contain the directory's name.
        let full = Fs::new().real_path(path).ok()?;
        Some(Self { path: path.to_owned(), key: full.file_name()?.to_str()?.to_owned() })
    }

    /// The framework's key of its groups in a store.
    pub fn framework_key(&self) -> Digest {
        Digest::of(self.key.as_bytes())
    }

    fn has_list(&self) -> bool {
        let names = Dir::open_quietly(&self.path).and_then(|dir| dir.entries());
        names.is_ok_and(|names| has_list(&names))
    }
}

/// Takes Triton's directories out of what a search found beside the caches.
pub fn take(found: &mut CacheDirs) -> Vec<TritonDir> {
    let has_list =
        |files: &OtherFiles| files.names.iter().any(|name| name.to_str().and_then(listed_name).is_some());
    let mut dirs: BTreeMap<PathBuf, Vec<KeyDir>> = BTreeMap::new();
    for files in found.others.iter().filter(|files| has_list(files)) {
        dirs.entry(parent_of(&files.path)).or_default();
    }
    // A hit compares the files there each time, and those of the key's own directory are the same.
    found.others.retain(|files| !files.path.file_name().is_some_and(is_toolchain_dir));
    found.others.retain(|files| {
        let Some(keys) = dirs.get_mut(&parent_of(&files.path)) else { return true };
        match KeyDir::at(&files.path).filter(|key| is_key(&key.key) || has_list(files)) {
            Some(key) => {
                keys.push(key);
                false
            }
            None => true,
        }
    });
    dirs.into_iter().map(|(path, keys)| TritonDir { path, keys }).collect()
}

/// Whether this is the name of the directory in which opkeep keeps the files of a key and one toolchain: `<key>.opkeep-<digest>`.
fn is_toolchain_dir(name: &OsStr) -> bool {
    let key = name.to_str().and_then(|name| name.split_once(".opkeep-"));
    key.is_some_and(|(key, _)| is_key(key))
}

/// The name of the group of which this is opkeep's record.
pub(super) fn recorded_name(name: &str) -> Option<&str> {
    name.strip_suffix(".opkeep").filter(|name| name.ends_with(".json"))
}

/// The name of the group of which this is the list.
pub(super) fn listed_name(name: &str) -> Option<&str> {
    name.strip_prefix(LIST).filter(|name| name.ends_with(".json"))
}

fn has_list(names: &[DirEntry]) -> bool {
    names.iter().any(|name| name.name.to_str().and_then(listed_name).is_some())
}

/// The framework's key in a store, for a text that can be one of Triton's keys.
pub fn framework_key(text: &str) -> Option<Digest> {
    is_key(text).then(|| Digest::of(text.as_bytes()))
}

/// Whether this is how Triton writes a key: 32 bytes in base 32, in older releases in base 64.
fn is_key(name: &str) -> bool {
    match name.len() {
        52 => name.bytes().all(|letter| letter.is_ascii_uppercase() || (b'2'..=b'7').contains(&letter)),
        43 => name.bytes().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_')),
        _ => false,
    }
}
