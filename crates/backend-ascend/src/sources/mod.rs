//! What an operator's sources are, and what they import.
//!
//! A fingerprint of these sources is the part of a key that the toolchain does not have:
//!
//! - The operator's modules, Ascend C sources, and what both import of the operators' packages count file by file;
//!   where a name is known only when the module runs, the whole package counts.
//! - Modules from elsewhere that an operator names count with all that importing them reads.

pub(crate) mod ascendc;
pub(crate) mod externals;
pub(crate) mod import_closure;
pub(crate) mod imports;
pub(crate) mod op_sources;
pub(crate) mod python;
