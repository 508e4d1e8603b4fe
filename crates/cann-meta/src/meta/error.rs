//! The error of reading a kernel's `.json`.

use opkeep_text::counted;
use thiserror::Error;

/// The reason why bytes are not a kernel's `.json`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MetaError {
    /// Not JSON: truncated, empty, or not UTF-8.
    #[error(
        "not a kernel description: invalid JSON at line {line} column {column} of {bytes}: {problem}",
        bytes = counted(*.bytes, "byte")
    )]
    Json {
        /// The size of the input in bytes.
        bytes: usize,
        /// Line of the problem, from 1.
        line: usize,
        /// Column of the problem, from 1; 0 at the end of a line.
        column: usize,
        /// The JSON parser's message.
        problem: String,
    },
    /// Too large for a kernel's `.json`: the largest genuine files, with hundreds of kernels, have less than 1 MiB.
    #[error(
        "not a kernel description: {bytes}, expected at most {limit}; is this another file, such as the \
         operator library's own list?",
        bytes = counted(*.bytes, "byte")
    )]
    TooLarge {
        /// The size of the input in bytes.
        bytes: usize,
        /// The size limit in bytes.
        limit: usize,
    },
    /// A field whose type or range no producer writes.
    #[error("field `{field}`: expected {expected}, found {found}")]
    Field {
        /// The field, such as `workspace.size[1]`.
        field: String,
        /// The expected value.
        expected: &'static str,
        /// The value found, truncated to 80 characters.
        found: String,
    },
}
