//! The native part of the Python package `opkeep`; its public names are in `python/opkeep`.

use pyo3::prelude::*;

/// The native part of opkeep.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
