//! Incremental operator build: each kernel is compiled once, checked, kept, and reused everywhere.
//!
//! Frameworks use this crate directly. It contains no operator, no compiler and no code of a vendor: an [`Engine`]
//! takes a [`Backend`] and a [`Config`], and builds requests. The steps for each kernel:
//!
//! ```text
//! descriptor -> key -> look up ──hit──────────────────────────────> verified bytes -> kernel_meta view
//!                         └──miss──> lock the key, look again -> compile -> validate -> publish ┘
//! ```
//!
//! * Equal jobs share one kernel, for any number of nodes, ranks or files that request it.
//! * A kernel is not stored if the validator refuses it, or if the toolchain changed during the compile.
//! * If the store cannot be used, the build emits one warning and continues without it. Only the modes that require a
//!   store ([`CacheMode::ReadOnly`], [`CacheMode::Require`]) fail.
//! * A job that fails does not stop the others, unless [`Config::fail_fast`] is set; the report has one outcome for
//!   each kernel. Failures are remembered in memory only. The input and the output of a failed compiler are kept in the
//!   work directory, and the error names their directory.
//! * If a backend panics, hangs or is cancelled, only the kernel that it compiles is lost, and waiters build that
//!   kernel themselves.
//!
//! The engine has no global state and prints nothing. From the environment it uses only the system's directory for
//! temporary files, unless [`Config::work_dir`] names another directory. Every type is `Send + Sync`. To use two
//! backends at once, create two engines.
//!
//! ```
//! use std::sync::Arc;
//!
//! use opkeep::{Config, Engine, Outcome, Request};
//! use opkeep_backend_cpu::{CpuBackend, CpuConfig};
//! use opkeep_descriptor::{BuildSpec, read_info};
//! use opkeep_store::StoreConfig;
//!
//! let text = std::fs::read("../../fixtures/mindspore/square_12484080525657478220_2.info")?;
//! let descriptor = read_info(&text)?;
//! let request = Request::new(descriptor).with_spec(BuildSpec::new("cpu"));
//!
//! # let temp = tempfile::tempdir()?;
//! let backend = CpuBackend::new(CpuConfig::new("/usr/local/bin:/usr/bin:/bin"));
//! let config = Config::with_store(StoreConfig::new(temp.path().join("cache")));
//! let engine = Engine::new(Arc::new(backend), config);
//! let report = engine.build(&[request.clone()])?;
//! assert_eq!(report.kernels[0].outcome, Outcome::Compiled);
//!
//! // The second build compiles nothing.
//! let report = engine.build(&[request])?;
//! assert_eq!(report.kernels[0].outcome, Outcome::Reused);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # One by one
//!
//! A framework that finds its operators at run time requests each with [`Engine::get_or_build`], from any number of
//! threads. Repeated requests are answered from memory, up to [`Config::memory_bytes`] bytes of kernels. If several
//! threads request the same kernel, one of them builds it.
//!
//! ```
//! # use std::sync::Arc;
//! # use opkeep::{Config, Engine, requests};
//! # use opkeep_backend_cpu::{CpuBackend, CpuConfig};
//! # use opkeep_descriptor::BuildSpec;
//! # use opkeep_ops::Graph;
//! # use opkeep_store::StoreConfig;
//! # let temp = tempfile::tempdir()?;
//! # let backend = CpuBackend::new(CpuConfig::new("/usr/local/bin:/usr/bin:/bin"));
//! # let config = Config::with_store(StoreConfig::new(temp.path().join("cache")));
//! # let engine = Engine::new(Arc::new(backend), config);
//! # let mut graph = Graph::new("example");
//! # let x = graph.input("x", "float32", [8]);
//! # graph.node("act", "Relu", &[x], [])?;
//! # let request = requests(&graph, &BuildSpec::new("cpu")).remove(0);
//! let kernels = std::thread::scope(|scope| {
//!     let threads = [(); 4].map(|()| scope.spawn(|| engine.get_or_build(&request)));
//!     threads.map(|thread| thread.join().unwrap())
//! });
//! let first = kernels[0].as_ref().unwrap();
//! assert!(kernels.iter().flatten().all(|kernel| Arc::ptr_eq(kernel, first)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Events
//!
//! [`Engine::with_observer`] sets a function that gets an [`Event`] for each step of each kernel. Events carry the
//! kernels, too: a build of any number of kernels needs little memory if the caller takes kernels from the events or
//! from the view, and [`Config::keep_artifacts`] is off.
//!
//! ```
//! # use std::sync::Arc;
//! use std::sync::atomic::{AtomicUsize, Ordering};
//!
//! # use opkeep::{Config, Engine, requests};
//! # use opkeep_backend_cpu::{CpuBackend, CpuConfig};
//! # use opkeep_descriptor::BuildSpec;
//! # use opkeep_ops::Graph;
//! use opkeep::{Event, Outcome};
//!
//! # let mut graph = Graph::new("example");
//! # let x = graph.input("x", "float32", [8]);
//! # graph.node("act", "Relu", &[x], [])?;
//! # let requests = requests(&graph, &BuildSpec::new("cpu"));
//! # let backend = Arc::new(CpuBackend::new(CpuConfig::new("/usr/local/bin:/usr/bin:/bin")));
//! let bytes = Arc::new(AtomicUsize::new(0));
//! let sum = Arc::clone(&bytes);
//! let mut config = Config::default();
//! config.keep_artifacts = false;
//! let engine = Engine::new(backend, config).with_observer(move |event| {
//!     if let Event::Hit { artifact, .. } | Event::Finished { artifact, .. } = event {
//!         sum.fetch_add(artifact.object.len(), Ordering::Relaxed);
//!     }
//! });
//! let report = engine.build(&requests)?;
//! assert_eq!(report.count(Outcome::Compiled), 1);
//! assert!(report.kernels[0].artifact.is_none() && bytes.load(Ordering::Relaxed) > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Many processes
//!
//! The ranks of a machine start together and need the same kernels. No process coordinates them: each goes through its
//! missing kernels, the longest compile first, and builds those that no other process builds.
//!
//! ```text
//! rank 0   missing: A B C D     lock A ─> look again ─> token ─> compile A ─> publish ─> unlock
//! rank 1   missing: A B C D     lock B ─> look again ─> token ─> compile B ─> publish ─> unlock
//! rank 2   missing: A B C D     lock A: held, put back; lock B: held, put back; lock C ─> look again ─> token: wait ...
//!                               ... and when nothing else is left, retry A and B, every 1 to 20 ms:
//!                               lock A ─> look again: found ─> shared
//! ```
//!
//! * The lock of a kernel is a `flock` beside the store's entries. It is released when the process exits, and one of
//!   the waiters continues. A lock holder that fails passes the reason to the waiters if the failure would occur for
//!   them as well. A lock holder without a heartbeat for longer than a compile may take is stale, and waiters stop
//!   waiting for it.
//! * A job token is a `flock` on a file in this user's work directory. There is one such file for each compiler that
//!   may run on this machine ([`Config::machine_jobs`]). A process requests a token while it holds the kernel's lock,
//!   and never the other way round, so there is no deadlock. [`Config::nice`] lowers the priority of compilers.
//! * Compile times are recorded beside the tokens, by backend, target and operator types, for the order of the next build.
//!
//! # Examples
//!
//! `cargo run -p opkeep --example framework` composes the crates as a framework would, for a target that is one word.
//! `--example custom_backend` defines a backend in under a hundred lines, and uses two backends at once with one store.

