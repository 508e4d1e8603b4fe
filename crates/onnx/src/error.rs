//! What can go wrong with models and tensors.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::model_error::{Listed, ModelError, Problem};

/// Why a model or a tensor cannot be had from a file, or not be written to one.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OnnxError {
    // The file.
    /// A file operation failed.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// What was tried, such as `read`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A directory, a pipe or a device.
    #[error("`{path}` is {found}, expected a file")]
    NotAFile {
        /// Where.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// More bytes than are read.
    #[error("`{path}` has {bytes} bytes, more than the {limit} that {expected} may have; {help}")]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The largest that is read.
        limit: u64,
        /// What the file should be.
        expected: &'static str,
        /// What to do.
        help: &'static str,
    },

    // What is in it.
    /// The file is something else.
    #[error("`{path}` is not {expected}: it is {found}")]
    NotOnnx {
        /// Which file.
        path: PathBuf,
        /// What it should be.
        expected: &'static str,
        /// What it is, and what to do.
        found: &'static str,
    },
    /// The file ends before its content does.
    #[error(
        "`{path}` is not {expected}, or was cut off: {within} at byte {at} is {missing} bytes longer than the file; is \
         the file complete?"
    )]
    Truncated {
        /// Which file.
        path: PathBuf,
        /// What it should be.
        expected: &'static str,
        /// The field that is not complete.
        within: String,
        /// Where that field begins.
        at: usize,
        /// At least how many bytes are missing.
        missing: u64,
    },
    /// The content is not what the format allows.
    #[error("`{path}` is not {expected}, or is damaged: {problem}")]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What it should be.
        expected: &'static str,
        /// Where, and what is there.
        problem: String,
    },
    /// The content would take out of all proportion more memory than the file has bytes.
    #[error(
        "`{path}`, a file of {bytes} bytes, would take more than {limit} bytes of memory besides its tensors, by {within} \
         at byte {at}; no exporter is known to write such models"
    )]
    Exhausting {
        /// Which file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// What its content may take.
        limit: u64,
        /// The field that is one too many.
        within: String,
        /// Where that field begins.
        at: usize,
    },
    /// The file has NumPy's magic and is not what NumPy writes, or not a tensor that there can be here.
    #[error("`{path}` is not a NumPy file that can be read: {problem}")]
    Npy {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        problem: NpyError,
    },

    // Tensors.
    /// A tensor of a model is not what it says.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The tensor of a file of its own is not what it says.
    #[error("`{path}`: {problem}")]
    TensorFile {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        problem: TensorProblem,
    },

    // Networks.
    /// The graph does not hold together.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Nodes that cannot be mapped, every one.
    #[error("{}", Listed(.0))]
    Unmappable(Vec<Problem>),
}

/// Which tensor of a model is not what it says, and why.
#[derive(Debug, Error)]
#[error("tensor `{tensor}`: {problem}")]
pub struct TensorError {
    /// Its name, the beginning of a long one.
    pub tensor: String,
    /// What is wrong.
    #[source]
    pub problem: TensorProblem,
}

