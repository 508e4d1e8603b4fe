//! The entries of a directory by which an import may change.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use opkeep_cann_toolkit::disk::stamp::Stamp;
use opkeep_fs::Fs;
use serde::{Deserialize, Serialize};

/// The entries of a directory that matter. Names that are looked for are those of modules (`numpy`), of files
/// (`=libm.so.6`), all that end alike (`*.pth`), or all (`*`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listing {
    pub(crate) names: BTreeSet<String>,
    /// None, if there is no such directory.
    pub(crate) found: Option<Vec<String>>,
    /// The state of the directory when it was listed, if no later change can leave it as it was.
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
        (stamp.is_some() && stamp == self.stamp)
            || (stamp.is_none() && self.found.is_none())
            || found(path, &self.names) == self.found
    }
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
    entries.sort_unstable();
    Some(entries)
}
