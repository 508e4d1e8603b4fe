//! Every access to the disk: the only module of this crate that may touch `std::fs`.
#![expect(clippy::disallowed_methods, reason = "this is the crate's I/O module")]

use std::path::{Path, PathBuf};

/// What is smaller stays when room is made for a log.
const SMALL: u64 = 256 * 1024;

/// Keeps the output of a compile that failed; where it is, unless it cannot be written, which must not hide the failure
/// itself. Where there is no room, what the compile left beside it goes: folders, and files that are not small.
pub fn keep_log(path: &Path, output: &str) -> Option<PathBuf> {
    let keep = || std::fs::write(path, output).is_ok();
    let make_room = || {
        for entry in std::fs::read_dir(path.parent()?).ok()?.flatten() {
            let small = entry.metadata().is_ok_and(|found| found.is_file() && found.len() < SMALL);
            if !small {
                let _ = std::fs::remove_file(entry.path()).or_else(|_| std::fs::remove_dir_all(entry.path()));
            }
        }
        Some(())
    };
    (keep() || (make_room().is_some() && keep())).then(|| path.to_owned())
}
