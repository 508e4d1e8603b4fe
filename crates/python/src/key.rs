//! The caller's key.

use opkeep_digest::Digest;
use opkeep_embed::FileKey;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::error::{argument_error, exception};

/// Returns the key of 32 bytes or of 64 hexadecimal digits.
pub(crate) fn file_key(key: &Bound<'_, PyAny>) -> PyResult<FileKey> {
    let invalid = |found: String| {
        let text = format!("a key has 32 bytes, or 64 hexadecimal digits; found {found}");
        exception(key.py(), "InvalidKeyError", &text)
    };
    let bytes = if let Ok(bytes) = key.cast::<PyBytes>() {
        let bytes = bytes.as_bytes();
        bytes.try_into().map_err(|_| invalid(format!("{} bytes", bytes.len())))?
    } else if let Ok(text) = key.cast::<PyString>() {
        // A text that is not valid Unicode is no key either.
        let text = text.to_string_lossy();
        let digest: Digest =
            text.to_ascii_lowercase().parse().map_err(|_| invalid(format!("the text {text:.80?}")))?;
        *digest.as_bytes()
    } else {
        return Err(argument_error("key", "32 bytes, or 64 hexadecimal digits", key));
    };
    Ok(FileKey::new(bytes))
}
