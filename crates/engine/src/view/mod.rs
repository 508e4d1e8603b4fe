//! The `kernel_meta` view: kernels where a framework looks for them.

pub(crate) mod contended;
pub(crate) mod group;
pub(crate) mod info_text;
pub(crate) mod own_kernels;
pub(crate) mod placed;
pub(crate) mod writer;
