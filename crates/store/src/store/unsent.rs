//! The marks of entries that are to be sent to a remote cache. A mark outlives its process, so a later one sends the entry.

use std::collections::BTreeMap;
use std::io;

use opkeep_digest::Digest;

use crate::layout::UNSENT;
use crate::{StoreError, TargetStore};

/// What the name of a mark ends with, if the entry replaces the one in the remote cache.
const REPLACES: &str = ".replace";

/// A marked entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnsentEntry {
    /// Its key.
    pub key: Digest,
    /// Whether it replaces the entry in the remote cache, which is wrong.
    pub replaces: bool,
}

impl TargetStore {
    /// Marks the entry under `key` as one that is to be sent, and whether it replaces the one in the remote cache. An existing mark is
    /// fine.
    ///
    /// # Errors
    /// The store is not written, or the mark could not be.
    pub fn mark_unsent(&self, key: &Digest, replaces: bool) -> Result<(), StoreError> {
        self.must_be_writable()?;
        let directory = self.own_dir(UNSENT)?;
        let name = mark(key, replaces);
        let mode = if self.store().trust().is_shared() { 0o664 } else { 0o644 };
        match directory.create_file(&name, mode) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(source) => {
                Err(StoreError::Io { action: "write", path: self.dir().join(UNSENT).join(name), source })
            }
        }
    }

    /// Removes the mark of the entry under `key`, which was sent, and replaced the one in the remote cache if `replaced`. Otherwise a mark
    /// that it replaces it stays. Best effort: an entry that is sent twice is the same.
    pub fn mark_sent(&self, key: &Digest, replaced: bool) {
        if self.is_writable()
            && let Ok(Some(directory)) = self.store().directory(&self.dir().join(UNSENT), false)
        {
            let _ = directory.remove(mark(key, false));
            if replaced {
                let _ = directory.remove(mark(key, true));
            }
        }
    }

    /// Returns the marked entries, in the order of their keys. An entry may have been evicted meanwhile.
    pub fn unsent(&self) -> Vec<UnsentEntry> {
        let directory = self.store().directory(&self.dir().join(UNSENT), false).ok().flatten();
        let names = directory.and_then(|directory| directory.list().ok()).unwrap_or_default();
        let mut marks = BTreeMap::new();
        for name in names.utf8() {
            let (key, replaces) = match name.strip_suffix(REPLACES) {
                Some(key) => (key, true),
                None => (name, false),
            };
            if let Ok(key) = key.parse() {
                *marks.entry(key).or_default() |= replaces;
            }
        }
        marks.into_iter().map(|(key, replaces)| UnsentEntry { key, replaces }).collect()
    }
}

/// Returns the name of a mark. A mark is empty, so it cannot be read half written.
fn mark(key: &Digest, replaces: bool) -> String {
    format!("{key}{}", if replaces { REPLACES } else { "" })
}
