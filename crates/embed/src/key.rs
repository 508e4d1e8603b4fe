//! The key of a group, as the caller states it.

use opkeep_digest::{Digest, Fingerprint};
use opkeep_kernel_entry::GroupKey;

/// The key of a group of files, in one framework and one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileKey {
    /// The caller's key: a digest of everything that it knows to change the files.
    pub key: Digest,
    /// The name of the group, if the caller keeps several groups under one key. At most
    /// [`MAX_TEXT_BYTES`](crate::MAX_TEXT_BYTES).
    pub name: String,
    /// The content of the compilers, as far as the caller's key does not cover it. Reports name its parts: at most
    /// [`MAX_TOOLCHAIN_PARTS`](crate::MAX_TOOLCHAIN_PARTS), whose names and notes have at most
    /// [`MAX_TEXT_BYTES`](crate::MAX_TEXT_BYTES).
    pub toolchain: Fingerprint,
}

impl FileKey {
    /// The key of a group without a name, and without a toolchain of its own.
    pub fn new(key: [u8; Digest::LEN]) -> Self {
        Self { key: Digest::from_bytes(key), name: String::new(), toolchain: Fingerprint::new() }
    }

    /// This key, for the group called `name`.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// This key, for files that these compilers made.
    #[must_use]
    pub fn with_toolchain(mut self, toolchain: Fingerprint) -> Self {
        self.toolchain = toolchain;
        self
    }

    pub(crate) fn of(&self, framework: &str, target: &str) -> GroupKey {
        let Self { key, name, toolchain } = self.clone();
        GroupKey {
            framework: framework.to_owned(),
            target: target.to_owned(),
            framework_key: key,
            name,
            toolchain,
        }
    }
}
