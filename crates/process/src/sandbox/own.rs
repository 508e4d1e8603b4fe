//! The files of the programs themselves.
//!
//! A path is theirs by their own call alone that created it, or gave it to a file of theirs. What another process puts into a directory that
//! they made, or in the place of their file, is not theirs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use opkeep_fs::{FileId, FileState, Fs};

/// Paths that the programs created, without links on the way.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// Each with its file, as soon as that is known.
    files: BTreeMap<PathBuf, Option<FileId>>,
    /// The paths that each thread was about to create by its last call.
    pending: BTreeMap<i32, Vec<PathBuf>>,
}

impl Own {
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether the programs were about to create this path, or give it to a file of theirs.
    pub(super) fn contains(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(PathBuf::as_path)
    }

    pub(super) fn clear(&mut self) {
        self.files.clear();
    }

    /// Adds a path that a thread is about to create.
    pub(super) fn create(&mut self, thread: i32, path: PathBuf) {
        self.files.insert(path.clone(), None);
        self.pending.entry(thread).or_default().push(path);
    }

    /// Adds a path that is about to be the name of a file of the programs.
    pub(super) fn give(&mut self, path: PathBuf, file: FileId) {
        self.files.insert(path, Some(file));
    }

    /// The last call of a thread has returned: which file it created is known now. One that created nothing has failed.
    pub(super) fn settle(&mut self, thread: i32, since: i64) {
        for path in self.pending.remove(&thread).unwrap_or_default() {
            let Some(file) = self.files.get_mut(&path).filter(|file| file.is_none()) else { continue };
            match state(&path).filter(|found| found.ctime >= since) {
                Some(found) => *file = Some(found.id),
                None => drop(self.files.remove(&path)),
            }
        }
    }

    /// Whether what is at a path is the programs' own, of which the observation began at `since`. A file that has not changed since then is not.
    pub(super) fn has(&self, path: &Path, since: i64) -> bool {
        self.files.get(path).is_some_and(|file| {
            state(path).is_none_or(|found| found.ctime >= since && file.is_none_or(|own| own == found.id))
        })
    }
}

pub(super) fn state(path: &Path) -> Option<FileState> {
    Fs::new().symlink_metadata(path).ok().map(|found| FileState::of(&found))
}
