//! The content of directories.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use opkeep_digest::Digest;
use opkeep_fs::{FileKind, Fs};
use opkeep_text::counted;

/// A digest of the sorted names in a directory, each with whether it is a file, a directory or a link.
pub(super) fn names(path: &Path) -> io::Result<Digest> {
    list(path).map(|names| digest_of_names(&names))
}

/// The sorted names in a directory.
pub(super) fn list(path: &Path) -> io::Result<Vec<(OsString, FileKind)>> {
    let mut names = Fs::new().list(path)?;
    opkeep_order::sort(&mut names);
    Ok(names)
}

/// A digest of sorted names.
pub(super) fn digest_of_names(names: &[(OsString, FileKind)]) -> Digest {
    let mut bytes = Vec::new();
    for (name, kind) in names {
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend([
            0,
            match kind {
                FileKind::Dir => b'd',
                FileKind::Link => b'l',
                FileKind::File => b'f',
                FileKind::Other => b'-',
            },
        ]);
    }
    Digest::of(&bytes)
}

/// All files below the directory `path`, and all directories including itself, each list sorted by name. Links to
/// directories are not followed.
pub(super) fn all_below(path: &Path, at_most: usize) -> io::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let fs = Fs::new();
    let (mut found, mut directories) = (Vec::new(), vec![path.to_owned()]);
    let mut next = 0;
    while let Some(directory) = directories.get(next).cloned() {
        next += 1;
        for (name, kind) in fs.list(&directory)? {
            let path = directory.join(name);
            if kind == FileKind::Dir {
                directories.push(path);
            } else if fs.metadata(&path).is_ok_and(|found| !found.is_dir()) {
                found.push(path);
            }
            if found.len() + directories.len() > at_most {
                return Err(io::Error::other(format!(
                    "there are more than {at_most} below it",
                    at_most = counted(at_most, "file")
                )));
            }
        }
    }
    opkeep_order::sort(&mut found);
    opkeep_order::sort(&mut directories);
    Ok((found, directories))
}
