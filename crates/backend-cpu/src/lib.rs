//! The reference backend: job -> readable C -> the system's compiler -> a real ELF shared object, named `.o` as
//! operator compilers name theirs, loaded and run on this machine.
//!
//! It exists so that everything above it can be built, tested and measured without an accelerator, by the same
//! contracts: same descriptors, same `.json`, same validation, same cache.
//!
//! # Operators
//!
//! Those of [`opkeep_ops::all`], with static shapes, one operator a kernel. `generate.rs` hands each to the generator
//! of its rule; what the elementwise ones compute is one line each in `expression.rs` and `integer.rs`.
//!
//! * float32: every operator that computes.
//! * int32 and int64 as well: sums, differences, products, divisions and remainders; maximum, minimum, sign and
//!   absolute value; comparisons; `ClipByValue`, `AccumulateNV2`, and all reductions but the mean. They wrap, and a
//!   division by zero gives 0.
//! * bool: `LogicalAnd`, `LogicalOr`, `LogicalXor`, `LogicalNot`, `Equal`, `NotEqual`.
//! * Every type of 1, 2, 4 or 8 bytes: what moves elements, repeats them or chooses between them, such as
//!   `Transpose`, `PadV3` or `SelectV2`.
//! * `Cast`: float32, float64, bool, whole numbers of 8 to 64 bits. A float beyond a whole number's range becomes its
//!   nearest end, and what is no number becomes 0.
//!
//! Sums are kept in double precision and in one order. An index of `GatherV2` that names no item gives zeros. Tensors
//! may be empty; the mean of nothing is no number.
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
//! The `.json` has one field of our own, `opkeepJob`: the digest of the job. The loader takes an object only for that
//! job, and only if its SHA-256 is the one in the `.json`.
//!
//! # Toolchain
//!
//! The compiler is [`CpuConfig::compiler`], else the first of `cc`, `gcc`, `clang` in [`CpuConfig::path`]. Launchers such as
//! ccache are left out. It is observed while it compiles two small sources; its fingerprint covers every file that it reads
//! by content, the arguments of each step less paths, the target triple, all flags as the driver resolves them,
//! [`CpuConfig::inputs`], and the ABI's version. Kernels are compiled with nothing else to read. Operators that call libm
//! carry what the linker reads for it among their own sources. Compilers see an environment of their own: `PATH`, `TMPDIR`,
//! `LC_ALL=C`, `PYTHONDONTWRITEBYTECODE=1`, nothing else.
//!
//! The default feature level is the architecture's baseline, so that kernels can be shared between machines;
//! [`Features::Native`] is this machine's, and then the resolved features are part of the fingerprint.

mod backend;
mod codegen;
mod compile;
mod config;
mod ffi;
mod loader;
mod process_error;
mod source_cache;
mod toolchain;
mod work_dir;

pub use backend::CpuBackend;
pub use codegen::generate::{Generated, generate};
pub use config::{CpuConfig, Features, LAUNCH_ABI, Rewrite};
pub use opkeep_process::landlock_abi;
