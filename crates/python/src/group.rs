//! The files of a hit.

use opkeep_embed::FileGroup;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The files of a hit.
#[pyclass(frozen, module = "opkeep._native")]
pub(crate) struct Group(pub(crate) FileGroup);

#[pymethods]
impl Group {
    #[getter]
    fn key(&self) -> String {
        self.0.key().to_string()
    }

    #[getter]
    fn waited(&self) -> bool {
        self.0.waited()
    }

    fn names(&self) -> Vec<&str> {
        self.0.names().collect()
    }

    /// Returns a copy of a file's bytes: Python 3.10 has no stable way to show the bytes of another object.
    fn get<'py>(&self, py: Python<'py>, name: &str) -> Option<Bound<'py, PyBytes>> {
        self.0.get(name).map(|bytes| PyBytes::new(py, bytes))
    }

    fn digest(&self, name: &str) -> Option<String> {
        self.0.digest(name).map(ToString::to_string)
    }

    fn record(&self) -> Record {
        let Some(record) = self.0.record() else { return Record::default() };
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
