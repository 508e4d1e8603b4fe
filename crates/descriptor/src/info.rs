//! `.info` files: which generation, read, write.

use std::fmt;

use serde_json::Value;
use thiserror::Error;

use crate::fields::{Fault, Problem, short};
use crate::locate::locate;
use crate::{BuildSpec, Envelope, Job, akg, op_info, read, write};

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

/// A generation of `.info` files, and of the names that go with them.
///
/// r1.5 and later write one form of file; what tells them apart is how they make names. Those of r1.2 and older are
/// known for single operators: what they wrote of fused ones is not documented, and is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// MindSpore r1.0 and r1.1: the fields that their names hash, and no others.
    R1_0,
    /// MindSpore r1.2: `op_info` beside `SocInfo`.
    R1_2,
    /// MindSpore r1.5: the whole compile request, with `job_content`.
    R1_5,
    /// MindSpore r1.6 to r2.0: the same; `output_data_desc` no longer is in names.
    R1_6,
    /// MindSpore r2.1 and later: the same; `SocInfo` is in names.
    R2_1,
    /// AKG, the graph kernel compiler: `op_desc` and `platform`.
    Akg,
}

impl Generation {
    /// All of them, the oldest first.
    pub const ALL: [Self; 6] = [Self::R1_0, Self::R1_2, Self::R1_5, Self::R1_6, Self::R2_1, Self::Akg];

    /// The versions of the framework, in a few words.
    pub const fn versions(self) -> &'static str {
        match self {
            Self::R1_0 => "r1.0 and r1.1",
            Self::R1_2 => "r1.2",
            Self::R1_5 => "r1.5",
            Self::R1_6 => "r1.6 to r2.0",
            Self::R2_1 => "r2.1 and later",
            Self::Akg => "AKG",
        }
    }

    /// How its files are laid out.
    pub(crate) fn form(self) -> Form {
        match self {
            Self::R1_0 | Self::R1_2 => Form::OpInfo,
            Self::R1_5 | Self::R1_6 | Self::R2_1 => Form::JobContent,
            Self::Akg => Form::Akg,
        }
    }
}

/// The layout of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    OpInfo,
    JobContent,
    Akg,
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versions = self.versions();
        match self {
            Self::R1_0 => write!(f, "MindSpore {versions} (op_info alone)"),
            Self::R1_2 => write!(f, "MindSpore {versions} (op_info)"),
            Self::R1_5 | Self::R1_6 | Self::R2_1 => write!(f, "MindSpore {versions} (job_content)"),
            Self::Akg => f.write_str(versions),
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
         `op_info` (r1.2), `inputs` and `outputs` (r1.0, r1.1) or `op_desc` (AKG), found {found}"
    )]
    Generation {
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

impl InfoError {
    fn at(fault: Fault, bytes: &[u8]) -> Self {
        let Fault { steps, place, problem } = fault;
        let (line, column) = locate(bytes, &steps);
        match problem {
            Problem::Missing { field } => Self::Missing { field, object: place, line, column },
            Problem::Wrong { expected, found } => Self::Wrong { field: place, line, column, expected, found },
        }
    }
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
    let Value::Object(map) = &document else {
        return Err(InfoError::Generation { found: short(&document) });
    };
    let read = if map.contains_key("job_content") {
        read::job_content(document)
    } else if map.contains_key("op_info") {
        op_info::read(document, Generation::R1_2)
    } else if map.contains_key("op_desc") {
        akg::read(document)
    } else if map.contains_key("inputs") && map.contains_key("outputs") {
        op_info::read(document, Generation::R1_0)
    } else {
        let names: Vec<String> = map.keys().take(8).map(|name| name.chars().take(40).collect()).collect();
        return Err(InfoError::Generation { found: format!("an object with the fields {names:?}") });
    };
    read.map_err(|fault| InfoError::at(fault, bytes))
}

/// Writes a descriptor as its generation's framework does: sorted keys and a newline at the end; from r1.5 on with four
/// spaces, before and by AKG in one line.
///
/// What was read with [`read_info`] comes back equal, number tokens included, with `Data` ops first; a field that the
/// framework always writes is there even if it was not before. A descriptor that a program made is written in the
/// form of r1.5 and later, its tensors named by position; so is a job of several operators that was of r1.2 or older,
/// which cannot hold it.
pub fn write_info(descriptor: &Descriptor) -> String {
    let one_op = descriptor.job.ops.len() == 1;
    match descriptor.envelope.generation.map(Generation::form) {
        Some(Form::OpInfo) if one_op => write::one_line(&op_info::write(descriptor)),
        Some(Form::Akg) => write::one_line(&akg::write(descriptor)),
        _ => write::indented(&write::job_content(descriptor)),
    }
}
