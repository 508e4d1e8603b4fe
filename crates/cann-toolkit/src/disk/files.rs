//! Files of a toolkit, with errors that name them.

use std::path::Path;

use opkeep_fs::Fs;

use crate::error::ToolkitError;

/// No file that this crate reads is longer: operator information has a few megabytes.
const MAX_FILE: u64 = 256 << 20;

/// All bytes of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, ToolkitError> {
    Fs::new().read(path, MAX_FILE).map_err(|source| ToolkitError::io("read", path, source))
}

/// A file as text; bytes that are no UTF-8 are replaced, since comments may be in any encoding.
pub(crate) fn read_text(path: &Path) -> Result<String, ToolkitError> {
    Fs::new().read_text(path, MAX_FILE).map_err(|source| ToolkitError::io("read", path, source))
}
