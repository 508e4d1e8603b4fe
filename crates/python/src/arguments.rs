//! The arguments of calls. Their errors name the argument, what was expected, and what was found.

use std::time::Duration;

use opkeep_digest::{Digest, Fingerprint};
use opkeep_text::counted;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyString};

use crate::error::{argument_error, exception};

/// Returns a text.
pub(crate) fn text(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = value.cast::<PyString>().map_err(|_| argument_error(argument, "a text", value))?;
    match text.to_cow() {
        Ok(text) => Ok(text.into_owned()),
        Err(_) => {
            let found = text.to_string_lossy();
            let problem = format!("{argument}: expected a text that is valid Unicode, found {found:.80?}");
            Err(exception(value.py(), "InvalidNameError", &problem))
        }
    }
}

/// Returns a text, or None.
pub(crate) fn optional_text(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if value.is_none() { Ok(None) } else { text(argument, value).map(Some) }
}

pub(crate) fn flag(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let flag = value.cast::<PyBool>().map_err(|_| argument_error(argument, "True or False", value))?;
    Ok(flag.is_true())
}

/// Returns a duration in seconds.
pub(crate) fn seconds(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let seconds: f64 = value.extract().map_err(|_| argument_error(argument, "a number of seconds", value))?;
    // A time that no duration can state is the longest.
    if seconds >= 1e15 {
        return Ok(Duration::MAX);
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        let problem = format!("{argument}: expected 0 seconds or more, found {seconds}");
        exception(value.py(), "ArgumentValueError", &problem)
    })
}

/// Returns a duration in seconds, or None.
pub(crate) fn optional_seconds(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    if value.is_none() { Ok(None) } else { seconds(argument, value).map(Some) }
}

/// Returns the IDs of users.
pub(crate) fn user_ids(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    let expected = "IDs of users";
    let ids = value.try_iter().map_err(|_| argument_error(argument, expected, value))?;
    ids.map(|id| {
        let id = id?;
        let number: i128 = id.extract().map_err(|_| argument_error(argument, expected, &id))?;
        u32::try_from(number).map_err(|_| {
            let problem = format!("{argument}: expected {expected}, found {number}");
            exception(value.py(), "ArgumentValueError", &problem)
        })
    })
    .collect()
}

/// Returns the compilers: names, digests of 32 bytes, and notes.
pub(crate) fn toolchain(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<Fingerprint> {
    let expected = "tuples of a name, a digest of 32 bytes and a note";
    let parts = value.try_iter().map_err(|_| argument_error(argument, expected, value))?;
    let mut toolchain = Fingerprint::new();
    for part in parts {
        let part = part?;
        let (name, digest, note): (Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>) =
            part.extract().map_err(|_| argument_error(argument, expected, &part))?;
        let bytes = digest.cast::<PyBytes>().map_err(|_| argument_error(argument, expected, &digest))?;
        let bytes: [u8; Digest::LEN] = bytes.as_bytes().try_into().map_err(|_| {
            let problem = format!(
                "{argument}: expected {expected}, found one of {}",
                counted(bytes.as_bytes().len(), "byte")
            );
            exception(value.py(), "ArgumentValueError", &problem)
        })?;
        toolchain.add(text(argument, &name)?, Digest::from_bytes(bytes), text(argument, &note)?);
    }
    // Computed now, so that the keys which are derived from it share the result.
    toolchain.digest();
    Ok(toolchain)
}
