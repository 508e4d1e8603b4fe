//! The errors of reading models and tensors, and of writing tensors.

use std::io;
use std::path::PathBuf;

use opkeep_text::counted;
use thiserror::Error;

use crate::model_error::{Listed, ModelError, Problem};

/// The reason why a model or a tensor cannot be read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OnnxError {
    // The file.
    /// A file operation failed.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// The action that failed, such as `read`.
        action: &'static str,
        /// The path that it concerned.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A directory, a pipe or a device.
    #[error("`{path}` is {found}, expected a file")]
    NotAFile {
        /// Its path.
        path: PathBuf,
        /// Its kind.
        found: &'static str,
    },
    /// A file that exceeds the size limit.
    #[error(
        "`{path}` has {bytes}, more than the {limit} that {expected} may have; {help}",
        bytes = counted(*.bytes, "byte")
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The size limit.
        limit: u64,
        /// The expected content.
        expected: &'static str,
        /// A remedy.
        help: &'static str,
    },

    // Its content.
    /// The file has another format.
    #[error("`{path}` is not {expected}: it is {found}")]
    NotOnnx {
        /// The file.
        path: PathBuf,
        /// The expected content.
        expected: &'static str,
        /// The content found, with a remedy.
        found: &'static str,
    },
    /// The file ends before its content does.
    #[error(
        "`{path}` is not {expected}, or was cut off: {within} at byte {at} is {missing} longer than the \
         file; is the file complete?",
        missing = counted(*.missing, "byte")
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The expected content.
        expected: &'static str,
        /// The incomplete field.
        within: String,
        /// The start of that field.
        at: usize,
        /// The least number of missing bytes.
        missing: u64,
    },
    /// The content violates the format.
    #[error("`{path}` is not {expected}, or is damaged: {problem}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The expected content.
        expected: &'static str,
        /// The position, and the content found.
        problem: String,
    },
    /// Decoding the content would need disproportionately more memory than the file's size.
    #[error(
        "`{path}`, a file of {bytes}, would take more than {limit} of memory besides its tensors, by \
         {within} at byte {at}; no exporter is known to write such models",
        bytes = counted(*.bytes, "byte"),
        limit = counted(*.limit, "byte")
    )]
    Exhausting {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The memory limit.
        limit: u64,
        /// The field that exceeds the limit.
        within: String,
        /// The start of that field.
        at: usize,
    },
    /// The file has NumPy's magic, but NumPy does not write such a file, or its array is not supported.
    #[error("`{path}` is not a NumPy file that can be read: {problem}")]
    Npy {
        /// The file.
        path: PathBuf,
        /// The problem.
        #[source]
        problem: NpyError,
    },

    // Tensors.
    /// A tensor of a model contradicts itself.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The tensor in its own file contradicts itself.
    #[error("`{path}`: {problem}")]
    TensorFile {
        /// The file.
        path: PathBuf,
        /// The problem.
        #[source]
        problem: TensorProblem,
    },

    // Networks.
    /// The graph is inconsistent.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// All nodes that cannot be mapped.
    #[error("{}", Listed(.0))]
    Unmappable(Vec<Problem>),
}

/// The tensor of a model that is invalid, and the reason.
#[derive(Debug, Error)]
#[error("tensor `{tensor}`: {problem}")]
#[non_exhaustive]
pub struct TensorError {
    /// Its name, truncated if long.
    pub tensor: String,
    /// The problem.
    #[source]
    pub problem: TensorProblem,
}

