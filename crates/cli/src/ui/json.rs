//! Values of JSON results.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// Returns a path as text, with bytes that are not UTF-8 replaced.
pub(crate) fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Serializes a value as its `Display` text.
pub(crate) fn as_text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// A duration, serialized as a number of milliseconds, rounded to the nanosecond.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Milliseconds(pub(crate) Duration);

impl Milliseconds {
    pub(crate) fn number(self) -> f64 {
        (self.0.as_secs_f64() * 1e6).round() / 1e3
    }
}

impl Serialize for Milliseconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.number())
    }
}

/// A number, serialized as a text if it is infinite or NaN, which JSON does not have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number(pub(crate) f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            value if value.is_nan() => serializer.serialize_str("NaN"),
            f64::INFINITY => serializer.serialize_str("inf"),
            f64::NEG_INFINITY => serializer.serialize_str("-inf"),
            value => serializer.serialize_f64(value),
        }
    }
}

/// A path that could not be read or processed, with the error.
#[derive(Debug, Serialize)]
pub(crate) struct FileError {
    pub(crate) file: String,
    pub(crate) error: String,
}

impl FileError {
    pub(crate) fn new(file: &Path, error: impl ToString) -> Self {
        Self { file: path(file), error: error.to_string() }
    }
}

/// A directory that could not be read or processed, with the error.
#[derive(Debug, Serialize)]
pub(crate) struct DirError {
    #[serde(rename = "folder")]
    pub(crate) dir: String,
    pub(crate) error: String,
}

pub(crate) fn dir_errors(errors: &[(impl AsRef<Path>, impl ToString)]) -> Vec<DirError> {
    errors.iter().map(|(dir, error)| DirError { dir: path(dir.as_ref()), error: error.to_string() }).collect()
}

/// An element of a list: a result or an error.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum OrError<T, E = FileError> {
    Done(T),
    Failed(E),
}
