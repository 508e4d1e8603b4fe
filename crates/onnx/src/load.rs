//! Reading models.

use std::path::Path;

use prost::Message;
use prost::bytes::Bytes;

use crate::model::network::{Network, Options};
use crate::model::translate::translate;
use crate::opened::{Opened, Unopened};
use crate::wire::message_size::{self, Damage, DamageKind, Fields};
use crate::wire::proto::ModelProto;
use crate::{OnnxError, sniff};

/// The largest file that is read: protobuf messages are not larger.
pub const MAX_FILE_BYTES: u64 = (1 << 31) - 1;

/// The expected content of a model's file.
const MODEL: &str = "an ONNX model";

/// What helps with a file that is too large.
const SMALLER: &str = "keep its weights in a file of their own: `onnx.save(..., save_as_external_data=True)`";

/// Reads the model in the file `path`.
///
/// The file is read once, into one buffer, which holds the elements of its tensors. Elements in files beside it are not
/// read; only their sizes are checked. Until the graph is complete, at most four times the file's size and 64 MiB of
/// memory are used.
///
/// # Errors
/// The file cannot be read, is not a model, is damaged, or would need too much memory; a tensor is invalid, or the
/// model cannot be translated.
pub fn read(path: &Path, options: &Options) -> Result<Network, OnnxError> {
    from_bytes(read_file(path, MODEL, SMALLER)?, Some(path), options)
}

/// The messages of the model in the file `path`.
pub(crate) fn read_model(path: &Path) -> Result<ModelProto, OnnxError> {
    let file = read_file(path, MODEL, SMALLER)?;
    decode_model(&file).map_err(|undecoded| undecoded.of(path, &file, MODEL))
}

/// Reads the model in `file`, which is the content of the file `path` if there is one. Only a model from a file can
/// have elements in files beside it.
///
/// # Errors
/// As for [`read`].
pub fn from_bytes(file: Bytes, path: Option<&Path>, options: &Options) -> Result<Network, OnnxError> {
    let named = path.unwrap_or(Path::new("(memory)"));
    let model = decode_model(&file).map_err(|undecoded| undecoded.of(named, &file, MODEL))?;
    translate(&model, path, options)
}

/// A model's messages.
pub(crate) fn decode_model(file: &Bytes) -> Result<ModelProto, Undecoded> {
    let model: ModelProto = decode(file, message_size::MODEL)?;
    match model.graph {
        Some(_) => Ok(model),
        None => Err(Undecoded::Other("a protobuf message without a graph")),
    }
}

/// The message that consists of the whole file.
pub(crate) fn decode<M: Message + Default>(file: &Bytes, fields: Fields) -> Result<M, Undecoded> {
    message_size::check(file, fields).map_err(Undecoded::Damage)?;
    // Decoded from `Bytes`, so that the messages share the buffer.
    M::decode(file.clone()).map_err(Undecoded::Field)
}

/// The content of a file, in a buffer of exactly its size.
pub(crate) fn read_file(path: &Path, expected: &'static str, help: &'static str) -> Result<Bytes, OnnxError> {
    let cannot = |source| OnnxError::Io { action: "read", path: path.to_owned(), source };
    let opened = Opened::at(path).map_err(|unopened| match unopened {
        Unopened::Io(source) => cannot(source),
        Unopened::NotAFile(found) => OnnxError::NotAFile { path: path.to_owned(), found },
    })?;
    let (bytes, limit) = (opened.state.len, MAX_FILE_BYTES);
    if bytes > limit {
        return Err(OnnxError::TooLarge { path: path.to_owned(), bytes, limit, expected, help });
    }
    opened.read().map(Bytes::from).map_err(cannot)
}

/// The reason why bytes are not the expected message.
#[derive(Debug)]
pub(crate) enum Undecoded {
    Damage(Damage),
    /// An invalid text, or a field of another type.
    Field(prost::DecodeError),
    /// Another message.
    Other(&'static str),
}

impl Undecoded {
    /// The error for the file at `path`, with these bytes.
    pub(crate) fn of(self, path: &Path, file: &[u8], expected: &'static str) -> OnnxError {
        let path = path.to_owned();
        let is_unreadable = !matches!(self, Self::Damage(Damage { kind: DamageKind::TooMuch { .. }, .. }));
        if let Some(found) = sniff::looks_like(file).filter(|_| is_unreadable) {
            return OnnxError::NotOnnx { path, expected, found };
        }
        match self {
            Self::Damage(Damage { at, within, kind }) => match (kind, field(&within)) {
                (DamageKind::Cut { missing }, within) => {
                    OnnxError::Truncated { path, expected, within, at, missing }
                }
                (DamageKind::Wire(error), within) => {
                    let problem = format!("{within} at byte {at}: {error}");
                    OnnxError::Malformed { path, expected, problem }
                }
                (DamageKind::TooMuch { limit }, within) => {
                    OnnxError::Exhausting { path, bytes: file.len() as u64, limit, within, at }
                }
            },
            Self::Field(error) => OnnxError::Malformed { path, expected, problem: error.to_string() },
            Self::Other(found) => OnnxError::NotOnnx { path, expected, found },
        }
    }
}

/// A field's name, with those of the fields around it.
fn field(within: &[&str]) -> String {
    let names: Vec<&str> = within.iter().rev().copied().collect();
    if names.is_empty() { "a field".to_owned() } else { format!("the field `{}`", names.join(".")) }
}
