//! Paths of programs, and whether they are scripts.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use opkeep_fs::Fs;

/// The program `name` as a shell would find it: a path as it stands, else the first executable in `path`.
pub(super) fn find_program(name: &OsStr, path: &OsStr) -> Option<PathBuf> {
    // Programs run in other directories than ours.
    let absolute = |found: PathBuf| std::path::absolute(&found).unwrap_or(found);
    let direct = Path::new(name);
    if direct.components().count() > 1 {
        return Fs::new().is_program(direct).then(|| absolute(direct.to_owned()));
    }
    let mut candidates = std::env::split_paths(path).map(|dir| dir.join(name));
    candidates.find(|candidate| Fs::new().is_program(candidate)).map(absolute)
}

/// Whether a program is machine code, not a script.
pub(super) fn is_elf(path: &Path) -> bool {
    Fs::new().starts_with(path, b"\x7fELF")
}
