//! Why a stored entry is refused.

use opkeep_descriptor::Key;
use opkeep_validator::Finding;
use thiserror::Error;

/// Why a stored entry is not the kernel of its key, although its bytes are intact.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EntryError {
    /// A member that every kernel has is missing.
    #[error("it has no member `{member}`, so it is no kernel")]
    Incomplete {
        /// The member.
        member: &'static str,
    },
    /// The validator refuses its kernel.
    #[error("its kernel is not valid: {}", list(.errors))]
    Invalid {
        /// The errors that were found.
        errors: Vec<Finding>,
    },
    /// It holds a valid kernel of another key.
    #[error("it holds the kernel `{found}`, which is another key's: expected a name with `_{expected}`")]
    NameMismatch {
        /// The number in the names of kernels that have its key.
        expected: u64,
        /// The name of the kernel.
        found: String,
    },
    /// Its header is another entry's.
    #[error("what it says of itself is another entry's: its {what} is `{found}`, expected `{expected}`")]
    HeaderMismatch {
        /// The field of the header.
        what: &'static str,
        /// The value that belongs to this entry.
        expected: String,
        /// The value in the header.
        found: String,
    },
    /// The job and the toolchain that it names have another key.
    #[error("what it was compiled from has the key {found}, expected {expected}")]
    KeyMismatch {
        /// The entry's key.
        expected: Key,
        /// The key of the job that is in it.
        found: Key,
    },
}

fn list(findings: &[Finding]) -> String {
    findings.iter().map(Finding::to_string).collect::<Vec<_>>().join("; ")
}
