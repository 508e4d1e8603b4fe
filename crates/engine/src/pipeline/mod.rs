//! One kernel's way in a build: looked up, taken from another process that builds it, or compiled and published.
//!
//! What is shared with other processes, and in which order, is decided by `opkeep-cache`: the kernel's lock, then a
//! second look-up. A job token and the compile follow.
//!
//! - **After the compile** the artifact is validated, and the fingerprints of the toolchain and the sources are taken
//!   again. If one has changed meanwhile, the kernel is returned and not stored.
//! - **Failures.** What the compiler worked on and printed is moved to `failed/` in the work directory, without the
//!   largest files; the last 32 are kept. Waiters get the failure if it would occur for them as well. No failure is
//!   stored on disk as a result.
//! - **Stored kernels** that other expectations or older rules let in are validated again. That is recorded only if the
//!   rules of this build are newer.
//! - **Imported kernels** are the last resort: see [`imported`].

mod compile;
mod imported;
mod kernel_pipeline;
mod lookup;
mod make;

pub(crate) use kernel_pipeline::{KernelPipeline, MissReason};
