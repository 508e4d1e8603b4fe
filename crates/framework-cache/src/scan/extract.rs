//! Reads the files of a kernel in a cache, for example for an import.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opkeep_digest::Digest;

use crate::scan::cache_dir::CacheDir;
use crate::scan::item::Item;
use crate::scan::judge::MAX_OBJECT;
use opkeep_fs::{Dir, FileRead, FileState};
use opkeep_kernel_meta::KernelFileKind;
use opkeep_kernel_meta::manifest::{self, MAX_TEXT, Manifest, Record};
use opkeep_kernel_meta::view_dir::MAX_READ;

/// The current files of a kernel. They may be newer than the scan, so the caller judges them again.
#[derive(Debug)]
#[non_exhaustive]
pub struct ExtractedKernel {
    /// The content of the `.json`.
    pub json: Vec<u8>,
    /// The content of the `.o`.
    pub object: Vec<u8>,
    /// The content of the `.info`.
    pub info: Vec<u8>,
    /// Whether the `.info` was written after the `.json` or the `.o`. Frameworks write it before they compile, so a
    /// later compile began, and the other two files may result from other options.
    pub is_descriptor_newer: bool,
    /// The time of the last write of the `.json` or the `.o`, which is the end of the compile.
    pub compiled_at: SystemTime,
    /// Whether a [`View`](opkeep_kernel_meta::View) wrote the kernel, so that no framework compiled it.
    pub is_ours: bool,
}

/// The reason why a kernel's files could not be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ExtractError {
    /// A file is missing.
    Missing {
        /// The name of the file.
        file: String,
    },
    /// A file changed each time that it was read.
    Changing {
        /// The name of the file.
        file: String,
    },
    /// A file is not a regular file, or larger than any genuine one.
    NotAFile {
        /// The name of the file.
        file: String,
    },
    /// A file could not be read.
    Failed {
        /// The name of the file.
        file: String,
        /// The error of the system.
        source: io::Error,
    },
}

/// A reader of the kernels in one cache.
#[derive(Debug)]
pub struct CacheReader {
    dir: Dir,
    /// The digests of the objects that a view wrote, by stem.
    own_objects: HashMap<String, Digest>,
}

impl CacheReader {
    /// Opens a cache.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn open(cache: &CacheDir) -> io::Result<Self> {
        let dir = Dir::open_quietly(&cache.path)?;
        let own_objects = own_objects(&dir);
        Ok(Self { dir, own_objects })
    }

    /// Reads the `.json`, the `.o` and the `.info` of `item`. No link is followed.
    ///
    /// # Errors
    /// One of the files is missing or cannot be read.
    pub fn extract(&self, item: &Item) -> Result<ExtractedKernel, ExtractError> {
        let below = item.below.map(|below| self.dir.below(OsStr::new(below))).transpose();
        let below = below.map_err(|source| ExtractError::Failed { file: item.name.clone(), source })?;
        let dir = below.as_ref().unwrap_or(&self.dir);
        // The descriptor is read last: if a compile begins meanwhile, the descriptor is newer than the other two files.
        let (json, json_file) = read(dir, &format!("{}.json", item.name), MAX_TEXT)?;
        let (object, object_file) = read(dir, &format!("{}.o", item.name), MAX_OBJECT)?;
        let (info, info_file) = read(dir, &format!("{}.info", item.name), MAX_TEXT)?;
        let is_descriptor_newer = info_file.mtime > json_file.mtime || info_file.mtime > object_file.mtime;
        let compiled_at = time_of(json_file.mtime.max(object_file.mtime));
        let record = self.own_objects.get(&item.name).filter(|_| item.below.is_none());
        let is_ours = record.is_some_and(|digest| *digest == Digest::of(&object));
        Ok(ExtractedKernel { json, object, info, is_descriptor_newer, compiled_at, is_ours })
    }
}

/// Returns the digests of the objects that a view wrote to a directory, by stem.
pub(crate) fn own_objects(dir: &Dir) -> HashMap<String, Digest> {
    let mut text = Vec::new();
    let FileRead::Complete(_) = dir.read(manifest::NAME, MAX_READ, &mut text) else { return HashMap::new() };
    let object = |(stem, record): (&Cow<'_, str>, &Record<'_>)| {
        (stem.clone().into_owned(), record.file(KernelFileKind::Object).digest)
    };
    Manifest::parse(&text).kernels.iter().map(object).collect()
}

/// Returns whether a [`View`](opkeep_kernel_meta::View) wrote the object with this digest to the directory at `path`,
/// under `stem`.
pub(crate) fn is_ours(path: &Path, stem: &str, object: &Digest) -> bool {
    Dir::open_quietly(path).is_ok_and(|dir| own_objects(&dir).get(stem) == Some(object))
}

/// Returns whether a view wrote all files of the kernel called `stem` to `dir`, by its `record`, and no other program
/// changed one of them since, except that MindSpore extends a `.json`.
pub(crate) fn is_as_written(dir: &Dir, stem: &str, record: &Record<'_>) -> bool {
    KernelFileKind::ALL.into_iter().all(|kind| {
        let (file, known, mut bytes) = (kind.of(stem), record.file(kind), Vec::new());
        known.seen.is_some_and(|seen| dir.file_state(&file) == Some(seen))
            || matches!(dir.read(&file, MAX_OBJECT, &mut bytes), FileRead::Complete(_))
                && (known.digest == Digest::of(&bytes)
                    || kind == KernelFileKind::Json && record.is_extended(&bytes))
    })
}

/// Converts a time in nanoseconds since 1970, which may be negative.
fn time_of(nanos: i64) -> SystemTime {
    let distance = Duration::from_nanos(nanos.unsigned_abs());
    let moved = if nanos < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    moved.unwrap_or(UNIX_EPOCH)
}

fn read(dir: &Dir, file: &str, limit: u64) -> Result<(Vec<u8>, FileState), ExtractError> {
    let (mut bytes, file) = (Vec::new(), file.to_owned());
    match dir.read(&file, limit, &mut bytes) {
        FileRead::Complete(identity) => Ok((bytes, identity)),
        FileRead::Missing => Err(ExtractError::Missing { file }),
        FileRead::Changing => Err(ExtractError::Changing { file }),
        FileRead::TooLarge(_) | FileRead::NotAFile | FileRead::Link => Err(ExtractError::NotAFile { file }),
        FileRead::Failed(source) => Err(ExtractError::Failed { file, source }),
    }
}

impl std::fmt::Display for ExtractError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing { file } => write!(f, "`{file}` is not there"),
            Self::Changing { file } => write!(f, "`{file}` changed whenever it was read"),
            Self::NotAFile { file } => {
                write!(f, "`{file}` is no regular file, or larger than any genuine one")
            }
            Self::Failed { file, source } => write!(f, "`{file}` cannot be read: {source}"),
        }
    }
}
