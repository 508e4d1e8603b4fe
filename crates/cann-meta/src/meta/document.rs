//! The text of a `.json`, and its members.

use crate::json::raw::Members;
use crate::meta::error::MetaError;

/// The largest `.json` that is read. Genuine ones, with hundreds of kernels, stay below 1 MiB.
///
/// The parsed form takes at most 96 bytes of memory for each byte of the file; a list of kernels is the worst case.
pub const MAX_BYTES: usize = 4 << 20;

/// The UTF-8 byte order mark. Both vendors' parsers skip it.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A JSON text, and its members if it is an object.
pub(crate) type Document<'a> = (&'a str, Option<Members<'a>>);

pub(crate) fn document(bytes: &[u8]) -> Result<Document<'_>, MetaError> {
    if bytes.len() > MAX_BYTES {
        return Err(MetaError::TooLarge { bytes: bytes.len(), limit: MAX_BYTES });
    }
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let raw = std::str::from_utf8(bytes).map_err(|error| not_utf8(bytes, error.valid_up_to()))?;
    let invalid = |error: serde_json::Error| MetaError::Json {
        bytes: bytes.len(),
        line: error.line(),
        column: error.column(),
        problem: match error.is_eof() {
            true => format!("{error}; the writer was probably interrupted"),
            false => error.to_string(),
        },
    };
    if raw.trim_start_matches([' ', '\t', '\n', '\r']).starts_with('{') {
        return Ok((raw, Some(Members::read(raw).map_err(invalid)?)));
    }
    let _: &serde_json::value::RawValue = serde_json::from_str(raw).map_err(invalid)?;
    Ok((raw, None))
}

fn not_utf8(bytes: &[u8], at: usize) -> MetaError {
    let before = bytes.get(..at).unwrap_or_default();
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    MetaError::Json {
        bytes: bytes.len(),
        line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
        column: 1 + at - line_start,
        problem: "not UTF-8".to_owned(),
    }
}
