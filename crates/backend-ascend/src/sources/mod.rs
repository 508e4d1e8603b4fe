//! What an operator's sources are, and what they import.

pub(crate) mod ascendc;
pub(crate) mod externals;
pub(crate) mod import_closure;
pub(crate) mod imports;
pub(crate) mod op_sources;
pub(crate) mod python;
