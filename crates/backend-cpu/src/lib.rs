//! The reference backend: job -> readable C -> the system's compiler -> a real ELF shared object, named `.o` as
//! operator compilers name theirs, loaded and run on this machine.
//!
//! It exists so that everything above it can be built, tested and measured without an accelerator, by the same
//! contracts: same descriptors, same `.json`, same validation, same cache.
//!
//! # Operators
//!
//! Every elementwise operator of [`opbuild_ops::all`], unary and binary, with broadcasting, on float32 with static
//! shapes. What each computes is one line in `expression.rs`; how a loop over it looks, in `generate.rs`.
//!
//! # Launch ABI, version 1
//!
//! The kernel's symbol is `<name>__kernel0`:
//!
//! ```c
//! void name__kernel0(const void *const *inputs, void *const *outputs, void *workspace, unsigned long block);
//! ```
//!
//! * `inputs` holds one pointer for each tensor of `Job::data`, in order, variadic ones opened; `outputs` one for each
//!   output of the operator. Each points to exactly the tensor's elements, dense, row-major, aligned to an element
//!   (`bool` is one byte, 0 or 1).
//! * `workspace` points to as many bytes as the `.json` says, or is null.
//! * The function is called once for each `block` from 0 to `blockDim - 1`, in any order, on any threads. Blocks write
//!   disjoint parts of the outputs, and their number depends on the job alone: results are equal bit for bit for any
//!   number of threads.
//! * Inputs may be the same memory as each other, never as an output.
//!
//! The `.json` has one field of our own, `opbuildJob`: the digest of the job. The loader takes an object only for that
//! job, and only if its SHA-256 is the one in the `.json`.
//!
//! # Toolchain
//!
//! The compiler is [`CpuConfig::compiler`], else the first of `cc`, `gcc`, `clang` in [`CpuConfig::path`]. Its
//! fingerprint covers the driver and every program that a dry run (`-###`) shows it to run, the shared libraries that
//! these load (for clang, they are the compiler), files that arguments name, the target triple, all flags as the driver
//! resolves them, and the ABI's version. Operators that call libm carry that library's digest
//! among their own sources. Compilers see an environment of their own: `PATH`, `TMPDIR`, `LC_ALL=C`, nothing else.
//!
//! The default feature level is the architecture's baseline, so that kernels can be shared between machines;
//! [`Features::Native`] is this machine's, and then the resolved features are part of the fingerprint.

mod backend;
mod compile;
mod disk;
mod expression;
mod ffi;
mod generate;
mod libraries;
mod loader;
mod pieces;
mod process;
mod toolchain;

pub use backend::{CpuBackend, CpuConfig, Features};
pub use generate::{Generated, generate};

/// The version of the launch ABI. Part of every fingerprint.
pub const LAUNCH_ABI: u32 = 1;
