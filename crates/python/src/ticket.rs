//! The duty to make the files of a group.

use opkeep_embed::GroupTicket;
use pyo3::prelude::*;

use crate::arguments::optional_text;
use crate::call::{end_without_gil, without_gil};
use crate::files::Files;

/// The duty to make the files of a group.
#[pyclass(frozen, module = "opkeep._native")]
pub(crate) struct Ticket {
    pub(crate) ticket: GroupTicket,
    #[pyo3(get)]
    pub(crate) unshared_reason: Option<String>,
}

#[pymethods]
impl Ticket {
    #[getter]
    fn key(&self) -> String {
        self.ticket.key().digest().to_string()
    }

    #[getter]
    fn is_held(&self, py: Python<'_>) -> PyResult<bool> {
        // The thread that renews the ticket may be writing.
        without_gil(py, || Ok(self.ticket.is_held()))
    }

    fn publish(
        &self,
        py: Python<'_>,
        files: &Bound<'_, PyAny>,
        kernel: &Bound<'_, PyAny>,
        framework_version: &Bound<'_, PyAny>,
        compile_time: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let files = Files::new(files, kernel, framework_version, compile_time)?;
        without_gil(py, || self.ticket.publish(&files.group()))
    }

    #[pyo3(signature = (reason))]
    fn abandon(&self, py: Python<'_>, reason: &Bound<'_, PyAny>) -> PyResult<()> {
        let reason = optional_text("reason", reason)?;
        without_gil(py, || self.ticket.abandon(reason.as_deref()))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        end_without_gil(&self.ticket);
    }
}
