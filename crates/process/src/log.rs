//! The log of a failed compile.

use std::path::{Path, PathBuf};

use opkeep_fs::Fs;

/// The size from which a file is removed when a log needs space.
const SMALL: u64 = 256 * 1024;

/// Writes the output of a failed compile to `path`, and returns `path` if that succeeded: an error here must not hide
/// the compile's own. On a full disk, the compile's directories and large files beside the log are removed first.
pub fn keep_log(path: &Path, output: &str) -> Option<PathBuf> {
    let keep = || Fs::new().write(path, output.as_bytes()).is_ok();
    if !keep() {
        free_space(path.parent()?);
        keep().then_some(())?;
    }
    Some(path.to_owned())
}

fn free_space(dir: &Path) {
    let fs = Fs::new();
    for (name, _) in fs.list(dir).unwrap_or_default() {
        let path = dir.join(name);
        let is_small = fs.look(&path).is_ok_and(|found| found.is_file() && found.state.len < SMALL);
        if !is_small {
            let _ = fs.remove(&path).or_else(|_| fs.remove_tree(&path));
        }
    }
}
