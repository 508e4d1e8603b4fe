//! Kernel names of opkeep, MindSpore, AKG and CANN.

pub(crate) mod error;
pub(crate) mod foreign;
pub(crate) mod generations;
pub(crate) mod kernel;
pub(crate) mod matches;
pub(crate) mod mindspore;
mod murmur;
