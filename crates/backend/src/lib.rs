//! The trait that a kernel compiler implements.
//!
//! A [`Backend`] turns one [`Job`](opkeep_descriptor::Job) into one [`Artifact`](opkeep_artifact::Artifact). It sees
//! neither the store nor other jobs. Each call gets a [`Context`]: digests of files, a cancellation token, a deadline and
//! a sink for warnings.
//!
//! Five methods are required. Three of them answer, before anything is compiled, what can change the bytes:
//! [`name`](Backend::name), [`toolchain`](Backend::toolchain) and [`op_sources`](Backend::op_sources).
//! [`expectations`](Backend::expectations) describes a valid kernel, [`compile`](Backend::compile) makes one. Loading and
//! running kernels is a second trait, [`Loader`]: a host that only compiles has none.
//!
//! Compiling takes milliseconds to minutes, so backends are used as `dyn Backend` and are synchronous; the engine brings
//! the threads.
//!
//! This crate does no I/O and names no vendor.

mod backend;
mod context;
mod dynamic_loading;
mod error;
mod loader;
mod registry;
mod slot;

pub use backend::{Backend, CompileRequest, Support};
pub use context::{Context, Diagnostics};
pub use dynamic_loading::check_dynamic_loading;
pub use error::{BackendError, FailedTool, ToolKind, Unsupported};
pub use loader::{Buffer, LoadedKernel, Loader};
pub use opkeep_digest::FileDigests;
pub use registry::{BackendEntry, Registry};
pub use slot::Slot;
