//! The registry's entry for the backend in `tiny.rs`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use opkeep::{BackendEntry, BackendError};

use super::tiny::Tiny;

pub(crate) fn entry() -> BackendEntry {
    let serves = |target: &str| target == "tiny";
    BackendEntry::new("tiny", "three operators, by cc", "tiny", serves, |_| Ok(Arc::new(Tiny(programs()?))))
}

/// The compiler and the programs that it runs.
fn programs() -> Result<Vec<PathBuf>, BackendError> {
    let script = "command -v cc && cc -print-prog-name=cc1 && cc -print-prog-name=as && command -v as";
    let output = Command::new("sh").args(["-c", script]).output();
    let missing = || BackendError::toolchain("there is no cc", "install a C compiler and binutils");
    let found = output.ok().filter(|output| output.status.success()).ok_or_else(missing)?;
    let text = String::from_utf8_lossy(&found.stdout);
    // clang has no separate cc1, and gcc prints `as` if the assembler is to be searched in PATH.
    Ok(text.lines().map(PathBuf::from).filter(|path| path.is_absolute()).collect())
}
