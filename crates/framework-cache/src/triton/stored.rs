//! The groups that frameworks keep in a store.

use std::time::SystemTime;

use opkeep_digest::Digest;
use opkeep_kernel_entry::{GroupFiles, GroupKey, GroupRecord, original_file_name};
use opkeep_store::Entry;

use super::find::TOOLCHAIN_DIGITS;

/// The framework whose groups have the names of Triton's files.
pub const TRITON: &str = "triton";

/// A group that a framework keeps in a store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoredGroup {
    /// What the entry states of the group.
    pub record: GroupRecord,
    /// The key of the entry.
    pub key: Digest,
    /// When the entry was written.
    pub created: SystemTime,
    /// The size of the entry.
    pub bytes: u64,
    /// The files, as the framework names them, with their digests.
    pub files: Vec<(String, Digest)>,
}

impl StoredGroup {
    /// The group in an entry. `None` if it holds none.
    pub fn of(entry: &Entry) -> Option<Self> {
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

    /// The end of the name of the directory in which Triton gets its files: a digest of all that they depend on.
    pub(super) fn toolchain(&self) -> String {
        let key = GroupKey { name: String::new(), ..self.record.key.clone() };
        let mut digits = key.digest().to_string();
        digits.truncate(TOOLCHAIN_DIGITS);
        digits
    }

    /// Whether it is of this key of Triton.
    pub(super) fn is_of_key(&self, framework_key: &Digest) -> bool {
        self.record.key.framework == TRITON && self.record.key.framework_key == *framework_key
    }

    /// Whether a directory of `framework_key` and `toolchain` has its files.
    pub(super) fn is_in(&self, framework_key: &Digest, toolchain: &str) -> bool {
        self.is_of_key(framework_key) && self.toolchain() == toolchain
    }
}
