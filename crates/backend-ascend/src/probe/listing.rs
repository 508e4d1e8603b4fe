//! The entries of a directory that may change the result of an import.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use opkeep_cann_toolkit::disk::stamp::Stamp;
use opkeep_fs::{ChangeTimes, FileState, Fs};
use serde::{Deserialize, Serialize};

/// The relevant entries of a directory. A name means a module (`numpy`), a file (`=libm.so.6`), every file with an
/// ending (`*.pth`), or every entry (`*`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listing {
    pub(crate) names: BTreeSet<String>,
    /// None, if there is no such directory.
    pub(crate) found: Option<Vec<String>>,
    /// The directory's stamp when it was listed; None if a later change might leave the stamp as it is.
    stamp: Option<Stamp>,
}

impl Listing {
    pub(crate) fn of(path: PathBuf, names: BTreeSet<String>) -> (PathBuf, Self) {
        let stamp = Stamp::of(&path).filter(Stamp::is_old);
        let found = found(&path, &names);
        let listing = Self { names, found, stamp };
        (path, listing)
    }

    pub(crate) fn is_current(&self, path: &Path) -> bool {
        let stamp = Stamp::of(path);
        (stamp.is_some() && stamp == self.stamp && shows_changes(path))
            || (stamp.is_none() && self.found.is_none())
            || found(path, &self.names) == self.found
    }
}

/// Whether other entries of a directory would have given it another stamp. Another process may see another image there.
fn shows_changes(path: &Path) -> bool {
    Fs::new().metadata(path).is_ok_and(|found| ChangeTimes::at(path).show_changes(&FileState::of(&found)))
}

/// The entries of a directory that have one of these names.
fn found(path: &Path, names: &BTreeSet<String>) -> Option<Vec<String>> {
    let entries = Fs::new().list(path).ok()?.into_iter();
    let entries = entries.map(|(name, _)| name.to_string_lossy().into_owned());
    let matters = |entry: &String| {
        let stem = entry.split('.').next().unwrap_or(entry);
        let is_module = entry == stem || [".py", ".pyc", ".so"].iter().any(|end| entry.ends_with(end));
        (is_module && names.contains(stem))
            || names.contains(&format!("={entry}"))
            || (names.contains("*.pth") && entry.ends_with(".pth"))
            || names.contains("*")
    };
    let mut entries: Vec<String> = entries.filter(matters).collect();
    opkeep_order::sort(&mut entries);
    Some(entries)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests open directories")]
mod tests {
    use super::*;

    #[test]
    fn the_stamp_of_an_image_is_no_proof() {
        let temp = tempfile::tempdir().unwrap();
        let is_current = |path: &Path| {
            let names = BTreeSet::from(["*".to_owned()]);
            let listing = Listing { names, found: Some(vec!["planted".to_owned()]), stamp: Stamp::of(path) };
            listing.is_current(path)
        };
        let dir = std::fs::File::open(temp.path()).unwrap();
        dir.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert!(is_current(temp.path()));
        // It has no change times of its own, as an image. Its stamp stays the same while it is open.
        let image = Path::new("/proc/fs");
        let _open = std::fs::File::open(image).unwrap();
        assert_eq!(Stamp::of(image), Stamp::of(image));
        assert!(!is_current(image));
    }
}
