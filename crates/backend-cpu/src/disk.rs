//! Every access to the disk: the only module of this crate that may touch `std::fs`.
#![expect(clippy::disallowed_methods, reason = "this is the crate's I/O module")]

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use opbuild_backend::BackendError;

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), BackendError> {
    std::fs::write(path, bytes).map_err(|source| BackendError::Io {
        action: "write",
        path: path.to_owned(),
        source,
    })
}

pub(crate) fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    std::fs::read(path)
}

/// The program `name` as a shell would find it: a path as it stands, else the first executable in `path`.
pub(crate) fn find_program(name: &OsStr, path: &OsStr) -> Option<PathBuf> {
    let is_program = |candidate: &Path| {
        let metadata = std::fs::metadata(candidate);
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    // Programs run in other folders than ours.
    let absolute = |found: PathBuf| std::path::absolute(&found).unwrap_or(found);
    let direct = Path::new(name);
    if direct.components().count() > 1 {
        return is_program(direct).then(|| absolute(direct.to_owned()));
    }
    let mut candidates = std::env::split_paths(path).map(|folder| folder.join(name));
    candidates.find(|candidate| is_program(candidate)).map(absolute)
}

/// Whether there is a file at `path`.
pub(crate) fn is_file(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
}
