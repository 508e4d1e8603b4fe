//! The inputs of a network or an operator, and files that belong to inputs or outputs.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use opkeep_backend::Buffer;
use opkeep_onnx::{Tensor, ValueInfo, read_tensor};

use crate::element::{bytes_of, parse, size};
use crate::error::{Role, TensorError};
use crate::random::Random;

/// The sources of the values of inputs, by falling precedence: texts, files, generated values.
#[derive(Clone, Copy, Debug, Default)]
pub struct InputSources<'a> {
    /// Files of one tensor: a `TensorProto` or a NumPy array. They are assigned as by [`assign_files`].
    pub files: &'a [PathBuf],
    /// Texts of elements, row by row, separated by commas: the first for the first input, and so on.
    pub values: &'a [String],
    /// The values of all other inputs.
    pub fill: Option<Fill>,
}

/// Generated values of an input with n elements.
///
/// ```
/// # use opkeep_tensors::Fill;
/// assert_eq!("random:7".parse::<Fill>().ok(), Some(Fill::Random { seed: 7 }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Element i is i/n; of integers and bools, 0 and 1 in turn.
    Ramp,
    /// Normally distributed with mean 0 and variance 1; of integers and bools, 0 or 1. The values depend on the seed and
    /// on the index of the input only.
    Random {
        /// The seed.
        seed: u64,
    },
}

impl FromStr for Fill {
    type Err = TensorError;

    /// Parses `ramp` or `random:SEED`.
    fn from_str(text: &str) -> Result<Self, TensorError> {
        match text.split_once(':') {
            None if text == "ramp" => Ok(Self::Ramp),
            Some(("random", seed)) => {
                let parsed = seed.parse().map_err(|_| TensorError::Seed { seed: seed.to_owned() });
                parsed.map(|seed| Self::Random { seed })
            }
            _ => Err(TensorError::Fill),
        }
    }
}

/// Returns the elements of every input in `expected`, in the same order.
///
/// # Errors
/// A file cannot be read or is for no input; a file or a text does not have the input's element type or shape; an input has
/// no source, or is too large.
pub fn input_buffers(expected: &[ValueInfo], sources: &InputSources<'_>) -> Result<Vec<Buffer>, TensorError> {
    let mut inputs: Vec<Option<Buffer>> = expected.iter().map(|_| None).collect();
    for AssignedFile { file, index, tensor } in assign_files(sources.files, expected, Role::Input)? {
        check(file, &tensor, &expected[index])?;
        inputs[index] = Some(buffer(&tensor.bytes)?);
    }
    if sources.values.len() > expected.len() {
        let (count, given) = (expected.len(), sources.values.len());
        return Err(TensorError::TooManyValues { count, inputs: list(expected), given });
    }
    for (index, text) in sources.values.iter().enumerate() {
        inputs[index] = Some(parsed(index, &expected[index], text)?);
    }
    let mut missing = Vec::new();
    for (index, (input, info)) in inputs.iter_mut().zip(expected).enumerate() {
        match sources.fill {
            _ if input.is_some() => {}
            Some(fill) => *input = Some(generated(info, fill, index)?),
            None => missing.push(info),
        }
    }
    if !missing.is_empty() {
        return Err(TensorError::MissingInputs { inputs: list(missing) });
    }
    Ok(inputs.into_iter().flatten().collect())
}

fn check(file: &Path, tensor: &Tensor, input: &ValueInfo) -> Result<(), TensorError> {
    let (property, expected, found) = if tensor.dtype != input.dtype {
        ("element type", input.dtype.clone(), tensor.dtype.clone())
    } else if tensor.shape != input.shape {
        ("shape", format!("{:?}", input.shape), format!("{:?}", tensor.shape))
    } else {
        return Ok(());
    };
    let (file, input) = (file.to_owned(), input.name.clone());
    Err(TensorError::Mismatch { file, input, property, expected, found })
}

/// Returns a text with the name, the element type and the shape of each tensor.
fn list<'a>(infos: impl IntoIterator<Item = &'a ValueInfo>) -> String {
    let one = |info: &ValueInfo| format!("`{}` ({} {:?})", info.name, info.dtype, info.shape);
    infos.into_iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A file with its tensor, and the tensor of the model to which it belongs.
#[derive(Clone, Debug)]
pub struct AssignedFile<'a> {
    /// The path of the file.
    pub file: &'a Path,
    /// The index of the input or output.
    pub index: usize,
    /// The content of the file.
    pub tensor: Tensor,
}