/// A problem of a tensor.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TensorProblem {
    /// Elements of a type that no supported operator has.
    #[error(
        "its elements are of type {found}, expected float32, float16, bfloat16, float64, bool, or integers of 8 to 64 bits"
    )]
    DataType {
        /// The type's ONNX name or number.
        found: String,
    },
    /// A negative dimension.
    #[error("dimension {index} is {found}, expected 0 or more")]
    NegativeDim {
        /// Its index.
        index: usize,
        /// Its size.
        found: i64,
    },
    /// More dimensions than frameworks support.
    #[error("it has {found}, expected at most {limit}", found = counted(*.found, "dimension"))]
    Rank {
        /// The number of dimensions.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// More elements than fit into memory.
    #[error("its dimensions {dims:?} make more than {limit}", limit = counted(*.limit, "element"))]
    TooManyElements {
        /// Its shape.
        dims: Vec<i64>,
        /// The limit.
        limit: u64,
    },
    /// No elements, although the shape has some.
    #[error(
        "it has {expected} by its shape, and none in the file",
        expected = counted(*.expected, "element")
    )]
    NoData {
        /// The number of elements of the shape.
        expected: u64,
    },
    /// Elements in more than one field.
    #[error("its elements are in both `{first}` and `{second}`, expected one of them")]
    Mixed {
        /// One field.
        first: &'static str,
        /// The other field.
        second: &'static str,
    },
    /// Elements in a field for other types.
    #[error("its elements are in `{found}`, expected {dtype} in `{expected}` or `raw_data`")]
    WrongField {
        /// The element type.
        dtype: &'static str,
        /// The expected field.
        expected: &'static str,
        /// The field found.
        found: &'static str,
    },
    /// A number of elements that differs from the shape's.
    #[error("`{field}` has {found} {unit}, expected {expected} for {dtype} {dims:?}")]
    Size {
        /// The field with the elements.
        field: &'static str,
        /// The element type.
        dtype: &'static str,
        /// The shape.
        dims: Vec<i64>,
        /// `bytes` or `values`.
        unit: &'static str,
        /// The number for the shape.
        expected: u64,
        /// The number found.
        found: u64,
    },
    /// Packed numbers that cannot be decoded.
    #[error("`{field}` is damaged: it does not consist of whole numbers of at most 64 bits")]
    Packed {
        /// The field.
        field: &'static str,
    },
    /// A location of elements that ONNX does not define.
    #[error("its `data_location` is {found}, expected 0 (in the model) or 1 (in a file beside it)")]
    Location {
        /// The number.
        found: i32,
    },
    /// More bytes than are read at once.
    #[error(
        "it has {bytes} of elements, more than the {limit} that are read at once",
        bytes = counted(*.bytes, "byte")
    )]
    TooLarge {
        /// The number of bytes.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// Its elements could not be read.
    #[error("its elements cannot be read: {source}")]
    Io {
        /// The system's error.
        source: io::Error,
    },
    /// Its elements should be in a file beside the model, but cannot be read from it.
    #[error(transparent)]
    External(#[from] ExternalError),
}

/// The reason why a tensor's elements cannot be read from a file beside the model.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExternalError {
    /// The model was not read from a file.
    #[error("its elements are in a file beside the model's, and the model was not read from a file")]
    NoDirectory,
    /// An entry of `external_data` is missing, repeated, or invalid.
    #[error("`{key}` of its external data is {found}, expected {expected}")]
    Entry {
        /// The entry.
        key: &'static str,
        /// The expected value.
        expected: &'static str,
        /// The value found.
        found: String,
    },
    /// A file that is not below the model's directory.
    #[error(
        "its elements are in `{path}`, which leads to `{leads_to}`, outside the model's directory `{directory}`; put the file \
         itself into that directory"
    )]
    Outside {
        /// The file, as the model names it.
        path: PathBuf,
        /// The target of the links on the way.
        leads_to: PathBuf,
        /// The model's directory.
        directory: PathBuf,
    },
    /// The file cannot be opened or read.
    #[error("its elements are in `{path}`, which cannot be read: {source}; put the file beside the model")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A directory, a pipe or a device.
    #[error("its elements should be in `{path}`, which is {found}, expected a file")]
    NotAFile {
        /// The file.
        path: PathBuf,
        /// Its kind.
        found: &'static str,
    },
    /// A length that differs from the tensor's.
    #[error(
        "`length` of its external data is {found}, expected {expected} by its type and shape",
        expected = counted(*.expected, "byte")
    )]
    Length {
        /// The length by type and shape.
        expected: u64,
        /// The length in the entry.
        found: u64,
    },
    /// The file ends before the tensor.
    #[error(
        "its {bytes} begin at byte {offset} of `{path}`, which has {found}; is that file complete, and of \
         this model?",
        bytes = counted(*.bytes, "byte"),
        found = counted(*.found, "byte")
    )]
    TooShort {
        /// The file.
        path: PathBuf,
        /// The start of the tensor.
        offset: u64,
        /// The tensor's length in bytes.
        bytes: u64,
        /// The file's length in bytes.
        found: u64,
    },
}

/// A problem of a NumPy file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NpyError {
    /// The file ends within its header.
    #[error(
        "it ends after {found}, within a header of {expected}; is the file complete?",
        found = counted(*.found, "byte")
    )]
    Truncated {
        /// The header's length in bytes.
        expected: u64,
        /// The file's length in bytes.
        found: u64,
    },
    /// An unsupported version of the format.
    #[error("its format is {major}.{minor}, expected 1.0, 2.0 or 3.0")]
    Version {
        /// The major version.
        major: u8,
        /// The minor version.
        minor: u8,
    },
    /// A header that exceeds the limit for a tensor's header.
    #[error("its header has {found}, expected at most {limit}", found = counted(*.found, "byte"))]
    LongHeader {
        /// The header's length.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// A header that does not describe an array.
    #[error("byte {at} of its header: expected {expected}")]
    Header {
        /// The position in the header.
        at: usize,
        /// The expected text.
        expected: &'static str,
    },
    /// Elements of a type that no supported operator has.
    #[error(
        "its elements are `{found}`, expected b1, i1, i2, i4, i8, u1, u2, u4, u8, f2, f4, f8, or V2 for bfloat16"
    )]
    DataType {
        /// NumPy's description of the type.
        found: String,
    },
    /// A shape that no tensor has, or a number of bytes that differs from the shape's.
    #[error(transparent)]
    Tensor(#[from] TensorProblem),
}

/// The length to which a text from a file is truncated in a message.
const MAX_SHOWN_BYTES: usize = 200;

/// A text from a file for a message, truncated.
pub(crate) fn shortened(text: &str) -> String {
    if text.len() <= MAX_SHOWN_BYTES {
        return text.to_owned();
    }
    format!("{}...", &text[..text.floor_char_boundary(MAX_SHOWN_BYTES)])
}
