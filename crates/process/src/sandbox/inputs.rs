//! The inputs of a toolchain, derived from observations: the files that count, and the state that must hold for the
//! observations to stay true.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use opkeep_digest::Digest;
use opkeep_fs::{FileId, Fs};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::listing::{all_below, names};
use super::{Domain, DomainError, Found, Observation, UNKEYED, Unkeyed};

/// The maximal number of files below a declared directory.
const MAX_DECLARED: usize = 10_000;

/// The files that a toolchain reads, and every other path that it looked at to find them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inputs {
    /// Files whose content counts.
    read: BTreeMap<PathBuf, Hex>,
    /// Files that may be read and do not count. If one changes, the toolchain must be observed again.
    watched: BTreeMap<PathBuf, Hex>,
    /// A digest of the names in each listed directory.
    listed: BTreeMap<PathBuf, Hex>,
    /// The state of each path that the toolchain looked at, also of those it did not find.
    looked_at: BTreeMap<PathBuf, Found>,
}

/// A file that a user declares as an input, or a directory below a declared one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Declared {
    /// A name that is independent of its location: the path relative to the parent of the declared root.
    pub name: String,
    /// Its path.
    pub path: PathBuf,
    /// The digest of its content; of a directory, the digest of its names.
    pub digest: Digest,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Its mode and owner in words, since a program may decide by these.
    pub permissions: String,
}

/// A digest in hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
struct Hex(Digest);

impl From<Hex> for String {
    fn from(hex: Hex) -> Self {
        hex.0.to_string()
    }
}

impl TryFrom<String> for Hex {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| format!("`{text}` is no digest"))
    }
}

/// The reason why observations give no inputs.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InputsError {
    /// The observation may be incomplete.
    #[error("a program could not be observed: {0}")]
    Incomplete(Arc<io::Error>),
    /// A pipe, a device or a socket was read.
    #[error("`{0}` is read, which is not a file: what comes from it can be in no key")]
    NotAFile(PathBuf),
    /// Something changed while the toolchain was observed.
    #[error("`{0}` changed while the toolchain was observed")]
    Changed(PathBuf),
    /// A file that was read cannot be digested.
    #[error("cannot digest `{path}`: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Whether inputs are in their old state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unchanged {
    /// They are.
    Yes,
    /// They are not; the first path that differs.
    No(PathBuf),
}

/// Returns the SHA-256 of a file; the caller may cache it.
pub type DigestFile<'a> = dyn Fn(&Path) -> io::Result<Digest> + 'a;

impl Inputs {
    /// Combines `observations` of one toolchain.
    ///
    /// # Errors
    /// [`InputsError`]: they are incomplete, or a file changed meanwhile.
    pub fn of(observations: &[&Observation], files: &DigestFile<'_>) -> Result<Self, InputsError> {
        let mut inputs = Self::default();
        for observation in observations {
            if let Some(why) = &observation.incomplete {
                return Err(InputsError::Incomplete(why.clone()));
            }
            for (path, found) in &observation.read {
                inputs.add_file(path, found, files)?;
            }
            for (path, names) in &observation.listed {
                if !is_volatile(path) {
                    inputs.listed.insert(path.clone(), Hex(*names));
                }
            }
            for path in observation.temporary.iter().filter(|path| !is_volatile(path)) {
                inputs.looked_at.insert(path.clone(), Found::at(path));
            }
            for (path, found) in &observation.looked_at {
                if !is_volatile(path) {
                    inputs.looked_at.insert(path.clone(), found.clone());
                }
            }
        }
        match inputs.unchanged(files) {
            Unchanged::Yes => Ok(inputs),
            Unchanged::No(path) => Err(InputsError::Changed(path)),
        }
    }

    fn add_file(&mut self, path: &Path, found: &Found, files: &DigestFile<'_>) -> Result<(), InputsError> {
        if is_volatile(path) {
            return Ok(());
        }
        if !found.is_file() {
            return Err(InputsError::NotAFile(path.to_owned()));
        }
        let digest = files(path).map_err(|source| InputsError::Io { path: path.to_owned(), source })?;
        // The digest is that of the content that the program read only if the file did not change since it was opened.
        if !found.is_same(path) {
            return Err(InputsError::Changed(path.to_owned()));
        }
        let kind = if Unkeyed::covering(path).is_some() { &mut self.watched } else { &mut self.read };
        kind.insert(path.to_owned(), Hex(digest));
        Ok(())
    }

