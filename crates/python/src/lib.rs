//! The native part of the Python package `opkeep`; its public names are in `python/opkeep`.
//!
//! The lock of the interpreter is released wherever a call waits, reads or writes. A panic becomes the Python exception
//! `InternalError`.

mod arguments;
mod cache;
mod call;
mod command;
mod engine;
mod error;
mod files;
mod group;
mod key;
mod remote;
mod signals;
mod ticket;
mod triton;

use pyo3::prelude::*;

/// The native part of opkeep.
// Free-threaded interpreters cannot load a module of the stable ABI, so none was tested.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<cache::Cache>()?;
    module.add_class::<group::Group>()?;
    module.add_class::<group::Record>()?;
    module.add_class::<ticket::Ticket>()?;
    module.add_class::<command::CommandFailure>()?;
    module.add_function(wrap_pyfunction!(command::run, module)?)?;
    module.add_function(wrap_pyfunction!(remote::check_remote, module)?)?;
    triton::add_to(module)?;
    #[cfg(debug_assertions)]
    module.add_function(wrap_pyfunction!(call::panics, module)?)?;
    Ok(())
}
