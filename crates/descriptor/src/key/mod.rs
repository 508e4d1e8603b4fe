//! Keys: which fields count, what a key is made of, keys of imported kernels.

pub(crate) mod hash;
pub(crate) mod import;
pub(crate) mod job_cache;
pub(crate) mod parts;
