//! Python exceptions for errors, with the same texts.

use opkeep_embed::{CacheError, EmbedError, PublishError};
use opkeep_store::StoreError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Returns the exception `class` of `opkeep.errors`.
pub(crate) fn exception(py: Python<'_>, class: &str, text: &str) -> PyErr {
    exception_with_help(py, class, text, &[])
}

/// Returns the exception `class` of `opkeep.errors`, with what to do about it.
pub(crate) fn exception_with_help(py: Python<'_>, class: &str, text: &str, help: &[&str]) -> PyErr {
    let create = || {
        let named = PyDict::new(py);
        named.set_item("help", help)?;
        py.import("opkeep.errors")?.getattr(class)?.call((text,), Some(&named))
    };
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
        | EmbedError::NoObject
        | EmbedError::MissingFile { .. } => "InvalidFilesError",
        EmbedError::TextTooLong { .. } | EmbedError::TooManyParts { .. } => "ArgumentValueError",
        EmbedError::TooLarge { .. } => "TooLargeError",
        EmbedError::Invalid { .. } => "InvalidKernelError",
        EmbedError::Forked { .. } => "ForkedTicketError",
        EmbedError::TicketEnded => "TicketEndedError",
        EmbedError::Cache(CacheError::TargetName { .. }) => "InvalidNameError",
        EmbedError::Cache(CacheError::NotCached { .. }) => "NotCachedError",
        EmbedError::Publish(PublishError::Found(_)) => "Error",
        EmbedError::Reopen { .. } | EmbedError::Cache(_) | EmbedError::Publish(_) => "StoreError",
        _ => "Error",
    };
    exception_with_help(py, class, &error.to_string(), help_with(error))
}

/// Returns what to do about an error, in terms of the Python package.
fn help_with(error: &EmbedError) -> &'static [&'static str] {
    match error {
        EmbedError::Cache(CacheError::Store { source, .. })
        | EmbedError::Publish(PublishError::Store(source)) => match source {
            StoreError::NoStore { .. } => {
                &["mode=\"enable\" creates the store", "root=... chooses another store"]
            }
            StoreError::Untrusted { owner: Some(_), .. } => &["trusted_owners=[UID] trusts that user"],
            _ => &["root=... chooses another store"],
        },
        EmbedError::Cache(CacheError::NotCached { .. }) => {
            &["mode=\"enable\" lets the caller make the files, and keeps them"]
        }
        EmbedError::Forked { .. } => &["call get_or_begin in the child"],
        EmbedError::TicketEnded => &["call get_or_begin for another ticket"],
        EmbedError::TooManyFiles { .. } => &[
            "publish fewer files: what no later call needs can be left out, and several files can be one archive",
        ],
        EmbedError::TooLarge { .. } => {
            &["leave out what no later call needs; what is larger has to be kept elsewhere"]
        }
        EmbedError::EmptyFile { .. } => &["leave the file out"],
        EmbedError::Invalid { .. } => &["abandon the ticket, or publish valid files with it"],
        _ => &[],
    }
}

/// Returns the exception for an argument that has the wrong type.
pub(crate) fn argument_error(argument: &str, expected: &str, found: &Bound<'_, PyAny>) -> PyErr {
    argument_error_with_help(argument, expected, found, &[])
}

/// Returns the exception for an argument that has the wrong type, with what to do about it.
pub(crate) fn argument_error_with_help(
    argument: &str,
    expected: &str,
    found: &Bound<'_, PyAny>,
    help: &[&str],
) -> PyErr {
    let kind = found.get_type().name().map_or_else(|_| "an object".to_owned(), |name| format!("`{name}`"));
    let text = format!("{argument}: expected {expected}, found {kind}");
    exception_with_help(found.py(), "ArgumentError", &text, help)
}

/// Returns the exception for an error in opkeep itself.
pub(crate) fn internal_error(py: Python<'_>, text: &str) -> PyErr {
    exception(py, "InternalError", &format!("an error in opkeep, please report it: {text}"))
}
