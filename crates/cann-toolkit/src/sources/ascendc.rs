//! Sources of operators in Ascend C, which is C++ for the device: the directory that an operator's module names, and
//! what the files in it include of the other operators' directories.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use opkeep_fs::Fs;

use crate::disk::files;
use crate::disk::tree;
use crate::error::ToolkitError;

/// The directory below a package that such sources are in.
pub(crate) const ASCENDC: &str = "ascendc";

/// Headers that every operator may include without a path.
const COMMON: &str = "common";

/// The C++ sources of an operator.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Files, as paths below the package.
    pub(crate) files: BTreeSet<PathBuf>,
    /// Whether all such sources count.
    pub(crate) is_widened: bool,
}

/// Finds the sources of the operator whose module in `package` is called `stem`, and has `texts` in it.
pub(crate) fn find(package: &Path, stem: &str, texts: &BTreeSet<String>) -> Result<Found, ToolkitError> {
    let mut search = Search { package, all: BTreeMap::new(), found: Found::default() };
    // Few operators are in C++, and listing all of the others costs more than all else about them.
    let speaks_of_sources = |text: &String| text.contains(ASCENDC) || is_source(Path::new(text));
    let is_beside = || Fs::new().is_file(&package.join("dynamic").join(stem).with_extension("cpp"));
    if !texts.iter().any(speaks_of_sources)
        && !Fs::new().is_dir(&package.join(ASCENDC).join(stem))
        && !is_beside()
    {
        return Ok(search.found);
    }
    search.list(Path::new(ASCENDC), &|_| true)?;
    // Packages of custom operators have them beside the module.
    search.list(Path::new("dynamic"), &is_source)?;
    let mut todo: Vec<PathBuf> = Vec::new();
    for name in texts.iter().map(String::as_str).chain([stem]).filter(|name| is_name(name)) {
        todo.extend(search.named(name));
    }
    // The module names a directory that it does not spell out.
    search.found.is_widened = todo.is_empty() && texts.contains(ASCENDC);
    while let Some(path) = todo.pop() {
        if search.found.files.insert(path.clone()) && is_source(&path) {
            todo.extend(search.included(&path)?);
        }
    }
    Ok(search.found)
}

struct Search<'a> {
    package: &'a Path,
    /// All files that may be sources, by their last name.
    all: BTreeMap<String, Vec<PathBuf>>,
    found: Found,
}

impl Search<'_> {
    fn list(&mut self, below: &Path, counts: &dyn Fn(&Path) -> bool) -> Result<(), ToolkitError> {
        let is_content = |name: &std::ffi::OsStr, _| name != "__pycache__";
        let files = tree::files_below(&self.package.join(below), is_content)?.unwrap_or_default();
        for file in files.into_iter().filter(|file| counts(file)) {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.all.entry(name).or_default().push(below.join(file));
        }
        Ok(())
    }

    /// The files of a directory that is called so, or all that stands where a file is that is called so.
    fn named(&self, name: &str) -> Vec<PathBuf> {
        let own = Path::new(ASCENDC).join(name);
        let dirs = match self.all.get(name) {
            Some(files) => files.iter().filter_map(|file| file.parent()).map(Path::to_owned).collect(),
            None => vec![own],
        };
        // Beside modules stand other operators' sources.
        let beside = self.all.get(name).into_iter().flatten().filter(|file| file.starts_with("dynamic"));
        let within = |file: &&PathBuf| {
            dirs.iter()
                .any(|dir| dir.starts_with(ASCENDC) && dir != Path::new(ASCENDC) && file.starts_with(dir))
        };
        let all = self.all.values().flatten();
        all.filter(within).chain(beside).cloned().collect()
    }

    /// The files of the package that a file includes. Other included files belong to the compiler.
    fn included(&mut self, path: &Path) -> Result<Vec<PathBuf>, ToolkitError> {
        let text = files::read_text(&self.package.join(path))?;
        let mut found = Vec::new();
        for line in joined(&text) {
            let Some(what) = directive(&line) else { continue };
            let Some(name) = quoted(what) else {
                self.found.is_widened = true;
                continue;
            };
            let beside = path.parent().unwrap_or(Path::new(""));
            let roots = [beside.to_owned(), Path::new(ASCENDC).join(COMMON), ASCENDC.into()];
            let exact = roots.iter().filter_map(|root| plain(&root.join(name)));
            let exact: Vec<PathBuf> =
                exact.filter(|path| Fs::new().is_file(&self.package.join(path))).collect();
            if exact.is_empty() {
                // The compiler finds it in one of its include directories: every file with that name counts.
                let last = name.rsplit('/').next().unwrap_or(name);
                found.extend(self.all.get(last).into_iter().flatten().cloned());
            }
            found.extend(exact);
        }
        Ok(found)
    }
}

fn is_source(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    ["cpp", "cc", "c", "cce", "h", "hpp", "inc"].contains(&ending)
}

/// Whether a text may be the name of a directory or file.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains('/') && text != "." && text != ".." && text != ASCENDC
}

/// Lines, those that a backslash ends joined with the next.
fn joined(text: &str) -> Vec<String> {
    text.replace("\\\r\n", " ").replace("\\\n", " ").lines().map(str::to_owned).collect()
}

/// The operand of `#include` and of `#include_next`.
fn directive(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start();
    let rest = rest.strip_prefix("include")?;
    let rest = rest.strip_prefix("_next").unwrap_or(rest);
    (!rest.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_')).then(|| rest.trim())
}

/// `"a.h"`, `<a.h>`.
fn quoted(text: &str) -> Option<&str> {
    let (rest, end) = match text.as_bytes().first()? {
        b'"' => (&text[1..], '"'),
        b'<' => (&text[1..], '>'),
        _ => return None,
    };
    rest.split_once(end).map(|(name, _)| name).filter(|name| !name.is_empty())
}

/// A path without `.` and `..`; None if it leads out.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => plain.push(name),
            Component::ParentDir if plain.pop() => {}
            _ => return None,
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn includes_are_read() {
        for (line, found) in [
            ("#include \"a.h\" // x", Some(Some("a.h"))),
            ("  # include <b/c.h>", Some(Some("b/c.h"))),
            ("#include NAME", Some(None)),
            ("// #include \"a.h\"", None),
            ("#included", None),
            ("#include_next <a.h>", Some(Some("a.h"))),
        ] {
            assert_eq!(directive(line).map(quoted), found, "{line}");
        }
        assert_eq!(joined("#include \\\n\"a.h\"\nx")[0], "#include  \"a.h\"");
    }

    #[test]
    fn paths_are_made_plain() {
        assert_eq!(plain(Path::new("ascendc/a/../b/./c.h")), Some(PathBuf::from("ascendc/b/c.h")));
        assert_eq!(plain(Path::new("../a")), None);
        assert_eq!(plain(Path::new("/a")), None);
    }
}
