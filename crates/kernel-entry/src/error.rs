//! The reason why a stored entry is invalid.

use opkeep_descriptor::Key;
use opkeep_validator::Finding;
use thiserror::Error;

/// The reason why an intact entry does not hold the kernel of its key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EntryError {
    /// A member that every kernel has is missing.
    #[error("it has no member `{member}`, so it is no kernel")]
    Incomplete {
        /// The member.
        member: &'static str,
    },
    /// The validator found errors in its kernel.
    #[error("its kernel is not valid: {}", list(.errors))]
    Invalid {
        /// The errors.
        errors: Vec<Finding>,
    },
    /// The kernel is valid, but belongs to another key.
    #[error("it holds the kernel `{found}` of another key: expected a name with `_{expected}`")]
    NameMismatch {
        /// The number in the names of kernels with the entry's key.
        expected: u64,
        /// The name of the kernel.
        found: String,
    },
    /// The header belongs to another entry.
    #[error("its header belongs to another entry: its {field} is `{found}`, expected `{expected}`")]
    HeaderMismatch {
        /// The field of the header.
        field: &'static str,
        /// The value that belongs to this entry.
        expected: String,
        /// The value in the header.
        found: String,
    },
    /// The job and the toolchain in the entry have another key.
    #[error("the job and toolchain in it have the key {found}, expected {expected}")]
    KeyMismatch {
        /// The entry's key.
        expected: Key,
        /// The key of the job that is in it.
        found: Key,
    },
    /// The record of a group is not what any version writes.
    #[error("its record of a group cannot be read")]
    Record,
    /// An entry holds a group, and a member that belongs to no group.
    #[error("it holds a group of files, to which its member `{member}` does not belong")]
    OtherMember {
        /// The member.
        member: String,
    },
    /// A file of a group has a name that could leave a directory.
    #[error("the name of its file {name:?} is not allowed: expected letters, digits, `_`, `-` and `.` only")]
    FileName {
        /// The name.
        name: String,
    },
    /// A file that the record of a group names is missing.
    #[error("its record names the file `{name}`, which is missing")]
    MissingFile {
        /// The name.
        name: String,
    },
    /// A member that is only read on demand is damaged.
    #[error("{0}")]
    Damaged(String),
}

fn list(findings: &[Finding]) -> String {
    findings.iter().map(Finding::to_string).collect::<Vec<_>>().join("; ")
}
