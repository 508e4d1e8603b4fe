//! The marks of entries that are to be sent to a remote cache. A mark outlives its process, so a later one sends the entry.

use std::io;

use opkeep_digest::Digest;

use crate::layout::UNSENT;
use crate::{StoreError, TargetStore};

impl TargetStore {
    /// Marks the entry under `key` as one that is to be sent. An existing mark is fine.
    ///
    /// # Errors
    /// The store is not written, or the mark could not be.
    pub fn mark_unsent(&self, key: &Digest) -> Result<(), StoreError> {
        self.must_be_writable()?;
        let directory = self.own_dir(UNSENT)?;
        let name = key.to_string();
        let mode = if self.store().trust().is_shared() { 0o664 } else { 0o644 };
        match directory.create_file(&name, mode) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(source) => {
                Err(StoreError::Io { action: "write", path: self.dir().join(UNSENT).join(name), source })
            }
        }
    }

    /// Removes the mark of the entry under `key`. Best effort: an entry that is sent twice is the same.
    pub fn mark_sent(&self, key: &Digest) {
        if self.is_writable()
            && let Ok(Some(directory)) = self.store().directory(&self.dir().join(UNSENT), false)
        {
            let _ = directory.remove(key.to_string());
        }
    }

    /// Returns the keys of the marked entries, in order. An entry may have been evicted meanwhile.
    pub fn unsent(&self) -> Vec<Digest> {
        let directory = self.store().directory(&self.dir().join(UNSENT), false).ok().flatten();
        let names = directory.and_then(|directory| directory.list().ok()).unwrap_or_default();
        let mut keys: Vec<Digest> = names.utf8().filter_map(|name| name.parse().ok()).collect();
        keys.sort_unstable();
        keys
    }
}