/// Reads files of one tensor, and assigns each to one of the inputs or outputs `expected`: by the name in the file. Files
/// without such a name are for the remaining ones, in order. Element types and shapes are not compared.
///
/// # Errors
/// A file cannot be read, two files are for the same tensor, or there are more files than tensors.
pub fn assign_files<'a>(
    files: &'a [PathBuf],
    expected: &[ValueInfo],
    role: Role,
) -> Result<Vec<AssignedFile<'a>>, TensorError> {
    let mut taken: Vec<Option<&Path>> = vec![None; expected.len()];
    let (mut assigned, mut nameless) = (Vec::new(), Vec::new());
    for file in files {
        let tensor = read_tensor(file)?;
        let named = expected.iter().position(|info| !tensor.name.is_empty() && info.name == tensor.name);
        let Some(index) = named else {
            nameless.push((file, tensor));
            continue;
        };
        if let Some(first) = taken[index].replace(file) {
            let (first, second) = (first.to_owned(), file.clone());
            return Err(TensorError::SameTensor { first, second, role, name: tensor.name });
        }
        assigned.push(AssignedFile { file, index, tensor });
    }
    for (file, tensor) in nameless {
        let Some(index) = taken.iter().position(Option::is_none) else {
            let expected = if expected.is_empty() { "none".to_owned() } else { list(expected) };
            return Err(TensorError::TooManyFiles { file: file.clone(), role, expected });
        };
        taken[index] = Some(file);
        assigned.push(AssignedFile { file, index, tensor });
    }
    Ok(assigned)
}

fn buffer(bytes: &[u8]) -> Result<Buffer, TensorError> {
    let mut buffer = zeroed(bytes.len())?;
    buffer.bytes_mut().copy_from_slice(bytes);
    Ok(buffer)
}

fn zeroed(bytes: usize) -> Result<Buffer, TensorError> {
    Buffer::try_zeroed(bytes).map_err(|source| TensorError::OutOfMemory { bytes, source })
}

/// Parses the elements of input number `index`.
fn parsed(index: usize, info: &ValueInfo, text: &str) -> Result<Buffer, TensorError> {
    let words: Vec<&str> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    let count = size(&info.dtype, &info.shape).map(|(count, _)| count);
    if count != Some(words.len()) {
        return Err(TensorError::ValueCount {
            input: index,
            shape: info.shape.clone(),
            expected: count.map_or("too many".to_owned(), |count| count.to_string()),
            found: words.len(),
        });
    }
    let mut bytes = Vec::new();
    for word in words {
        let invalid =
            || TensorError::Value { input: index, text: word.to_owned(), dtype: info.dtype.clone() };
        bytes.extend(parse(&info.dtype, word).ok_or_else(invalid)?);
    }
    buffer(&bytes)
}

/// Generates the elements of input number `index`.
fn generated(info: &ValueInfo, fill: Fill, index: usize) -> Result<Buffer, TensorError> {
    let ValueInfo { name, dtype, shape } = info;
    let no_size = || TensorError::NoSize { input: name.clone(), dtype: dtype.clone(), shape: shape.clone() };
    let (count, bytes) = size(dtype, shape).ok_or_else(no_size)?;
    let is_float = dtype.starts_with("float");
    let mut random = match fill {
        Fill::Ramp => None,
        // The index is part of the seed, so that two inputs differ.
        Fill::Random { seed } => Some(Random::new(seed, index)),
    };
    let mut value = |at: usize| match (&mut random, is_float) {
        (None, true) => at as f64 / count as f64,
        (None, false) => (at % 2) as f64,
        (Some(random), true) => random.normal(),
        (Some(random), false) => (random.next() >> 63) as f64,
    };
    let mut buffer = zeroed(bytes)?;
    if count == 0 {
        return Ok(buffer);
    }
    let unsupported = || TensorError::NotGenerated { input: name.clone(), dtype: dtype.clone() };
    for (at, element) in buffer.bytes_mut().chunks_exact_mut(bytes / count).enumerate() {
        element.copy_from_slice(&bytes_of(dtype, value(at)).ok_or_else(unsupported)?);
    }
    Ok(buffer)
}

#[cfg(test)]
mod tests;
