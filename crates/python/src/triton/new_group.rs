//! The files that Triton publishes.

use opkeep_embed::{Digest, NewGroup, StoredExpectations, encode_rules, stored_file_name};
use opkeep_validator::device_formats;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

/// The files that Triton publishes, with what reports state of them: a named tuple of `python/opkeep/triton`.
#[derive(FromPyObject)]
pub(crate) struct NewFiles {
    files: Vec<(String, PyBackedBytes)>,
    kernel: String,
    framework_version: String,
    /// The name of the file with the kernel's object; `None` if there is no kernel. Where there are rules, there is one.
    object: Option<String>,
    /// The name of the file with the kernel's metadata.
    metadata: Option<String>,
    is_local: bool,
}

impl NewFiles {
    /// Calls `publish` with the group. `rules` are those of its target.
    pub(crate) fn publish<T>(
        &self,
        rules: Option<&StoredExpectations>,
        publish: impl FnOnce(&NewGroup<'_>) -> T,
    ) -> T {
        let names: Vec<_> = self.files.iter().map(|(name, _)| stored_file_name(name)).collect();
        let contents = self.files.iter().map(|(_, content)| &content[..]);
        let mut group = NewGroup::new(names.iter().map(|name| &**name).zip(contents));
        let (object, metadata) =
            (self.object.as_deref().map(stored_file_name), self.metadata.as_deref().map(stored_file_name));
        group.kernel = &self.kernel;
        group.framework_version = &self.framework_version;
        group.is_local = self.is_local;
        group.object = object.as_deref();
        group.metadata = metadata.as_deref();
        group.expectations = rules;
        publish(&group)
    }

    /// Calls `place` with the names, the bytes and the digests of the files.
    pub(crate) fn with_digests<T>(&self, place: impl FnOnce(Vec<(String, &[u8], &Digest)>) -> T) -> T {
        let digests: Vec<_> = self.files.iter().map(|(_, content)| Digest::of(content)).collect();
        let files = self.files.iter().zip(&digests);
        place(files.map(|((name, content), digest)| (name.clone(), &content[..], digest)).collect())
    }
}

/// The rules for the kernels of a target such as `cuda-sm_90`. `None` if none are known.
pub(crate) fn rules(target: &str) -> Option<StoredExpectations> {
    device_formats::rules_of_target(target).map(|(_, rules)| encode_rules(rules))
}
