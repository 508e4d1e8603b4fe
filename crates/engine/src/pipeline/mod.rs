//! One kernel's way in a build: looked up, taken from another process that makes it, or compiled and published. What is
//! shared with other processes, and in which order, is the cache's.

mod compile;
mod imported;
mod kernel_pipeline;
mod lookup;
mod make;

pub(crate) use kernel_pipeline::{KernelPipeline, MissReason};
