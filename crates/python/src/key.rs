//! The caller's key.

use opkeep_digest::Digest;
use opkeep_embed::FileKey;
use opkeep_text::counted;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::error::{argument_error_with_help, exception};

/// Returns the key of 32 bytes or of 64 hexadecimal digits.
pub(crate) fn file_key(key: &Bound<'_, PyAny>) -> PyResult<FileKey> {
    let invalid = |found: String| {
        let text = format!("a key has 32 bytes, or 64 hexadecimal digits; found {found}");
        exception(key.py(), "InvalidKeyError", &text)
    };
    let bytes = if let Ok(bytes) = key.cast::<PyBytes>() {
        let bytes = bytes.as_bytes();
        bytes.try_into().map_err(|_| invalid(counted(bytes.len(), "byte")))?
    } else if let Ok(text) = key.cast::<PyString>() {
        // A text that is not valid Unicode is no key either.
        let text = text.to_string_lossy();
        let digest: Digest =
            text.to_ascii_lowercase().parse().map_err(|_| invalid(format!("the text {text:.80?}")))?;
        *digest.as_bytes()
    } else {
        let expected = "32 bytes, or 64 hexadecimal digits";
        let is_hash = key.hasattr("hexdigest").unwrap_or(false);
        let help: &[&str] = if is_hash { &["key=hash.digest() is the key of a hash"] } else { &[] };
        return Err(argument_error_with_help("key", expected, key, help));
    };
    Ok(FileKey::new(bytes))
}
