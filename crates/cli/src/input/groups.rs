//! The groups of files that frameworks keep in a store.

use std::num::NonZeroUsize;
use std::time::SystemTime;

use opkeep_digest::Digest;
use opkeep_framework_cache::triton::TritonGroup;
use opkeep_fs::CancelToken;
use opkeep_kernel_entry::{GroupFiles, GroupRecord, original_file_name};
use opkeep_store::{Entry, Store};
use serde::Serialize;

use crate::commands::gc::store::target_stores;
use crate::input::entries::read_entries;

/// The framework whose groups have the names of Triton's files.
pub(crate) const TRITON: &str = "triton";

/// A stored group.
pub(crate) struct StoredGroup {
    pub(crate) record: GroupRecord,
    pub(crate) key: Digest,
    pub(crate) created: SystemTime,
    pub(crate) bytes: u64,
    /// The files, as the framework names them, with their digests.
    files: Vec<(String, Digest)>,
}

impl StoredGroup {
    pub(crate) fn of(entry: &Entry) -> Option<Self> {
        let record = GroupRecord::of(entry)?;
        let files = GroupFiles::of(entry);
        let file = |name: &str| {
            let original = original_file_name(name).map_or_else(|| name.to_owned(), |name| name.into_owned());
            Some((original, *files.digest(name)?))
        };
        Some(Self {
            key: *entry.key(),
            created: entry.created(),
            bytes: entry.file_bytes(),
            files: files.names().filter_map(file).collect(),
            record,
        })
    }
}

/// Returns the groups of a store that `is_wanted` accepts, in no order; of `target` only, if given.
pub(crate) fn stored_groups(
    store: &Store,
    target: Option<&str>,
    threads: NonZeroUsize,
    cancel: &CancelToken,
    is_wanted: impl Fn(&GroupRecord) -> bool + Sync,
) -> anyhow::Result<Vec<StoredGroup>> {
    let mut groups = Vec::new();
    let read = |entry: &Entry| StoredGroup::of(entry).filter(|group| is_wanted(&group.record));
    for (name, store) in target_stores(store)? {
        if target.is_none_or(|target| target == name) {
            groups.extend(read_entries(&store, threads, cancel, read));
        }
    }
    Ok(groups)
}

/// A file of a group in a framework's directory, compared with the entry of the store.
#[derive(Clone, Serialize)]
pub(crate) struct ComparedFile {
    pub(crate) name: String,
    pub(crate) state: FileState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FileState {
    /// It has the bytes of the entry.
    Same,
    /// It has other bytes than the entry.
    Differs,
    /// It is in the entry only, or cannot be read in the directory.
    Missing,
    /// It is in the directory only.
    Extra,
}

/// An entry of the store for a group in a framework's directory.
pub(crate) struct Compared<'a> {
    pub(crate) stored: &'a StoredGroup,
    pub(crate) files: Vec<ComparedFile>,
}

impl Compared<'_> {
    /// Returns the number of files that are not as in the entry.
    pub(crate) fn differing(&self) -> usize {
        self.files.iter().filter(|file| file.state != FileState::Same).count()
    }

    /// Returns a text about each file that is not as in the entry.
    pub(crate) fn differences(&self) -> impl Iterator<Item = String> {
        self.files.iter().filter_map(|ComparedFile { name, state }| match state {
            FileState::Same => None,
            FileState::Differs => Some(format!("`{name}` differs from the entry")),
            FileState::Missing => Some(format!("`{name}` is in the entry only")),
            FileState::Extra => Some(format!("`{name}` is not in the entry")),
        })
    }
}

/// Compares a group of Triton's directory with the entries of its key: one for each toolchain. The one that differs least
/// comes first.
pub(crate) fn compare<'a>(group: &TritonGroup, stored: &'a [StoredGroup]) -> Vec<Compared<'a>> {
    let is_of_key = |stored: &&StoredGroup| {
        let key = &stored.record.key;
        key.framework == TRITON && key.framework_key == group.framework_key && key.name == group.name
    };
    let mut compared: Vec<Compared<'_>> = stored
        .iter()
        .filter(is_of_key)
        .map(|stored| Compared { stored, files: compare_files(group, stored) })
        .collect();
    compared.sort_by_key(|compared| (compared.differing(), std::cmp::Reverse(compared.stored.created)));
    compared
}

fn compare_files(group: &TritonGroup, stored: &StoredGroup) -> Vec<ComparedFile> {
    let found = |name: &str| group.files.iter().find(|file| file.name == name);
    let of_entry = stored.files.iter().map(|(name, digest)| {
        let state = match found(name) {
            Some(file) if file.digest == *digest => FileState::Same,
            Some(_) => FileState::Differs,
            None => FileState::Missing,
        };
        ComparedFile { name: name.clone(), state }
    });
    let is_extra = |name: &str| stored.files.iter().all(|(stored, _)| stored != name);
    let extra = group.files.iter().filter(|file| is_extra(&file.name));
    let extra = extra.map(|file| ComparedFile { name: file.name.clone(), state: FileState::Extra });
    of_entry.chain(extra).collect()
}
