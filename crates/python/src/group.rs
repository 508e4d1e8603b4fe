//! The files of a hit.

use opkeep_embed::FileGroup;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;

/// The files of a hit.
#[pyclass(frozen, module = "opkeep._native")]
pub(crate) struct Group {
    files: FileGroup,
    /// The files as Python objects, each made at its first access.
    objects: Vec<PyOnceLock<Py<PyBytes>>>,
}

impl Group {
    pub(crate) fn new(files: FileGroup) -> Self {
        let objects = files.names().map(|_| PyOnceLock::new()).collect();
        Self { files, objects }
    }
}

#[pymethods]
impl Group {
    #[getter]
    fn key(&self) -> String {
        self.files.key().to_string()
    }

    #[getter]
    fn waited(&self) -> bool {
        self.files.waited()
    }

    #[getter(from_remote)]
    fn is_from_remote(&self) -> bool {
        self.files.from_remote()
    }

    fn names(&self) -> Vec<&str> {
        self.files.names().collect()
    }

    /// Returns a file's bytes, the same object each time. It is a copy: Python 3.10 has no stable way to show the bytes of
    /// another object.
    fn get(&self, py: Python<'_>, name: &str) -> Option<Py<PyBytes>> {
        let place = self.files.names().position(|known| known == name)?;
        let bytes = self.files.get(name)?;
        let object = self.objects.get(place)?.get_or_init(py, || PyBytes::new(py, bytes).unbind());
        Some(object.clone_ref(py))
    }

    fn digest(&self, name: &str) -> Option<String> {
        self.files.digest(name).map(ToString::to_string)
    }

    fn record(&self) -> Record {
        let Some(record) = self.files.record() else { return Record::default() };
        Record {
            framework: record.key.framework,
            framework_version: record.framework_version,
            target: record.key.target,
            kernel: record.kernel,
            compile_time: record.compile_time.map(|time| time.as_secs_f64()),
        }
    }
}

/// The record of a group: what reports state.
#[pyclass(frozen, get_all, module = "opkeep._native")]
#[derive(Default)]
pub(crate) struct Record {
    framework: String,
    framework_version: String,
    target: String,
    kernel: String,
    compile_time: Option<f64>,
}
