//! Python programs, as far as they decide which names in a directory count.
//!
//! Python lists each directory in which it looks for a module, and takes from it only the names that it imports. A program that takes what it
//! finds, such as plugins, lists it in the same way. It does so by the words of a few functions: where none of these is in a text that a tool
//! does not state to be its own, the names of modules are in the texts.

use std::path::Path;

use opkeep_fs::Fs;
use opkeep_process::Program;

use super::{MAX_TEXT, Run};
use crate::manifest::words;

/// The words by which a program lists a directory, imports a module whose name it computes or reads, or runs a text that it computes.
const COMPUTED_NAMES: [&[u8]; 35] = [
    b"listdir",
    b"scandir",
    b"walk",
    b"fwalk",
    b"glob",
    b"iglob",
    b"rglob",
    b"iterdir",
    b"pkgutil",
    b"iter_modules",
    b"walk_packages",
    b"importlib",
    b"importlib_metadata",
    b"import_module",
    b"__import__",
    b"entry_points",
    b"iter_entry_points",
    b"pkg_resources",
    b"find_spec",
    b"find_module",
    b"load_module",
    b"runpy",
    b"run_path",
    b"run_module",
    b"imp",
    b"zipimport",
    b"zipapp",
    b"addsitedir",
    b"exec",
    b"execfile",
    b"eval",
    b"pickle",
    b"marshal",
    b"shelve",
    b"builtins",
];

/// The extensions of modules without a text, and of files with modules in them.
const WITHOUT_TEXT: [&str; 6] = ["pyc", "pyo", "zip", "egg", "whl", "pyz"];

impl Run<'_> {
    /// Whether the names of all modules that the Python programs import are in texts.
    pub(super) fn imports_by_name(&self) -> bool {
        // A process that was forked and executed nothing may be Python, and know the names in a directory from before.
        let may_be_python = |program: &&Program| is_python(program) || program.path.as_os_str().is_empty();
        self.task.facts.imports_by_name
            && self.seen.programs.iter().filter(may_be_python).all(|it| self.names_its_modules(it))
    }

    fn names_its_modules(&self, program: &Program) -> bool {
        let is_plain = |text: &[u8]| !words(text).any(|word| COMPUTED_NAMES.contains(&word));
        let mut args = program.args.iter().skip(1);
        if !args.all(|arg| is_plain(arg.as_encoded_bytes())) {
            return false;
        }
        let further = program.read.iter().filter(|path| !self.is_ignored(path) && !self.is_of_python(path));
        further.into_iter().all(|path| {
            let extension = path.extension().unwrap_or_default();
            // A library that is not in a directory of modules is none.
            let is_listed = || path.parent().is_some_and(|dir| self.seen.names.contains_key(dir));
            if WITHOUT_TEXT.iter().any(|it| extension == *it) || extension == "so" && is_listed() {
                return false;
            }
            let is_script = program.args.iter().any(|arg| path.ends_with(arg));
            if !(extension.is_empty() || extension == "py" || extension == "pyw" || is_script) {
                return true;
            }
            match Fs::new().read(path, MAX_TEXT) {
                Ok(text) => text.contains(&0) || is_plain(&text),
                Err(_) => false,
            }
        })
    }

    /// Whether a path is in a directory of Python's own modules, or of the tool's.
    pub(super) fn is_of_python(&self, path: &Path) -> bool {
        let is_of = |path: &Path| {
            let mut parts = path.iter().zip(path.iter().skip(1));
            let is_version = |name: &[u8]| {
                name.strip_prefix(b"python3").is_some_and(|rest| rest.is_empty() || rest[0] == b'.')
            };
            parts.any(|(dir, name)| (dir == "lib" || dir == "lib64") && is_version(name.as_encoded_bytes()))
                || self.task.own_dirs.iter().any(|dir| path.starts_with(dir))
        };
        is_of(path) || is_of(&Fs::new().resolved(path))
    }
}

/// Whether a program, or the interpreter of a script, is Python.
pub(super) fn is_python(program: &Program) -> bool {
    const INTERPRETERS: usize = 3;
    let is_python =
        |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"python"));
    let scripts = program.read.iter().take(if program.is_script { INTERPRETERS } else { 0 });
    std::iter::once(&program.path).chain(scripts).any(|path| is_python(path))
}
