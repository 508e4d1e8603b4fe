//! `.info` files: which generation, read, write.

use std::fmt;

use serde_json::Value;
use thiserror::Error;

use crate::fields::{Fault, Problem, path, short};
use crate::guard::{MAX_NESTING, NESTING_OF_FORM, reserved_key, too_deep};
use crate::locate::{locate, position};
use crate::node::{Node, place_of};
use crate::scan::{Scanned, scan};
use crate::{BuildSpec, Envelope, Job, akg, op_info, read, write};

/// The largest `.info` that is read: 4 MiB. Real ones have kilobytes; the largest fused ones some hundred.
///
/// A file of nothing but one-digit numbers takes 33 times its size in memory to be read, and 49 times to be read, hashed
/// and written, some 200 MB at this limit; a quarter and half of a second.
pub const MAX_INFO_BYTES: u64 = 4 << 20;

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
    /// MindSpore r1.6: the same; `output_data_desc` no longer is in names.
    R1_6,
    /// MindSpore r1.7 to r2.0: the same; operators say whether their implementation is a dynamic one.
    R1_7,
    /// MindSpore r2.1 and later: the same; `SocInfo` is in names.
    R2_1,
    /// AKG, the graph kernel compiler: `op_desc` and `platform`.
    Akg,
}

impl Generation {
    /// All of them, the oldest first.
    pub const ALL: [Self; 7] =
        [Self::R1_0, Self::R1_2, Self::R1_5, Self::R1_6, Self::R1_7, Self::R2_1, Self::Akg];

    /// The versions of the framework, in a few words.
    pub const fn versions(self) -> &'static str {
        match self {
            Self::R1_0 => "r1.0 and r1.1",
            Self::R1_2 => "r1.2",
            Self::R1_5 => "r1.5",
            Self::R1_6 => "r1.6",
            Self::R1_7 => "r1.7 to r2.0",
            Self::R2_1 => "r2.1 and later",
            Self::Akg => "AKG",
        }
    }

    /// How its files are laid out.
    pub(crate) fn form(self) -> Form {
        match self {
            Self::R1_0 | Self::R1_2 => Form::OpInfo,
            Self::R1_5 | Self::R1_6 | Self::R1_7 | Self::R2_1 => Form::JobContent,
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
            Self::R1_5 | Self::R1_6 | Self::R1_7 | Self::R2_1 => {
                write!(f, "MindSpore {versions} (job_content)")
            }
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
    fn json(error: &serde_json::Error, bytes: &[u8]) -> Self {
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

    fn generation(found: String, bytes: &[u8]) -> Self {
        let (line, column) = locate(bytes, &[]);
        Self::Generation { line, column, found }
    }

    fn reserved_key(offset: usize, bytes: &[u8]) -> Self {
        let (line, column) = position(bytes, offset);
        let key = String::from_utf8_lossy(&bytes[offset..]);
        let key = key.chars().skip(1).take_while(|character| *character != '"').take(80).collect();
        Self::ReservedKey { key, line, column }
    }

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
    if let Some(offset) = reserved_key(bytes) {
        return Err(InfoError::reserved_key(offset, bytes));
    }
    let Scanned { document, depth } = match scan(bytes) {
        Some(scanned) => scanned,
        None => parse(bytes)?,
    };
    let Node::Object(members) = &document else {
        return Err(InfoError::generation(short(&document.into()), bytes));
    };
    let has = |name| place_of(members, name).is_some();
    let (read, limit): (fn(Node<'_>) -> _, _) = if has("job_content") {
        (read::job_content, MAX_NESTING + NESTING_OF_FORM)
    } else if has("op_info") {
        (|document| op_info::read(document, Generation::R1_2), MAX_NESTING)
    } else if has("op_desc") {
        (akg::read, MAX_NESTING)
    } else if has("inputs") && has("outputs") {
        (|document| op_info::read(document, Generation::R1_0), MAX_NESTING)
    } else {
        let names: Vec<String> =
            members.iter().take(8).map(|(name, _)| name.chars().take(40).collect()).collect();
        return Err(InfoError::generation(format!("an object with the fields {names:?}"), bytes));
    };
    if depth > limit
        && let Some(steps) = too_deep(&document.clone().into(), limit)
    {
        let (line, column) = locate(bytes, &steps);
        return Err(InfoError::TooDeep { field: path(&steps), line, column, limit });
    }
    read(document).map_err(|fault| InfoError::at(fault, bytes))
}

/// What the JSON library says of bytes that were not scanned. It refuses them, too; what it reads all the same is read.
fn parse(bytes: &[u8]) -> Result<Scanned<'_>, InfoError> {
    let document: Value = serde_json::from_slice(bytes).map_err(|error| InfoError::json(&error, bytes))?;
    Ok(Scanned { document: document.into(), depth: usize::MAX })
}

/// Writes a descriptor as its generation's framework does: sorted keys and a newline at the end; from r1.5 on with four
/// spaces, before and by AKG in one line.
///
/// What was read with [`read_info`] comes back equal: fields that were not there are not there again, and numbers have
/// the digits that they had. Two tokens come back in other words: an exponent has a small `e` and a sign (`1E5` is
/// written `1e+5`), and where a whole number is meant, `-0` is written `0`. No framework writes them: MindSpore and AKG,
/// like Python, print the exponent as here, and no whole minus zero. Value, key and names are the same.
///
/// A descriptor that a program made is written in the form of r1.5 and later, its tensors named by position; so is a
/// job of several operators that was of r1.2 or older, which cannot hold it.
pub fn write_info(descriptor: &Descriptor) -> String {
    let Descriptor { job, spec, envelope } = descriptor;
    write_parts(job, spec, envelope)
}

/// Writes a descriptor as [`write_info`] does, for a kernel called `name`.
pub fn write_info_named(descriptor: &Descriptor, name: &str) -> String {
    let Descriptor { job, spec, envelope } = descriptor;
    if envelope.fusion_op_name == name {
        return write_parts(job, spec, envelope);
    }
    let mut named = envelope.clone();
    named.rename(name);
    write_parts(job, spec, &named)
}

fn write_parts(job: &Job, spec: &BuildSpec, envelope: &Envelope) -> String {
    match envelope.generation.map(Generation::form) {
        Some(Form::OpInfo) if job.ops.len() == 1 => write::one_line(&op_info::write(job, spec, envelope)),
        Some(Form::Akg) => write::one_line(&akg::write(job, spec, envelope)),
        _ => write::job_content(job, spec, envelope),
    }
}
