//! Incremental operator build: each kernel is compiled once, checked, kept, and reused everywhere.
//!
//! This is the crate that frameworks compose. It owns no operator, no compiler and no vendor: a [`Builder`] is given a
//! [`Backend`](opbuild_backend::Backend), told where the store is, and asked to build. Per kernel it goes
//!
//! ```text
//! descriptor -> key -> look up ──hit──────────────────────────────> verified bytes -> kernel_meta view
//!                         └──miss──> lock the key, look again -> compile -> validate -> publish ┘
//! ```
//!
//! * Equal jobs are one kernel, however many nodes, ranks or files ask for them.
//! * Nothing enters the store that the validator refuses, or whose toolchain changed while it compiled.
//! * A store that cannot be used costs one warning; the build goes on without it. Only the modes that insist on the
//!   store ([`Mode::ReadOnly`], [`Mode::Require`]) fail.
//! * A job that fails does not stop the others; the report has one outcome for each kernel.
//!
//! No global state and no printing; of the environment only the system's temporary folder is used, unless
//! [`Builder::work_base`] names another. Everything is `Send + Sync`.
//!
//! ```
//! use std::sync::Arc;
//!
//! use opbuild::{Builder, Outcome, Request};
//! use opbuild_backend_cpu::{CpuBackend, CpuConfig};
//! use opbuild_descriptor::{BuildSpec, read_info};
//! use opbuild_store::Config;
//!
//! let descriptor = read_info(include_bytes!("../../../fixtures/mindspore/square_12484080525657478220_2.info"))?;
//! let request = Request::new(descriptor).with_spec(BuildSpec::new("cpu"));
//!
//! # let folder = tempfile::tempdir()?;
//! let backend = CpuBackend::new(CpuConfig::new("/usr/local/bin:/usr/bin:/bin"));
//! let builder = Builder::new(Arc::new(backend)).store(Config::new(folder.path().join("cache")));
//! let report = builder.build(&[request.clone()])?;
//! assert_eq!(report.kernels[0].outcome, Outcome::Compiled);
//!
//! // The second build compiles nothing.
//! let report = builder.build(&[request])?;
//! assert_eq!(report.kernels[0].outcome, Outcome::Reused);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod builder;
mod debug;
mod disk;
mod error;
mod event;
mod explain;
mod handover;
mod header;
mod make;
mod memo;
mod nearest;
mod network;
mod parallel;
mod plan;
mod report;
mod session;
mod view;
mod warnings;
mod work;

pub use builder::{Builder, Request, ViewConfig};
pub use debug::{DebugConfig, DebugConfigError};
pub use error::{BuildError, JobError};
pub use event::Event;
pub use explain::{Explanation, Fate};
pub use memo::DigestMemo;
pub use nearest::Nearest;
pub use network::{NetworkBuild, requests};
pub use opbuild_store::Mode;
pub use report::{BuildReport, KernelReport, Outcome, Placed};
pub use session::{RunError, Session, Step};

/// The README's example, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
