//! The errors of reading, generating and writing tensors.

use std::collections::TryReserveError;
use std::fmt;
use std::io;
use std::path::PathBuf;

use opkeep_onnx::OnnxError;
use opkeep_text::counted;
use thiserror::Error;

/// The role of a tensor in a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An input.
    Input,
    /// An output.
    Output,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input => "input",
            Self::Output => "output",
        })
    }
}

/// The reason why a tensor cannot be read, generated or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The file of a tensor cannot be read or written.
    #[error(transparent)]
    File(#[from] OnnxError),
    /// Two files have the name of the same tensor.
    #[error("`{}` and `{}` are both for {role} `{name}`", first.display(), second.display())]
    SameTensor {
        /// The first file.
        first: PathBuf,
        /// The second file.
        second: PathBuf,
        /// The role of the tensor.
        role: Role,
        /// The tensor's name.
        name: String,
    },
    /// There are more files than tensors.
    #[error("`{}` is for no {role}: there are {expected}", file.display())]
    TooManyFiles {
        /// The file without a tensor.
        file: PathBuf,
        /// The role of the tensors.
        role: Role,
        /// The tensors, or `none`.
        expected: String,
    },
    /// A file has another element type or shape than its input.
    #[error("`{}` for input `{input}`: {property}: expected {expected}, found {found}", file.display())]
    Mismatch {
        /// The file.
        file: PathBuf,
        /// The input's name.
        input: String,
        /// `element type` or `shape`.
        property: &'static str,
        /// The input's element type or shape.
        expected: String,
        /// The file's.
        found: String,
    },
    /// There are more texts with values than inputs.
    #[error("expected values for the inputs {inputs}, {count} in number, found values for {given}")]
    TooManyValues {
        /// The number of inputs.
        count: usize,
        /// The inputs.
        inputs: String,
        /// The number of texts.
        given: usize,
    },
    /// A text has more or fewer values than its input has elements.
    #[error("input {input} has shape {shape:?}: the number of values is {found}, expected {expected}")]
    ValueCount {
        /// The input's index.
        input: usize,
        /// The input's shape.
        shape: Vec<i64>,
        /// The number of elements, or `too many`.
        expected: String,
        /// The number of values.
        found: usize,
    },
    /// A value is not an element of its input's type.
    #[error("input {input}: `{text}` is not a number that a {dtype} can hold")]
    Value {
        /// The input's index.
        input: usize,
        /// The value.
        text: String,
        /// The input's element type.
        dtype: String,
    },
    /// No source has the values of these inputs.
    #[error("no values for {inputs}")]
    MissingInputs {
        /// The inputs.
        inputs: String,
    },
    /// An input has a dynamic shape, an element type of unknown size, or too many elements.
    #[error("input `{input}` has no size: {dtype} {shape:?}")]
    NoSize {
        /// The input's name.
        input: String,
        /// The input's element type.
        dtype: String,
        /// The input's shape.
        shape: Vec<i64>,
    },
    /// No values can be generated for the element type.
    #[error("input `{input}`: no values can be made up for {dtype}")]
    NotGenerated {
        /// The input's name.
        input: String,
        /// The input's element type.
        dtype: String,
    },
    /// There is not enough memory for an input.
    #[error("no memory for an input of {bytes}", bytes = counted(*.bytes, "byte"))]
    OutOfMemory {
        /// The size of the input.
        bytes: usize,
        /// The error of the allocation.
        source: TryReserveError,
    },
    /// The seed of random values is not a number.
    #[error("the seed `{seed}` is not a whole number")]
    Seed {
        /// The text in place of the seed.
        seed: String,
    },
    /// A text is not a [`Fill`](crate::Fill).
    #[error("expected `ramp` or `random:SEED`")]
    Fill,
    /// The directory of the outputs cannot be created.
    #[error("cannot create the directory `{}`", dir.display())]
    CreateDir {
        /// The directory.
        dir: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}
