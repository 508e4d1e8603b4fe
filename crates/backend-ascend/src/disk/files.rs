//! Files as the vendor and its compiler leave them, with errors that name them.

use std::path::Path;

use opkeep_fs::Fs;

use crate::error::AscendError;

/// No file that this crate reads is longer: operator information has a few megabytes.
const MAX_FILE: u64 = 256 << 20;

/// All bytes of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, AscendError> {
    Fs::new().read(path, MAX_FILE).map_err(|source| AscendError::io("read", path, source))
}

/// A file as text; bytes that are no UTF-8 are replaced, since comments may be in any encoding.
pub(crate) fn read_text(path: &Path) -> Result<String, AscendError> {
    Fs::new().read_text(path, MAX_FILE).map_err(|source| AscendError::io("read", path, source))
}

/// Writes a file.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), AscendError> {
    Fs::new().write(path, bytes).map_err(|source| AscendError::io("write", path, source))
}

/// Makes a directory that is not there yet.
pub(crate) fn create_dir(path: &Path) -> Result<(), AscendError> {
    Fs::new().create_dir(path, 0o777).map_err(|source| AscendError::io("create", path, source))
}
