//! Files of one tensor: ONNX's (a `TensorProto`) and NumPy's.

use std::path::Path;

use opkeep_fs::Fs;
use prost::bytes::Bytes;

use super::dense::Tensor;
use super::npy;
use crate::error::{NpyError, OnnxError, TensorProblem};
use crate::load::{MAX_FILE_BYTES, Undecoded, decode, read_file};
use crate::wire::message_size;
use crate::wire::proto::TensorProto;

/// The expected content of such a file.
const TENSOR: &str = "a tensor (`.pb` of ONNX, or `.npy`)";

/// Reads the tensor in the file `path`: a `TensorProto`, or an array of NumPy. The content determines which.
///
/// # Errors
/// The file cannot be read, is neither, is damaged or larger than [`MAX_FILE_BYTES`], or the tensor is invalid.
pub fn read_tensor(path: &Path) -> Result<Tensor, OnnxError> {
    let file = read_file(path, TENSOR, "such tensors belong into a model, as external data")?;
    parse(&file, Some(path)).map_err(|unread| match unread {
        Unread::Undecoded(undecoded) => undecoded.of(path, &file, TENSOR),
        Unread::Npy(problem) => OnnxError::Npy { path: path.to_owned(), problem },
        Unread::Tensor(problem) => OnnxError::TensorFile { path: path.to_owned(), problem },
    })
}

/// Writes `tensor` to the file `path` in NumPy's format. An existing file is replaced at once.
///
/// # Errors
/// The number of bytes differs from the shape's, or the file cannot be written.
pub fn write_npy(path: &Path, tensor: &Tensor) -> Result<(), OnnxError> {
    let header =
        npy::header(tensor).map_err(|problem| OnnxError::TensorFile { path: path.to_owned(), problem })?;
    // The umask applies, as to any file that a command creates.
    Fs::new().replace(path, &[&header, &tensor.bytes], 0o666).map_err(|source| OnnxError::Io {
        action: "write",
        path: path.to_owned(),
        source,
    })
}

/// The reason why bytes are not a tensor.
#[derive(Debug)]
pub(crate) enum Unread {
    Undecoded(Undecoded),
    Npy(NpyError),
    Tensor(TensorProblem),
}

/// The tensor in `file`, which was read from `path`.
pub(crate) fn parse(file: &Bytes, path: Option<&Path>) -> Result<Tensor, Unread> {
    if file.starts_with(npy::MAGIC) {
        return npy::parse(file).map_err(Unread::Npy);
    }
    let proto: TensorProto = decode(file, message_size::TENSOR).map_err(Unread::Undecoded)?;
    if proto.data_type == 0 {
        return Err(Unread::Undecoded(Undecoded::Other("a protobuf message without an element type")));
    }
    dense(proto, path).map_err(Unread::Tensor)
}

/// A tensor with its elements.
fn dense(proto: TensorProto, path: Option<&Path>) -> Result<Tensor, TensorProblem> {
    let data = super::data(&proto, path)?;
    let bytes = data.bytes();
    if bytes > MAX_FILE_BYTES {
        return Err(TensorProblem::TooLarge { bytes, limit: MAX_FILE_BYTES });
    }
    let mut elements = vec![0; bytes as usize];
    data.constant.copy_to(&mut elements).map_err(|source| TensorProblem::Io { source })?;
    Ok(Tensor { name: proto.name, dtype: data.dtype.to_owned(), shape: data.shape, bytes: elements })
}
