//! Kernels with a CANN description: the `.json`, the object, and whether they belong together.

pub(crate) mod claims;
pub(crate) mod description;
pub(crate) mod device;
pub(crate) mod fat;
pub(crate) mod lints;
mod missing_fields;
pub(crate) mod objects;
pub(crate) mod pair;
