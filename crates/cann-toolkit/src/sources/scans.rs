//! Scans of sources and lists of directories, remembered for as long as they hold.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use opkeep_digest::{Digest, FileDigests};

use crate::disk::stamp::Stamp;
use crate::disk::{files, tree};
use crate::error::ToolkitError;
use crate::sources::imports::{self, Scan};

/// The names in a directory, and whether each is a directory.
pub(crate) type Names = BTreeMap<String, bool>;

/// Scans of files by the digest of their content, and lists of directories by their stamps.
#[derive(Debug, Default)]
pub(crate) struct Scans {
    files: Mutex<HashMap<Digest, Arc<Scan>>>,
    dirs: Mutex<HashMap<PathBuf, (Stamp, Arc<Names>)>>,
}

impl Scans {
    /// The names in a directory; None if there is none.
    pub(crate) fn names(&self, dir: &Path) -> Option<Arc<Names>> {
        let stamp = Stamp::of(dir)?;
        let known = || self.dirs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, names)) = known().get(dir).filter(|(known, _)| *known == stamp && stamp.is_old()) {
            return Some(Arc::clone(names));
        }
        let all = tree::names(dir).ok()??.into_iter();
        let all = all.filter_map(|(name, is_dir)| Some((name.into_string().ok()?, is_dir)));
        let names = Arc::new(all.collect::<Names>());
        if stamp.is_old() {
            known().insert(dir.to_owned(), (stamp, Arc::clone(&names)));
        }
        Some(names)
    }

    /// The scan of a file, and its digest: both of one and the same content.
    pub(crate) fn of(
        &self,
        path: &Path,
        files: &dyn FileDigests,
    ) -> Result<(Digest, Arc<Scan>), ToolkitError> {
        let io = |source| ToolkitError::io("read", path, source);
        for _ in 0..4 {
            let digest = files.digest(path).map_err(io)?;
            if let Some(scan) = self.files.lock().unwrap_or_else(PoisonError::into_inner).get(&digest) {
                return Ok((digest, Arc::clone(scan)));
            }
            let bytes = files::read(path)?;
            if Digest::of(&bytes) == digest {
                let scan = Arc::new(imports::scan(&String::from_utf8_lossy(&bytes)));
                let mut scans = self.files.lock().unwrap_or_else(PoisonError::into_inner);
                scans.insert(digest, Arc::clone(&scan));
                return Ok((digest, scan));
            }
        }
        Err(io(std::io::Error::other("the file keeps changing while it is read")))
    }
}
