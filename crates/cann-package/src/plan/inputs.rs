//! The files that a task reads, as far as a build tree shows it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use opkeep_fs::FileKind;

use super::commands::Command;
use crate::tree::FileTree;

/// The largest source that is read, in bytes.
const MAX_SOURCE_BYTES: u64 = 4 << 20;
/// The largest number of files that one operator includes.
const MAX_FILES: usize = 10_000;

/// What a task reads.
#[derive(Clone, Debug, Default)]
pub(super) struct Inputs {
    /// Files of the tree.
    pub(super) in_tree: BTreeSet<PathBuf>,
    /// Files elsewhere that a compile option names, or that are in one of the directories that it names.
    pub(super) outside: BTreeSet<PathBuf>,
    /// Copied sources: the name of the directory that was copied, and the path in it.
    copies: BTreeSet<(String, PathBuf)>,
}

impl Inputs {
    /// Whether the tree has a copy of `source`, by its path: it ends as the copy's does, and is in a directory of the copied one's
    /// name.
    pub(super) fn is_copy(&self, source: &Path) -> bool {
        self.copies.iter().any(|(dir, inner)| {
            source.ends_with(inner) && source.components().any(|part| part.as_os_str() == OsStr::new(dir))
        })
    }
}

/// The inputs of the operators of a unit, each found once.
pub(super) struct InputsOf<'a> {
    tree: &'a FileTree,
    build: &'a Path,
    unit: &'a str,
    known: BTreeMap<(String, Option<PathBuf>), Inputs>,
}

/// The options of generated Python that name files.
#[derive(Default)]
struct Options {
    /// Directories that are searched for headers.
    dirs: Vec<PathBuf>,
    /// Headers that are included first.
    headers: Vec<PathBuf>,
}

impl<'a> InputsOf<'a> {
    pub(super) fn new(tree: &'a FileTree, build: &'a Path, unit: &'a str) -> Self {
        Self { tree, build, unit, known: BTreeMap::new() }
    }

    /// The inputs of a task.
    pub(super) fn of(&mut self, command: &Command, params: &Path) -> Inputs {
        let python = self.python(command, params);
        let key = (command.function.clone(), python.clone());
        let mut inputs = match self.known.get(&key) {
            Some(known) => known.clone(),
            None => {
                let found = self.of_operator(&command.function, python.as_deref());
                self.known.insert(key, found.clone());
                found
            }
        };
        inputs.in_tree.extend([command.file.clone(), params.to_owned()]);
        inputs
    }

    /// The operator's Python in the tree: the one that the command names, or the one beside the copied sources, whose name is that of
    /// the operator.
    fn python(&self, command: &Command, params: &Path) -> Option<PathBuf> {
        let src = self.build.join("binary").join(self.unit).join("src");
        let of_params = params.file_name().and_then(OsStr::to_str).and_then(|name| name.split('_').next());
        let named = command
            .python
            .as_deref()
            .and_then(Path::file_name)
            .map(|name| self.build.join("tbe/dynamic").join(name));
        let candidates = [
            named,
            of_params.map(|operator| src.join(format!("{operator}.py"))),
            Some(src.join(format!("{}.py", command.function))),
            Some(self.build.join("tbe/dynamic").join(format!("{}.py", command.function))),
        ];
        candidates.into_iter().flatten().find(|path| self.tree.has_file(path))
    }

    /// The directory that has copies of sources: beside the Python, where the Python looks for them.
    fn source_dir(&self, name: &str, python: Option<&Path>) -> Option<PathBuf> {
        let src = self.build.join("binary").join(self.unit).join("src");
        let ascendc = self.build.join("tbe/ascendc");
        let is_beside_src = python.is_none_or(|path| path.starts_with(&src));
        let dirs = if is_beside_src { [src, ascendc] } else { [ascendc, src] };
        dirs.into_iter().map(|dir| dir.join(name)).find(|dir| self.tree.is_dir(dir))
    }

