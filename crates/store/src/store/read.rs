//! Reading the entries of a target: whole, or their heads only.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use opkeep_digest::Digest;
use opkeep_fs::FileStat;

use super::target::TargetStore;
use crate::corruption::Corruption;
use crate::entry::{Entry, EntryHead, MAX_ENTRY_BYTES};
use crate::outcome::{DamagedEntry, Found, Miss};
use crate::{StoreError, files};

/// An entry of which only the head was read.
#[derive(Debug)]
pub struct OpenEntry<'a> {
    target: &'a TargetStore,
    head: EntryHead,
    file: File,
    path: PathBuf,
    last_used: SystemTime,
}

impl OpenEntry<'_> {
    /// Returns the head, whose bytes were checked.
    pub fn head(&self) -> &EntryHead {
        &self.head
    }

    /// Returns the time of the last use.
    pub fn last_used(&self) -> SystemTime {
        self.last_used
    }

    /// Reads and checks one member. `None` if the entry has no such member.
    ///
    /// # Errors
    /// The member cannot be read, or it is damaged.
    pub fn read_member(&self, name: &str) -> Result<Option<Vec<u8>>, Miss> {
        let Some(member) = self.head.find(name) else { return Ok(None) };
        let bytes = self.target.store.fs().read_range(&self.file, &self.path, member.body.clone());
        let bytes = bytes.map_err(|source| unread(&self.path, source))?;
        let damaged = |corruption| match self.file.try_clone() {
            Ok(file) => Miss::Damaged(DamagedEntry { corruption, file }),
            Err(source) => unread(&self.path, source),
        };
        self.head.checked(member, bytes).map(Some).map_err(damaged)
    }

    /// Counts a hit, and records the last use: for a caller that uses the entry.
    pub fn count_hit(&self) {
        self.target.tracker.hit(&self.head, &self.file, &self.path, self.last_used);
    }
}

impl TargetStore {
    /// Opens the entry for `key`, and reads no more than its head: for a caller that needs few of its members, or none. Neither
    /// statistics nor the last use change.
    ///
    /// # Errors
    /// There is no such entry, or its head is damaged.
    pub fn open_entry(&self, key: &Digest) -> Result<OpenEntry<'_>, Miss> {
        if !self.exists {
            return Err(Miss::Absent);
        }
        let (path, fs) = (self.path(key), self.store.fs());
        let (file, stat) = self.open_file(&path, key)?;
        let head = EntryHead::read(|limit| fs.read_start(&file, &path, limit), stat.state.len, key);
        match head.map_err(|source| unread(&path, source))? {
            Ok(head) => Ok(OpenEntry { target: self, head, file, path, last_used: stat.modified() }),
            Err(corruption) => Err(Miss::Damaged(DamagedEntry { corruption, file })),
        }
    }

    /// Reads the file at `path` as the entry for `key`.
    pub(crate) fn read_at(&self, path: PathBuf, key: &Digest) -> Result<Found, Miss> {
        let (file, stat) = self.open_file(&path, key)?;
        let bytes = stat.state.len;
        let decoded = match bytes > MAX_ENTRY_BYTES {
            true => Err(Corruption::TooLarge { bytes, limit: MAX_ENTRY_BYTES }),
            false => {
                let bytes = files::read(self.store.fs(), &file, &path, bytes);
                Entry::decode(bytes.map_err(|source| unread(&path, source))?, Some(key))
            }
        };
        match decoded {
            Ok(entry) => Ok(Found { entry: Box::new(entry), file, path, last_used: stat.modified() }),
            Err(corruption) => Err(Miss::Damaged(DamagedEntry { corruption, file })),
        }
    }

    /// Opens the file at `path` for the entry of `key`, if no untrusted user could have written it.
    fn open_file(&self, path: &Path, key: &Digest) -> Result<(File, FileStat), Miss> {
        let (file, stat) = match files::open(self.store.fs(), path) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                opkeep_trace::trace!("no entry", key = key, path = path.display());
                return Err(Miss::Absent);
            }
            Err(source) => {
                let error = StoreError::Io { action: "read", path: path.to_owned(), source };
                return Err(self.unreadable(key, error));
            }
        };
        match self.shard_is_trusted(key).and_then(|()| self.store.trust().check(path, &stat)) {
            Ok(()) => {
                opkeep_trace::trace!("entry opened", key = key, bytes = stat.state.len);
                Ok((file, stat))
            }
            Err(error @ StoreError::Io { .. }) => Err(Miss::Io(error)),
            Err(error) => Err(Miss::Untrusted(error)),
        }
    }

    /// Returns the miss for an entry that cannot be read: untrusted if its directory is a link, otherwise an I/O error.
    fn unreadable(&self, key: &Digest, error: StoreError) -> Miss {
        if error.is_link()
            && let Err(link) = self.store.directory(&self.shard_dir(key.as_bytes()[0]), false)
        {
            return Miss::Untrusted(link);
        }
        Miss::Io(error)
    }
}

/// The miss for a file that was opened and cannot be read.
fn unread(path: &Path, source: io::Error) -> Miss {
    Miss::Io(StoreError::Io { action: "read", path: path.to_owned(), source })
}
