//! Why bytes are not a kernel's `.json`.

use thiserror::Error;

/// Why bytes are not a kernel's `.json`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MetaError {
    /// Not JSON at all: torn, empty, not UTF-8.
    #[error(
        "not a kernel description: invalid JSON at line {line} column {column} of {bytes} bytes: {problem}"
    )]
    Json {
        /// Bytes given.
        bytes: usize,
        /// Line of the problem, from 1.
        line: usize,
        /// Column of the problem, from 1; 0 at the end of a line.
        column: usize,
        /// What the JSON parser says.
        problem: String,
    },
    /// Too large to be a kernel's `.json`: the largest genuine ones, with hundreds of kernels, have less than 1 MiB.
    #[error(
        "not a kernel description: {bytes} bytes, expected at most {limit}; \
         is this another file, such as the operator library's own list?"
    )]
    TooLarge {
        /// Bytes given.
        bytes: usize,
        /// The most that are read.
        limit: usize,
    },
    /// A field has another type or range than every producer gives it.
    #[error("field `{field}`: expected {expected}, found {found}")]
    Field {
        /// The field, such as `workspace.size[1]`.
        field: String,
        /// What may stand there.
        expected: &'static str,
        /// What stands there, cut to 80 characters.
        found: String,
    },
}
