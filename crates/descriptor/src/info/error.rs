//! The reason why bytes are not a descriptor.

use opkeep_text::counted;
use serde::de::Error as _;
use serde_json::Value;
use thiserror::Error;

use crate::info::fields::{FieldProblem, Problem};
use crate::info::locate::{locate, position};

/// The reason why bytes are not a descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InfoError {
    /// An empty file.
    #[error(
        "the descriptor is empty; the framework was probably interrupted while writing it: delete it and run the \
         framework again"
    )]
    Empty,
    /// Too large for a descriptor.
    #[error(
        "the descriptor has {bytes}, more than the {limit} that are read; is it a descriptor at all?",
        bytes = counted(*.bytes, "byte")
    )]
    TooLarge {
        /// The size of the input in bytes.
        bytes: u64,
        /// [`MAX_INFO_BYTES`](crate::MAX_INFO_BYTES).
        limit: u64,
    },
    /// Not JSON.
    #[error(
        "not a descriptor: invalid JSON at line {line} column {column} of {bytes}: {problem}; {help}",
        bytes = counted(*.bytes, "byte")
    )]
    Json {
        /// The size of the input in bytes.
        bytes: usize,
        /// Line of the problem, from 1.
        line: usize,
        /// Column in bytes, from 1.
        column: usize,
        /// The JSON parser's message.
        problem: String,
        /// The help for the user.
        help: &'static str,
    },
    /// A key that the JSON library reserves.
    #[error(
        "the key `{key}` at line {line} column {column} is reserved, and no framework writes it: remove it"
    )]
    ReservedKey {
        /// The key as spelled, truncated to 80 characters.
        key: String,
        /// Line of its beginning, from 1.
        line: usize,
        /// Column in bytes, from 1.
        column: usize,
    },
    /// Lists and objects nested deeper than in any descriptor.
    #[error(
        "`{field}` at line {line} column {column} is nested deeper than the {limit} levels that are read; is this a \
         descriptor?"
    )]
    TooDeep {
        /// Its path, truncated to 200 characters.
        field: String,
        /// Line of its beginning, from 1.
        line: usize,
        /// Column in bytes, from 1.
        column: usize,
        /// The limit in levels.
        limit: usize,
    },
    /// JSON in the form of no known generation.
    #[error(
        "not a descriptor of a known generation: expected at line {line} column {column} an object with `job_content` \
         (MindSpore r1.5 or later), `op_info` (r1.2), `inputs` and `outputs` (r1.0, r1.1) or `op_desc` (AKG), found \
         {found}"
    )]
    Generation {
        /// Line of the document's beginning, from 1.
        line: usize,
        /// Column in bytes, from 1.
        column: usize,
        /// A description of the document.
        found: String,
    },
    /// A required field is missing.
    #[error("field `{field}` is missing from `{object}`, which begins at line {line} column {column}")]
    Missing {
        /// The field's path.
        field: String,
        /// The object that lacks it.
        object: String,
        /// Line of the object's beginning, from 1.
        line: usize,
        /// Column in bytes, from 1.
        column: usize,
    },
    /// A field of a wrong type.
    #[error("field `{field}` at line {line} column {column}: expected {expected}, found {found}")]
    Wrong {
        /// The field's path.
        field: String,
        /// Line of its value, from 1.
        line: usize,
        /// Column in bytes, from 1.
        column: usize,
        /// The values that the format allows.
        expected: &'static str,
        /// The value found, truncated to 80 characters.
        found: String,
    },
}

/// The help for truncated documents.
const TRUNCATED: &str = "it is truncated: delete it and run the framework again";

/// The help for all other documents.
const OTHER: &str = "is this a descriptor?";

impl InfoError {
    /// The JSON library's error for bytes that the scanner refused.
    pub(crate) fn json(bytes: &[u8]) -> Self {
        let error = match serde_json::from_slice::<Value>(bytes) {
            Err(error) => error,
            // Tests compare the scanner with the library.
            Ok(_) => serde_json::Error::custom("the JSON cannot be read"),
        };
        let (line, column) = (error.line(), error.column());
        let problem = error.to_string();
        let problem = problem.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&problem);
        // A power failure can leave zeros at the end.
        let is_truncated = error.is_eof() || bytes.ends_with(&[0]);
        Self::Json {
            bytes: bytes.len(),
            line: line.max(1),
            // Directly after the end of a line, the library counts column 0.
            column: column.max(1),
            problem: problem.to_owned(),
            help: if is_truncated { TRUNCATED } else { OTHER },
        }
    }

    pub(crate) fn generation(found: String, bytes: &[u8]) -> Self {
        let (line, column) = locate(bytes, &[]);
        Self::Generation { line, column, found }
    }

    pub(crate) fn reserved_key(offset: usize, bytes: &[u8]) -> Self {
        let (line, column) = position(bytes, offset);
        let key = String::from_utf8_lossy(&bytes[offset..]);
        let key = key.chars().skip(1).take_while(|character| *character != '"').take(80).collect();
        Self::ReservedKey { key, line, column }
    }

    pub(crate) fn at(fault: FieldProblem, bytes: &[u8]) -> Self {
        let FieldProblem { steps, place, problem } = fault;
        let (line, column) = locate(bytes, &steps);
        match problem {
            Problem::Missing { field } => Self::Missing { field, object: place, line, column },
            Problem::Wrong { expected, found } => Self::Wrong { field: place, line, column, expected, found },
        }
    }
}
