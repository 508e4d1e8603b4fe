//! Test support, used from `tests/` directories only: never published, never part of a product.
//!
//! * [`conformance`]: one suite that every backend must pass.
//! * [`NullBackend`]: a backend that compiles any job at once, without a compiler, to a kernel that does nothing; it
//!   can be made to fail, to return wrong results or to be slow. [`CompileLog`]: its compiles, in all processes.
//! * [`TestContext`]: the context that a test passes to a backend.
//! * [`elf`]: writes small, valid kernel objects for this host.
//! * [`ascend`]: writes kernels for Ascend chips as the vendor's compilers do; [`image`]: any ELF file; [`patch`]:
//!   changes one field of it.
//! * [`caches`]: kernels as frameworks leave them in their caches.
//! * [`toolkit`]: a stand-in for the CANN toolkit, whose `opc` compiles without CANN; [`toolkit::package`]: one for builds of
//!   operator packages, whose `bisheng` is the machine's clang.
//! * [`fault`]: a disk that fails, is gone or loses power at a chosen call; [`DirSnapshot`] keeps and restores its files.
//! * [`far_dir`]: a directory to which no relative path leads from those of other tests.
//! * [`TestClock`]: a clock that a test moves.
//! * [`corpus`]: files that may not be redistributed. [`Counting`], [`most_bytes`] and [`allocations`]: the memory that
//!   code uses.
//! * [`remote`]: a remote tier in memory that can be slow, wrong, full or gone.
//! * [`proxy`]: a network that is slow, or fails at any byte. [`Port`]: a port that no other test takes.
//! * [`servers`]: real servers, such as Redis, on ports of their own. `grpc`, behind a feature: gRPC by hand.
//! * [`run_apart`], [`run_waiting`]: trials in processes of their own, and trials that mostly wait.
//! * [`mutation_seeds`], [`is_turn`]: which parts of the longest tests a run takes.
//! * [`interleave`](mod@interleave): runs threads one at a time, and switches between them at calls to the disk in a
//!   given order.

pub mod ascend;
pub mod caches;
mod changes;
mod clock;
mod compile_log;
pub mod conformance;
mod context;
pub mod corpus;
mod cpu_time;
pub mod device;
mod digests;
mod dir_snapshot;
pub mod elf;
mod far;
pub mod fault;
mod ffi;
#[cfg(feature = "grpc")]
pub mod grpc;
pub mod image;
mod interleave;
mod null;
pub mod patch;
mod port;
pub mod proxy;
pub mod remote;
pub mod servers;
pub mod terminal;
pub mod toolkit;
mod trials;
mod turns;

pub use changes::at_each_change;
pub use clock::TestClock;
pub use compile_log::{CompileLog, LoggedCompile, since_1970};
pub use context::TestContext;
pub use cpu_time::CpuTime;
pub use digests::{PlainDigests, fingerprint};
pub use dir_snapshot::DirSnapshot;
pub use far::far_dir;
pub use ffi::{
    Counting, ForkedChild, Means, allocations, become_user, close_all_files, fork, in_forked_child,
    most_bytes, without_means,
};
pub use interleave::{Body, interleave};
pub use null::NullBackend;
pub use port::Port;
pub use trials::{run_apart, run_waiting};
pub use turns::{MUTATION_SEEDS, is_turn, mutation_seeds};

use opkeep_descriptor::{BuildSpec, Descriptor, Envelope, Job};
use opkeep_ops::Graph;

/// The job of one operator on float32 inputs of the given shapes. Panics if the operator does not fit.
pub fn job(op_type: &str, shapes: &[&[i64]]) -> Job {
    let mut graph = Graph::new("test");
    let inputs: Vec<_> = shapes
        .iter()
        .enumerate()
        .map(|(at, shape)| graph.input(&format!("x{at}"), "float32", *shape))
        .collect();
    #[expect(clippy::panic, reason = "a test that asks for the impossible has to be mended")]
    if let Err(error) = graph.node("node", op_type, &inputs, []) {
        panic!("{op_type} {shapes:?}: {error}");
    }
    graph.jobs().remove(0).1
}

/// The descriptor of [`job`] with the name `name`, as a program creates it.
pub fn descriptor(name: &str, op_type: &str, shapes: &[&[i64]]) -> Descriptor {
    Descriptor {
        job: job(op_type, shapes),
        spec: BuildSpec::new("cpu"),
        envelope: Envelope { full_name: name.to_owned(), ..Envelope::default() },
    }
}