    fn of_operator(&self, function: &str, python: Option<&Path>) -> Inputs {
        let mut inputs = Inputs::default();
        let options = python.map(|path| self.options(path)).unwrap_or_default();
        inputs.in_tree.extend(python.map(Path::to_owned));
        let own = self.source_dir(function, python);
        let dirs: Vec<PathBuf> = own.into_iter().chain(self.source_dir("common", python)).collect();
        let of_operator = dirs.iter().filter(|dir| dir.file_name() == Some(OsStr::new(function)));
        let mut search = dirs.clone();
        search.extend(
            options.dirs.iter().filter_map(|dir| Some(dir.strip_prefix(self.tree.root()).ok()?.to_owned())),
        );
        let outside: Vec<&PathBuf> =
            options.dirs.iter().filter(|dir| !dir.starts_with(self.tree.root())).collect();
        let mut open: VecDeque<PathBuf> =
            of_operator.flat_map(|dir| self.main_sources(dir, function)).collect();
        for header in &options.headers {
            match header.strip_prefix(self.tree.root()) {
                Ok(inner) => open.push_back(inner.to_owned()),
                Err(_) => drop(inputs.outside.insert(header.clone())),
            }
        }
        while let Some(path) = open.pop_front() {
            if inputs.in_tree.len() >= MAX_FILES || !inputs.in_tree.insert(path.clone()) {
                continue;
            }
            let Ok(bytes) = self.tree.read(&path, MAX_SOURCE_BYTES) else { continue };
            for name in includes(&String::from_utf8_lossy(&bytes)) {
                let beside = path.parent().unwrap_or(Path::new(""));
                let all = std::iter::once(beside).chain(search.iter().map(PathBuf::as_path));
                let mut found = all.filter_map(|dir| joined(dir, &name));
                match found.find(|path| self.tree.has_file(path)) {
                    Some(path) => open.push_back(path),
                    None => inputs.outside.extend(outside.iter().filter_map(|dir| joined(dir, &name))),
                }
            }
        }
        for dir in &dirs {
            let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let inner = inputs.in_tree.iter().filter_map(|path| path.strip_prefix(dir).ok());
            inputs.copies.extend(inner.map(|inner| (name.clone(), inner.to_owned())).collect::<Vec<_>>());
        }
        inputs
    }

    /// The file that is called as the operator; if there is none, all sources.
    fn main_sources(&self, dir: &Path, function: &str) -> Vec<PathBuf> {
        let all = self
            .tree
            .below(dir)
            .into_iter()
            .filter(|(path, kind)| *kind != FileKind::Dir && path.extension() == Some(OsStr::new("cpp")));
        let all: Vec<PathBuf> = all.map(|(path, _)| path.to_owned()).collect();
        let is_main = |path: &&PathBuf| path.file_stem() == Some(OsStr::new(function));
        match all.iter().find(is_main) {
            Some(main) => vec![main.clone()],
            None => all,
        }
    }

    fn options(&self, python: &Path) -> Options {
        let Ok(bytes) = self.tree.read(python, MAX_SOURCE_BYTES) else { return Options::default() };
        let text = String::from_utf8_lossy(&bytes);
        Options { dirs: paths_after(&text, "-I"), headers: paths_after(&text, "-include") }
    }
}

/// The absolute paths that follow an option in a text.
fn paths_after(text: &str, option: &str) -> Vec<PathBuf> {
    let parts = text.split(option).skip(1).filter(|rest| rest.starts_with('/'));
    let path = |rest: &str| {
        let end = rest.find(['"', '\'', ' ', ',', '\n', ')', ']']).unwrap_or(rest.len());
        joined(Path::new("/"), &rest[1..end])
    };
    parts.filter_map(path).collect()
}

/// The names that a source includes.
fn includes(text: &str) -> Vec<String> {
    let name = |line: &str| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
        let end = match rest.chars().next()? {
            '"' => '"',
            '<' => '>',
            _ => return None,
        };
        let rest = &rest[1..];
        Some(rest[..rest.find(end)?].to_owned())
    };
    text.lines().filter_map(name).collect()
}

/// A path in a directory, without `.` and `..`; `None` if it leaves the tree.
fn joined(dir: &Path, name: &str) -> Option<PathBuf> {
    let mut path = dir.to_owned();
    for part in Path::new(name).components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::ParentDir => {
                if !path.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn includes_and_options_are_read() {
        let text = "#include \"a.h\"\n  #  include <b/c.h> // x\n#include MACRO\n// #include \"no.h\"\n#include \"open\nint x;";
        assert_eq!(includes(text), ["a.h", "b/c.h"]);
        let text = "options = [\"-I/p/inc\", '-include/p/x.h', \"-I\" + tikcpp]\nextra = '-I/q/../r -O2'";
        assert_eq!(paths_after(text, "-I"), [Path::new("/p/inc"), Path::new("/r")]);
        assert_eq!(paths_after(text, "-include"), [Path::new("/p/x.h")]);
        assert_eq!(joined(Path::new("a/b"), "../c.h"), Some("a/c.h".into()));
        assert_eq!((joined(Path::new("a"), "../../c.h"), joined(Path::new("a"), "/c.h")), (None, None));
    }
}
