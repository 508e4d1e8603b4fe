//! A group to publish.

use std::collections::HashSet;
use std::time::Duration;

use opkeep_artifact::{Artifact, Expectations, Member, is_safe_file_name};
use opkeep_kernel_entry::{
    EncodedGroup, GroupKey, GroupRecord, MAX_GROUP_FILES, StoredExpectations, encode_group,
};
use opkeep_store::MAX_ENTRY_BYTES;
use opkeep_validator::Validator;

use crate::error::EmbedError;
use crate::texts::check_text;

/// The space that the record, the expectations and the table of members may take.
const RESERVED: u64 = 1 << 20;
/// The validation stamp of a group without a kernel that could be validated: its digests were computed.
pub(crate) const DIGESTS_ONLY: u32 = 1;

/// A group to publish: its files, and what reports state of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewGroup<'a> {
    /// The names and the bytes of the files.
    pub files: Vec<(&'a str, &'a [u8])>,
    /// The release of the framework; empty if unknown. At most [`MAX_TEXT_BYTES`](crate::MAX_TEXT_BYTES).
    pub framework_version: &'a str,
    /// The name of the kernel; empty if unknown. At most [`MAX_TEXT_BYTES`](crate::MAX_TEXT_BYTES).
    pub kernel: &'a str,
    /// The name of the file with the kernel's object, if there is one.
    pub object: Option<&'a str>,
    /// The name of the file with the kernel's metadata, if there is one.
    pub metadata: Option<&'a str>,
    /// The rules for the kernel. They need an object.
    pub expectations: Option<&'a StoredExpectations>,
    /// The compile time. If unset, it is the time since the ticket was taken.
    pub compile_time: Option<Duration>,
    /// Whether the files work on this machine only. They are not sent to the remote tier.
    pub is_local: bool,
}

impl<'a> NewGroup<'a> {
    /// A group of these files, without a kernel that could be validated.
    pub fn new(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        Self {
            files: files.into_iter().collect(),
            framework_version: "",
            kernel: "",
            object: None,
            metadata: None,
            expectations: None,
            compile_time: None,
            is_local: false,
        }
    }

    /// This group, with the name of its kernel.
    #[must_use]
    pub fn with_kernel(mut self, kernel: &'a str) -> Self {
        self.kernel = kernel;
        self
    }

    /// This group, whose kernel is in these files.
    #[must_use]
    pub fn with_object(mut self, object: &'a str, metadata: Option<&'a str>) -> Self {
        (self.object, self.metadata) = (Some(object), metadata);
        self
    }

    /// This group, whose kernel satisfies these rules.
    #[must_use]
    pub fn with_expectations(mut self, expectations: &'a StoredExpectations) -> Self {
        self.expectations = Some(expectations);
        self
    }

    /// Checks the texts, and the names and sizes of the files.
    fn check(&self) -> Result<(), EmbedError> {
        check_text("the name of the kernel", self.kernel)?;
        check_text("the release of the framework", self.framework_version)?;
        if self.files.is_empty() {
            return Err(EmbedError::NoFiles);
        }
        if self.files.len() > MAX_GROUP_FILES {
            return Err(EmbedError::TooManyFiles { found: self.files.len() });
        }
        let mut names = HashSet::new();
        for (name, bytes) in &self.files {
            let name = (*name).to_owned();
            if !is_safe_file_name(&name) {
                return Err(EmbedError::FileName { name });
            }
            if bytes.is_empty() {
                return Err(EmbedError::EmptyFile { name });
            }
            if !names.insert(name.clone()) {
                return Err(EmbedError::RepeatedName { name });
            }
        }
        let found = self.files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        if found > MAX_ENTRY_BYTES - RESERVED {
            return Err(EmbedError::TooLarge { found });
        }
        match self.object.iter().chain(&self.metadata).find(|name| !names.contains(**name)) {
            Some(name) => Err(EmbedError::MissingFile { name: (*name).to_owned() }),
            None => Ok(()),
        }
    }

    /// The kernel among the files, as the validator judges it.
    fn artifact(&self) -> Option<Artifact> {
        let bytes = |wanted: &str| {
            self.files.iter().find(|(name, _)| *name == wanted).map(|(_, bytes)| bytes.to_vec())
        };
        let object = bytes(self.object?)?;
        let metadata = self.metadata.and_then(bytes).unwrap_or_default();
        let is_pair = |name: &str| self.object == Some(name) || self.metadata == Some(name);
        let others = self.files.iter().filter(|(name, _)| !is_pair(name));
        let extra = others.map(|(name, bytes)| Member { name: (*name).to_owned(), bytes: bytes.to_vec() });
        Some(Artifact { metadata, object, extra: extra.collect() })
    }

    /// The record of the group under `key`, which took `compile_time` unless the group states another time.
    pub(crate) fn record(&self, key: GroupKey, compile_time: Option<Duration>) -> GroupRecord {
        GroupRecord {
            key,
            framework_version: self.framework_version.to_owned(),
            kernel: self.kernel.to_owned(),
            object: self.object.map(str::to_owned),
            metadata: self.metadata.map(str::to_owned),
            compile_time: self.compile_time.or(compile_time),
            is_local: self.is_local,
        }
    }

    /// Checks the group for `target`, and validates its kernel by its expectations.
    pub(crate) fn validate(&self, target: &str) -> Result<(), EmbedError> {
        self.check()?;
        let Some(rules) = self.expectations.map(StoredExpectations::expectations) else { return Ok(()) };
        check_target(rules, target)?;
        // A named object is among the files.
        let artifact = self.artifact().ok_or(EmbedError::NoObject)?;
        let report = Validator::builtin().validate(&artifact, rules);
        match report.is_valid() {
            true => Ok(()),
            false => Err(EmbedError::Invalid { errors: report.errors().cloned().collect() }),
        }
    }

    /// Renders the entry of the group.
    pub(crate) fn encode(&self, record: &GroupRecord) -> EncodedGroup<'_> {
        encode_group(self.files.iter().copied(), record, self.expectations, DIGESTS_ONLY)
    }
}

/// Encodes rules for the kernels of a target. A caller does this once, and uses the result for all requests.
pub fn encode_rules(rules: Expectations) -> StoredExpectations {
    StoredExpectations::new(rules, &Validator::builtin())
}

/// Checks that the rules are for `target`.
pub(crate) fn check_target(rules: &Expectations, target: &str) -> Result<(), EmbedError> {
    match rules.target == target {
        true => Ok(()),
        false => Err(EmbedError::RulesTarget { target: target.to_owned(), found: rules.target.clone() }),
    }
}
