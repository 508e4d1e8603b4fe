//! The files of one compile, in its work directory.

use std::io;
use std::path::Path;

use opkeep_backend::BackendError;
use opkeep_fs::Fs;

/// No kernel is longer: a compiler that made one went wrong.
const MAX_OBJECT: u64 = 1 << 30;

/// Writes the source that is to be compiled.
pub(crate) fn write_source(dir: &Path, text: &str) -> Result<(), BackendError> {
    let path = dir.join("kernel.c");
    let written = Fs::new().write(&path, text.as_bytes());
    written.map_err(|source| BackendError::Io { action: "write", path, source })
}

/// Reads what a compiler made, whatever that is: nothing is waited for, and no memory taken for what cannot be a kernel.
pub(crate) fn read_made(dir: &Path, name: &str) -> io::Result<Vec<u8>> {
    Fs::new().read(&dir.join(name), MAX_OBJECT)
}
