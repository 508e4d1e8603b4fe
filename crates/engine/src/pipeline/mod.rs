//! The steps for one kernel in a build: look it up, take it from another process that builds it, or compile and publish
//! it.
//!
//! `opkeep-cache` coordinates the processes: it takes the kernel's lock, then looks the kernel up again. A job token
//! and the compile follow.
//!
//! - **Other hosts.** All kernels that the store lacks are looked up in the remote tier in one call ([`fetch`]), and each is
//!   looked up again under its lock. Then the process waits for a job token, claims the kernel's lease, and compiles: a
//!   host never has more leases than tokens. After the publication a thread sends the kernel, then releases the lease.
//! - **After the compile** the artifact is validated, and the fingerprints of the toolchain and the sources are
//!   computed again. If one of them changed during the compile, the kernel is returned and not stored.
//! - **Failures.** The input and the output of the compiler are moved to `failed/` in the work directory, without the
//!   largest files; the last 32 are kept. Waiters get the failure if it would occur for them as well. Failures are not
//!   stored on disk as results.
//! - **Stored kernels** that were validated with other expectations or older rules are validated again. The validation
//!   is recorded only if the rules of this build are newer.
//! - **Imported kernels** are the last resort: see [`imported`].

mod compile;
mod fetch;
mod imported;
mod kernel_pipeline;
mod lookup;
mod make;

pub(crate) use kernel_pipeline::{KernelPipeline, MissReason};
