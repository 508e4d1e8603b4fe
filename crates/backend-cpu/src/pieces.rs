//! The files that take part in a compile: programs, what they load, and what their arguments name.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::disk;
use crate::libraries::{Libraries, usual_folders};

/// Files, each under a name that does not tell where it lies, so that one toolchain has one fingerprint wherever it is
/// installed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces {
    list: Vec<(String, PathBuf)>,
    seen: HashSet<PathBuf>,
}

impl Pieces {
    /// Adds a file, unless it is there. Of several of one name each gets a number.
    pub(crate) fn add(&mut self, name: &str, path: PathBuf) {
        if !self.seen.insert(path.clone()) {
            return;
        }
        let taken = |name: &str| self.list.iter().any(|(known, _)| known == name);
        let numbered = (2..).map(|number| format!("{name} {number}"));
        let free = std::iter::once(name.to_owned()).chain(numbered).find(|name| !taken(name));
        self.list.push((free.unwrap_or_default(), path));
    }

    /// Adds the files that an argument names: as a whole (`/x.h`), behind a sign (`-specs=/x`, `-Wl,/x`, `@/x`), or
    /// behind a flag (`-imacros/x.h`). True if there was any.
    pub(crate) fn add_named_in(&mut self, word: &str) -> bool {
        let mut begins: Vec<usize> = word.match_indices(['=', ',', '@']).map(|(at, _)| at + 1).collect();
        begins.extend(word.find('/'));
        begins.push(0);
        let ends = || word.match_indices(',').map(|(at, _)| at).chain([word.len()]);
        let mut found = false;
        for begin in begins {
            for end in ends().filter(|end| *end > begin) {
                let path = Path::new(&word[begin..end]);
                if path.is_absolute() && disk::is_file(path) {
                    self.add("argument", path.to_owned());
                    found = true;
                }
            }
        }
        found
    }

    /// Adds the shared libraries that the programs load: for clang, they are the compiler.
    pub(crate) fn add_libraries(&mut self, triple: &str) {
        let mut libraries = Libraries::new(usual_folders(triple));
        let mut at = 0;
        while let Some((_, path)) = self.list.get(at) {
            for library in libraries.needed(path) {
                let name = library.file_name().unwrap_or_default().to_string_lossy().into_owned();
                self.add(&name, library);
            }
            at += 1;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &PathBuf)> {
        self.list.iter().map(|(name, path)| (name.as_str(), path))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests make files")]

    use super::*;

    #[test]
    fn files_are_found_wherever_an_argument_names_them() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.h");
        std::fs::write(&file, "").unwrap();
        let path = file.to_str().unwrap();
        for word in [
            path.to_owned(),
            format!("-specs={path}"),
            format!("-imacros{path}"),
            format!("@{path}"),
            format!("-Wl,-T,{path}"),
            format!("-Wl,-T,{path},--more"),
            format!("--include={path}"),
        ] {
            let mut pieces = Pieces::default();
            assert!(pieces.add_named_in(&word), "{word}");
            assert_eq!(pieces.iter().collect::<Vec<_>>(), [("argument", &file)], "{word}");
        }
        let mut pieces = Pieces::default();
        assert!(!pieces.add_named_in(folder.path().to_str().unwrap()));
        assert!(!pieces.add_named_in("-O2"));
    }

    #[test]
    fn names_are_told_apart() {
        let mut pieces = Pieces::default();
        for path in ["/a/ld", "/b/ld", "/a/ld"] {
            pieces.add("ld", path.into());
        }
        assert_eq!(pieces.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["ld", "ld 2"]);
    }
}
