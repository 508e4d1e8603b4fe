//! Keeps the output of compiles that failed.

use std::path::{Path, PathBuf};

use opkeep_fs::Fs;

/// What is smaller stays when room is made for a log.
const SMALL: u64 = 256 * 1024;

/// Keeps the output of a compile that failed; where it is, unless it cannot be written, which must not hide the failure
/// itself. Where there is no room, what the compile left beside it is removed: directories, and files that are not small.
pub fn keep_log(path: &Path, output: &str) -> Option<PathBuf> {
    let keep = || Fs::new().write(path, output.as_bytes()).is_ok();
    if !keep() {
        make_room(path.parent()?);
        keep().then_some(())?;
    }
    Some(path.to_owned())
}

fn make_room(dir: &Path) {
    let fs = Fs::new();
    for (name, _) in fs.list(dir).unwrap_or_default() {
        let path = dir.join(name);
        let is_small = fs.look(&path).is_ok_and(|found| found.is_file() && found.state.len < SMALL);
        if !is_small {
            let _ = fs.remove(&path).or_else(|_| fs.remove_tree(&path));
        }
    }
}
