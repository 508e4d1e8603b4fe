//! Keys: the fields that count, the parts of a key, and keys of imported kernels.
//!
//! A key covers all that can change a kernel's bytes, and nothing else. This module hashes the job and the spec; the
//! other parts are fingerprints that a backend computes, and its docs list what is in them.
//!
//! | value | where | counts |
//! |---|---|---|
//! | operators, wiring, tensors, attributes, unknown fields | job | yes: `hash.rs`, field by field |
//! | SoC, options | resolved spec | yes: as the backend resolves them, defaults filled in |
//! | the compiler and all that it reads for every kernel; what the user declares | toolchain | yes, by content |
//! | the operator's own source, and what only it reads | op sources | yes, by content |
//! | backend's name, key schema | key | yes |
//! | launch ABI | toolchain | yes |
//! | node names, ids, rank, device, directories, times | envelope | never |
//! | where the compiler is installed, names of headers and flag files, file dates | | never |
//! | imported kernels: schema of imports, job, target, options | import key | yes: `import.rs` |
//! | imported kernels: what a descriptor states of its toolchain (`te_version`) | beside the kernel | never; where the kernel and the caller both state it, they must agree |
//! | imported kernels: toolchain, op sources | | not known, and reported as unknown |
//!
//! After each compile the engine takes the fingerprints again. If one has changed meanwhile, the kernel is returned and
//! not stored.

pub(crate) mod hash;
pub(crate) mod import;
pub(crate) mod job_cache;
pub(crate) mod parts;
