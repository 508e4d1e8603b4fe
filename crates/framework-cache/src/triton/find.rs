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
pub(super) const LIST: &str = "__grp__";
/// What is between the key and the toolchain in the name of a directory.
pub(super) const MARK: &str = ".opkeep-";
/// What is between the key and a random number in the name of a directory of a compile that is not kept.
const UNKEPT: &str = ".opkeep-unkept-";
/// The number of digits of a toolchain's digest in the name of its directory.
pub(super) const TOOLCHAIN_DIGITS: usize = 32;

/// Triton's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TritonDir {
    /// Its path. If only the directory of one key was named, that one's.
    pub path: PathBuf,
    /// The directories of the keys, in order.
    pub keys: Vec<KeyDir>,
}

/// A directory of one of Triton's keys: that of the key itself, or that in which opkeep keeps the files of one toolchain.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyDir {
    /// Its path.
    pub path: PathBuf,
    /// The text of the key.
    pub key: String,
    /// The start of the digest of the toolchain: the name is `<key>.opkeep-<digest>`. None for the key's own directory.
    pub toolchain: Option<String>,
    /// The toolchains whose directories lie beside that of the key.
    pub(super) toolchains: Vec<String>,
}

impl TritonDir {
    /// Returns Triton's directory at `path`, or a directory of one of its keys. `None` if `path` is neither.
    ///
    /// # Errors
    /// `path` cannot be listed.
    pub fn at(path: &Path) -> io::Result<Option<Self>> {
        let names = Dir::open_quietly(path)?.entries()?;
        let named = KeyDir::at(path).filter(|dir| dir.toolchain.is_some() || has_list(&names));
        if let Some(dir) = named {
            let mut keys = vec![dir];
            add_toolchains(&mut keys);
            return Ok(Some(Self { path: path.to_owned(), keys }));
        }
        let mut keys = key_dirs(path, &names);
        add_toolchains(&mut keys);
        let is_known = keys.iter().any(|dir| dir.toolchain.is_some() || dir.has_list());
        Ok(is_known.then(|| Self { path: path.to_owned(), keys }))
    }
}

impl KeyDir {
    pub(super) fn at(path: &Path) -> Option<Self> {
        // The full path, since the path `.` does not contain the directory's name.
        let full = Fs::new().real_path(path).ok()?;
        let name = full.file_name()?.to_str()?;
        let (key, toolchain) = parts_of_name(name).unwrap_or((name, None));
        let (key, toolchain) = (key.to_owned(), toolchain.map(str::to_owned));
        Some(Self { path: path.to_owned(), key, toolchain, toolchains: Vec::new() })
    }

    /// The name of the directory.
    pub(super) fn name(&self) -> String {
        match &self.toolchain {
            Some(toolchain) => format!("{}{MARK}{toolchain}", self.key),
            None => self.key.clone(),
        }
    }

    /// The path of Triton's directory: as the user named it, if the path contains the directory's name.
    pub(super) fn base(&self) -> io::Result<PathBuf> {
        match self.path.file_name() {
            Some(last) if *last == *self.name() => Ok(parent_of(&self.path)),
            // A path such as `.`, or a link.
            _ => Ok(parent_of(&Fs::new().real_path(&self.path)?)),
        }
    }

    /// The framework's key of its groups in a store.
    pub fn framework_key(&self) -> Digest {
        Digest::of(self.key.as_bytes())
    }

    /// All directories of its key, in order.
    ///
    /// # Errors
    /// The directory above cannot be listed.
    pub fn all_of_key(&self) -> io::Result<Vec<Self>> {
        if !is_key(&self.key) {
            return Ok(vec![self.clone()]);
        }
        let base = self.base()?;
        let names = Dir::open_quietly(&base)?.entries()?;
        let mut dirs = key_dirs(&base, &names);
        dirs.retain(|dir| dir.key == self.key);
        add_toolchains(&mut dirs);
        Ok(dirs)
    }

