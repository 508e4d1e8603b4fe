//! `.info` files: which generation, read, write.

use std::fmt;

use serde_json::Value;
use thiserror::Error;

use crate::{BuildSpec, Envelope, Job, read, write};

/// The largest `.info` that is read: 16 MiB. Real ones have kilobytes; the largest fused ones some hundred.
pub const MAX_INFO_BYTES: u64 = 16 << 20;

/// An operator's descriptor, in three parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Descriptor {
    /// What is computed.
    pub job: Job,
    /// For what it is built.
    pub spec: BuildSpec,
    /// Who asked.
    pub envelope: Envelope,
}

/// A generation of `.info` files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Generation {
    /// MindSpore r1.5 and later: the whole compile request, with `job_content`.
    JobContent,
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::JobContent => f.write_str("MindSpore r1.5 or later (job_content)"),
        }
    }
}

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
        /// [`MAX_INFO_BYTES`].
        limit: u64,
    },
    /// Not JSON.
    #[error(
        "not a descriptor: invalid JSON at line {line} column {column} of {bytes} bytes: {problem}; if it is torn, \
         delete it and run the framework again"
    )]
    Json {
        /// Bytes given.
        bytes: usize,
        /// Line of the problem, from 1; 0 if the bytes are not UTF-8.
        line: usize,
        /// Column of the problem, from 1.
        column: usize,
        /// What the JSON parser says.
        problem: String,
    },
    /// JSON of another shape than any known generation.
    #[error(
        "not a descriptor of a known generation: expected an object with `job_content` (MindSpore r1.5 or later), \
         found {found}"
    )]
    Generation {
        /// What the document is.
        found: String,
    },
    /// A field that must be there is not.
    #[error("field `{field}` is missing from `{object}`")]
    Missing {
        /// The field's place.
        field: String,
        /// The object it is missing from.
        object: String,
    },
    /// A field of another type than the format has.
    #[error("field `{field}`: expected {expected}, found {found}")]
    Wrong {
        /// The field's place.
        field: String,
        /// What may stand there.
        expected: &'static str,
        /// What stands there, cut to 80 characters.
        found: String,
    },
}

/// Reads an `.info` file of any known generation.
///
/// # Errors
/// [`InfoError`], naming the place. Any byte string gives a descriptor or an error; memory is bounded by the input.
pub fn read_info(bytes: &[u8]) -> Result<Descriptor, InfoError> {
    if bytes.len() as u64 > MAX_INFO_BYTES {
        return Err(InfoError::TooLarge { bytes: bytes.len() as u64, limit: MAX_INFO_BYTES });
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(InfoError::Empty);
    }
    let document: Value = serde_json::from_slice(bytes).map_err(|error| InfoError::Json {
        bytes: bytes.len(),
        line: error.line(),
        column: error.column(),
        problem: error.to_string(),
    })?;
    match &document {
        Value::Object(map) if map.contains_key("job_content") => read::job_content(document),
        Value::Object(map) => {
            let names: Vec<String> = map.keys().take(8).map(|name| name.chars().take(40).collect()).collect();
            Err(InfoError::Generation { found: format!("an object with the fields {names:?}") })
        }
        other => Err(InfoError::Generation { found: other.to_string().chars().take(80).collect() }),
    }
}

/// Writes a descriptor as its generation's framework does: sorted keys, four spaces, a newline at the end.
///
/// What was read with [`read_info`] comes back equal, number tokens included, with `Data` ops first; a field that the
/// framework always writes is there even if it was not before. A descriptor that a program made is written in the
/// newest generation, its tensors named by position.
pub fn write_info(descriptor: &Descriptor) -> String {
    match descriptor.envelope.generation {
        Some(Generation::JobContent) | None => write::job_content(descriptor),
    }
}
