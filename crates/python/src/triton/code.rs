//! The code of a package, which this process may have loaded.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use opkeep_fs::{Dir, FileKind, FileState, Fs};
use pyo3::prelude::*;

use super::toolchain::os_error;
use crate::call::without_gil;

/// The modules and libraries of a package, and all that leads to them, as they were at one time. Links are followed: an editable
/// installation has them.
#[pyclass(frozen, module = "opkeep._native")]
pub(crate) struct PackageCode(BTreeMap<PathBuf, State>);

/// The state of a path.
#[derive(PartialEq, Eq)]
enum State {
    /// A module or library, with the state of the link to it, if there is one.
    File(FileState, Option<FileState>),
    /// A link to a directory. Those above the package count. Directories do not: in an overlay, their times and numbers change
    /// when something else is written.
    Link(FileState),
}

#[pymethods]
impl PackageCode {
    /// Looks at the package in a directory.
    #[new]
    fn new(py: Python<'_>, directory: PathBuf) -> PyResult<Self> {
        let looked = without_gil(py, || Ok(Look::at(&directory)))?;
        looked.map(Self).map_err(|(path, error)| os_error(&path, error))
    }

    /// Returns the paths of the files, sorted.
    fn files(&self) -> Vec<&OsStr> {
        let files = self.0.iter().filter(|(_, state)| matches!(state, State::File(..)));
        files.map(|(path, _)| path.as_os_str()).collect()
    }

    /// Returns a link that was made after a time, in nanoseconds since 1970.
    fn link_made_after(&self, time: i64) -> Option<&OsStr> {
        let is_later = |state: &State| match state {
            State::File(_, link) => link.is_some_and(|link| link.ctime > time),
            State::Link(link) => link.ctime > time,
        };
        self.0.iter().find(|(_, state)| is_later(state)).map(|(path, _)| path.as_os_str())
    }

    /// Returns the paths of the files whose state has changed after a time, in nanoseconds since 1970.
    fn changed_after(&self, time: i64) -> Vec<&OsStr> {
        let is_later = |state: &State| matches!(state, State::File(file, _) if file.ctime > time);
        let later = self.0.iter().filter(|(_, state)| is_later(state));
        later.map(|(path, _)| path.as_os_str()).collect()
    }

    /// Returns the files with other states later, and a path that leads elsewhere then or exists only once. So does one at which
    /// another file is that has not changed after `time`, in nanoseconds since 1970: a directory above got the name of another.
    /// The number of a file does not count, which some file systems change.
    fn compared_with(&self, later: &Self, time: i64) -> (Vec<&OsStr>, Option<OsString>) {
        let (mut changed, mut other) = (Vec::new(), None);
        let added = later.0.keys().find(|path| !self.0.contains_key(*path));
        for (path, state) in &self.0 {
            match (state, later.0.get(path)) {
                (state, Some(new)) if state == new => {}
                (State::File(file, link), Some(State::File(new_file, new_link)))
                    if link == new_link && (file.ctime == new_file.ctime || new_file.ctime > time) =>
                {
                    changed.push(path.as_os_str());
                }
                _ => other = Some(path.clone().into_os_string()),
            }
        }
        (changed, other.or_else(|| added.map(|path| path.clone().into_os_string())))
    }
}

/// A path, and why it cannot be read.
type PathError = (PathBuf, io::Error);

/// A look at a package.
#[derive(Default)]
struct Look {
    fs: Fs,
    found: BTreeMap<PathBuf, State>,
}

impl Look {
    fn at(package: &Path) -> Result<BTreeMap<PathBuf, State>, PathError> {
        let mut look = Self::default();
        let real = look.fs.real_path(package).map_err(|error| (package.to_owned(), error))?;
        for path in package.ancestors().chain(real.ancestors()) {
            look.add_links(path);
        }
        look.add_below(package)?;
        Ok(look.found)
    }

    /// Adds a path that leads to the package, if it is a link, and the links on the way from there.
    fn add_links(&mut self, path: &Path) {
        // One that cannot be looked at is none that this user's processes replace.
        let Ok(stat) = self.fs.look(path) else { return };
        if stat.kind == FileKind::Link
            && self.found.insert(path.to_owned(), State::Link(stat.state)).is_none()
            && let Ok(target) = self.fs.read_link(path)
        {
            let target = path.parent().unwrap_or(path).join(target);
            target.ancestors().for_each(|path| self.add_links(path));
        }
    }

    /// Adds all below the package.
    fn add_below(&mut self, package: &Path) -> Result<(), PathError> {
        let (mut seen, mut directories) = (HashSet::new(), vec![package.to_owned()]);
        while let Some(path) = directories.pop() {
            let failed = |error| (path.clone(), error);
            let dir = self.fs.open_dir(&path).map_err(failed)?;
            let stat = dir.stat().map_err(failed)?;
            if !seen.insert(stat.state.id) {
                continue;
            }
            let names = dir.list().map_err(failed)?;
            let mut names: Vec<_> =
                names.iter().filter(|(name, kind)| may_lead_to_code(name, *kind)).collect();
            // Of two links to one directory, the same one is followed each time.
            names.sort_unstable_by(|one, other| other.0.cmp(one.0));
            for (name, kind) in names {
                match kind {
                    FileKind::Dir => directories.push(path.join(name)),
                    _ => self
                        .add_entry(&dir, name, &mut directories)
                        .map_err(|error| (path.join(name), error))?,
                }
            }
        }
        Ok(())
    }

    /// Adds what a name leads to, or to the directories to look at. One that is removed meanwhile is left out.
    fn add_entry(&mut self, dir: &Dir, name: &OsStr, directories: &mut Vec<PathBuf>) -> io::Result<()> {
        let Some(own) = existing(dir.look(name))? else { return Ok(()) };
        let path = dir.path().join(name);
        if own.kind != FileKind::Link {
            if own.is_file() {
                self.found.insert(path, State::File(own.state, None));
            }
            return Ok(());
        }
        let Some(target) = existing(self.fs.metadata(&path))? else { return Ok(()) };
        if target.is_dir() {
            self.found.insert(path.clone(), State::Link(own.state));
            directories.push(path);
        } else if target.is_file() && is_code(name) {
            self.found.insert(path, State::File(FileState::of(&target), Some(own.state)));
        }
        Ok(())
    }
}

/// Turns the error of a missing file into `None`.
fn existing<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Whether a name is that of code, or of what may lead to it.
fn may_lead_to_code(name: &OsStr, kind: FileKind) -> bool {
    match kind {
        // Python keeps only compiled modules there.
        FileKind::Dir => name != "__pycache__",
        FileKind::Link => true,
        FileKind::File | FileKind::Other => is_code(name),
    }
}

/// Whether Python or the system loads files of this name.
fn is_code(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.ends_with(b".py") || name.windows(3).any(|part| part == b".so")
}
