//! Reading and writing of `.info` files.

pub(crate) mod akg;
pub(crate) mod describe;
pub(crate) mod duplicates;
pub(crate) mod error;
mod fields;
pub(crate) mod ignored;
pub(crate) mod labels;
pub(crate) mod limits;
mod link;
mod locate;
mod node;
pub(crate) mod op_info;
mod read;
pub(crate) mod scan;
pub(crate) mod tensors;
pub(crate) mod tree;
pub(crate) mod write;

use crate::info::error::InfoError;
use crate::info::fields::{path, short};
use crate::info::limits::MAX_INFO_BYTES;
use crate::info::limits::{MAX_NESTING, NESTING_OF_FORM, reserved_key, too_deep};
use crate::info::locate::locate;
use crate::info::node::Node;
use crate::info::scan::{Scanned, scan};
use crate::model::descriptor::Descriptor;
use crate::model::generation::Form;
use crate::model::generation::Generation;
use crate::model::job::Job;
use crate::model::metadata::Envelope;
use crate::model::spec::BuildSpec;

/// Reads an `.info` file of any known generation.
///
/// # Errors
/// [`InfoError`] with the path, line and column. Any byte string gives a descriptor or an error; memory is bounded by
/// the size of the input.
pub fn read_info(bytes: &[u8]) -> Result<Descriptor, InfoError> {
    if bytes.len() as u64 > MAX_INFO_BYTES {
        return Err(InfoError::TooLarge { bytes: bytes.len() as u64, limit: MAX_INFO_BYTES });
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(InfoError::Empty);
    }
    let scanned = scan(bytes);
    if scanned.as_ref().is_none_or(|scanned| scanned.may_be_reserved)
        && let Some(offset) = reserved_key(bytes)
    {
        return Err(InfoError::reserved_key(offset, bytes));
    }
    let Some(Scanned { document, depth, .. }) = scanned else { return Err(InfoError::json(bytes)) };
    let document = document.root();
    let Node::Object(members) = document else {
        return Err(InfoError::generation(short(&document.into()), bytes));
    };
    let has = |name| members.find(name).is_some();
    let (read, limit): (fn(Node<'_>) -> _, _) = if has("job_content") {
        (read::job_content, MAX_NESTING + NESTING_OF_FORM)
    } else if has("op_info") {
        (|document| op_info::read(document, Generation::R1_2), MAX_NESTING)
    } else if has("op_desc") {
        (akg::read, MAX_NESTING)
    } else if has("inputs") && has("outputs") {
        (|document| op_info::read(document, Generation::R1_0), MAX_NESTING)
    } else {
        let names: Vec<String> = members.take(8).map(|(name, _)| name.chars().take(40).collect()).collect();
        return Err(InfoError::generation(format!("an object with the fields {names:?}"), bytes));
    };
    if depth > limit
        && let Some(steps) = too_deep(&document.into(), limit)
    {
        let (line, column) = locate(bytes, &steps);
        return Err(InfoError::TooDeep { field: path(&steps), line, column, limit });
    }
    read(document).map_err(|fault| InfoError::at(*fault, bytes))
}

/// Writes a descriptor as the framework of its generation does: sorted keys and a final newline; indented by four
/// spaces since r1.5, on one line before r1.5 and by AKG.
///
/// The output of [`read_info`] round-trips: missing fields stay missing, and numbers keep their digits. Two tokens are
/// normalised: an exponent has a lower-case `e` and a sign (`1E5` is written `1e+5`), and a whole `-0` is written `0`.
/// No framework writes the other forms: MindSpore and AKG, like Python, print the exponent in this form, and no whole
/// minus zero. Value, key and names stay the same.
///
/// A descriptor made by a program is written in the form of r1.5 and later, with tensors named by position; so is a job
/// of several operators whose generation is r1.2 or older, which cannot hold it.
pub fn write_info(descriptor: &Descriptor) -> String {
    let Descriptor { job, spec, envelope } = descriptor;
    write_parts(job, spec, envelope)
}

/// Writes a descriptor as [`write_info`] does, for a kernel named `name`.
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
