//! The content of the compilers that Triton runs.

use std::path::PathBuf;

use opkeep_digest::{Digest, Fingerprint};
use opkeep_fs::Fs;
use pyo3::prelude::*;

use crate::call::without_gil;

/// The content of the compilers, as far as Triton's key does not cover it.
#[pyclass(frozen, module = "opkeep._native")]
pub(crate) struct Toolchain(pub(crate) Fingerprint);

#[pymethods]
impl Toolchain {
    /// Takes the names, digests and notes of the parts.
    #[new]
    fn new(parts: Vec<(String, [u8; Digest::LEN], String)>) -> Self {
        let mut fingerprint = Fingerprint::new();
        for (name, digest, note) in parts {
            fingerprint.add(name, Digest::from_bytes(digest), note);
        }
        // Computed now, so that the keys which are derived from it share the result.
        fingerprint.digest();
        Self(fingerprint)
    }
}

/// Returns the SHA-256 digest of a file.
#[pyfunction]
pub(crate) fn digest_of_file(py: Python<'_>, path: PathBuf) -> PyResult<[u8; Digest::LEN]> {
    let digest =
        without_gil(py, || Ok(Fs::default().open_file(&path).and_then(|(file, _)| Digest::of_reader(file))))?;
    Ok(*digest?.as_bytes())
}
