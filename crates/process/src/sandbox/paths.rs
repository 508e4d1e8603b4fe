//! Paths as an observation records them.

use std::io;
use std::path::{Path, PathBuf};

use opkeep_digest::Digest;
use opkeep_fs::Fs;

/// A path without links; if it is missing, its parent without links.
pub(super) fn resolved(path: &Path) -> PathBuf {
    let real = |path| Fs::new().real_path(path);
    if let Ok(real) = real(path) {
        return real;
    }
    match (path.parent().map(real), path.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    }
}

/// A name without links on the way to it. The name itself may be that of a link.
pub(super) fn named(path: &Path) -> PathBuf {
    match (path.parent().map(|parent| Fs::new().real_path(parent)), path.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    }
}

/// The text of a file in the work directory; `None` if it is larger than texts that people and their tools write.
pub(super) fn own_text(path: &Path) -> Option<Vec<u8>> {
    const MAX_TEXT: u64 = 4 << 20;
    Fs::new().read(path, MAX_TEXT).ok()
}

/// The digest of a file's content.
pub(super) fn digest(path: &Path) -> io::Result<Digest> {
    Digest::of_reader(Fs::new().open(path)?)
}
