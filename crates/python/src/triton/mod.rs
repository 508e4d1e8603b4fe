//! The native part of the cache manager for Triton; the rest is in `python/opkeep/triton`.

mod code;
mod directory;
mod files;
mod new_group;
mod record;
mod ticket;
mod toolchain;

use pyo3::prelude::*;

/// Adds the names of this part to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<code::PackageCode>()?;
    module.add_class::<directory::Directory>()?;
    module.add_class::<files::TritonFiles>()?;
    module.add_class::<ticket::TritonTicket>()?;
    module.add_class::<toolchain::Toolchain>()?;
    module.add_class::<toolchain::Toolchains>()
}
