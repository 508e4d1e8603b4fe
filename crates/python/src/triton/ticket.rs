//! The duty to make the files of a key.

use std::sync::Arc;

use opkeep_embed::{GroupTicket, StoredExpectations};
use pyo3::prelude::*;

use crate::call::{end_without_gil, without_gil};
use crate::triton::new_group::NewFiles;

/// The duty to make the files of a key.
#[pyclass(frozen, module = "opkeep._native")]
pub(crate) struct TritonTicket {
    pub(crate) ticket: GroupTicket,
    pub(crate) rules: Option<Arc<StoredExpectations>>,
}

#[pymethods]
impl TritonTicket {
    /// Publishes files that this process compiled. Returns whether they were written.
    fn publish(&self, py: Python<'_>, files: NewFiles) -> PyResult<bool> {
        without_gil(py, || files.publish(self.rules.as_deref(), |group| self.ticket.publish(group)))
    }

    /// Keeps files that this process found, on this machine only. Returns whether they were written.
    fn keep_found(&self, py: Python<'_>, files: NewFiles) -> PyResult<bool> {
        without_gil(py, || files.publish(self.rules.as_deref(), |group| self.ticket.keep_found(group)))
    }

    /// Ends the ticket; one of the waiters makes the files.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        without_gil(py, || self.ticket.abandon(None))
    }
}

impl Drop for TritonTicket {
    fn drop(&mut self) {
        end_without_gil(&self.ticket);
    }
}
