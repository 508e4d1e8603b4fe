//! The parts of a descriptor: the job, the build spec, the envelope.

pub(crate) mod descriptor;
pub(crate) mod flags;
pub(crate) mod generation;
pub(crate) mod job;
pub(crate) mod metadata;
pub(crate) mod number;
pub mod options;
pub(crate) mod spec;
