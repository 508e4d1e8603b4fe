//! The quarantine of files: only the file that was checked is moved.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use opkeep_digest::Digest;

use crate::layout::is_quarantined;
use crate::stats::Counter;
use crate::{StoreError, TargetStore, files};
use opkeep_fs::RootedFs;

/// The maximum number of bytes of a reason that is read.
const MAX_REASON_BYTES: u64 = 64 << 10;

/// A quarantined entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuarantinedEntry {
    /// The key whose entry the file was.
    pub key: Digest,
    /// The time of the quarantine.
    pub at: SystemTime,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// The reason; `None` if a process was killed before it wrote the reason.
    pub reason: Option<String>,
}

impl TargetStore {
    /// Returns the quarantined entries, the latest first. What cannot be read is left out.
    ///
    /// # Errors
    /// The quarantine cannot be listed.
    pub fn quarantined(&self) -> Result<Vec<QuarantinedEntry>, StoreError> {
        let path = self.dir().join("quarantine");
        let Some(directory) = self.store().directory(&path, false)? else { return Ok(Vec::new()) };
        let listed = directory.list().map_err(|source| StoreError::Io { action: "list", path, source })?;
        let entry = |name: &str| {
            let stem = name.strip_suffix(".kern").filter(|_| is_quarantined(name))?;
            let (key, nanos) = stem.split_once('-')?;
            let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(nanos.parse().ok()?))?;
            let bytes = directory.look(name).ok()?.state.len;
            let mut reason = Vec::new();
            let read = directory.read(format!("{stem}.reason"), MAX_REASON_BYTES, &mut reason).complete();
            let is_read = read.is_ok_and(|state| state.is_some());
            let reason = is_read.then(|| String::from_utf8_lossy(&reason).trim_end().to_owned());
            Some(QuarantinedEntry { key: key.parse().ok()?, at, bytes, reason })
        };
        let mut entries: Vec<_> = listed.utf8().filter_map(entry).collect();
        opkeep_order::by(&mut entries, |one, other| (other.at, one.key).cmp(&(one.at, other.key)));
        Ok(entries)
    }

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
