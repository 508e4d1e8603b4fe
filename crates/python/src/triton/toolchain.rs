//! The content of the compilers that Triton runs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use opkeep::FileDigestCache;
use opkeep_digest::{Digest, FileDigests, Fingerprint};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use crate::call::without_gil;

/// The content of the compilers, as far as Triton's key does not cover it.
#[pyclass(frozen, eq, module = "opkeep._native")]
pub(crate) struct Toolchain(pub(crate) Fingerprint);

#[pymethods]
impl Toolchain {
    /// Its digest, as 64 hexadecimal digits.
    #[getter]
    fn digest(&self) -> String {
        self.0.digest().to_string()
    }
}

impl PartialEq for Toolchain {
    /// Whether both are one content, whatever the notes.
    fn eq(&self, other: &Self) -> bool {
        self.0.digest() == other.0.digest()
    }
}

/// A part of a toolchain: its name, its file, and a note. Without a file, the note is the content.
type Part = (String, Option<PathBuf>, String);

/// The maximum number of toolchains that are remembered: a process has one for each target, and one of its launchers.
const MAX_KNOWN: usize = 32;

/// The toolchains of this process. The digests of their files are shared with this user's other processes on this machine.
#[pyclass(frozen, module = "opkeep._native")]
pub(crate) struct Toolchains {
    work_dir: PathBuf,
    digests: OnceLock<FileDigestCache>,
    /// The most recently requested one is the last.
    known: Mutex<Vec<Known>>,
}

/// A toolchain that was requested: its parts, their digests, and itself.
type Known = (Vec<Part>, Vec<Digest>, Py<Toolchain>);

#[pymethods]
impl Toolchains {
    /// Remembers digests in this user's directory in `work_dir`.
    #[new]
    fn new(work_dir: PathBuf) -> Self {
        Self { work_dir, digests: OnceLock::new(), known: Mutex::default() }
    }

    /// Returns the toolchain of these parts. Links are followed.
    fn of(&self, py: Python<'_>, parts: Vec<Part>) -> PyResult<Py<Toolchain>> {
        let digests = without_gil(py, || Ok(self.digests_of(&parts)))?;
        let digests = digests.map_err(|(path, error)| os_error(&path, error))?;
        if let Some(found) = self.known(py, &parts, &digests) {
            return Ok(found);
        }
        let mut fingerprint = Fingerprint::new();
        for ((name, path, note), digest) in parts.iter().zip(&digests) {
            let path = path.as_deref().map_or(Default::default(), Path::to_string_lossy);
            fingerprint.add(name.as_str(), *digest, format!("{path} {note}").trim());
        }
        // Computed now, so that the keys which are derived from it share the result.
        fingerprint.digest();
        let toolchain = Py::new(py, Toolchain(fingerprint))?;
        let known = (parts, digests, toolchain.clone_ref(py));
        // Objects are created and dropped without this lock: both may run code of Python.
        let mut list = self.locked(py);
        let dropped = (list.len() == MAX_KNOWN).then(|| list.remove(0));
        list.push(known);
        drop(list);
        drop(dropped);
        Ok(toolchain)
    }
}

impl Toolchains {
    /// Returns the toolchain of earlier parts of the same content.
    fn known(&self, py: Python<'_>, parts: &[Part], digests: &[Digest]) -> Option<Py<Toolchain>> {
        let mut list = self.locked(py);
        let place = list.iter().rposition(|known| known.1 == digests && known.0 == parts)?;
        list.get_mut(place..)?.rotate_left(1);
        list.last().map(|(.., toolchain)| toolchain.clone_ref(py))
    }

    /// The list. A thread that waits for it does so without the lock of the interpreter, which its holder may need.
    fn locked(&self, py: Python<'_>) -> MutexGuard<'_, Vec<Known>> {
        self.known.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the digest of each part, or the file that cannot be read.
    fn digests_of(&self, parts: &[Part]) -> Result<Vec<Digest>, (PathBuf, io::Error)> {
        let cache = self.digests.get_or_init(|| FileDigestCache::of_user(&self.work_dir));
        let digest_of = |(_, path, note): &Part| match path {
            Some(path) => cache.digest(path).map_err(|error| (path.clone(), error)),
            None => Ok(Digest::of(note.as_bytes())),
        };
        let digests = parts.iter().map(digest_of).collect();
        cache.save();
        digests
    }
}

/// Returns the exception for a file, as Python's own functions raise it.
pub(super) fn os_error(path: &Path, error: io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(number) => PyOSError::new_err((number, error.kind().to_string(), path.to_owned())),
        None => error.into(),
    }
}
