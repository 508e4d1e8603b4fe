//! Files that may not be redistributed: `OPKEEP_CORPUS` names the directory that holds them.
//!
//! Without it, tests on them show as [`absent`], never as passed.
#![expect(clippy::disallowed_methods, reason = "a test may read its corpus, and where it is")]

use std::io;
use std::path::{Path, PathBuf};

use libtest_mimic::Trial;

/// The directory, if there is one.
pub fn directory() -> Option<PathBuf> {
    std::env::var_os("OPKEEP_CORPUS").map(PathBuf::from)
}

/// The stand-in for the tests called `name` if there is no corpus: an ignored test, which fails if it is run.
pub fn absent(name: impl Into<String>) -> Trial {
    Trial::test(name, || Err("OPKEEP_CORPUS is not set".into())).with_ignored_flag(true)
}

/// The files below `directory`, sorted.
///
/// # Errors
/// A directory that cannot be listed.
pub fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() { collect(&path, files)? } else { files.push(path) }
        }
        Ok(())
    }
    let mut files = Vec::new();
    collect(directory, &mut files)?;
    files.sort_unstable();
    Ok(files)
}

/// [`files`] with one of the extensions.
///
/// # Errors
/// A directory that cannot be listed.
pub fn files_ending(directory: &Path, extensions: &[&str]) -> io::Result<Vec<PathBuf>> {
    let mut files = files(directory)?;
    files.retain(|path| {
        extensions.iter().any(|extension| path.extension().is_some_and(|it| it == *extension))
    });
    Ok(files)
}
