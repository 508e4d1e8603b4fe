//! The tensors that a model reads and writes.

pub(crate) mod compare;
pub(crate) mod feed;
pub(crate) mod tolerance;
pub(crate) mod values;
pub(crate) mod write;
