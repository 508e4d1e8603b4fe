//! The files of a hit.

use std::fmt;
use std::sync::Arc;

use opkeep_cache::Source;
use opkeep_digest::Digest;
use opkeep_kernel_entry::{GroupFiles, GroupRecord};
use opkeep_store::Entry;

/// The files of a group, whose bytes were checked. Clones share them.
#[derive(Clone)]
pub struct FileGroup {
    entry: Arc<Entry>,
    source: Source,
}

impl FileGroup {
    pub(crate) fn new(entry: Box<Entry>, source: Source) -> Self {
        Self { entry: Arc::from(entry), source }
    }

    /// The same group, which a request for many took from the remote tier.
    pub(crate) fn fetched(self) -> Self {
        Self { source: Source::Remote, ..self }
    }

    /// The names of the files, in the order in which they were published.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        GroupFiles::of(&self.entry).names()
    }

    /// The bytes of a file.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        GroupFiles::of(&self.entry).get(name)
    }

    /// The digest of a file.
    pub fn digest(&self, name: &str) -> Option<&Digest> {
        GroupFiles::of(&self.entry).digest(name)
    }

    /// The names and the bytes of the files.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        GroupFiles::of(&self.entry).iter()
    }

    /// The record of the group. `None` if it is damaged, or if a later version wrote it.
    pub fn record(&self) -> Option<GroupRecord> {
        GroupRecord::of(&self.entry)
    }

    /// The key of the entry.
    pub fn key(&self) -> &Digest {
        self.entry.key()
    }

    /// Whether another caller published the group while this one waited.
    pub fn waited(&self) -> bool {
        self.source == Source::Waited
    }

    /// Whether this request took the group from the remote cache. It is in the local store now, if that is written.
    pub fn from_remote(&self) -> bool {
        self.source == Source::Remote
    }
}

impl fmt::Debug for FileGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.names().collect();
        f.debug_struct("FileGroup").field("key", self.key()).field("files", &names).finish_non_exhaustive()
    }
}