    /// Removes paths that differ in each run (see [`Observation::made_up`]).
    pub fn leave_out(&mut self, made_up: &BTreeSet<PathBuf>) {
        self.looked_at.retain(|path, _| !made_up.contains(path));
    }

    /// From now on, ignores the permissions of files that count by content: no program decides by them.
    pub fn ignore_permissions(&mut self) {
        self.looked_at.retain(|_, found| found.is_link() || !found.is_by_permissions());
        for found in self.looked_at.values_mut().filter(|found| found.is_by_permissions()) {
            *found = found.clone().by_presence();
        }
    }

    /// A copy without those files that count and that `is_read` rejects.
    pub fn only(&self, is_read: impl Fn(&Path) -> bool) -> Self {
        let mut some = self.clone();
        some.read.retain(|path, _| is_read(path));
        some
    }

    /// Adds a file that counts although no observation read it.
    ///
    /// # Errors
    /// [`InputsError::Io`].
    pub fn declare(&mut self, path: &Path, files: &DigestFile<'_>) -> Result<Digest, InputsError> {
        let failed = |source| InputsError::Io { path: path.to_owned(), source };
        if !Found::at(path).is_file() {
            return match Fs::new().exists(path) {
                true => Err(InputsError::NotAFile(path.to_owned())),
                false => Err(failed(rustix::io::Errno::NOENT.into())),
            };
        }
        let digest = files(path).map_err(failed)?;
        self.read.insert(path.to_owned(), Hex(digest));
        Ok(digest)
    }

    /// Adds files and directories that [`Inputs::declared`] has found.
    pub fn add_declared(&mut self, declared: &[Declared]) {
        for Declared { path, digest, is_directory, .. } in declared {
            let counted = if *is_directory { &mut self.listed } else { &mut self.read };
            counted.insert(path.clone(), Hex(*digest));
        }
    }

    /// Adds a file, or a directory with all files below it.
    fn declare_below(&mut self, root: &Path, files: &DigestFile<'_>) -> Result<(), InputsError> {
        if !Found::at(root).is_directory() {
            return self.declare(root, files).map(drop);
        }
        let failed = |source| InputsError::Io { path: root.to_owned(), source };
        let (below, directories) = all_below(root, MAX_DECLARED).map_err(failed)?;
        for path in below {
            self.declare(&path, files)?;
        }
        for path in directories {
            let names = Hex(names(&path).map_err(failed)?);
            self.listed.insert(path, names);
        }
        Ok(())
    }

    /// Lists the files and directories that a user declares by `roots`: each root, and all below it if it is a
    /// directory, at most 10 000. Links to directories are not followed.
    ///
    /// # Errors
    /// The root that cannot be read, and the reason.
    pub fn declared(
        roots: &[PathBuf],
        files: &DigestFile<'_>,
    ) -> Result<Vec<Declared>, (PathBuf, InputsError)> {
        let mut found = Vec::new();
        for root in roots {
            let mut inputs = Self::default();
            inputs.declare_below(root, files).map_err(|error| (root.clone(), error))?;
            let base = root.parent().unwrap_or(root);
            let declared = |(path, digest): (&Path, Digest)| Declared {
                name: path.strip_prefix(base).unwrap_or(path).display().to_string(),
                path: path.to_owned(),
                digest,
                is_directory: inputs.listed.contains_key(path),
                permissions: Found::at(path).by_permissions().in_words(),
            };
            let directories = inputs.listed.iter().map(|(path, Hex(names))| (path.as_path(), *names));
            found.extend(inputs.files().chain(directories).map(declared));
        }
        Ok(found)
    }

    /// The files that count by content, with their digests.
    pub fn files(&self) -> impl Iterator<Item = (&Path, Digest)> {
        self.read.iter().map(|(path, Hex(digest))| (path.as_path(), *digest))
    }

    /// The digest of a file that counts.
    pub fn digest(&self, path: &Path) -> Option<Digest> {
        self.read.get(path).map(|Hex(digest)| *digest)
    }

