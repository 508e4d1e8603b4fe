//! The quarantine of files: only the file that was checked is moved.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use opkeep_digest::Digest;

use crate::stats::Counter;
use crate::{StoreError, TargetStore, files};
use opkeep_fs::RootedFs;

impl TargetStore {
    /// Moves the file at `path`, which has the name of the entry for `key`, into `quarantine/`, writes the reason beside it, and
    /// returns its new path. None if `path` does not name `checked` any more: another file there was not checked, and stays.
    /// The caller holds the key's lock, where there are locks.
    ///
    /// # Errors
    /// The file could not be moved. It stays.
    pub(crate) fn quarantine_file(
        &self,
        key: &Digest,
        path: &Path,
        checked: &File,
        reason: &str,
    ) -> Result<Option<PathBuf>, StoreError> {
        self.must_be_writable()?;
        let fs = self.store().fs();
        // The directory is opened without following links, so that no file is moved out of a link's target.
        let directory = self.store().directory(path.parent().unwrap_or(path), false)?;
        if directory.is_none() || !is_at(fs, checked, path) {
            return Ok(None);
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let place = self.own_dir("quarantine")?.path().join(format!("{key}-{now}.kern"));
        match fs.rename(path, &place) {
            Ok(()) => {}
            // Another process may have put an entry without a lock, or cleared the store.
            Err(_) if !is_at(fs, checked, path) => return Ok(None),
            Err(source) => {
                let path = path.to_owned();
                return Err(StoreError::Io { action: "move to quarantine", path, source });
            }
        }
        if !is_at(fs, checked, &place) {
            // A put, which needs no lock, came between the check and the move. A still newer entry stays.
            let _ = files::restore(fs, &place, path);
            return Ok(None);
        }
        // Only a checked file gets a reason. A process killed before this may leave an intact entry here: it is compiled again, as
        // after an eviction.
        let _ = files::write_new(fs, &place.with_extension("reason"), &format!("{reason}\n"));
        if path == self.path(key) {
            self.tracker().size.entry_quarantined();
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
