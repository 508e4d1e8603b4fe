//! A cache with its locks held.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::quarantine::RepairError;
use crate::quarantine::locks::Locks;
use opkeep_fs::{Dir, Fs};
use opkeep_kernel_meta::QUARANTINE;

/// A cache whose locks this process holds.
#[derive(Debug)]
pub(crate) struct LockedCache {
    /// The parent directory of the cache, in which the quarantine is.
    pub(crate) parent: Dir,
    /// The cache's directory.
    pub(crate) dir: Dir,
    /// The name of the quarantine's directory, beside the cache.
    pub(crate) quarantine: OsString,
    pub(crate) locks: Locks,
}

impl LockedCache {
    /// Opens and locks the cache at `path`.
    ///
    /// # Errors
    /// [`RepairError`]: the cache is locked, cannot be opened, or is a mount point.
    pub(crate) fn enter(path: &Path) -> Result<Self, RepairError> {
        Self::enter_with(&Fs::new(), path, true)
    }

    /// Opens the cache at `path`, and takes all its locks but the build lock, which the caller holds or takes next.
    ///
    /// # Errors
    /// As [`enter`](Self::enter).
    pub(crate) fn enter_without_build_lock(fs: &Fs, path: &Path) -> Result<Self, RepairError> {
        Self::enter_with(fs, path, false)
    }

    fn enter_with(fs: &Fs, path: &Path, with_build_lock: bool) -> Result<Self, RepairError> {
        // The given path may be `.`, which does not name the parent.
        let real_path = match fs.real_path(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(RepairError::NoDirectory { path: path.to_owned() });
            }
            real_path => real_path.map_err(|source| RepairError::io("find", path, source))?,
        };
        let (Some(above), Some(name)) = (real_path.parent(), real_path.file_name()) else {
            return Err(RepairError::NoDirectory { path: real_path });
        };
        let open = |result: std::io::Result<Dir>, path: &Path| {
            result.map_err(|source| RepairError::io("open", path, source))
        };
        let parent = open(fs.open_dir(above).map(Dir::quiet), above)?;
        let dir = open(parent.below(name), &real_path)?;
        let device = |dir: &Dir| {
            let found = dir.stat().map_err(|source| RepairError::io("look at", dir.path(), source));
            found.map(|found| found.state.id.dev)
        };
        if device(&parent)? != device(&dir)? {
            return Err(RepairError::MountPoint { path: real_path });
        }
        let locks = Locks::of_cache(&dir, with_build_lock)?;
        Ok(Self { quarantine: beside(name), parent, dir, locks })
    }

    /// Returns the path of the quarantine, which need not exist.
    pub(crate) fn quarantine_path(&self) -> PathBuf {
        self.parent.path().join(&self.quarantine)
    }
}

/// Returns the name of the quarantine of the cache called `name`.
pub(crate) fn beside(name: &OsStr) -> OsString {
    let mut name = name.to_owned();
    name.push(QUARANTINE);
    name
}
