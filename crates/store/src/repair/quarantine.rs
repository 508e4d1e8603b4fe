//! Quarantine of files: only the file that was judged is moved.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use opkeep_digest::Digest;

use crate::stats::Counter;
use crate::{StoreError, TargetStore, files};
use opkeep_fs::RootedFs;

impl TargetStore {
    /// Moves the file at `path`, called as the entry for `key`, into `quarantine/`, with the reason beside it; where to.
    /// None if `path` does not name `judged` any more: what stands there now was not judged, and stays. The caller holds
    /// the key's lock, where there are locks.
    ///
    /// # Errors
    /// It could not be moved; it is still there.
    pub(crate) fn quarantine_file(
        &self,
        key: &Digest,
        path: &Path,
        judged: &File,
        reason: &str,
    ) -> Result<Option<PathBuf>, StoreError> {
        self.must_be_writable()?;
        let fs = self.store().fs();
        // Nothing is moved out of what a link leads to.
        let directory = self.store().directory(path.parent().unwrap_or(path), false)?;
        if directory.is_none() || !is_at(fs, judged, path) {
            return Ok(None);
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let place = self.own_dir("quarantine")?.path().join(format!("{key}-{now}.kern"));
        match fs.rename(path, &place) {
            Ok(()) => {}
            // A process that puts without a lock, or clears the store, may have been faster.
            Err(_) if !is_at(fs, judged, path) => return Ok(None),
            Err(source) => {
                let path = path.to_owned();
                return Err(StoreError::Io { action: "move to quarantine", path, source });
            }
        }
        if !is_at(fs, judged, &place) {
            // A put, which needs no lock, came between the look and the move. If yet another came since, that one stays.
            let _ = files::put_back(fs, &place, path);
            return Ok(None);
        }
        // Only a file that was judged gets a reason. After a kill before that, an entry may be intact: it is compiled again,
        // as after an eviction.
        let _ = files::write_new(fs, &place.with_extension("reason"), &format!("{reason}\n"));
        if path == self.path(key) {
            self.tracker().size.quarantine_file();
        }
        self.tracker().counters.add(Counter::Quarantines, 1);
        Ok(Some(place))
    }
}

/// Whether `path` names this file.
fn is_at(fs: &RootedFs, file: &File, path: &Path) -> bool {
    let own = fs.stat(file, path).map(|stat| stat.state.id).ok();
    own.is_some() && fs.id_at(path) == own
}
