//! Why bytes are not a descriptor.

use thiserror::Error;

use crate::info::fields::{FieldError, Problem};
use crate::info::locate::{locate, position};

/// Why bytes are not a descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InfoError {
    /// Nothing there.
    #[error(
        "the descriptor is empty; the framework was probably interrupted while writing it: delete it and run the \
         framework again"
    )]
    Empty,
    /// More bytes than any descriptor has.
    #[error(
        "the descriptor has {bytes} bytes, more than the {limit} that are read; is it a descriptor at all?"
    )]
    TooLarge {
        /// Bytes given.
        bytes: u64,
        /// [`MAX_INFO_BYTES`](crate::MAX_INFO_BYTES).
        limit: u64,
    },
    /// Not JSON.
    #[error(
        "not a descriptor: invalid JSON at line {line} column {column} of {bytes} bytes: {problem}; {advice}"
    )]
    Json {
        /// Bytes given.
        bytes: usize,
        /// Line of the problem, from 1.
        line: usize,
        /// Where in its line, in bytes, from 1.
        column: usize,
        /// What the JSON parser says.
        problem: String,
        /// The way out.
        advice: &'static str,
    },
    /// A key that the JSON library keeps for itself.
    #[error(
        "the key `{key}` at line {line} column {column} is reserved, and no framework writes it: remove it"
    )]
    ReservedKey {
        /// The key as it is spelled, cut to 80 characters.
        key: String,
        /// Where it begins, from 1.
        line: usize,
        /// Where in its line, in bytes, from 1.
        column: usize,
    },
    /// Lists and objects in lists and objects, deeper than in any descriptor.
    #[error(
        "`{field}` at line {line} column {column} is nested deeper than the {limit} levels that are read; is this a \
         descriptor?"
    )]
    TooDeep {
        /// Its place, cut to 200 characters.
        field: String,
        /// Where it begins, from 1.
        line: usize,
        /// Where in its line, in bytes, from 1.
        column: usize,
        /// Levels that are read.
        limit: usize,
    },
    /// JSON of another shape than any known generation.
    #[error(
        "not a descriptor of a known generation: expected at line {line} column {column} an object with `job_content` \
         (MindSpore r1.5 or later), `op_info` (r1.2), `inputs` and `outputs` (r1.0, r1.1) or `op_desc` (AKG), found \
         {found}"
    )]
    Generation {
        /// Where the document begins, from 1.
        line: usize,
        /// Where in its line, in bytes, from 1.
        column: usize,
        /// What the document is.
        found: String,
    },
    /// A field that must be there is not.
    #[error("field `{field}` is missing from `{object}`, which begins at line {line} column {column}")]
    Missing {
        /// The field's place.
        field: String,
        /// The object it is missing from.
        object: String,
        /// Where that begins, from 1.
        line: usize,
        /// Where in its line, in bytes, from 1.
        column: usize,
    },
    /// A field of another type than the format has.
    #[error("field `{field}` at line {line} column {column}: expected {expected}, found {found}")]
    Wrong {
        /// The field's place.
        field: String,
        /// Where its value begins, from 1.
        line: usize,
        /// Where in its line, in bytes, from 1.
        column: usize,
        /// What may stand there.
        expected: &'static str,
        /// What stands there, cut to 80 characters.
        found: String,
    },
}

/// For documents that end before they should.
const TORN: &str = "it ends early: delete it and run the framework again";

/// For all others.
const STRANGE: &str = "is this a descriptor?";

impl InfoError {
    pub(crate) fn json(error: &serde_json::Error, bytes: &[u8]) -> Self {
        let (line, column) = (error.line(), error.column());
        let problem = error.to_string();
        let problem = problem.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&problem);
        // A power cut leaves zeros where the end should be.
        let is_torn = error.is_eof() || bytes.ends_with(&[0]);
        Self::Json {
            bytes: bytes.len(),
            line: line.max(1),
            // Right behind the end of a line, the library counts none.
            column: column.max(1),
            problem: problem.to_owned(),
            advice: if is_torn { TORN } else { STRANGE },
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

    pub(crate) fn at(fault: FieldError, bytes: &[u8]) -> Self {
        let FieldError { steps, place, problem } = fault;
        let (line, column) = locate(bytes, &steps);
        match problem {
            Problem::Missing { field } => Self::Missing { field, object: place, line, column },
            Problem::Wrong { expected, found } => Self::Wrong { field: place, line, column, expected, found },
        }
    }
}
