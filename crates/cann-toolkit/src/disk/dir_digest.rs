//! The content of a directory as one digest: names below it, and what the files hold.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use opkeep_digest::FileDigests;
use opkeep_digest::{Digest, Fingerprint, Hasher};
use opkeep_fs::Fs;
use opkeep_text::counted;

use crate::disk::tree;
use crate::error::ToolkitError;

/// The digest of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirDigest {
    /// The digest of names and contents.
    pub digest: Digest,
    /// The number of files.
    pub files: usize,
}

impl DirDigest {
    /// Adds the digest to `fingerprint`, as the part `name`.
    pub fn add_to(self, name: impl Into<String>, fingerprint: &mut Fingerprint) {
        let note = format!("{}, {:.12}", counted(self.files, "file"), self.digest.to_string());
        fingerprint.add(name, self.digest, note);
    }
}

/// Digests all files below `dir`, except those that `counts` leaves out by their path from there, and what using the
/// toolkit leaves behind. None if there is no such directory.
pub fn digest(
    dir: &Path,
    counts: impl Fn(&Path) -> bool,
    files: &dyn FileDigests,
) -> Result<Option<DirDigest>, ToolkitError> {
    let Some(paths) = tree::files_below(dir, |name, is_dir| !is_residue(name, is_dir))? else {
        return Ok(None);
    };
    let sources: HashSet<PathBuf> = paths.iter().filter(|path| has_ending(path, "py")).cloned().collect();
    // Beside its source, bytecode is never read; without one it is what is imported.
    let is_bytecode = |path: &Path| has_ending(path, "pyc") && sources.contains(&path.with_extension("py"));
    let paths: Vec<_> = paths.into_iter().filter(|path| counts(path) && !is_bytecode(path)).collect();
    let mut hasher = Hasher::new("folder");
    hasher.list(paths.len());
    for path in &paths {
        let file = dir.join(path);
        hasher.bytes(path.as_os_str().as_bytes());
        hasher.digest(&files.digest(&file).map_err(|source| ToolkitError::io("read", &file, source))?);
    }
    Ok(Some(DirDigest { digest: hasher.finish(), files: paths.len() }))
}

/// Whether a file is none of those that a directory's digest has: what using the toolkit leaves behind, or bytecode
/// beside its source.
pub fn is_left_out(path: &Path) -> bool {
    let is_dir = |name: &OsStr| is_residue(name, true);
    let is_bytecode = has_ending(path, "pyc") && Fs::new().is_file(&path.with_extension("py"));
    is_bytecode
        || path.file_name().is_some_and(|name| is_residue(name, false))
        || path.parent().into_iter().flat_map(Path::iter).any(is_dir)
}

/// Whether Python, locks or network file systems left the file behind.
fn is_residue(name: &OsStr, is_dir: bool) -> bool {
    let name = name.as_bytes();
    if is_dir {
        return name == b"__pycache__";
    }
    [b".pyo".as_slice(), b".lock"].iter().any(|ending| name.ends_with(ending)) || name.starts_with(b".nfs")
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found == ending)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn residue_is_distinguished_from_content() {
        for (name, is_dir) in [("__pycache__", true), ("a.pyo", false), ("kernel_meta.lock", false)] {
            assert!(is_residue(OsStr::new(name), is_dir), "{name}");
        }
        for (name, is_dir) in
            [("square.py", false), ("lock.py", false), ("a.pyc", false), ("__pycache__", false)]
        {
            assert!(!is_residue(OsStr::new(name), is_dir), "{name}");
        }
    }

    /// Bytecode beside its source is never read; without a source it is imported.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test writes files")]
    fn bytecode_without_a_source_is_a_source() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let now = || digest(dir.path(), |_| true, &opkeep_testkit::PlainDigests::default()).unwrap().unwrap();
        write("a.py", "1");
        let before = now();
        write("a.pyc", "x");
        write("__pycache__/a.cpython-311.pyc", "x");
        assert_eq!(now(), before);
        write("b.pyc", "x");
        let with_legacy = now();
        assert_eq!(with_legacy.files, before.files + 1);
        write("b.pyc", "y");
        assert_ne!(now(), with_legacy);
    }
}
