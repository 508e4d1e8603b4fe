//! A cache that is about to be changed: its folder, the one beside which the quarantine is, and the locks.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::quarantine::RepairError;
use crate::quarantine::locks::Locks;
use opkeep_fs::{Dir, Fs};
use opkeep_kernel_meta::QUARANTINE;

/// A cache that nobody else is at, as far as locks tell.
#[derive(Debug)]
pub(crate) struct LockedCache {
    /// The folder that the cache's own is in.
    pub(crate) parent: Dir,
    /// The cache's folder.
    pub(crate) dir: Dir,
    /// How the quarantine beside it is called.
    pub(crate) quarantine: OsString,
    pub(crate) locks: Locks,
}

impl LockedCache {
    /// Enters the cache at `path`, if nobody is at it.
    ///
    /// # Errors
    /// [`RepairError`]: it is locked, closed, or the top of a file system.
    pub(crate) fn enter(path: &Path) -> Result<Self, RepairError> {
        Self::enter_with(&Fs::new(), path, true)
    }

    /// Enters the cache at `path` for a build that holds the lock of our builds there.
    ///
    /// # Errors
    /// As [`enter`](Self::enter).
    pub(crate) fn enter_locked(fs: &Fs, path: &Path) -> Result<Self, RepairError> {
        Self::enter_with(fs, path, false)
    }

    fn enter_with(fs: &Fs, path: &Path, ours: bool) -> Result<Self, RepairError> {
        // What `.` is beside only its full path tells.
        let full = match fs.real_path(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(RepairError::NoDirectory { path: path.to_owned() });
            }
            full => full.map_err(|source| RepairError::io("find", path, source))?,
        };
        let (Some(above), Some(name)) = (full.parent(), full.file_name()) else {
            return Err(RepairError::NoDirectory { path: full });
        };
        let open = |result: std::io::Result<Dir>, path: &Path| {
            result.map_err(|source| RepairError::io("open", path, source))
        };
        let parent = open(fs.open_dir(above).map(Dir::quiet), above)?;
        let dir = open(parent.below(name), &full)?;
        let device = |dir: &Dir| {
            let found = dir.stat().map_err(|source| RepairError::io("look at", dir.path(), source));
            found.map(|found| found.state.id.dev)
        };
        if device(&parent)? != device(&dir)? {
            return Err(RepairError::MountPoint { path: full });
        }
        let locks = Locks::of_cache(&dir, ours)?;
        Ok(Self { quarantine: beside(name), parent, dir, locks })
    }

    /// Where the quarantine is, or would be.
    pub(crate) fn quarantine_path(&self) -> PathBuf {
        self.parent.path().join(&self.quarantine)
    }
}

/// The name of the quarantine of a cache of this name.
pub(crate) fn beside(name: &OsStr) -> OsString {
    let mut name = name.to_owned();
    name.push(QUARANTINE);
    name
}
