//! The files that take part in a compile, under names without their paths.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Files, each under a name of its own, so that one toolchain has one fingerprint wherever it is installed.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolchainFiles {
    list: Vec<(String, PathBuf)>,
    by_path: HashMap<PathBuf, usize>,
}

impl ToolchainFiles {
    /// Adds a file, unless it is there. Of several of one name each gets a number.
    pub(crate) fn add(&mut self, name: &str, path: PathBuf) {
        if self.by_path.contains_key(&path) {
            return;
        }
        let taken = |name: &str| self.list.iter().any(|(known, _)| known == name);
        let numbered = (2..).map(|number| format!("{name} {number}"));
        let free = std::iter::once(name.to_owned()).chain(numbered).find(|name| !taken(name));
        self.by_path.insert(path.clone(), self.list.len());
        self.list.push((free.unwrap_or_default(), path));
    }

    /// The name of a file that was added.
    pub(crate) fn name_of(&self, path: &Path) -> Option<String> {
        self.by_path.get(path).and_then(|at| self.list.get(*at)).map(|(name, _)| name.clone())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &PathBuf)> {
        self.list.iter().map(|(name, path)| (name.as_str(), path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinguished() {
        let mut pieces = ToolchainFiles::default();
        for path in ["/a/ld", "/b/ld", "/a/ld"] {
            pieces.add("ld", path.into());
        }
        assert_eq!(pieces.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["ld", "ld 2"]);
        assert_eq!(pieces.name_of(Path::new("/b/ld")).as_deref(), Some("ld 2"));
    }
}
