//! Why kernels are missing: their causes with the kernels that each hits, as text and as JSON.

pub(crate) mod output;
mod parts;
pub(crate) mod text;
