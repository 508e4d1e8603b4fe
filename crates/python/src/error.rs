//! Python exceptions for errors, with the same texts.

use opkeep_embed::{CacheError, EmbedError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Returns the exception `class` of `opkeep.errors`.
pub(crate) fn exception(py: Python<'_>, class: &str, text: &str) -> PyErr {
    let create = || py.import("opkeep.errors")?.getattr(class)?.call1((text,));
    match create() {
        Ok(exception) => PyErr::from_value(exception),
        // The interpreter is ending, or the package is damaged.
        Err(error) => {
            let fallback = PyRuntimeError::new_err(text.to_owned());
            fallback.set_cause(py, Some(error));
            fallback
        }
    }
}

/// Returns the exception for an error of the cache.
pub(crate) fn python_error(py: Python<'_>, error: &EmbedError) -> PyErr {
    let class = match error {
        EmbedError::FrameworkName { .. } | EmbedError::FileName { .. } => "InvalidNameError",
        EmbedError::NoFiles
        | EmbedError::TooManyFiles { .. }
        | EmbedError::RepeatedName { .. }
        | EmbedError::EmptyFile { .. }
        | EmbedError::MissingFile { .. } => "InvalidFilesError",
        EmbedError::TooLarge { .. } => "TooLargeError",
        EmbedError::Invalid { .. } => "InvalidKernelError",
        EmbedError::Forked { .. } => "ForkedTicketError",
        EmbedError::TicketEnded => "TicketEndedError",
        EmbedError::Cache(CacheError::TargetName { .. }) => "InvalidNameError",
        EmbedError::Cache(CacheError::NotCached { .. }) => "NotCachedError",
        EmbedError::Reopen { .. } | EmbedError::Cache(_) | EmbedError::Publish(_) => "StoreError",
        _ => "Error",
    };
    exception(py, class, &error.to_string())
}

/// Returns the exception for an argument that has the wrong type.
pub(crate) fn argument_error(argument: &str, expected: &str, found: &Bound<'_, PyAny>) -> PyErr {
    let kind = found.get_type().name().map_or_else(|_| "an object".to_owned(), |name| format!("`{name}`"));
    exception(found.py(), "ArgumentError", &format!("{argument}: expected {expected}, found {kind}"))
}

/// Returns the exception for an error in opkeep itself.
pub(crate) fn internal_error(py: Python<'_>, text: &str) -> PyErr {
    exception(py, "InternalError", &format!("an error in opkeep, please report it: {text}"))
}
