//! The marks of entries that are to be sent to a remote cache. A mark outlives its process, so a later one sends the entry.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use opkeep_digest::Digest;

use crate::layout::UNSENT;
use crate::mark::{self, Destination, UnsentEntry};
use crate::{StoreError, TargetStore};

impl TargetStore {
    /// Marks the entry under `key` as one that is to be sent to `destination`, and whether it replaces the one there. An existing mark
    /// is fine.
    ///
    /// # Errors
    /// The store is not written, or the mark could not be.
    pub fn mark_unsent(
        &self,
        key: &Digest,
        destination: &Destination,
        replaces: bool,
    ) -> Result<(), StoreError> {
        self.must_be_writable()?;
        let directory = self.own_dir(UNSENT)?;
        let name = mark::name(key, Some(destination), replaces);
        let mode = if self.store().trust().is_shared() { 0o664 } else { 0o644 };
        let create = || directory.create_file(&name, mode);
        match self.mark_destinations.while_changing(&directory, Some(destination), create) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(source) => {
                Err(StoreError::Io { action: "write", path: self.unsent_dir().join(name), source })
            }
        }
    }

    /// Removes the mark of the entry under `key`, which was sent to `destination`, and replaced the one there if `replaced`. Otherwise a
    /// mark that it replaces it stays, and so do the marks for other destinations. Best effort: an entry that is sent twice is the same.
    pub fn mark_sent(&self, key: &Digest, destination: Option<&Destination>, replaced: bool) {
        if self.is_writable()
            && let Ok(Some(directory)) = self.store().directory(&self.unsent_dir(), false)
        {
            self.mark_destinations.while_changing(&directory, None, || {
                let _ = directory.remove(mark::name(key, destination, false));
                if replaced {
                    let _ = directory.remove(mark::name(key, destination, true));
                }
            });
        }
    }

    /// Removes all marks of the entry under `key`, which is not to be sent to any destination. Best effort.
    pub fn unmark_unsent(&self, key: &Digest) {
        if self.is_writable()
            && let Ok(Some(directory)) = self.store().directory(&self.unsent_dir(), false)
        {
            let destinations = self.mark_destinations.of(&directory);
            self.mark_destinations.while_changing(&directory, None, || {
                for destination in &destinations {
                    let names = [false, true].map(|replaces| mark::name(key, destination.as_ref(), replaces));
                    names.iter().for_each(|name| drop(directory.remove(name)));
                }
            });
        }
    }

    /// Returns the marked entries, in the order of their keys, each once for each destination. An entry may have been evicted meanwhile.
    pub fn unsent(&self) -> Vec<UnsentEntry> {
        let directory = self.store().directory(&self.unsent_dir(), false).ok().flatten();
        let names = directory.and_then(|directory| directory.list().ok()).unwrap_or_default();
        let mut marks = BTreeMap::new();
        for UnsentEntry { key, destination, replaces } in names.utf8().filter_map(mark::parse) {
            *marks.entry((key, destination)).or_default() |= replaces;
        }
        let entry = |((key, destination), replaces)| UnsentEntry { key, destination, replaces };
        marks.into_iter().map(entry).collect()
    }

    /// Returns the number of entries that are marked, for one destination or several.
    pub fn count_unsent(&self) -> usize {
        self.unsent().chunk_by(|one, next| one.key == next.key).count()
    }

    fn unsent_dir(&self) -> PathBuf {
        self.dir().join(UNSENT)
    }
}
