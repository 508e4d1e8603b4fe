//! Kernels that are requested one at a time, and kept in memory.

pub(crate) mod cache;
pub(crate) mod get_or_build;
pub(crate) mod size;