    /// Files that may be read and do not count.
    pub fn unkeyed(&self) -> impl Iterator<Item = &Path> {
        self.watched.keys().map(PathBuf::as_path)
    }

    /// The number of paths that were looked at without being read.
    pub fn looked_at(&self) -> usize {
        self.looked_at.len() + self.listed.len()
    }

    /// Compares all inputs with their state at the observation. With cached digests in `files`, it takes one system
    /// call for each path.
    pub fn unchanged(&self, files: &DigestFile<'_>) -> Unchanged {
        // A pipe at the path of a file has no digest, and reading it would never end.
        let is_as_it_was = |(path, Hex(digest)): &(&PathBuf, &Hex)| {
            Found::at(path).is_file() && files(path).is_ok_and(|now| now == *digest)
        };
        let moved_file = self.read.iter().chain(&self.watched).find(|file| !is_as_it_was(file));
        let moved = moved_file.map(|(path, _)| path);
        let moved = moved.or_else(|| {
            self.looked_at.iter().find(|(path, found)| !found.still_holds(path)).map(|(path, _)| path)
        });
        let moved = moved.or_else(|| {
            let lists_the_same = |path: &Path, then: &Hex| names(path).is_ok_and(|now| now == then.0);
            self.listed.iter().find(|(path, then)| !lists_the_same(path, then)).map(|(path, _)| path)
        });
        moved.map_or(Unchanged::Yes, |path| Unchanged::No(path.clone()))
    }

    /// The paths that a run read or listed although they are neither inputs nor readable unkeyed.
    pub fn uncovered<'o>(&self, observation: &'o Observation) -> BTreeSet<&'o Path> {
        let is_known = |path: &Path| {
            Unkeyed::covering(path).is_some()
                || self.read.contains_key(path)
                || self.is_real_path_of_a_file(path)
        };
        let read = observation.read.keys().map(PathBuf::as_path).filter(|path| !is_known(path));
        let listed = observation.listed.keys().map(PathBuf::as_path);
        let listed = listed.filter(|path| {
            Unkeyed::covering(path).is_none() && !self.listed.keys().any(|known| path.starts_with(known))
        });
        opkeep_order::set(read.chain(listed))
    }

    /// The same for programs that may decide by another name of an input file: no input records where such a name
    /// leads.
    pub fn uncovered_by_name<'o>(&self, observation: &'o Observation) -> BTreeSet<&'o Path> {
        let read = observation.read.keys().map(PathBuf::as_path);
        let read = read.filter(|path| Unkeyed::covering(path).is_none() && !self.read.contains_key(*path));
        opkeep_order::set(self.uncovered(observation).into_iter().chain(read))
    }

    /// Whether `path` is an input or need not be one.
    pub fn covers(&self, path: &Path) -> bool {
        Unkeyed::covering(path).is_some() || self.read.contains_key(path) || self.is_real_path_of_a_file(path)
    }

    /// Whether `path` is another name of a file that counts, such as through `..` or a symbolic link.
    fn is_real_path_of_a_file(&self, path: &Path) -> bool {
        let id = |path: &Path| Fs::new().metadata(path).ok().map(|found| FileId::of(&found));
        let name = path.file_name();
        let is_same = |known: &Path| id(known).is_some_and(|known| Some(known) == id(path));
        self.read.keys().filter(|known| known.file_name() == name).any(|known| is_same(known))
    }

    /// A domain in which these inputs, the unkeyed files, and all files in `work_dir` can be read.
    ///
    /// # Errors
    /// [`DomainError`]: Landlock is not available, or a file is missing.
    pub fn domain(&self, work_dir: &Path) -> Result<Domain, DomainError> {
        let mut domain = Domain::builder()?.beneath(work_dir)?;
        for path in self.read.keys() {
            domain = domain.file(path)?;
        }
        for path in self.listed.keys() {
            domain = domain.list(path)?;
        }
        for Unkeyed { path, .. } in UNKEYED {
            let path = Path::new(path);
            if Fs::new().exists(path) {
                domain = domain.beneath(path)?;
            }
        }
        domain.build()
    }
}

fn is_volatile(path: &Path) -> bool {
    Unkeyed::covering(path).is_some_and(|unkeyed| unkeyed.is_volatile)
}
