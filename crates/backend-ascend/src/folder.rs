//! The content of a folder as one digest: names below it, and what the files hold.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use opbuild_backend::FileDigests;
use opbuild_digest::{Digest, Fingerprint, Hasher};

use crate::{AscendError, disk};

/// The digest of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FolderDigest {
    pub(crate) digest: Digest,
    /// How many files there are.
    pub(crate) files: usize,
}

impl FolderDigest {
    pub(crate) fn add_to(self, name: impl Into<String>, fingerprint: &mut Fingerprint) {
        let note = format!("{} files, {:.12}", self.files, self.digest.to_string());
        fingerprint.add(name, self.digest, note);
    }
}

/// Digests all files below `folder`, except those that `counts` leaves out by their path from there, and what using the
/// toolkit leaves behind. None if there is no such folder.
pub(crate) fn digest(
    folder: &Path,
    counts: impl Fn(&Path) -> bool,
    files: &dyn FileDigests,
) -> Result<Option<FolderDigest>, AscendError> {
    let Some(paths) = disk::files_below(folder, |name, is_folder| !is_residue(name, is_folder))? else {
        return Ok(None);
    };
    let paths: Vec<_> = paths.into_iter().filter(|path| counts(path)).collect();
    let mut hasher = Hasher::new("folder");
    hasher.list(paths.len());
    for path in &paths {
        let file = folder.join(path);
        hasher.bytes(path.as_os_str().as_bytes());
        hasher.digest(&files.digest(&file).map_err(|source| AscendError::io("read", &file, source))?);
    }
    Ok(Some(FolderDigest { digest: hasher.finish(), files: paths.len() }))
}

/// What Python, locks and network file systems leave in a tree that is used.
fn is_residue(name: &OsStr, is_folder: bool) -> bool {
    let name = name.as_bytes();
    if is_folder {
        return name == b"__pycache__";
    }
    [b".pyc".as_slice(), b".pyo", b".lock"].iter().any(|ending| name.ends_with(ending))
        || name.starts_with(b".nfs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn residue_is_told_from_content() {
        for (name, is_folder) in
            [("__pycache__", true), ("a.cpython-311.pyc", false), ("kernel_meta.lock", false)]
        {
            assert!(is_residue(OsStr::new(name), is_folder), "{name}");
        }
        for (name, is_folder) in
            [("square.py", false), ("lock.py", false), ("a.pyc", true), ("__pycache__", false)]
        {
            assert!(!is_residue(OsStr::new(name), is_folder), "{name}");
        }
    }
}