mod config;
mod debug;
mod engine;
mod error;
mod event;
mod expectations;
mod explain;
mod file_digests;
mod import_query;
mod memory;
mod network;
mod outcome;
mod pipeline;
mod plan;
mod ready;
mod record;
mod report;
mod request;
mod runtime;
mod schedule;
mod setup;
mod tier;
mod view;
mod warning;
mod warning_log;
mod work_dir;

pub use config::{Config, RecordConfig, ViewConfig, ViewLocation, ViewPolicy};
pub use debug::{DebugConfig, DebugConfigError};
pub use engine::Engine;
pub use error::{BuildError, KernelError};
pub use event::{Event, MissingKernel};
pub use explain::causes::{
    KeyChanges, MissCause, MissExplanation, MissGroup, RemovedEntries, UnfinishedKernels,
};
pub use explain::former::{BuildEnd, FormerEntry, StoredBy, UnfinishedBuild};
pub use explain::nearest_entry::NearestEntry;
pub use explain::other_targets::OtherTargets;
pub use explain::untrusted::UntrustedEntries;
pub use explain::{CacheStatus, Explanation};
pub use file_digests::FileDigestCache;
pub use memory::cache::BuiltKernel;
pub use network::requests::{BuiltNetwork, requests};
pub use network::session::{NodeTiming, RunError, Session};
pub use opkeep_kernel_meta::{
    DirectoryRisk, ForeignFiles, ForeignKernel, LeaveForeign, LeftKernel, LeftReason, STAYS_DISPLACED,
    ViewError,
};
pub use outcome::Outcome;
pub use record::path::{CriticalPath, PathSegment, SegmentKind};
pub use record::{BuildPhases, BuildRecord, LostTime, RecordedBuilds, RecordedHits, RecordedKernel};
pub use report::{BuildReport, KernelReport, ViewPlacement};
pub use request::Request;
pub use tier::Tier;
pub use view::group::ViewGroup;
pub use warning::{Warning, WarningKind};

// The types of the signatures above, for a framework or a custom backend that depends on this crate and one backend
// only.
pub use opkeep_artifact::{
    Artifact, ArtifactCheck, CheckId, CheckInput, ElfLayout, ElfRules, Expectations, Format, Member,
    MetadataRules, OpaqueRules, Severity,
};
pub use opkeep_backend::{
    Backend, BackendEntry, BackendError, Buffer, CompileRequest, Context, Diagnostics, FileDigests,
    LoadedKernel, Loader, Registry, Support, Unsupported,
};
pub use opkeep_cache::{
    Cache, CacheError, Claim, Query, RefusalKind, RemoteConfig, RemoteStatus, TargetCache, Ticket,
    TrustConfig,
};
pub use opkeep_descriptor::{
    Arg, BuildSpec, Descriptor, Diff, Envelope, Job, KernelName, Key, ResolvedSpec, read_info,
};
pub use opkeep_digest::{Digest, Fingerprint, PartChange};
pub use opkeep_fs::{CancelToken, Fs};
pub use opkeep_kernel_entry::{EntryError, Provenance};
pub use opkeep_ops::Graph;
pub use opkeep_store::{CacheMode, Statistics, StoreConfig};
pub use opkeep_validator::Finding;
// The crates of these types, for the types in their signatures.
pub use {
    opkeep_artifact as artifact, opkeep_backend as backend, opkeep_cache as cache,
    opkeep_descriptor as descriptor, opkeep_digest as digest, opkeep_fs as fs,
    opkeep_kernel_entry as kernel_entry, opkeep_kernel_meta as kernel_meta, opkeep_ops as ops,
    opkeep_store as store, opkeep_validator as validator,
};

/// The README's example, which the documentation tests compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