/// What is wrong with a tensor.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TensorProblem {
    /// Elements of a type that no operator here has.
    #[error(
        "its elements are of type {found}, expected float32, float16, bfloat16, float64, bool, or integers of 8 to 64 bits"
    )]
    DataType {
        /// The type as ONNX calls it, or its number there.
        found: String,
    },
    /// A dimension below zero.
    #[error("dimension {index} is {found}, expected 0 or more")]
    NegativeDim {
        /// Which.
        index: usize,
        /// Its size.
        found: i64,
    },
    /// More dimensions than any framework has.
    #[error("it has {found} dimensions, expected at most {limit}")]
    Rank {
        /// How many.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
    /// More elements than any memory holds.
    #[error("its dimensions {dims:?} make more than {limit} elements")]
    TooManyElements {
        /// Its shape.
        dims: Vec<i64>,
        /// How many elements there may be.
        limit: u64,
    },
    /// No elements, where the shape has some.
    #[error("it has {expected} elements by its shape, and none in the file")]
    NoData {
        /// How many elements the shape makes.
        expected: u64,
    },
    /// Elements in more than one place.
    #[error("its elements are in both `{first}` and `{second}`, expected one of them")]
    Mixed {
        /// One place.
        first: &'static str,
        /// Another.
        second: &'static str,
    },
    /// Elements in the field for other types.
    #[error("its elements are in `{found}`, expected {dtype} in `{expected}` or `raw_data`")]
    WrongField {
        /// The element type.
        dtype: &'static str,
        /// Where they should be.
        expected: &'static str,
        /// Where they are.
        found: &'static str,
    },
    /// Another number of elements than the shape makes.
    #[error("`{field}` has {found} {unit}, expected {expected} for {dtype} {dims:?}")]
    Size {
        /// Where the elements are.
        field: &'static str,
        /// The element type.
        dtype: &'static str,
        /// The shape.
        dims: Vec<i64>,
        /// `bytes` or `values`.
        unit: &'static str,
        /// How many the shape makes.
        expected: u64,
        /// How many there are.
        found: u64,
    },
    /// Packed numbers that are none.
    #[error("`{field}` is damaged: it does not consist of whole numbers of at most 64 bits")]
    Packed {
        /// The field.
        field: &'static str,
    },
    /// A place for elements that ONNX does not know.
    #[error("its `data_location` is {found}, expected 0 (in the model) or 1 (in a file beside it)")]
    Location {
        /// The number.
        found: i32,
    },
    /// More than is read at once.
    #[error("it has {bytes} bytes of elements, more than the {limit} that are read at once")]
    TooLarge {
        /// How many.
        bytes: u64,
        /// How many there may be.
        limit: u64,
    },
    /// Its elements could not be read.
    #[error("its elements cannot be read: {source}")]
    Io {
        /// Why not.
        source: io::Error,
    },
    /// Its elements should be in a file beside the model, and cannot be had from there.
    #[error(transparent)]
    External(#[from] ExternalError),
}

/// Why a tensor's elements cannot be had from a file beside the model.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExternalError {
    /// The model did not come from a file.
    #[error("its elements are in a file beside the model's, and the model was not read from a file")]
    NoDirectory,
    /// An entry of `external_data` is missing, doubled, or not what it should be.
    #[error("`{key}` of its external data is {found}, expected {expected}")]
    Entry {
        /// The entry.
        key: &'static str,
        /// What should stand there.
        expected: &'static str,
        /// What does.
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
        /// What the links on the way lead to.
        leads_to: PathBuf,
        /// The model's directory.
        directory: PathBuf,
    },
    /// The file cannot be opened or read.
    #[error("its elements are in `{path}`, which cannot be read: {source}; put the file beside the model")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A directory, a pipe or a device.
    #[error("its elements should be in `{path}`, which is {found}, expected a file")]
    NotAFile {
        /// Where.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// Another number of bytes than the tensor has.
    #[error("`length` of its external data is {found}, expected {expected} bytes by its type and shape")]
    Length {
        /// What the type and the shape make.
        expected: u64,
        /// What the entry says.
        found: u64,
    },
    /// The file ends before the tensor does.
    #[error(
        "its {bytes} bytes begin at byte {offset} of `{path}`, which has {found} bytes; is that file complete, and of this \
         model?"
    )]
    TooShort {
        /// The file.
        path: PathBuf,
        /// Where the tensor begins.
        offset: u64,
        /// How many bytes it has.
        bytes: u64,
        /// How many the file has.
        found: u64,
    },
}

/// What is wrong with a NumPy file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NpyError {
    /// The file ends within its header.
    #[error("it ends after {found} bytes, within a header of {expected}; is the file complete?")]
    Truncated {
        /// How many bytes the header has.
        expected: u64,
        /// How many the file has.
        found: u64,
    },
    /// A format that is not read.
    #[error("its format is {major}.{minor}, expected 1.0, 2.0 or 3.0")]
    Version {
        /// The first number.
        major: u8,
        /// The second.
        minor: u8,
    },
    /// A header that is longer than any of a tensor.
    #[error("its header has {found} bytes, expected at most {limit}")]
    LongHeader {
        /// How long it is.
        found: u64,
        /// How long it may be.
        limit: u64,
    },
    /// A header that is no description of an array.
    #[error("byte {at} of its header: expected {expected}")]
    Header {
        /// Where in the header.
        at: usize,
        /// What should stand there.
        expected: &'static str,
    },
    /// Elements of a type that no operator here has.
    #[error(
        "its elements are `{found}`, expected b1, i1, i2, i4, i8, u1, u2, u4, u8, f2, f4, f8, or V2 for bfloat16"
    )]
    DataType {
        /// The type as NumPy describes it.
        found: String,
    },
    /// A shape that no tensor has, or another number of bytes than it makes.
    #[error(transparent)]
    Tensor(#[from] TensorProblem),
}

/// How much of a name that a file gives is repeated in a message.
const MAX_SHOWN_BYTES: usize = 200;

/// What is shown of a text that a file gives.
pub(crate) fn shortened(text: &str) -> String {
    if text.len() <= MAX_SHOWN_BYTES {
        return text.to_owned();
    }
    format!("{}...", &text[..text.floor_char_boundary(MAX_SHOWN_BYTES)])
}
