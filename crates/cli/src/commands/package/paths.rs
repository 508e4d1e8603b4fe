//! Paths in results.

use std::path::{Path, PathBuf};

/// The path of a package, or of one of its files, in the directory that the user named.
pub(super) fn path_in(dir: &Path, inner: &Path) -> PathBuf {
    if inner.as_os_str().is_empty() { dir.to_owned() } else { dir.join(inner) }
}