    fn has_list(&self) -> bool {
        let names = Dir::open_quietly(&self.path).and_then(|dir| dir.entries());
        names.is_ok_and(|names| has_list(&names))
    }

    /// The order of reports: by key, and first the directories whose files opkeep gives Triton.
    fn order(&self) -> (&str, bool, Option<&str>, &Path) {
        (&self.key, self.toolchain.is_none(), self.toolchain.as_deref(), &self.path)
    }
}

/// The directories of keys among the names in `path`, in order. No link is followed.
fn key_dirs(path: &Path, names: &[DirEntry]) -> Vec<KeyDir> {
    let of = |entry: &DirEntry| {
        let name = entry.name.to_str().filter(|_| entry.kind == FileKind::Dir)?;
        let (key, toolchain) = parts_of_name(name)?;
        let (key, toolchain) = (key.to_owned(), toolchain.map(str::to_owned));
        Some(KeyDir { path: path.join(name), key, toolchain, toolchains: Vec::new() })
    };
    let mut dirs: Vec<KeyDir> = names.iter().filter_map(of).collect();
    opkeep_order::by(&mut dirs, |one, other| one.order().cmp(&other.order()));
    dirs
}

/// Adds to the directories of keys, which have one directory above, the toolchains beside them.
fn add_toolchains(dirs: &mut [KeyDir]) {
    let Some(base) = dirs.first().and_then(|dir| dir.base().ok()) else { return };
    let names = Dir::open_quietly(&base).and_then(|dir| dir.entries()).unwrap_or_default();
    let mut toolchains: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for dir in key_dirs(&base, &names) {
        toolchains.entry(dir.key).or_default().extend(dir.toolchain);
    }
    for dir in dirs.iter_mut().filter(|dir| dir.toolchain.is_none()) {
        dir.toolchains = toolchains.get(&dir.key).cloned().unwrap_or_default();
    }
}

/// Takes Triton's directories out of what a search found beside the caches. Those of compiles that are not kept belong to a process,
/// or to one that was killed, and are taken out only.
pub fn take(found: &mut CacheDirs) -> Vec<TritonDir> {
    found.others.retain(|files| !is_unkept_dir(&files.path));
    let is_known = |files: &OtherFiles| {
        let has_list = files.names.iter().any(|name| name.to_str().and_then(listed_name).is_some());
        has_list || is_toolchain_dir(&files.path)
    };
    let mut dirs: BTreeMap<PathBuf, Vec<KeyDir>> = BTreeMap::new();
    for files in found.others.iter().filter(|files| is_known(files)) {
        dirs.entry(parent_of(&files.path)).or_default();
    }
    found.others.retain(|files| {
        let Some(keys) = dirs.get_mut(&parent_of(&files.path)) else { return true };
        match KeyDir::at(&files.path).filter(|key| is_key(&key.key) || is_known(files)) {
            Some(key) => {
                keys.push(key);
                false
            }
            None => true,
        }
    });
    let sorted = |(path, mut keys): (PathBuf, Vec<KeyDir>)| {
        opkeep_order::by(&mut keys, |one, other| one.order().cmp(&other.order()));
        add_toolchains(&mut keys);
        TritonDir { path, keys }
    };
    dirs.into_iter().map(sorted).collect()
}

fn is_unkept_dir(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    name.and_then(|name| name.split_once(UNKEPT)).is_some_and(|(key, _)| is_key(key))
}

fn is_toolchain_dir(path: &Path) -> bool {
    KeyDir::at(path).is_some_and(|dir| dir.toolchain.is_some())
}

/// The key and the toolchain in the name of a directory: `<key>`, or `<key>.opkeep-<the start of a digest>`.
fn parts_of_name(name: &str) -> Option<(&str, Option<&str>)> {
    let (key, toolchain) = match name.split_once(MARK) {
        Some((key, toolchain)) => (key, Some(toolchain)),
        None => (name, None),
    };
    let is_digest = |text: &str| {
        text.len() == TOOLCHAIN_DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    (is_key(key) && toolchain.is_none_or(is_digest)).then_some((key, toolchain))
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
