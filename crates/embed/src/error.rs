//! The errors. A miss, a lost race and another caller's failure are outcomes, not errors.

use opkeep_cache::{CacheError, PublishError};
use opkeep_kernel_entry::MAX_GROUP_FILES;
use opkeep_store::MAX_ENTRY_BYTES;
use opkeep_text::counted;
use opkeep_validator::Finding;
use thiserror::Error;

use crate::limits::{MAX_TEXT_BYTES, MAX_TOOLCHAIN_PARTS};

/// The reason why a call failed. The store is as it was before.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The name of the framework is not valid.
    #[error(
        "`{name}` cannot be the name of a framework: expected 1 to 100 letters, digits, `_`, `-` and `.`, not a `.` first"
    )]
    FrameworkName {
        /// The name.
        name: String,
    },
    /// A group without files.
    #[error("a group needs at least one file, found none")]
    NoFiles,
    /// A group with too many files.
    #[error("a group has at most {MAX_GROUP_FILES} files, found {found}")]
    TooManyFiles {
        /// The number of files.
        found: usize,
    },
    /// A file whose name could leave a directory.
    #[error(
        "{name:?} cannot be the name of a file: expected 1 to 200 letters, digits, `_`, `-` and `.`, without a directory"
    )]
    FileName {
        /// The name.
        name: String,
    },
    /// Two files with one name.
    #[error("two files of the group have the name `{name}`")]
    RepeatedName {
        /// The name.
        name: String,
    },
    /// A file without bytes: no compiler's result is empty.
    #[error("the file `{name}` is empty")]
    EmptyFile {
        /// The name.
        name: String,
    },
    /// A group that is larger than an entry may be.
    #[error(
        "the group has {found}, more than an entry may have ({MAX_ENTRY_BYTES} with its record)",
        found = counted(*.found, "byte")
    )]
    TooLarge {
        /// The number of bytes of the files.
        found: u64,
    },
    /// A text of a key or a record that is longer than reports can show.
    #[error("{what} has {found}, more than {MAX_TEXT_BYTES}", found = counted(*.found, "byte"))]
    TextTooLong {
        /// What the text is.
        what: &'static str,
        /// The number of its bytes.
        found: usize,
    },
    /// A key with too many compilers.
    #[error("a key has at most {MAX_TOOLCHAIN_PARTS} compilers, found {found}")]
    TooManyParts {
        /// Their number.
        found: usize,
    },
    /// Rules for a kernel, and no file that is named as its object.
    #[error("there are rules for the kernel, and none of the files is named as its object")]
    NoObject,
    /// The kernel's object or metadata is not among the files.
    #[error("the file `{name}` is named as the kernel's, and is not in the group")]
    MissingFile {
        /// The name.
        name: String,
    },
    /// The kernel among the files is not valid. The group was not published.
    #[error("the kernel is not valid: {}", list(.errors))]
    Invalid {
        /// The validator's errors.
        errors: Vec<Finding>,
    },
    /// Rules for another target. Under them, the entry would not be valid where it is kept.
    #[error("the rules are for the target `{found}`, expected `{target}`")]
    RulesTarget {
        /// The target of the files.
        target: String,
        /// That of the rules.
        found: String,
    },
    /// The ticket belongs to the process that forked this one.
    #[error(
        "the ticket belongs to process {owner}, which forked this one; only that process can publish or abandon it"
    )]
    Forked {
        /// The process.
        owner: u32,
    },
    /// The ticket was published, abandoned, or not renewed any longer.
    #[error("the ticket has ended: it was published or abandoned before")]
    TicketEnded,
    /// The store could not be opened again after a fork, although the mode requires it.
    #[error("the store cannot be opened in a forked process: {source}")]
    Reopen {
        /// The cache's error.
        source: CacheError,
    },
    /// The cache cannot be used as its mode requires.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The store could not write the group: the caller can use the files that it made. Or it keeps none that were found: the ticket stays.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

fn list(findings: &[Finding]) -> String {
    findings.iter().map(Finding::to_string).collect::<Vec<_>>().join("; ")
}
